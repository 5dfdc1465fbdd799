"""Tests of the client against our server, and against one that is wrong on purpose."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from dnsbench import client as client_module
from dnsbench.client import Answers, Client, Load, compile_client, read_reports
from dnsbench.errors import BenchError
from dnsbench.process import Server
from dnsbench.queries import DOMAIN, JUNK, Mix, Query, addresses, hit, make, miss

from tests.loadtest.dnsbench.conftest import NAMES, FileOf

KNOWN = list(addresses(NAMES).items())
LOADS = [Load(0.3), Load(0.3, rate=2000), Load(0.3, outstanding=20, connections=4)]


@pytest.mark.parametrize("load", LOADS, ids=["saturated", "paced", "tcp"])
def test_every_query_is_answered_rightly(client: Client, ours: Server, file_of: FileOf, load: Load) -> None:
    seen = client.run(file_of(*make(Mix(NAMES))), ours.port, load)
    assert seen.sent == seen.hits + seen.misses == sum(count for _, count in seen.histogram)
    assert (seen.wrong, seen.lost, seen.stray, seen.resets, seen.dropped) == (0, 0, 0, 0, 0)
    assert seen.misses == pytest.approx(0.1 * seen.sent, rel=0.3)


def test_the_rate_is_kept(client: Client, ours: Server, file_of: FileOf) -> None:
    seen = client.run(file_of(*make(Mix(NAMES))), ours.port, Load(0.5, rate=2000))
    assert 600 < seen.sent <= 2000 * seen.seconds + 1  # fewer where the machine stopped the client


@pytest.mark.parametrize(
    "query",
    [
        hit(KNOWN[0][0], KNOWN[1][1]),
        miss(KNOWN[0][0]),
        hit(f"missing.{DOMAIN}", KNOWN[0][1]),
        Query(hit(*KNOWN[0]).packet, 0, 0, b""),
    ],
    ids=["address", "nxdomain", "name", "no address"],
)
def test_a_wrong_expectation_is_counted_as_wrong(client: Client, ours: Server, file_of: FileOf, query: Query) -> None:
    seen = client.run(file_of(query, hit(*KNOWN[0])), ours.port, Load(0.2, rate=1000))
    assert 2 * seen.wrong == pytest.approx(seen.sent, abs=1)
    assert seen.wrong + seen.hits == seen.sent


def test_junk_is_sent_and_no_answer_to_it_awaited(client: Client, ours: Server, file_of: FileOf) -> None:
    formed = Query(b"\xff\xff" + hit(*KNOWN[0]).packet[2:], JUNK)
    seen = client.run(file_of(formed, Query(b"\xff", JUNK), hit(*KNOWN[0])), ours.port, Load(0.2, rate=3000))
    assert seen.junk == pytest.approx(2 * seen.sent, abs=2)
    assert (seen.hits, seen.lost, seen.stray) == (seen.sent, 0, 0)


@pytest.fixture
def dropping() -> Iterator[int]:
    """Serve at a port: every second query is answered, with NXDOMAIN."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as bound:
        bound.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=_answer_every_second, args=(bound,))
        thread.start()
        yield bound.getsockname()[1]
        with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as ending:
            ending.sendto(b"", bound.getsockname())
        thread.join(5)


def _answer_every_second(bound: socket.socket) -> None:
    number = 0
    while query := bound.recvfrom(4096):
        packet, asker = query
        if not packet:
            return
        number += 1
        if number % 2:
            bound.sendto(packet[:2] + b"\x81\x83" + packet[4:], asker)


def test_what_a_server_drops_is_lost(client: Client, dropping: int, file_of: FileOf) -> None:
    seen = client.run(file_of(miss(f"a.{DOMAIN}")), dropping, Load(0.3, rate=1000))
    assert seen.misses + seen.lost == seen.sent
    assert seen.lost == pytest.approx(seen.sent / 2, abs=1)


def test_reports_are_made_on_the_way(client: Client, ours: Server, file_of: FileOf) -> None:
    ticks: list[list[Answers]] = []
    client.run(
        file_of(miss(f"a.{DOMAIN}")),
        ours.port,
        Load(1.5, rate=100, every=0.2),
        lambda at: ticks.append(read_reports(at)),
    )
    assert any(reports and reports[-1].sent > 0 for reports in ticks)


def test_a_malformed_file_is_an_error(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "bad.queries"
    path.write_bytes(b"\0\x20\0\0\0\0short")
    with pytest.raises(BenchError, match=r"code 1: .*malformed"):
        client.run(path, 9, Load(0.1))


def test_a_missing_compiler_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BenchError, match="apt-get install gcc"):
        compile_client(tmp_path)


def test_what_does_not_compile_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "bad.c"
    source.write_text("int main(void) { return nothing; }")
    monkeypatch.setattr(client_module, "SOURCE", source)
    with pytest.raises(BenchError, match=r"bad.c doesn't compile .*error: 'nothing' undeclared") as failure:
        compile_client(tmp_path)
    assert "\n" not in str(failure.value)
