"""Tests of the client against our server, and against one that is wrong on purpose."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from dnsbench.client import Answers, Client, Load, compile_client, read_reports
from dnsbench.errors import BenchError
from dnsbench.process import Server
from dnsbench.queries import DOMAIN, HIT, JUNK, MISS, Mix, Query, addresses, encoded, hit, make, miss

from tests.loadtest.dnsbench.conftest import CLIENT_CORE, NAMES
from tests.loadtest.dnsbench.figures import answers

KNOWN = list(addresses(NAMES).items())


def query_file(folder: Path, *queries: Query) -> Path:
    """Write *queries* as the client reads them."""
    path = folder / "some.queries"
    path.write_bytes(b"".join(encoded(queries)))
    return path


LOADS = [Load(0.2), Load(0.3, rate=2000), Load(0.4, outstanding=20, connections=4)]


@pytest.mark.parametrize("load", LOADS, ids=["saturated", "paced", "tcp"])
def test_every_query_is_answered_rightly(client: Client, ours: Server, tmp_path: Path, load: Load) -> None:
    seen = client.run(query_file(tmp_path, *make(Mix(NAMES))), ours.port, load)
    assert seen.sent == seen.hits + seen.misses == sum(count for _, count in seen.histogram)
    assert (seen.wrong, seen.lost, seen.stray, seen.resets, seen.dropped) == (0, 0, 0, 0, 0)
    assert seen.misses == pytest.approx(0.1 * seen.sent, rel=0.5)
    assert seen.histogram[-1][0] < 2e9
    if load.connections:
        assert seen.sent > 400  # past a hundred queries a connection is made anew
    if load.rate:
        ran = seen.seconds - seen.own_gap_ns / 1e9  # less the time that the machine stopped the client
        assert 1000 * ran < seen.sent <= 2000 * seen.seconds + 1


WRONG = [
    hit(KNOWN[0][0], KNOWN[1][1]),
    miss(KNOWN[0][0]),
    hit(f"missing.{DOMAIN}", KNOWN[0][1]),
    Query(hit(*KNOWN[0]).packet, HIT),
    Query(miss(f"missing.{DOMAIN}").packet, MISS, rcode=2),
]
"""Another address, another rcode, no name, an address where none is expected, and another rcode without addresses."""


def test_wrong_expectations_are_counted_as_wrong(client: Client, ours: Server, tmp_path: Path) -> None:
    seen = client.run(query_file(tmp_path, *WRONG, hit(*KNOWN[0])), ours.port, Load(0.2, rate=1000))
    assert 6 * seen.wrong == pytest.approx(5 * seen.sent, abs=6)
    assert seen.wrong + seen.hits == seen.sent


def test_junk_is_sent_and_no_answer_to_it_awaited(client: Client, ours: Server, tmp_path: Path) -> None:
    formed = Query(b"\xff\xff" + hit(*KNOWN[0]).packet[2:], JUNK)
    junk = query_file(tmp_path, formed, Query(b"\xff", JUNK), hit(*KNOWN[0]))
    seen = client.run(junk, ours.port, Load(0.1, rate=3000))
    assert seen.junk == pytest.approx(2 * seen.sent, abs=2)
    assert (seen.hits, seen.lost, seen.stray) == (seen.sent, 0, 0)


@pytest.fixture
def dropping() -> Iterator[int]:
    """Serve at a port: of three queries two are answered, with NXDOMAIN, and one of these for another name."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as bound:
        bound.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=_answer_two_of_three, args=(bound,))
        thread.start()
        yield bound.getsockname()[1]
        with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as ending:
            ending.sendto(b"", bound.getsockname())
        thread.join(5)


def _answer_two_of_three(bound: socket.socket) -> None:
    number = 0
    while query := bound.recvfrom(4096):
        packet, asker = query
        if not packet:
            return
        number += 1
        question = packet[4:] if number % 3 == 1 else packet[4:].replace(b"\x01a", b"\x01b")
        if number % 3:
            bound.sendto(packet[:2] + b"\x81\x83" + question, asker)


def test_dropped_queries_are_lost_and_answers_for_another_name_wrong(
    client: Client, dropping: int, tmp_path: Path
) -> None:
    seen = client.run(query_file(tmp_path, miss(f"a.{DOMAIN}")), dropping, Load(0.1, rate=1000))
    assert seen.misses + seen.lost + seen.wrong == seen.sent
    assert (seen.lost, seen.wrong) == pytest.approx((seen.sent / 3, seen.sent / 3), abs=1)


def test_reports_are_made_on_the_way(client: Client, ours: Server, tmp_path: Path) -> None:
    ticks: list[list[Answers]] = []
    queries, load = query_file(tmp_path, miss(f"a.{DOMAIN}")), Load(0.5, rate=1000, every=0.1)
    seen = client.run(queries, ours.port, load, lambda at: ticks.append(read_reports(at)))
    assert any(reports and 0 < reports[-1].sent < seen.sent for reports in ticks)
    assert seen.histogram


def test_a_report_that_is_not_whole_is_left_out(tmp_path: Path) -> None:
    whole = answers().model_dump_json()
    (tmp_path / "reports").write_text(f"{whole}\n{whole}")
    assert read_reports(tmp_path / "reports") == [answers()]


def test_the_client_is_told_where_and_how_fast_to_ask_on_its_core(tmp_path: Path) -> None:
    program = tmp_path / "client"
    said = answers().model_dump_json()
    program.write_text(f"#!/bin/sh\necho $@ > {tmp_path}/words\ntaskset -p $$ > {tmp_path}/core\necho '{said}'\n")
    program.chmod(0o755)
    load = Load(0.5, rate=70, outstanding=80, connections=9, every=0.25)
    assert Client(program, CLIENT_CORE).run(tmp_path / "some.queries", 1053, load) == answers()
    assert (tmp_path / "words").read_text() == f"{tmp_path}/some.queries 1053 0.5 80 70 9 0.25\n"
    assert int((tmp_path / "core").read_text().split()[-1], 16) == 1 << CLIENT_CORE


def test_a_malformed_file_is_an_error(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "bad.queries"
    path.write_bytes(b"\0\x20\0\0\0\0short")
    with pytest.raises(BenchError, match=r"code 1: .*malformed"):
        client.run(path, 9, Load(0.1))


def test_a_missing_compiler_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BenchError, match="apt-get install gcc"):
        compile_client(tmp_path)


def test_a_source_that_does_not_compile_is_one_line(tmp_path: Path) -> None:
    source = tmp_path / "bad.c"
    source.write_text("int main(void) { return nothing; }")
    with pytest.raises(BenchError, match=r"bad.c doesn't compile \(.*\): /.*error: 'nothing' undeclared") as failure:
        compile_client(tmp_path, source)
    assert "\n" not in str(failure.value)
