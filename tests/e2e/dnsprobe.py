"""Asks a DNS server for one name some hundred times a second, and notes changed and missing answers.

Run it with ``python -m`` inside the network that reaches the server; `Probe` does that.
"""

import argparse
import json
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import dns.exception
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype

from tests.e2e.testbed import registry
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.processes import wait_until

NO_ANSWER = "NO ANSWER"

_TREE = Path(__file__).parents[2]
_PATIENCE = 0.5  # seconds for which the probe waits for an answer
_RESOLVERS_PATIENCE = 5.0  # seconds for which a Pod's resolver waits for an answer
_INTERVAL = 0.005  # seconds
_FRESH_INTERVAL = 0.02  # seconds; longer, because fresh names cost the cluster's DNS more CPU time


@dataclass(frozen=True, slots=True)
class Seen:
    """A question that the probe noted, because its answer differed from the previous one, or because no answer came.

    *asked* is the time when the question was sent. *at* is the time when the answer came, or when the probe stopped
    waiting for it. Both are in seconds of the monotonic clock.
    """

    asked: float
    at: float
    rcode: str
    addresses: Sequence[str]


@dataclass(frozen=True, slots=True)
class Probe:
    """A running program that asks for one name again and again, and the file with its notes."""

    file: Path

    @classmethod
    @contextmanager
    def of(cls, bed: Bed, server: str, name: str, folder: Path, *, fresh: bool = False) -> Iterator["Probe"]:
        """Run a probe on the node, with its notes in *folder*, and wait for its first note.

        A *fresh* probe asks for a new name below *name* each time, so that no cache has an answer. It waits as long for
        each answer as a Pod's resolver does.
        """
        file = folder / f"{name}-{server}.jsonl"
        words = [sys.executable, "-m", "tests.e2e.dnsprobe", server, name, *(["--fresh"] if fresh else [])]
        argv = [*registry.reach(bed.machines["node"]), *words]
        with file.open("w") as notes, subprocess.Popen(argv, stdout=notes, cwd=_TREE) as process:
            probe = cls(file)
            try:
                probe.wait_for(lambda _: True, 20)
                yield probe
            finally:
                process.terminate()

    def seen(self) -> list[Seen]:
        """Return the notes so far."""
        return [
            Seen(**json.loads(line)) for line in self.file.read_text().splitlines(keepends=True) if line[-1] == "\n"
        ]

    def wait_for(self, wanted: Callable[[Seen], bool], seconds: float, after: float = 0) -> Seen:
        """Return the first answer at *after* or later for which *wanted* is true.

        Raises AssertionError if none comes in time.
        """
        found: list[Seen] = []

        def look() -> bool:
            found[:] = [seen for seen in self.seen() if seen.at >= after and wanted(seen)]
            return bool(found)

        assert wait_until(look, seconds), f"not within {seconds:g} s; seen: {self.seen()}"
        return found[0]


def ask(server: str, name: str, patience: float) -> tuple[str, list[str]]:
    """Return the rcode and the addresses that *server* has for *name*, or `NO_ANSWER` after *patience* seconds."""
    query = dns.message.make_query(name, dns.rdatatype.A)
    try:
        response = dns.query.udp(query, server, timeout=patience)
    except (dns.exception.DNSException, OSError):
        return NO_ANSWER, []
    addresses = [rdata.to_text() for rrset in response.answer for rdata in rrset]
    return dns.rcode.to_text(response.rcode()), sorted(addresses)


def main() -> None:
    """Ask until the process is ended, and print each changed or missing answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server", help="the server's address")
    parser.add_argument("name", help="the name to ask for")
    parser.add_argument("--fresh", action="store_true", help="ask for another name below it each time")
    arguments = parser.parse_args()
    patience, interval = (_RESOLVERS_PATIENCE, _FRESH_INTERVAL) if arguments.fresh else (_PATIENCE, _INTERVAL)
    last, pause = None, threading.Event()
    while not pause.wait(interval):
        name = f"{uuid.uuid4()}.{arguments.name}" if arguments.fresh else arguments.name
        asked = time.monotonic()
        answer = ask(arguments.server, name, patience)
        if answer != last or answer[0] == NO_ANSWER:
            rcode, addresses = last = answer
            seen = {"asked": asked, "at": time.monotonic(), "rcode": rcode, "addresses": addresses}
            sys.stdout.write(json.dumps(seen) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
