from collections.abc import AsyncIterator

import pytest
from clustersim.dnsclient import NONE, Answer, ask_tcp, ask_udp
from clustersim.processes import free_port
from dnslib import RR, DNSRecord

from tests.loadtest.clustersim.dnsserver import dns_server


def good(query: DNSRecord) -> bytes:
    reply = query.reply()
    reply.add_answer(*RR.fromZone("db.tail1234.ts.net 5 A 192.0.2.1\ndb.tail1234.ts.net 5 CNAME x.example.org"))
    return bytes(reply.pack())


def refused(query: DNSRecord) -> bytes:
    reply = query.reply()
    reply.header.rcode = 5
    return bytes(reply.pack())


def of_another_query(query: DNSRecord) -> bytes:
    query.header.id ^= 1
    return good(query)


CASES = [
    (good, Answer("NOERROR", frozenset({"192.0.2.1"}))),
    (refused, Answer("REFUSED")),
    (of_another_query, NONE),
    (lambda _: b"\0" * 5, NONE),
]


@pytest.fixture(params=CASES)
async def server(request: pytest.FixtureRequest) -> AsyncIterator[tuple[int, Answer]]:
    """Yield the port of a DNS server, and what asking it should give."""
    respond, expected = request.param
    async with dns_server(respond) as port:
        yield port, expected


async def test_an_answer_over_udp_is_read(server: tuple[int, Answer]) -> None:
    port, expected = server
    assert await ask_udp(port, "db.tail1234.ts.net", "A") == expected


async def test_an_answer_over_tcp_is_read(server: tuple[int, Answer]) -> None:
    port, expected = server
    assert await ask_tcp(port, "db.tail1234.ts.net", "A") == expected


async def test_a_server_that_is_not_there_gives_no_answer() -> None:
    assert await ask_udp(free_port(), "db.tail1234.ts.net", "A") == NONE
    assert await ask_tcp(free_port(), "db.tail1234.ts.net", "A") == NONE


def test_an_answer_gives_exactly_its_addresses() -> None:
    answer = Answer("NOERROR", frozenset({"192.0.2.1"}))
    assert answer.gives(frozenset({"192.0.2.1"}))
    assert not answer.gives(frozenset())
    assert not Answer("NXDOMAIN").gives(frozenset())
