"""Queries of the prober to a DNS server on loopback."""

import asyncio
import socket

import asyncio_dgram
import pytest
from dnslib import AAAA, CNAME, QTYPE, RCODE, RR, SOA, A, DNSRecord
from tsoperator.dns.probe.answers import Authority, Reply
from tsoperator.dns.probe.asking import Query, Transport, ask

from tests.support.dnsserver import Respond, dns_server, replying

pytestmark = pytest.mark.virtual_time

NAME = "_nameserver-1.tail1234.ts.net"
SOA_DATA = SOA("NameServer.example.org", "hostmaster.tail1234.ts.net", (7, 1, 2, 3, 5))
DENIED_BY = Authority("tail1234.ts.net", "nameserver.example.org", "hostmaster.tail1234.ts.net", 7)


def denying(response: DNSRecord) -> None:
    response.header.rcode = RCODE.NXDOMAIN
    response.add_auth(RR("Tail1234.ts.net", QTYPE.SOA, rdata=SOA_DATA))


def failing(response: DNSRecord) -> None:
    response.header.rcode = RCODE.SERVFAIL


def both(response: DNSRecord) -> None:
    response.add_answer(RR(NAME, QTYPE.CNAME, rdata=CNAME("x.example.org")))
    response.add_answer(RR("x.example.org", QTYPE.A, rdata=A("192.0.2.1")))
    response.add_answer(RR("x.example.org", QTYPE.AAAA, rdata=AAAA("2001:db8::1")))


SAID: dict[str, tuple[Respond, Reply]] = {
    "addresses": (replying(both), Reply("NOERROR", frozenset({"192.0.2.1", "2001:db8::1"}))),
    "nothing": (replying(lambda response: None), Reply("NOERROR")),
    "NXDOMAIN": (replying(denying), Reply("NXDOMAIN", authority=DENIED_BY)),
    "SERVFAIL": (replying(failing), Reply("SERVFAIL")),
    "rubbish": (lambda query, _: query[:2] + b"rubbish", Reply(failure="sent a message that is no DNS answer")),
    "silence": (lambda *_: None, Reply(failure="didn't answer within 3 s")),
}


@pytest.mark.parametrize("transport", ["udp", "tcp"])
@pytest.mark.parametrize(("respond", "means"), SAID.values(), ids=SAID)
async def test_the_probe_client_reads_an_answer(respond: Respond, means: Reply, transport: Transport) -> None:
    async with dns_server(respond) as server:
        assert await ask(Query(server.address, NAME, transport, timeout=3)) == means


@pytest.mark.parametrize("ipv6", [False, True])
async def test_the_probe_client_can_ask_for_addresses_of_one_ip_family_only(ipv6: bool) -> None:
    seen = []
    async with dns_server(lambda query, _: seen.append(DNSRecord.parse(query).q)) as server:
        await ask(Query(server.address, NAME, ipv6=ipv6, timeout=3))
    assert {(str(each.qname), QTYPE[each.qtype]) for each in seen} == {(f"{NAME}.", "AAAA" if ipv6 else "A")}


async def test_the_probe_client_repeats_a_query_once_if_it_gets_no_answer() -> None:
    async with dns_server(lambda *_: None) as server:
        server.respond = lambda query, _: replying(both)(query, "") if len(server.asked) > 1 else None
        assert (await ask(Query(server.address, NAME, timeout=3))).addresses
        assert server.asked == ["udp", "udp"]


async def test_the_probe_client_accepts_a_late_answer_to_its_first_query() -> None:
    server = await asyncio_dgram.bind(("127.0.0.1", 0))
    asking = asyncio.create_task(ask(Query(f"127.0.0.1:{server.sockname[1]}", NAME, timeout=3)))
    (first, client), _ = await server.recv(), await server.recv()
    await server.send(replying(both)(first, "udp"), client)
    assert (await asking).addresses
    server.close()


async def test_the_probe_client_ignores_an_answer_to_another_question() -> None:
    async with dns_server(lambda query, _: bytes([query[0] ^ 1]) + query[1:]) as server:
        assert (await ask(Query(server.address, NAME, timeout=0.1))).failure == "didn't answer within 0.1 s"


@pytest.mark.parametrize("transport", ["udp", "tcp"])
async def test_a_query_to_a_port_without_a_listener_is_an_error(transport: Transport) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        found = await ask(Query(f"127.0.0.1:{free.getsockname()[1]}", NAME, transport, timeout=3))
    assert found == Reply(failure="couldn't be reached (Connection refused)")


async def test_a_tcp_connection_that_ends_before_the_answer_is_an_error() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        found = await ask(Query(address, NAME, "tcp", timeout=3))
    assert found == Reply(failure="closed the connection without an answer")
