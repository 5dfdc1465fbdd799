"""Operation: health checks, reloads, stops, bursts of queries, and IPv6."""

import itertools
import signal
import socket
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from tsnameserver.records import Records, render

from tests.nameserver.conformance.packets import (
    A_IN,
    GOOD,
    IN_TS_NET,
    framed,
    label,
    message,
    numbered,
    rcode,
    with_opt,
)
from tests.nameserver.conformance.process import PATIENCE, Server, nameserver, read_message
from tests.nameserver.conformance.zone import ADDRESSES, DB, LARGE, LONGEST, NEGATIVE, OUTSIDE, POSITIVE
from tests.nameserver.samples import mount, parsed, texts, wire

QUERIES = [wire(case.name, case.qtype) for case in POSITIVE + NEGATIVE + OUTSIDE]
QUERIES += [wire(case.name.upper(), case.qtype, use_edns=0) for case in POSITIVE + NEGATIVE + OUTSIDE]
QUERIES += [wire(DB, use_edns=100), wire(DB, want_dnssec=True), wire(DB, "ANY"), wire(LONGEST), wire(DB, rdclass="CH")]
QUERIES += [message(), message(b"\xc0\x0c", A_IN), with_opt(label(b"db") + IN_TS_NET + A_IN)]
QUERIES += [message(flags=0x2800), message(GOOD[12:], bytes(3))]


def test_44_the_health_check_of_coredns_is_answered(server: Server) -> None:
    for query in (wire(".", "NS"), wire(".", "NS", flags=0, use_edns=0)):
        assert [rcode(send(query)) for send in (server.udp, server.tcp)] == ["REFUSED"] * 2


NAMES = [f"name{number}.tail1234.ts.net" for number in range(300)]


def version(number: int) -> str:
    """Return version *number* of the records, in which both addresses of every name end in *number*."""
    addresses = [f"192.0.2.{number}", f"198.51.100.{number}"]
    return render(Records(ip4=dict.fromkeys(NAMES, addresses), serial=number))


def seen_version(server: Server, name: str) -> int:
    """Return the version of the records from which the answer for *name* comes.

    Both its addresses must be of that version.
    """
    (number,) = {int(address.rpartition(".")[2]) for address in texts(server.ask(name))}
    return number


def test_45_each_query_during_reloads_gets_an_answer_from_one_version_of_the_records(tmp_path: Path) -> None:
    mount(tmp_path, version(1))
    seen = [1]
    names = itertools.cycle(NAMES)
    with nameserver(tmp_path / "records.json") as server:
        for number in (2, 3):
            mount(tmp_path, version(number))
            deadline = time.monotonic() + PATIENCE
            while seen[-1] != number and time.monotonic() < deadline:
                seen.append(seen_version(server, next(names)))
    assert seen == sorted(seen)
    assert set(seen) == {1, 2, 3}


@pytest.mark.thorough
def test_45_the_old_records_stay_if_the_new_ones_are_invalid(tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    path.write_text(render(Records(ip4={DB: ["100.64.0.45"]})))
    with nameserver(path) as server:
        path.unlink()
        server.says("no whole set of records")
        assert texts(server.ask(DB)) == ["100.64.0.45"]
        for text, said in (("{", "is ignored"), ('{"version":"v9","ip4":{}}', "'v9'"), ("[]", "is ignored")):
            path.write_text(text)
            server.says(said)
            assert texts(server.ask(DB)) == ["100.64.0.45"]
        assert [server.status(probe) for probe in ("/healthz", "/readyz")] == [200, 200]


def test_46_udp_and_tcp_give_the_same_answers(server: Server) -> None:
    for query in QUERIES:
        assert server.udp(query) == server.tcp(query)


def test_47_an_answer_has_all_addresses_in_the_order_of_the_records_with_one_ttl(server: Server) -> None:
    for name, addresses in (("v4.tail1234.ts.net", ["100.64.0.4", "100.64.0.3"]), (LARGE, ADDRESSES)):
        response = server.tcp(wire(name))
        assert texts(parsed(response)) == addresses
        records = response[-16 * len(addresses) :]  # the owner in each is a pointer
        assert {records[start + 6 : start + 10] for start in range(0, len(records), 16)} == {b"\0\0\0\5"}


def seconds_to_stop(records: Path, number: signal.Signals) -> float:
    """Return the seconds from signal *number* to the end of a nameserver that has an open connection."""
    with nameserver(records) as server, server.tcp_socket() as (client, stream):
        client.sendall(framed(GOOD))
        assert read_message(stream)
        started = time.monotonic()
        server.process.send_signal(number)
        assert server.process.wait(PATIENCE) == 0
        assert stream.read() == b""
        return time.monotonic() - started


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.thorough)])
def test_48_a_signal_ends_the_nameserver_within_a_second(records_file: Path, number: signal.Signals) -> None:
    tries = (seconds_to_stop(records_file, number) for _ in range(3))  # a busy machine can take longer once
    assert any(seconds < 1 for seconds in tries)


