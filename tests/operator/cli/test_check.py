"""What `helm test` says of an operator and a nameserver that are well, or not."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import NamedTuple, NoReturn

import pytest
from clustersim.processes import free_port
from prometheus_client import CollectorRegistry
from tsnameserver.compiler import empty_zone
from tsnameserver.sockets import Endpoint as Listening
from tsoperator.__main__ import main
from tsoperator.cli.check import Endpoint, Finding, Installation, addresses, check, endpoint
from tsoperator.runtime.health import HealthServer

from tests.nameserver.conftest import running_server
from tests.nameserver.samples import SETTINGS

NO_NAMESERVER = Finding(
    True, "there is no nameserver; make a DNSConfig for the cluster's Pods to resolve tailnet names"
)


class Operator:
    """The probes of an operator, and what is wrong with it."""

    def __init__(self) -> None:
        self.wrong = ""
        self.asked = asyncio.Event()
        self.at = Endpoint("", 0)

    def look(self) -> str:
        self.asked.set()
        return self.wrong


@pytest.fixture
async def operator() -> AsyncIterator[Operator]:
    operator = Operator()
    async with HealthServer("127.0.0.1:0", CollectorRegistry(), {"cache": operator.look}) as address:
        operator.at = endpoint(address)
        yield operator


Run = Callable[..., Awaitable[tuple[str | int | None, list[str]]]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the program as the chart starts it; return the exit code and the lines that it prints."""

    async def run(*arguments: str, **environment: str) -> tuple[str | int | None, list[str]]:
        monkeypatch.delenv("NAMESERVER_SERVICE_HOST", raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        options = ["--namespace=tailscale", "--zone=ts.net", "--seconds=0", *arguments]
        monkeypatch.setattr(sys, "argv", ["tsoperator", "check", *options])
        with pytest.raises(SystemExit) as ended:
            await asyncio.to_thread(main)
        return ended.value.code, capsys.readouterr().out.splitlines()

    return run


async def findings(
    operator: Endpoint,
    nameserver: Endpoint | None = None,
    *,
    zone: str = "ts.net",
    seconds: float = 0,
    resolve: Callable[[Endpoint], list[str]] = addresses,
) -> list[Finding]:
    installation = Installation("tailscale", operator, nameserver, zone)
    async with asyncio.timeout(30):
        return await asyncio.to_thread(check, installation, seconds, resolve)


async def test_an_operator_that_is_ready_is_well_without_a_nameserver(operator: Operator) -> None:
    assert await findings(operator.at) == [Finding(True, f"operator at {operator.at} is ready"), NO_NAMESERVER]


async def test_every_pod_of_the_operator_has_to_be_ready(operator: Operator) -> None:
    ready, refuses, _ = await findings(operator.at, resolve=lambda _: ["127.0.0.1", "127.0.0.2"])
    assert ready.good
    assert not refuses.good
    assert refuses.words.startswith(f"operator at 127.0.0.2:{operator.at.port}: no answer (Connection refused): ")


async def test_an_operator_that_is_not_ready_says_why(operator: Operator) -> None:
    operator.wrong = "not listed yet: services"
    (found, _) = await findings(operator.at)
    assert found == Finding(
        False,
        f"operator at {operator.at}: not ready: cache: not listed yet: services; its log says more: "
        "`kubectl -n tailscale logs -l tailscale.com/operator=tsoperator`",
    )


async def test_an_operator_that_becomes_ready_is_waited_for(operator: Operator) -> None:
    operator.wrong = "not listed yet: services"
    looking = asyncio.create_task(findings(operator.at, seconds=15))
    await operator.asked.wait()
    operator.wrong = ""
    assert (await looking)[0].good


@pytest.mark.parametrize(
    ("resolv_conf", "name"),
    [
        ("search tailscale.svc.c.example svc.c.example c.example\n", "op.tailscale.svc.c.example."),
        ("search tailscale.svc.c.example svc.c.example c.example\n" * 1000, "op.tailscale.svc.cluster.local."),
        (None, "op.tailscale.svc.cluster.local."),
    ],
    ids=["a Pod's", "too long", "none"],
)
async def test_the_clusters_domain_is_that_of_the_pods_resolv_conf(
    monkeypatch: pytest.MonkeyPatch, run: Run, tmp_path: Path, resolv_conf: str | None, name: str
) -> None:
    if resolv_conf is not None:
        (tmp_path / "resolv.conf").write_text(resolv_conf)
    monkeypatch.setattr("tsoperator.settings._RESOLV_CONF", tmp_path / "resolv.conf")
    monkeypatch.setattr(socket, "getaddrinfo", nobody)
    _, lines = await run("--operator=op:9002")
    assert f"({name}: nobody has that name)" in lines[0]


def nobody(*_asked: object, **_options: object) -> NoReturn:
    raise socket.gaierror(socket.EAI_NONAME, "nobody has that name")


class Lookup(NamedTuple):
    error: int
    words: str


@pytest.mark.parametrize(
    "case",
    [
        Lookup(socket.EAI_NONAME, "the operator has no Pod: see why with `kubectl -n tailscale describe pods"),
        Lookup(socket.EAI_AGAIN, "the cluster's DNS doesn't answer this Pod: "),
    ],
)
async def test_a_name_that_leads_nowhere_is_told_from_a_dns_that_is_away(case: Lookup) -> None:
    def resolve(_: Endpoint) -> list[str]:
        raise socket.gaierror(case.error, "as the resolver says")

    (found, _) = await findings(Endpoint("operator-test", 9002), resolve=resolve)
    assert not found.good
    assert found.words.startswith(case.words)
    assert found.words.endswith("(operator-test: as the resolver says)")


async def test_a_nameserver_that_has_records_is_well(operator: Operator) -> None:
    async with running_server(Listening("127.0.0.1", 0)) as server:
        at = Endpoint(server.host, server.port)
        for zone in ("ts.net", "TS.net."):
            assert (await findings(operator.at, at, zone=zone))[1] == Finding(
                True, f"nameserver at {at} answers for {zone}"
            )


async def test_a_nameserver_without_records_or_zone_says_so(operator: Operator) -> None:
    async with running_server(Listening("127.0.0.1", 0)) as server:
        at = Endpoint(server.host, server.port)
        (_, other) = await findings(operator.at, at, zone="tail.example.org")
        server.serving.zone = empty_zone(SETTINGS)
        (_, empty) = await findings(operator.at, at)
    assert [other.good, empty.good] == [False, False]
    assert f"nameserver at {at}, asked for tail.example.org: REFUSED: it doesn't serve that zone" in other.words
    assert f"nameserver at {at}, asked for ts.net: SERVFAIL: it has no records yet" in empty.words
    assert empty.words.endswith("`kubectl -n tailscale logs -l app=nameserver` says more")


async def test_a_nameserver_that_is_away_is_told(operator: Operator) -> None:
    (_, found) = await findings(operator.at, Endpoint("127.0.0.1", free_port()))
    assert not found.good
    assert (
        "doesn't answer (Connection refused): see `kubectl -n tailscale describe pods -l app=nameserver`" in found.words
    )


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
    assert (await findings(operator.at, at))[1] == Finding(True, f"nameserver at {at} answers for ts.net")


@pytest.mark.parametrize("answer", [b"", b"short", bytes(12)])
async def test_a_packet_that_is_no_answer_counts_as_none(operator: Operator, responder: Start, answer: bytes) -> None:
    (_, found) = await findings(
        operator.at, responder(lambda query: answer if len(answer) < 12 else query[:1] + answer)
    )
    assert "doesn't answer (what came was no answer)" in found.words


async def test_an_rcode_of_no_nameserver_of_ours_is_told_by_its_number(operator: Operator, responder: Start) -> None:
    (_, found) = await findings(operator.at, responder(lambda query: query[:2] + b"\x84\x03" + query[4:]))
    assert not found.good
    assert "rcode 3 is no answer of a nameserver of ours" in found.words


@pytest.mark.parametrize("text", ["9002", "operator-test", "operator-test:", "operator-test:x", ":9002", ""])
def test_an_endpoint_is_a_host_and_a_port(text: str) -> None:
    assert endpoint("operator-test:9002") == ("operator-test", 9002)
    assert str(endpoint("[2001:db8::1]:53")) == "[2001:db8::1]:53"
    with pytest.raises(ValueError, match=r"HOST:PORT|Port"):
        endpoint(text)


async def test_the_program_finds_the_nameserver_as_a_pod_is_told_of_it(operator: Operator, run: Run) -> None:
    code, lines = await run(f"--operator={operator.at}", NAMESERVER_SERVICE_HOST="::1")
    assert code == 1
    assert lines[0] == f"ok: operator at {operator.at} is ready"
    assert lines[1].startswith("FAILED: nameserver at [::1]:53")


async def test_the_program_ends_with_0_where_all_is_well(operator: Operator, run: Run) -> None:
    code, lines = await run(f"--operator={operator.at}")
    assert (code, lines) == (0, [f"ok: operator at {operator.at} is ready", f"ok: {NO_NAMESERVER.words}"])
