from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest
from clustersim.dnsclient import NONE, Answer, ask_tcp, ask_udp
from clustersim.processes import free_port
from dnslib import RR, DNSRecord

from tests.support.dnsserver import dns_server


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


class Case(NamedTuple):
    respond: Callable[[DNSRecord], bytes]
    answer: Answer


@pytest.mark.parametrize("ask", [ask_udp, ask_tcp])
@pytest.mark.parametrize(
    "case",
    [
        Case(good, Answer("NOERROR", frozenset({"192.0.2.1"}))),
        Case(refused, Answer("REFUSED")),
        Case(of_another_query, NONE),
        Case(lambda _: b"\0" * 5, NONE),
    ],
)
async def test_an_answer_is_read(ask: Callable[[int, str, str], Awaitable[Answer]], case: Case) -> None:
    async with dns_server(lambda query, _: case.respond(DNSRecord.parse(query))) as server:
        assert await ask(server.port, "db.tail1234.ts.net", "A") == case.answer


async def test_a_server_that_is_not_there_gives_no_answer() -> None:
    assert await ask_udp(free_port(), "db.tail1234.ts.net", "A") == NONE
    assert await ask_tcp(free_port(), "db.tail1234.ts.net", "A") == NONE
