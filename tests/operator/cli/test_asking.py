"""What a Pod without rights sees of an operator and a nameserver that are well, or not."""

import asyncio
import socket
from argparse import ArgumentTypeError
from collections.abc import AsyncIterator, Callable, Iterator
from threading import Thread

import pytest
from aiohttp import web
from clustersim.processes import free_port
from prometheus_client import CollectorRegistry, Gauge
from tsnameserver.compiler import empty_zone
from tsnameserver.sockets import Endpoint as Listening
from tsoperator.cli.asking import Endpoint, Installation, addresses, ask, endpoint
from tsoperator.cli.findings import Finding, failed, ok
from tsoperator.runtime.health import HealthServer

from tests.nameserver.conftest import running_server
from tests.nameserver.samples import SETTINGS
from tests.support.cluster import serving

NO_NAMESERVER = ok(
    "nameserver", "there is no nameserver; make a DNSConfig for the cluster's Pods to resolve tailnet names"
)


class Operator:
    """The probes of an operator, and what is wrong with it."""

    def __init__(self) -> None:
        self.wrong = ""
        self.at = Endpoint("", 0)

    def look(self) -> str:
        return self.wrong


@pytest.fixture
async def operator() -> AsyncIterator[Operator]:
    operator = Operator()
    registry = CollectorRegistry()
    Gauge("tsoperator_leading", "Whether it leads.", registry=registry).set(1)
    preflight = Gauge("tsoperator_preflight", "What passes.", ["check", "tailnet"], registry=registry)
    preflight.labels("api", "").set(1)
    async with HealthServer("127.0.0.1:0", registry, {"cache": operator.look}) as address:
        operator.at = endpoint(address)
        yield operator


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


async def test_an_operator_that_is_ready_is_well_without_a_nameserver(operator: Operator) -> None:
    found = await findings(operator.at)
    assert found[:2] == [
        ok("operator", f"operator at {operator.at} is ready"),
        ok("leader", f"operator at {operator.at} leads"),
    ]
    assert found[-1] == NO_NAMESERVER
    assert {each.verdict for each in found} == {"ok"}


async def test_every_pod_of_the_operator_has_to_be_ready(operator: Operator) -> None:
    ready, refuses, *_ = await findings(operator.at, resolve=lambda _: ["127.0.0.1", "127.0.0.2"])
    assert (ready.verdict, refuses.verdict) == ("ok", "FAILED")
    assert refuses.words == f"operator at 127.0.0.2:{operator.at.port}: no answer (Connection refused)"
    assert "a network policy keeps this Pod from it; see `kubectl -n tailscale get pods" in refuses.cure


async def test_an_operator_that_is_not_ready_says_why(operator: Operator) -> None:
    operator.wrong = "not listed yet: services"
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
async def test_a_port_of_another_program_is_no_operator(readyz: int, metrics: str, words: str) -> None:
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
        (
            socket.EAI_NONAME,
            "the operator has no Pod",
            "see why with `kubectl -n tailscale describe deployments,replicasets,pods --show-events",
        ),
        (socket.EAI_AGAIN, "the cluster's DNS doesn't answer this Pod", "see whether the cluster's DNS works"),
    ],
)
async def test_a_name_that_leads_nowhere_is_told_from_a_dns_that_is_away(error: int, words: str, cure: str) -> None:
    def resolve(_: Endpoint) -> list[str]:
        raise socket.gaierror(error, "as the resolver says")

    (found, *_) = await findings(Endpoint("operator-test", 9002), resolve=resolve)
    assert found.words == f"{words} (operator-test: as the resolver says)"
    assert found.cure.startswith(cure)


async def test_a_nameserver_that_has_records_is_well(operator: Operator) -> None:
    async with running_server(Listening("127.0.0.1", 0)) as server:
        at = Endpoint(server.host, server.port)
        for zone in ("ts.net", "TS.net."):
            (*_, found) = await findings(operator.at, at, zone=zone)
            assert found == ok("nameserver", f"nameserver at {at} answers for {zone}")


async def test_a_nameserver_without_records_or_zone_says_so(operator: Operator) -> None:
    async with running_server(Listening("127.0.0.1", 0)) as server:
        at = Endpoint(server.host, server.port)
        (*_, other) = await findings(operator.at, at, zone="tail.example.org")
        server.serving.zone = empty_zone(SETTINGS)
        (*_, empty) = await findings(operator.at, at)
    assert (other.verdict, empty.verdict) == ("FAILED", "FAILED")
    assert f"nameserver at {at}, asked for tail.example.org: REFUSED: it doesn't serve that zone" in other.words
    assert f"nameserver at {at}, asked for ts.net: SERVFAIL: it has no records yet" in empty.words
    assert empty.cure == "`kubectl -n tailscale logs -l app=nameserver` says more"


async def test_a_nameserver_that_is_away_is_told(operator: Operator) -> None:
    (*_, found) = await findings(operator.at, Endpoint("127.0.0.1", free_port()))
    assert found.words.endswith("doesn't answer (Connection refused)")
    assert found.cure.startswith("see `kubectl -n tailscale describe pods --show-events -l app=nameserver`")


@pytest.fixture
def responder() -> Iterator[Callable[[Callable[[bytes], bytes]], Endpoint]]:
    """Start servers that answer one packet as they are told."""
    opened: list[tuple[socket.socket, Thread]] = []

    def start(answer: Callable[[bytes], bytes]) -> Endpoint:
        bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        bound.bind(("127.0.0.1", 0))

        def serve() -> None:
            query, client = bound.recvfrom(512)
            bound.sendto(answer(query), client)

        thread = Thread(target=serve)
        thread.start()
        opened.append((bound, thread))
        return Endpoint(*bound.getsockname())

    yield start
    for bound, thread in opened:
        thread.join(5)
        bound.close()


Start = Callable[[Callable[[bytes], bytes]], Endpoint]


async def test_the_go_operators_nameserver_is_well_though_it_knows_no_soa(operator: Operator, responder: Start) -> None:
    at = responder(lambda query: query[:2] + b"\x84\x04" + query[4:])
    (*_, found) = await findings(operator.at, at)
    assert found == ok("nameserver", f"nameserver at {at} answers for ts.net")


@pytest.mark.parametrize("answer", [b"", b"short", bytes(12)])
async def test_a_packet_that_is_no_answer_counts_as_none(operator: Operator, responder: Start, answer: bytes) -> None:
    (*_, found) = await findings(
        operator.at, responder(lambda query: answer if len(answer) < 12 else query[:1] + answer)
    )
    assert "doesn't answer (what came was no answer)" in found.words


async def test_an_rcode_of_no_nameserver_of_ours_is_told_by_its_number(operator: Operator, responder: Start) -> None:
    (*_, found) = await findings(operator.at, responder(lambda query: query[:2] + b"\x84\x03" + query[4:]))
    assert "rcode 3 is no answer of a nameserver of ours" in found.words


@pytest.mark.parametrize("text", ["9002", "operator", "operator:", "operator:x", "a:70000", "[::1", ":9002", ""])
def test_an_endpoint_is_a_host_and_a_port(text: str) -> None:
    assert endpoint("operator-test:9002") == ("operator-test", 9002)
    assert str(endpoint("[2001:db8::1]:53")) == "[2001:db8::1]:53"
    with pytest.raises(ArgumentTypeError, match=r"is not HOST:PORT, such as operator:9002"):
        endpoint(text)