def test_48_queries_that_arrived_before_the_signal_are_answered(records_file: Path) -> None:
    with nameserver(records_file) as server, server.udp_socket() as udp, server.tcp_socket() as (tcp, stream):
        tcp.sendall(framed(GOOD))
        assert read_message(stream)
        with server.paused():
            for ident in range(200):
                udp.send(numbered(GOOD, ident))
            tcp.sendall(framed(GOOD) * 20)
            server.process.terminate()
        assert server.process.wait(PATIENCE) == 0
        assert {int.from_bytes(udp.recv(512)[:2], "big") for _ in range(200)} == set(range(200))
        assert [rcode(read_message(stream)) for _ in range(20)] == ["NOERROR"] * 20
        assert stream.read() == b""


def test_48_the_nameserver_answers_queries_but_reports_not_ready_while_it_drains(records_file: Path) -> None:
    with nameserver(records_file, "--drain", "1") as server:
        started = time.monotonic()
        server.process.terminate()
        server.says("stopping")
        assert [server.status(probe) for probe in ("/healthz", "/readyz")] == [200, 503]
        assert texts(parsed(server.udp(GOOD))) == texts(parsed(server.tcp(GOOD))) == ["100.64.0.1"]
        assert server.process.wait(PATIENCE) == 0
        assert time.monotonic() - started >= 1


def burst(server: Server, clients: list[socket.socket], queries: list[bytes]) -> None:
    """Pause the server, and send all *queries* from each of *clients*, so that the server finds all packets at once."""
    with server.paused():
        for query, client in itertools.product(queries, clients):
            client.send(query)


@pytest.mark.parametrize("which", ["server", "wildcard"])
def test_49_queries_in_a_burst_get_the_same_answers_as_single_queries(
    request: pytest.FixtureRequest, which: str
) -> None:
    server: Server = request.getfixturevalue(which)
    hosts = ["127.0.0.1"] * 4 if which == "server" else ["127.0.0.1", "127.0.0.2", "::1", "127.0.0.1"]
    queries = [numbered(query, ident) for ident, query in enumerate(QUERIES)]
    alone = {query[:2]: server.udp(query) for query in queries}
    with ExitStack() as stack:
        clients = [stack.enter_context(server.udp_socket(host)) for host in hosts]
        for _ in range(2):
            burst(server, clients, queries)
            for client in clients:
                together = [client.recv(4096) for _ in queries]
                assert {response[:2]: response for response in together} == alone


@pytest.mark.thorough
def test_50_a_listener_at_an_ipv6_address_answers(records_file: Path) -> None:
    with nameserver(records_file, listen="[::1]:0", host="::1") as server:
        for send in (server.udp, server.tcp):
            assert texts(parsed(send(wire(DB, "AAAA")))) == ["2001:db8::1"]
        assert [server.status(probe) for probe in ("/healthz", "/readyz")] == [200, 200]


def test_50_a_wildcard_listener_answers_over_ipv6_too(wildcard: Server) -> None:
    for send in (wildcard.udp, wildcard.tcp):
        for host in ("::1", "127.0.0.1"):
            assert texts(parsed(send(GOOD, host))) == ["100.64.0.1"]
    with socket.create_connection(("::1", wildcard.probes), PATIENCE):
        pass
