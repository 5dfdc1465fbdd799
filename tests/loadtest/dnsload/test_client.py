"""Tests of the compiled client, its input and its reports, against a server that gives wrong answers on purpose."""

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import dns.flags
import dns.rcode
import dns.rrset
import pytest
from dnsload.client import JUNK, PORTLESS, SOURCES, Load, Query, Seen, compile_client, encoded, steady
from dnsload.errors import ClientError
from dnsload.targets import Target

from tests.loadtest.compiling import NEEDS_CC, client_program
from tests.loadtest.dnsload.responder import Respond, answer_well, response, tcp_responder, udp_responder
from tests.loadtest.dnsload.samples import LINE

NAME = b"\x01a\x02ts\x03net\x00"
LONG = 20.0
"""A time limit in seconds that no busy machine exceeds."""
ADDRESS, OTHER = bytes((100, 64, 0, 1)), bytes((100, 64, 0, 2))


def packet(name: bytes = NAME, qtype: int = 1) -> bytes:
    return bytes((0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0)) + name + bytes((0, qtype, 0, 1))


RIGHT = Query(packet(), addresses=(ADDRESS,))


@pytest.fixture
def program() -> Path:
    return client_program()


def silent_server() -> socket.socket:
    """Return a bound socket that never answers."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    bound.bind(("127.0.0.1", 0))
    return bound


async def asked(program: Path, target: Target, load: Load, *queries: Query) -> list[Seen]:
    """Run the compiled client *program* against *target* until it ends, and return its reports.

    It sends the *queries* as *load* prescribes.
    """
    words = [str(program), *load.words(*target)]
    process = await asyncio.create_subprocess_exec(*words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    output, _ = await asyncio.wait_for(process.communicate(b"".join(encoded(queries))), 30)
    assert process.returncode == 0
    return list(map(Seen.parse, output.splitlines()))


def changed(change: Callable[..., object]) -> Callable[[int, bytes], bytes]:
    """Return a responder that makes the right answer, and applies *change* to it."""

    def respond(number: int, query: bytes) -> bytes:
        reply = response(query)
        reply.answer.append(dns.rrset.from_text(reply.question[0].name, 5, "IN", "A", "100.64.0.1"))
        change(reply)
        return reply.to_wire()

    return respond


def add(kind: str, text: str) -> Callable[..., object]:
    return lambda reply: reply.answer.append(dns.rrset.from_text("b.ts.net.", 5, "IN", kind, text))


def flip(flag: int) -> Callable[..., object]:
    return lambda reply: setattr(reply, "flags", reply.flags ^ flag)


WITHOUT_AA = changed(flip(dns.flags.AA))
CASES: dict[str, tuple[Respond, Query, str | None]] = {
    "right": (answer_well, RIGHT, None),
    "another address": (answer_well, RIGHT._replace(addresses=(OTHER,)), "addresses"),
    "an address too few": (answer_well, RIGHT._replace(addresses=(ADDRESS, OTHER)), "addresses"),
    "an address of two": (changed(add("A", "100.64.0.2")), RIGHT._replace(addresses=(OTHER, ADDRESS)), None),
    "an address too many": (changed(add("A", "100.64.0.2")), RIGHT, "addresses"),
    "an address that isn't to be there": (answer_well, Query(packet()), "addresses"),
    "any addresses": (answer_well, Query(packet(), addresses=None), None),
    "addresses as of six": (answer_well, RIGHT._replace(addresses=(bytes(16),)), "addresses"),
    "an alias": (changed(add("CNAME", "c.ts.net.")), RIGHT, None),
    "another type": (changed(add("TXT", "x")), RIGHT, "addresses"),
    "another rcode": (answer_well, RIGHT._replace(rcode=3), "rcode"),
    "any rcode": (answer_well, Query(packet(), rcode=None, addresses=None), None),
    "any rcode without AA": (WITHOUT_AA, Query(packet(), rcode=None, addresses=None), None),
    "neither rcode": (changed(lambda reply: reply.set_rcode(2)), Query(packet(), rcode=None), "rcode"),
    "no AA": (WITHOUT_AA, RIGHT, "not authoritative"),
    "no response": (changed(flip(dns.flags.QR)), RIGHT, "not a response"),
    "another question": (lambda *asked: (answer_well(*asked) or b"").replace(b"\x01a", b"\x01b"), RIGHT, "question"),
    "malformed": (lambda *asked: (answer_well(*asked) or b"")[:-1], RIGHT, "malformed"),
}


@pytest.mark.parametrize(("respond", "query", "reason"), CASES.values(), ids=CASES)
async def test_the_compiled_client_compares_each_answer_with_the_expected_answer(
    program: Path, respond: Respond, query: Query, reason: str | None
) -> None:
    async with udp_responder(respond) as target:
        (seen,) = await asked(program, target, Load(0.02, steady(200), authoritative=True, patience=LONG), query)
    assert seen.tally.sent == seen.tally.answered == 4
    assert seen.tally.wrong == (4 if reason else 0)
    assert dict(seen.reasons) == ({reason: 4} if reason else {})
    assert [place for place, _ in seen.examples] == [0] * seen.tally.wrong


async def test_the_compiled_client_accepts_answers_of_a_resolver_without_the_authoritative_flag(program: Path) -> None:
    async with udp_responder(WITHOUT_AA) as target:
        (seen,) = await asked(program, target, Load(0.02, steady(200), authoritative=False, patience=LONG), RIGHT)
    assert seen.tally.right == 4


async def test_the_compiled_client_counts_a_truncated_answer_by_tcp_as_wrong(program: Path) -> None:
    async with tcp_responder(changed(flip(dns.flags.TC))) as target:
        (seen,) = await asked(program, target, Load(0.02, steady(200), connections=1, patience=LONG), RIGHT)
    assert (seen.tally.wrong, dict(seen.reasons)) == (4, {"truncated": 4})


async def test_the_compiled_client_counts_the_second_of_two_late_answers_as_unexpected(program: Path) -> None:
    async with udp_responder(delay=0.2, copies=2) as target:
        (seen,) = await asked(program, target, Load(0.3, steady(10), patience=0.1), RIGHT)
    assert seen.tally.lost == 3
    assert 1 <= seen.tally.unexpected <= seen.tally.late <= 3


async def test_the_compiled_client_counts_an_incomplete_packet_as_unexpected_and_its_query_as_lost(
    program: Path,
) -> None:
    async with udp_responder(lambda _, query: query[:11]) as target:
        (seen,) = await asked(program, target, Load(0.02, steady(200), patience=0.3), RIGHT)
    assert (seen.tally.lost, seen.tally.unexpected) == (4, 4)


@pytest.fixture
def forgetful(tmp_path: Path) -> Path:
    """Return the client, compiled with only 256 message IDs, so that it soon reuses them, even on a slow machine."""
    folder = shutil.copytree(SOURCES, tmp_path / "sources")
    header = folder / "client.h"
    text = header.read_text()
    assert "IDS = 1023 * BATCH" in text
    header.write_text(text.replace("IDS = 1023 * BATCH", "IDS = 4 * BATCH"))
    return compile_client(tmp_path, folder)


@NEEDS_CC
async def test_the_compiled_client_distinguishes_a_late_answer_from_that_to_a_newer_query_with_the_same_message_id(
    forgetful: Path,
) -> None:
    others = [Query(packet(bytes((1, letter)) + NAME[2:])) for letter in b"bcde"]
    with silent_server() as silent:
        load = Load(1.0, steady(400), patience=0.4)
        running = asyncio.create_task(asked(forgetful, Target(*silent.getsockname()), load, RIGHT, *others))
        asker = await asyncio.to_thread(lambda: silent.recvfrom(512)[1])
        while not running.done():
            silent.sendto(answer_well(0, RIGHT.packet) or b"", asker)
            await asyncio.sleep(0.001)
    (seen,) = await running
    assert 256 < seen.tally.sent < 512  # the first ID was used twice
    assert seen.tally.unexpected > 0
    assert seen.tally.wrong == 0
    assert seen.tally.right <= 1  # none on a machine that stalls for longer than the patience


async def test_the_compiled_client_counts_queries_that_cannot_be_sent_in_time_as_unsent(program: Path) -> None:
    with silent_server() as silent:
        load = Load(0.02, steady(10_000_000), patience=0.3)
        (seen,) = await asked(program, Target(*silent.getsockname()), load, RIGHT)
    assert 0 < seen.tally.sent <= 65472
    assert seen.tally.sent + seen.tally.unsent == 200_000


async def test_the_compiled_client_counts_repeated_answers_as_unexpected_except_those_to_malformed_queries(
    program: Path,
) -> None:
    junk = Query(b"\xff\xff" + packet()[2:], JUNK)
    async with udp_responder(copies=2) as target:
        (seen,) = await asked(program, target, Load(0.04, steady(200), patience=LONG), RIGHT, junk)
    tally = seen.tally
    assert (tally.sent, tally.right, tally.malformed_sent) == (4, 4, 4)
    assert tally.unexpected >= 3
    assert tally.malformed_answered >= 6


async def test_the_compiled_client_sends_queries_at_the_rate_of_each_step_and_ramp(program: Path) -> None:
    load = Load(0.4, ((100, 100), (400, 600)), every=0.2, patience=LONG)
    async with udp_responder() as target:
        for _ in range(5):
            reports = await asked(program, target, load, RIGHT)
            if 18 <= reports[0].tally.sent <= 22 and not any(seen.tally.unsent for seen in reports):
                break  # otherwise the machine was too busy
    assert sum(seen.tally.sent for seen in reports) == 20 + 100
    assert reports[0].tally.sent == pytest.approx(20, abs=2)
    assert [seen.last for seen in reports[-2:]] == [False, True]


@pytest.mark.parametrize("load", [Load(0.1, outstanding=3), Load(0.1, outstanding=3, sockets=3)], ids=str)
async def test_without_a_rate_the_compiled_client_keeps_a_fixed_number_of_queries_outstanding(
    program: Path, load: Load
) -> None:
    async with udp_responder(delay=0.02) as target:
        (seen,) = await asked(program, target, load, RIGHT)
    assert 3 * 2 <= seen.tally.sent <= 3 * 6
    assert seen.tally.right == seen.tally.sent
    assert seen.tally.latency.percentiles([1.0])[0] >= 0.019e9


async def test_the_compiled_client_uses_its_sockets_in_turn_and_tells_their_answers_apart(program: Path) -> None:
    with silent_server() as silent:
        load = Load(0.08, steady(3000), sockets=4, patience=0.1)
        await asked(program, Target(*silent.getsockname()), load, RIGHT)
        ports = [silent.recvfrom(512)[1][1] for _ in range(240)]
    assert len(set(ports)) == 4
    async with udp_responder() as target:
        (seen,) = await asked(program, target, replace(load, patience=LONG), RIGHT)
    assert seen.tally.right == 240
    assert 0.0005 < seen.seconds - seen.idle_seconds < 0.9 * seen.seconds


async def test_the_compiled_client_does_not_report_the_wait_for_the_final_answers_as_a_gap(program: Path) -> None:
    async with udp_responder(delay=0.3) as target:
        (seen,) = await asked(program, target, Load(0.02, steady(200), patience=LONG), RIGHT)
    assert (seen.tally.right, seen.gap_ns) == (4, 0)
    assert seen.seconds < 0.3 < seen.elapsed


@pytest.mark.parametrize(("each", "connections"), [(0, 2), (1, 20), (5, 4)])
async def test_a_tcp_connection_of_the_compiled_client_carries_the_requested_number_of_queries(
    program: Path, each: int, connections: int
) -> None:
    made: list[int] = []
    async with tcp_responder(connected=made.append) as target:
        load = Load(0.1, steady(200), connections=2, each=each, patience=LONG)
        (seen,) = await asked(program, target, load, RIGHT)
    assert (seen.tally.right, seen.tally.connections_failed) == (20, 0)
    assert len(made) == pytest.approx(connections, abs=1)


async def test_the_compiled_client_reports_failed_tcp_connections_and_connects_again(program: Path) -> None:
    async with tcp_responder(close_after=0) as target:
        (ended,) = await asked(program, target, Load(0.2, steady(100), connections=1, patience=0.1), RIGHT)
    (refused,) = await asked(program, target, Load(0.2, steady(100), connections=1, patience=0.1), RIGHT)
    for seen in (ended, refused):
        assert seen.tally.lost == seen.tally.sent > 0
        assert 2 <= seen.tally.connections_failed < 10


async def test_the_compiled_client_closes_a_tcp_connection_that_brings_no_answers(program: Path) -> None:
    async with tcp_responder(lambda number, query: answer_well(number, query) if number > 2 else None) as target:
        (seen,) = await asked(program, target, Load(0.5, outstanding=1, connections=1, each=1, patience=0.1), RIGHT)
    assert seen.tally.lost == seen.tally.connections_failed >= 2
    assert seen.tally.right > 2


async def test_the_compiled_client_can_query_a_server_at_an_ipv6_address(program: Path) -> None:
    with closing(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)) as bound:
        bound.bind(("::1", 0))
        await asked(program, Target(*bound.getsockname()[:2]), Load(0.02, steady(100), patience=0.01), RIGHT)
        assert bound.recvfrom(512)[0][2:] == packet()[2:]


@pytest.mark.skipif(os.geteuid() != 0, reason="raw sockets need root")
async def test_the_compiled_client_sends_hostile_queries_from_source_port_0(program: Path) -> None:
    with silent_server() as bound:
        portless = Query(packet(), PORTLESS)
        (seen,) = await asked(program, Target(*bound.getsockname()), Load(0.02, steady(100)), portless)
        assert bound.recvfrom(512) == (packet(), ("127.0.0.1", 0))
    assert (seen.tally.sent, seen.tally.malformed_sent) == (0, 2)


@pytest.mark.parametrize(
    ("words", "queries"),
    [
        (["sockets=0"], RIGHT.encode()),
        (["speed=1"], RIGHT.encode()),
        (["rates=fast"], RIGHT.encode()),
        (["host=localhost"], RIGHT.encode()),
        ([], RIGHT.encode()[:-1]),
        ([], Query(packet()[:-1]).encode()),
        ([], b""),
    ],
)
def test_the_compiled_client_reports_invalid_input_in_one_line(
    program: Path, words: Sequence[str], queries: bytes
) -> None:
    ended = subprocess.run([program, *words], input=queries, capture_output=True, timeout=10, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr.count(b"malformed\n")) == (1, b"", 1)


def test_the_reports_of_the_compiled_client_add_up_to_its_totals() -> None:
    seen = Seen()
    for _ in range(2):
        seen.add(Seen.parse(LINE))
    assert (seen.last, seen.elapsed, seen.cpu_seconds, seen.own_gap_ns) == (True, 0.5, 0.8, 7)
    assert (seen.tally.sent, seen.tally.rcodes, seen.reasons) == (6, {0: 4, 3: 2}, {"rcode": 2})
    assert (seen.tally.latency.percentiles([50.0]), seen.tally.lag.count) == ([500], 6)
    assert seen.examples == [(4, b"\x00\xff")] * 2


def test_the_error_about_a_missing_c_compiler_names_the_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClientError, match="apt-get install gcc"):
        compile_client(tmp_path)


@NEEDS_CC
def test_the_error_about_a_client_source_that_does_not_compile_has_one_line(tmp_path: Path) -> None:
    (tmp_path / "bad.c").write_text("int main(void) { return nothing; }")
    with pytest.raises(ClientError, match=r"doesn't compile \(.*\): /.*bad.c:1.*'nothing' undeclared") as failure:
        compile_client(tmp_path, tmp_path)
    assert "\n" not in str(failure.value)
