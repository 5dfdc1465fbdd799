"""The compiled client, whose sources are in cclient: its input, its reports, and its compilation."""

import os
import shutil
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import NamedTuple, Self

from pydantic import BaseModel

from dnsload.errors import ClientError
from dnsload.tally import Tally

SOURCES = Path(__file__).with_name("cclient")
BUILT = SOURCES / "client"
"""The path of the compiled program in a container image."""
_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra")
ASKED, JUNK, PORTLESS = range(3)
"""The kinds of packets: queries, hostile packets, and hostile packets from the source port 0.

The client awaits no answers to hostile packets. A raw socket sends the packets from port 0.
"""
IDS = 1023 * 64
"""The number of queries that a socket can have outstanding."""
_ANY = 255
_COMPILE_SECONDS = 60

Rates = tuple[tuple[float, float], ...]
"""The rates at the start and at the end of each stretch of time, in queries a second."""


class Query(NamedTuple):
    """A packet, whose ID the client sets, and the expected answer."""

    packet: bytes
    kind: int = ASKED
    rcode: int | None = 0
    """The expected rcode. None accepts NOERROR and NXDOMAIN."""
    addresses: Collection[bytes] | None = ()
    """The expected addresses. None accepts any addresses."""

    def encode(self) -> bytes:
        """Return the query in the form in which the compiled client reads it."""
        addresses = self.addresses if self.addresses is None or len(self.addresses) < _ANY else None
        size = len(next(iter(addresses))) if addresses else 0
        count = _ANY if addresses is None else len(addresses)
        rcode = _ANY if self.rcode is None else self.rcode
        head = struct.pack("!HBBBB", len(self.packet), self.kind, rcode, size, count)
        return head + self.packet + b"".join(addresses or ())


def encoded(queries: Iterable[Query]) -> Iterator[bytes]:
    """Yield each of *queries* in the form in which the compiled client reads it."""
    return (query.encode() for query in queries)


def steady(rate: float) -> Rates:
    """Return the rates of a run with the constant *rate*."""
    return ((rate, rate),)


@dataclass(frozen=True, slots=True)
class Load:
    """The load that a client sends: by UDP if *connections* is 0, and otherwise by TCP."""

    seconds: float
    rates: Rates = ()
    """The rates in stretches of equal length, in queries a second.

    Without rates, the client sends the next query after each answer.
    """
    outstanding: int = 100
    """The number of outstanding queries if there are no rates."""
    sockets: int = 1
    connections: int = 0
    """The number of TCP connections that are open at the same time."""
    each: int = 0
    """The number of queries after which a connection is replaced by a new one, or 0 to keep the connection."""
    patience: float = 1.0
    """Seconds after which a query without an answer is lost."""
    every: float = 0.0
    """Seconds between reports, or 0 for a single report at the end."""
    authoritative: bool = False
    """True if an answer without the flag AA is wrong."""
    retry: bool = False
    """True if the client repeats a query by TCP after a truncated answer."""
    total: int = 0
    """The number of queries after which a client without rates ends, or 0 if only time ends it."""
    source: str = ""
    """The address from which the client sends. With "", the system chooses it."""

    def words(self, host: str, port: int) -> list[str]:
        """Return the client's command-line arguments."""
        texts = {"rates": ",".join(f"{first:g}-{last:g}" for first, last in self.rates), "source": self.source}
        numbers = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in texts}
        return [f"host={host}", f"port={port}", *(f"{name}={text}" for name, text in texts.items())] + [
            f"{name}={+number}" for name, number in numbers.items()
        ]


class _Line(BaseModel):
    """A line of output of the client, with the counts since the previous line."""

    last: bool
    elapsed: float
    seconds: float
    cpu_seconds: float
    idle_seconds: float
    gap_ns: int
    own_gap_ns: int
    counts: dict[str, int]
    rcodes: dict[int, int]
    reasons: dict[str, int]
    latency: list[tuple[int, int]]
    lag: list[tuple[int, int]]
    examples: list[tuple[int, str]]


@dataclass(slots=True)
class Seen:
    """The contents of one report of a client, or the sum of several reports."""

    last: bool = False
    """True for the client's last report."""
    elapsed: float = 0.0
    """Seconds from the start of the run to the report."""
    seconds: float = 0.0
    """Seconds in which the client has sent queries so far."""
    cpu_seconds: float = 0.0
    idle_seconds: float = 0.0
    """The seconds in which the client had nothing to do. They show how far it was from its limit."""
    gap_ns: int = 0
    """The longest time without an answer, in nanoseconds."""
    own_gap_ns: int = 0
    """The longest time in which the client itself didn't run, in nanoseconds. It makes a server look slow."""
    tally: Tally = field(default_factory=Tally)
    reasons: Counter[str] = field(default_factory=Counter)
    """The number of wrong answers, by reason."""
    examples: list[tuple[int, bytes]] = field(default_factory=list)
    """The first few wrong answers, each with the number of its query."""

    @classmethod
    def parse(cls, text: bytes) -> Self:
        """Return the report in *text*, a line that the client has printed."""
        line = _Line.model_validate_json(text)
        tally = Tally(rcodes=Counter(line.rcodes))
        for name, count in line.counts.items():
            setattr(tally, name, count)
        tally.latency.record_buckets(line.latency)
        tally.lag.record_buckets(line.lag)
        times = line.seconds, line.cpu_seconds, line.idle_seconds, line.gap_ns, line.own_gap_ns
        examples = [(place, bytes.fromhex(answer)) for place, answer in line.examples]
        return cls(line.last, line.elapsed, *times, tally, Counter(line.reasons), examples)

    def add(self, later: "Seen") -> None:
        """Add a *later* report of the same client."""
        self.last, self.elapsed, self.seconds = later.last, later.elapsed, later.seconds
        self.cpu_seconds += later.cpu_seconds
        self.idle_seconds += later.idle_seconds
        self.gap_ns, self.own_gap_ns = max(self.gap_ns, later.gap_ns), max(self.own_gap_ns, later.own_gap_ns)
        self.tally.add(later.tally)
        self.reasons.update(later.reasons)
        self.examples += later.examples


def compile_client(folder: Path, sources: Path = SOURCES) -> Path:
    """Compile *sources* into *folder*, and return the path of the program. Raises ClientError."""
    program = folder / BUILT.name
    compile_c(program, sorted(sources.glob("*.c")))
    return program


def compile_c(program: Path, sources: Iterable[Path]) -> None:
    """Compile *sources* to the file *program*. Raises ClientError."""
    if sys.platform != "linux":
        raise ClientError(f"the {program.name} in C is for Linux")
    compiler = shutil.which("cc")
    if compiler is None:
        raise ClientError("there is no C compiler: apt-get install gcc libc6-dev")
    command = [compiler, *_FLAGS, "-o", str(program), *map(str, sources), "-lm"]
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(  # noqa: S603 - our own words
        command, env=environment, capture_output=True, text=True, timeout=_COMPILE_SECONDS, check=False
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if " error: " in line] or ["no error was named"]
        raise ClientError(f"the {program.name} in C doesn't compile (apt-get install gcc libc6-dev): {lines[0]}")
