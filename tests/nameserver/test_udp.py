"""Tests of the UDP server."""

import asyncio
import contextlib
import random
import socket
from collections.abc import Sequence
from typing import NamedTuple, cast

import dns.message
import pytest
from tsnameserver.answer import answer
from tsnameserver.nodes import Nodes
from tsnameserver.sockets import Endpoint, bind
from tsnameserver.udp import UdpServer
from tsnameserver.zone import Serving, Zone

from tests.nameserver.conftest import Running, running_server
from tests.nameserver.equality import ZONES, random_query
from tests.nameserver.samples import parsed, sample_zone, texts, wire

QUERY = wire("db.tail1234.ts.net")


async def exchange(client: socket.socket, query: bytes, server: tuple[str, int]) -> tuple[bytes, tuple[str, int]]:
    """Send *query*; return the response and where it came from."""
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(30):
        await loop.sock_sendto(client, query, server)
        response, source = await loop.sock_recvfrom(client, 4096)
    return response, (source[0], source[1])


def client_socket(host: str) -> socket.socket:
    client = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    client.bind((host, 0))
    return client


class Asked(NamedTuple):
    listen: str
    asked: str
    client: str = "127.0.0.1"


@pytest.mark.parametrize(
    "case",
    [
        Asked("127.0.0.1", "127.0.0.1"),
        Asked("0.0.0.0", "127.0.0.1"),
        Asked("0.0.0.0", "127.0.0.2"),
        Asked("0.0.0.0", "127.1.2.3"),
        Asked("::1", "::1", "::1"),
        Asked("::", "::1", "::1"),
    ],
    ids=str,
)
async def test_the_answer_comes_from_the_address_that_was_asked(case: Asked) -> None:
    async with running_server(Endpoint(case.listen, 0)) as server:
        with client_socket(case.client) as client:
            response, source = await exchange(client, QUERY, (case.asked, server.port))
    assert source == (case.asked, server.port)
    assert texts(parsed(response)) == ["100.64.0.1"]


@pytest.mark.parametrize("odd", [b"", b"\0", bytes(11), b"\0\0\x80" + QUERY[3:], QUERY + bytes(4000)])
async def test_an_odd_packet_does_not_stop_the_next(server: Running, odd: bytes) -> None:
    with client_socket("127.0.0.1") as client:
        client.sendto(odd, (server.host, server.port))
        for _ in range(2):
            response, _ = await exchange(client, QUERY, (server.host, server.port))
            if response[3] & 0xF != 1:  # FORMERR is of the odd packet
                break
        assert texts(parsed(response)) == ["100.64.0.1"]


async def test_a_query_that_fails_is_servfail_and_counted(server: Running) -> None:
    good = server.serving.zone
    server.serving.zone = cast("Zone", None)
    with client_socket("127.0.0.1") as client:
        response, _ = await exchange(client, QUERY, (server.host, server.port))
        assert (response[:2], response[3] & 0xF) == (QUERY[:2], 2)
        assert server.udp.failures == 1
        server.serving.zone = good
        response, _ = await exchange(client, QUERY, (server.host, server.port))
        assert texts(parsed(response)) == ["100.64.0.1"]


async def test_a_new_zone_is_served_at_once(server: Running) -> None:
    with client_socket("127.0.0.1") as client:
        server.serving.zone = Zone(Nodes(), server.serving.zone.apexes, loaded=False)
        response, _ = await exchange(client, QUERY, (server.host, server.port))
    assert dns.message.from_wire(response).rcode() == 2


async def test_what_was_received_before_a_stop_is_answered() -> None:
    sockets = bind([Endpoint("127.0.0.1", 0)], None)
    server = UdpServer(sockets.pairs[0].udp, Serving(sample_zone()))
    with contextlib.closing(sockets), client_socket("127.0.0.1") as client:
        for number in range(100):
            client.sendto(number.to_bytes(2, "big") + QUERY[2:], server.endpoint)
        server.stop()
        server.start()
        server.join(1)
        assert not server.alive
        client.setblocking(False)
        assert [client.recv(512)[:2] for _ in range(100)] == [number.to_bytes(2, "big") for number in range(100)]


def answers(queries: Sequence[bytes], *, batched: bool) -> list[bytes]:
    """Return what a server says to *queries* that wait for it when it starts."""
    sockets = bind([Endpoint("0.0.0.0", 0)], None)
    server = UdpServer(sockets.pairs[0].udp, Serving(ZONES[0]), batched=batched)
    with contextlib.closing(sockets), client_socket("127.0.0.1") as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        for query in queries:
            client.sendto(query, ("127.0.0.1", server.endpoint.port))
        client.sendto(QUERY, ("127.0.0.1", server.endpoint.port))
        client.settimeout(30)
        server.start()
        responses = [client.recv(4096)]
        while texts(parsed(responses[-1])) != ["100.64.0.1"] or responses[-1][:2] != QUERY[:2]:
            responses.append(client.recv(4096))
        server.stop()
        server.join(1)
    assert server.queued > len(queries) // 2 if batched else server.queued == 0
    assert sum(server.counts.requests().values()) == len(queries) + 2  # the last query, and the packet that wakes it
    return responses


def test_batches_answer_as_single_packets_do() -> None:
    chance = random.Random(5)
    queries = [random_query(chance) for _ in range(200)]
    responses = answers(queries, batched=True)
    assert responses == answers(queries, batched=False)
    assert responses[:-1] == [made for query in queries if (made := answer(query, ZONES[0])) is not None]


async def test_what_is_asked_is_counted(server: Running) -> None:
    with client_socket("127.0.0.1") as client:
        for query in (QUERY, wire("no.ts.net", "AAAA"), wire("example.org"), wire("many.tail1234.ts.net")):
            await exchange(client, query, (server.host, server.port))
    counts = server.udp.counts
    assert {qtype: number for qtype, number in counts.requests().items() if number} == {1: 3, 28: 1}
    assert {rcode: number for rcode, number in counts.responses().items() if number} == {0: 2, 3: 1, 5: 1}
    assert (sum(counts.fast), counts.general, counts.truncated, counts.malformed) == (2, 2, 1, 0)


async def test_packets_without_room_are_counted() -> None:
    sockets = bind([Endpoint("127.0.0.1", 0)], None)
    bound = sockets.pairs[0].udp
    server = UdpServer(bound, Serving(sample_zone()))
    with contextlib.closing(sockets), client_socket("127.0.0.1") as client:
        assert server.dropped() == 0
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for _ in range(100):
            client.sendto(QUERY, server.endpoint)
        assert 50 < (server.dropped() or 0) < 100


async def test_a_stop_ends_the_thread(server: Running) -> None:
    assert server.udp.alive
    server.udp.stop()
    server.udp.join(1)
    assert not server.udp.alive
