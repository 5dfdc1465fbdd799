"""TCP (RFC 7766): pipelining, framing, time-outs and limits."""

import asyncio
import random
import time
from contextlib import ExitStack

import dns.message
import dns.query
import pytest
from tsnameserver.sockets import Endpoint
from tsnameserver.tcp import TcpLimits

from tests.nameserver.conformance.packets import GOOD, framed, numbered, rcode
from tests.nameserver.conformance.process import PATIENCE, Server, read_message
from tests.nameserver.conformance.zone import ADDRESSES, DB, EXACT, LARGE, NEGATIVE, POSITIVE
from tests.nameserver.conftest import running_server
from tests.nameserver.samples import MANY, make_query, parsed, texts, wire


def test_38_a_hundred_pipelined_queries_all_get_answers(server: Server) -> None:
    cases = random.Random(38).choices(POSITIVE + NEGATIVE, k=100)
    with server.tcp_socket() as (client, stream):
        queries = (numbered(wire(case.name, case.qtype), ident) for ident, case in enumerate(cases))
        client.sendall(b"".join(map(framed, queries)))
        responses = [parsed(read_message(stream)) for _ in cases]
    answers = {response.id: tuple(texts(response)) for response in responses}
    assert answers == {ident: case.answers for ident, case in enumerate(cases)}


@pytest.mark.parametrize("size", [1, 2, 30, len(GOOD) + 1, len(GOOD) + 2, 2 * len(GOOD) + 4])
def test_39_a_query_that_arrives_in_parts_of_any_size_is_answered(server: Server, size: int) -> None:
    two = framed(numbered(GOOD, 1)) + framed(numbered(GOOD, 2))
    with server.tcp_socket() as (client, stream):
        for start in range(0, len(two), size):
            client.sendall(two[start : start + size])
        assert [read_message(stream)[:2] for _ in range(2)] == [b"\0\1", b"\0\2"]


@pytest.mark.parametrize("name", [DB, LARGE])
def test_40_the_server_sends_length_and_message_in_one_write(server: Server, name: str) -> None:
    with server.tcp_socket() as (client, _):
        for _ in range(50):  # a client that is woken late sees two writes as one, but not each time
            client.sendall(framed(wire(name)))
            received = client.recv(65535)
            assert len(received) == 2 + int.from_bytes(received[:2], "big")


async def seconds_to_the_end(host: str, port: int, sent: bytes) -> float:
    """Connect, send *sent*, and then send nothing. Return the seconds until the server closes the connection."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(sent)
        started = time.monotonic()
        async with asyncio.timeout(PATIENCE):
            await reader.read()
        return time.monotonic() - started
    finally:
        writer.close()
        await writer.wait_closed()


async def check_silences(host: str, port: int, limits: TcpLimits) -> None:
    whole = framed(GOOD)
    sent = (b"", whole, whole[:1], whole[:-1], whole + whole[:-1])
    silent, answered, *halves = await asyncio.gather(*(seconds_to_the_end(host, port, each) for each in sent))
    assert min(silent, answered) > limits.idle - 0.1
    assert limits.read - 0.1 < min(halves) <= max(halves) < min(silent, answered)


async def test_41_a_silent_connection_is_closed_sooner_if_its_query_is_incomplete() -> None:
    limits = TcpLimits(idle=1.0, read=0.3)
    async with running_server(Endpoint("127.0.0.1", 0), limits) as running:
        await check_silences(running.host, running.port, limits)


@pytest.mark.thorough
async def test_41_by_default_a_silent_connection_is_closed_after_ten_seconds_or_five_inside_a_query(
    server: Server,
) -> None:
    await check_silences(server.host, server.port, TcpLimits(idle=10.0, read=5.0))


def test_41_idle_connections_delay_neither_udp_nor_the_next_client(server: Server) -> None:
    with ExitStack() as idle:
        for number in range(500):
            client, _ = idle.enter_context(server.tcp_socket())
            client.sendall(framed(GOOD)[: number % 3])
        assert texts(parsed(server.udp(GOOD))) == ["100.64.0.1"]
        assert texts(parsed(server.tcp(GOOD))) == ["100.64.0.1"]


@pytest.mark.parametrize(
    ("name", "addresses"), [("many.tail1234.ts.net", MANY), (EXACT, ADDRESSES[:29]), (LARGE, ADDRESSES)]
)
def test_42_a_large_answer_by_tcp_is_complete(server: Server, name: str, addresses: list[str]) -> None:
    assert texts(parsed(server.tcp(wire(name)))) == addresses
    assert texts(parsed(server.tcp(wire(name, use_edns=0, payload=512)))) == addresses


def test_42_a_client_that_gets_a_truncated_answer_gets_the_whole_answer_by_tcp(server: Server) -> None:
    response, used_tcp = dns.query.udp_with_fallback(make_query(LARGE), server.host, port=server.port, timeout=5)
    assert used_tcp
    assert texts(response) == ADDRESSES


def test_43_an_empty_message_ends_only_its_own_connection(server: Server) -> None:
    with server.tcp_socket() as (client, stream):
        client.sendall(framed(GOOD) + framed(b"") + framed(GOOD))
        assert texts(parsed(read_message(stream))) == ["100.64.0.1"]
        assert stream.read() == b""
    assert texts(parsed(server.tcp(GOOD))) == ["100.64.0.1"]


def test_43_a_message_of_the_greatest_length_is_read(server: Server) -> None:
    with server.tcp_socket() as (client, stream):
        client.sendall(framed(GOOD + bytes(65535 - len(GOOD))) + framed(GOOD))
        assert rcode(read_message(stream)) == "FORMERR"
        assert texts(parsed(read_message(stream))) == ["100.64.0.1"]
