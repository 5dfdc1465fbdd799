from collections.abc import Awaitable, Callable

import pytest
from clustersim.dnsclient import NONE, Answer, ask_tcp, ask_udp
from clustersim.processes import free_port
from dnslib import RR, DNSRecord

from tests.support.dnsserver import dns_server

Ask = Callable[[int, str, str], Awaitable[Answer]]
NAME = "db.tail1234.ts.net"


def reply(query: DNSRecord, rcode: int = 0, id_change: int = 0) -> bytes:
    made = query.reply()
    made.header.rcode = rcode
    made.header.id ^= id_change
    made.add_answer(*RR.fromZone(f"{NAME} 5 A 192.0.2.1\n{NAME} 5 CNAME x.example.org"))
    return bytes(made.pack())


@pytest.mark.parametrize("ask", [ask_udp, ask_tcp])
@pytest.mark.parametrize(
    ("respond", "answer"),
    [
        (reply, Answer("NOERROR", frozenset({"192.0.2.1"}))),
        (lambda query: reply(query, rcode=5), Answer("REFUSED", frozenset({"192.0.2.1"}))),
        (lambda query: reply(query, id_change=1), NONE),
        (lambda _: b"\0" * 5, NONE),
    ],
)
async def test_the_dns_client_reads_the_answer_to_its_query_and_ignores_any_other_reply(
    ask: Ask, respond: Callable[[DNSRecord], bytes], answer: Answer
) -> None:
    async with dns_server(lambda query, _: respond(DNSRecord.parse(query))) as server:
        assert await ask(server.port, NAME, "A") == answer


@pytest.mark.parametrize("ask", [ask_udp, ask_tcp])
async def test_the_dns_client_reports_no_answer_if_the_server_does_not_run(ask: Ask) -> None:
    assert await ask(free_port(), NAME, "A") == NONE
