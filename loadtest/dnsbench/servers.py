"""The servers that are compared: for each, its files with names, its command line, and a check that it answers."""

import contextlib
import os
import random
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from dnsload.client import Query, compile_c

from dnsbench import records
from dnsbench.errors import BenchError
from dnsbench.process import Server, running
from dnsbench.queries import ZONE, addresses, hit

_GO_PORT = 1053
_ECHO_SOURCE = Path(__file__).with_name("echo.c")
_PORTS = range(20_000, 32_000)
_PORT_TRIES = 100
_ASK_SECONDS = 0.5


class Kind(StrEnum):
    """The sorts of servers that the benchmark compares, by their names in tables."""

    OURS = "ours"
    GO = "Go"
    NSD = "NSD"
    KNOT = "Knot"
    PYTHON = "ours/Python"
    """Our server without the compiled UDP loop."""
    ECHO = "echo"
    """A program that answers every query with the same address. Nearly all its CPU time is spent in the kernel."""


@dataclass(frozen=True, slots=True)
class Installed:
    """The paths of the servers' programs."""

    programs: Mapping[Kind, str]
    """The program of each server. For our servers it is this Python interpreter, for the echo server the C compiler."""

    @classmethod
    def find(cls, kinds: set[Kind], go: Path | None) -> "Installed":
        """Find the programs of *kinds*; raises BenchError, whose text says what the user has to install."""
        found = {Kind.NSD: shutil.which("nsd"), Kind.KNOT: shutil.which("knotd")}
        found |= dict.fromkeys((Kind.OURS, Kind.PYTHON), sys.executable)
        found[Kind.ECHO] = shutil.which("cc")
        found[Kind.GO] = str(go.resolve()) if go and go.exists() else None
        lacking = {
            Kind.NSD: "apt-get install nsd",
            Kind.KNOT: "apt-get install knot",
            Kind.ECHO: "apt-get install gcc libc6-dev",
            Kind.GO: "give --go-nameserver PATH; `python -m tests.e2e.testbed peers` builds it and says where it is",
        }
        programs = {}
        for kind in sorted(kinds):
            program = found[kind]
            if program is None:
                raise BenchError(f"{kind} isn't here ({lacking[kind]}); --servers leaves it out")
            programs[kind] = program
        return cls(programs)

    @contextlib.contextmanager
    def serve(self, kind: Kind, count: int, folder: Path, core: int) -> Iterator[Server]:
        """Run a server of *kind* with *count* names on *core* until the end of the block; raises BenchError.

        The server gets its files in *folder*, which has to be empty.
        """
        names = addresses(count)
        port = _GO_PORT if kind is Kind.GO else free_port()
        command = _PREPARE[kind](self.programs[kind], names, folder, port)
        last = hit(*list(names.items())[-1])
        try:
            with running(command, core, port, folder / "log", lambda: answers(port, last)) as server:
                yield server
        except BenchError as error:
            raise BenchError(f"{kind} with {count:,} names: {error}") from error


def free_port(ports: range = _PORTS) -> int:
    """Return a free port among *ports*, by default below the ephemeral ports; raises BenchError."""
    for port in random.sample(ports, min(len(ports), _PORT_TRIES)):  # at random: two runs rarely choose the same port
        if _is_free(port):
            return port
    raise BenchError(f"no port between {ports.start} and {ports.stop} is free")


def _is_free(port: int) -> bool:
    try:
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
            with socket.socket(socket.AF_INET, kind) as probe:
                probe.bind(("0.0.0.0", port))
    except OSError:
        return False
    return True


def answers(port: int, query: Query) -> bool:
    """Tell whether the server at *port* gives the right answer to *query*."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(_ASK_SECONDS)
        try:
            asking.connect(("127.0.0.1", port))
            asking.send(query.packet)
            response = asking.recv(4096)
        except OSError:
            return False
    return is_right(query, response)


def is_right(query: Query, response: bytes) -> bool:
    """Tell whether *response* is the right answer to *query* (pure)."""
    return response[3:4] == bytes([query.rcode or 0]) and all(address in response for address in query.addresses or ())


def _prepare_ours(python: str, names: Mapping[str, str], folder: Path, port: int) -> list[str]:
    """Write the records files into *folder*, and return the command that runs our server with them.

    The server listens on every address, as in its image, but without metrics and API server.
    """
    for name, text in records.documents(names).items():
        (folder / name).write_text(text)
    where = ["--records", str(folder / "records.json"), "--listen", f":{port}"]
    return [
        python,
        "-OO",
        "-m",
        "tsnameserver",
        *where,
        "--zone",
        ZONE,
        "--health",
        "127.0.0.1:0",
        "--metrics",
        "",
        "--api-server",
        "",
    ]


def _prepare_go(program: str, names: Mapping[str, str], folder: Path, port: int) -> list[str]:
    """Write a root folder for the Go server into *folder*, and return the command that runs the server in it.

    The server always reads its names in /config, and always listens on the same port. Its program is linked statically,
    so the root folder needs no libraries.
    """
    if not _is_free(port):
        raise BenchError(f"its port can't be set, and something listens on {port}")
    (folder / "config").mkdir()
    (folder / "config" / "records.json").write_text(records.one_document(names))
    shutil.copy(program, folder / "nameserver")
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *user, "--root", str(folder), "/nameserver"]


def _prepare_python(python: str, names: Mapping[str, str], folder: Path, port: int) -> list[str]:
    return [*_prepare_ours(python, names, folder, port), "--udp-loop", "python"]


def _prepare_nsd(program: str, names: Mapping[str, str], folder: Path, port: int) -> list[str]:
    (folder / "zone").write_text(records.zone_file(names))
    (folder / "nsd.conf").write_text(f"""
server:
    ip-address: 127.0.0.1@{port}
    server-count: 1
    tcp-query-count: 0
    rrl-ratelimit: 0
    database: ""
    username: ""
    chroot: ""
    zonesdir: "{folder}"
    pidfile: "{folder}/pid"
    xfrdfile: "{folder}/xfrd"
    xfrdir: "{folder}"
    zonelistfile: "{folder}/zonelist"
remote-control:
    control-enable: no
zone:
    name: {ZONE}
    zonefile: zone
""")
    return [program, "-d", "-c", str(folder / "nsd.conf")]


def _prepare_knot(program: str, names: Mapping[str, str], folder: Path, port: int) -> list[str]:
    (folder / "zone").write_text(records.zone_file(names))
    (folder / "knot.conf").write_text(f"""
server:
    listen: 127.0.0.1@{port}
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
    rundir: "{folder}"
database:
    storage: "{folder}"
log:
  - target: stderr
    any: warning
zone:
  - domain: {ZONE}
    storage: "{folder}"
    file: zone
    journal-content: none
""")
    return [program, "-c", str(folder / "knot.conf")]


def _prepare_echo(_: str, names: Mapping[str, str], folder: Path, port: int) -> list[str]:
    """Compile the echo server into *folder*, and return the command that runs it.

    The server answers every query with the address of the final one of *names*.
    """
    program = folder / "echo"
    compile_c(program, [_ECHO_SOURCE])
    return [str(program), str(port), list(names.values())[-1]]


_PREPARE = {
    Kind.OURS: _prepare_ours,
    Kind.GO: _prepare_go,
    Kind.NSD: _prepare_nsd,
    Kind.KNOT: _prepare_knot,
    Kind.PYTHON: _prepare_python,
    Kind.ECHO: _prepare_echo,
}
