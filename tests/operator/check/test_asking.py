"""The findings that a Pod without rights in the cluster can make about an operator and a nameserver."""

import asyncio
import socket
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

import pytest
from aiohttp import web
from clustersim.processes import free_port
from tsnameserver.compiler import empty_zone
from tsnameserver.sockets import Endpoint as Listening
from tsoperator.check.asking import Installation, addresses, ask
from tsoperator.check.endpoint import Endpoint, endpoint
from tsoperator.check.findings import Finding, failed, ok

from tests.nameserver.conftest import running_server
from tests.nameserver.samples import SETTINGS
from tests.operator.check.conftest import Operator
from tests.support.cluster import serving


async def findings(
    operator: Endpoint,
    nameserver: Endpoint | None = None,
    *,
    zone: str = "ts.net",
    resolve: Callable[[Endpoint], list[str]] = addresses,
) -> list[Finding]:
    installation = Installation("tailscale", operator, nameserver, zone)
    async with asyncio.timeout(30):
        return await asyncio.to_thread(ask, installation, resolve)


async def test_a_ready_operator_is_healthy_without_a_nameserver(operator: Operator) -> None:
    found = await findings(operator.at)
    assert [str(each) for each in found] == [
        f"ok: operator at {operator.at} is ready",
        f"ok: operator at {operator.at} leads",
        "ok: the tailnet is set up for the operator, as far as it can see",
        "ok: there are no proxies yet",
        "ok: there is no nameserver; set dns.enabled of the chart, or make a DNSConfig, for the cluster's Pods to "
        "resolve tailnet names",
    ]


async def test_the_operator_is_healthy_only_if_each_of_its_pods_is_ready(operator: Operator) -> None:
    ready, refuses, *_ = await findings(operator.at, resolve=lambda _: ["127.0.0.1", "127.0.0.2"])
    assert (ready.verdict, refuses.verdict) == ("ok", "FAILED")
    assert refuses.words == f"operator at 127.0.0.2:{operator.at.port}: no answer (Connection refused)"
    assert "a network policy keeps this Pod from it; see `kubectl -n tailscale get pods" in refuses.cure


async def test_the_finding_for_an_operator_that_is_not_ready_says_why(operator: Operator) -> None:
    operator.until_ready = 1
    (found, *_) = await findings(operator.at)
    assert found == failed(
        "operator",
        f"operator at {operator.at}: not ready: cache: not listed yet: services",
        "its log says more: `kubectl -n tailscale logs -l tailscale.com/operator=tsoperator`",
    )


@pytest.mark.parametrize(
    ("readyz", "metrics", "words"),
    [
        (200, "", "its port of metrics shows none (HTTP 404)"),
        (500, "", "not ready: HTTP 500"),
        (200, "no metrics {", "its port of metrics shows none (HTTP 200)"),
    ],
)
async def test_another_program_at_the_port_is_not_taken_for_the_operator(readyz: int, metrics: str, words: str) -> None:
    async def answer(request: web.Request) -> web.Response:
        if request.path == "/readyz":
            return web.Response(status=readyz)
        return web.Response(status=200 if metrics else 404, text=metrics)

    async with serving(answer) as url:
        at = endpoint(url.removeprefix("http://"))
        (found, *_) = await findings(at)
    assert (found.verdict, found.words.startswith(f"operator at {at}: {words}")) == ("FAILED", True)


@pytest.mark.parametrize(
    ("error", "words", "cure"),
    [
        (socket.EAI_NONAME, "the operator has no Pod", "see why with `kubectl -n tailscale describe deployments,rep"),
        (socket.EAI_AGAIN, "the cluster's DNS doesn't answer this Pod", "see whether the cluster's DNS works"),
    ],
)
async def test_a_name_that_does_not_exist_is_distinguished_from_a_dns_that_does_not_answer(
    error: int, words: str, cure: str
) -> None:
    def resolve(_: Endpoint) -> list[str]:
        raise socket.gaierror(error, "as the resolver says")

    (found, *_) = await findings(Endpoint("operator-test", 9002), resolve=resolve)
    assert found.words == f"{words} (operator-test: as the resolver says)"
    assert found.cure.startswith(cure)


async def test_a_nameserver_is_healthy_if_it_has_records_and_the_zone(operator: Operator) -> None:
    async with running_server(Listening("127.0.0.1", 0)) as server:
        at = Endpoint(server.host, server.port)
        zones = ("ts.net", "TS.net.", "tail.example.org")
        *well, other = [(await findings(operator.at, at, zone=zone))[-1] for zone in zones]
        server.serving.zone = empty_zone(SETTINGS)
        (*_, empty) = await findings(operator.at, at)
    assert well == [ok("nameserver", f"nameserver at {at} answers for {zone}") for zone in zones[:2]]
    assert (other.verdict, empty.verdict) == ("FAILED", "FAILED")
    assert f"nameserver at {at}, asked for tail.example.org: REFUSED: it doesn't serve that zone" in other.words
    assert f"nameserver at {at}, asked for ts.net: SERVFAIL: it has no records yet" in empty.words
    assert empty.cure == "`kubectl -n tailscale logs -l app=nameserver` says more"


async def test_a_nameserver_that_does_not_answer_is_a_finding(operator: Operator) -> None:
    (*_, found) = await findings(operator.at, Endpoint("127.0.0.1", free_port()))
    assert found.words.endswith("doesn't answer (Connection refused)")
    assert found.cure.startswith("see `kubectl -n tailscale describe pods --show-events -l app=nameserver`")


Answer = Callable[[bytes], bytes]


@contextmanager
def responder(answer: Answer) -> Iterator[Endpoint]:
    """Run a server that answers one packet with the result of *answer*; yield its endpoint."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", 0))

        def serve() -> None:
            query, client = bound.recvfrom(512)
            bound.sendto(answer(query), client)

        thread = Thread(target=serve)
        thread.start()
        yield Endpoint(*bound.getsockname())
        thread.join(5)


NO_ANSWER = "doesn't answer (what came was no answer)"
PACKETS: dict[str, tuple[Answer, str]] = {
    "the Go operator's, which knows no SOA": (lambda query: query[:2] + b"\x84\x04" + query[4:], "answers for ts.net"),
    "another rcode": (
        lambda query: query[:2] + b"\x84\x03" + query[4:],
        "rcode 3 is no answer of a nameserver of ours",
    ),
    "nothing": (lambda _: b"", NO_ANSWER),
    "a short one": (lambda query: query[:11], NO_ANSWER),
    "that to another question": (lambda query: query[:1] + bytes([query[1] ^ 1]) + bytes(11), NO_ANSWER),
}


@pytest.mark.parametrize(("answer", "words"), PACKETS.values(), ids=PACKETS)
async def test_a_check_accepts_a_packet_only_if_the_packet_is_the_answer_of_a_nameserver(
    operator: Operator, answer: Answer, words: str
) -> None:
    with responder(answer) as at:
        (*_, found) = await findings(operator.at, at)
    assert words in found.words
    assert (found.verdict == "ok") == ("answers for" in words)


@pytest.mark.parametrize("text", ["9002", "operator", "operator:", "operator:x", "a:70000", "[::1", ":9002", ""])
def test_the_endpoint_in_an_option_of_a_check_is_a_host_and_a_port(text: str) -> None:
    assert endpoint("operator-test:9002") == ("operator-test", 9002)
    assert str(endpoint("[2001:db8::1]:53")) == "[2001:db8::1]:53"
    with pytest.raises(ArgumentTypeError, match=r"is not HOST:PORT, such as operator:9002"):
        endpoint(text)
