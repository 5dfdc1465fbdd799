import asyncio
from typing import NamedTuple

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Gauge
from tsoperator.runtime.health import Check, HealthServer, ListenError, parse_listen


def passes() -> str:
    return ""


def fails() -> str:
    return "no list of services yet"


def breaks() -> str:
    raise ValueError("bug")


class Answer(NamedTuple):
    status: int
    text: str
    content_type: str


async def fetch(address: str, path: str, accept: str = "*/*") -> Answer:
    async with (
        asyncio.timeout(30),
        aiohttp.ClientSession() as session,
        session.get(f"http://{address}{path}", headers={"Accept": accept}) as response,
    ):
        return Answer(response.status, await response.text(), response.headers["Content-Type"])


class Case(NamedTuple):
    checks: dict[str, Check]
    status: int
    text: str


CASES = [
    Case({}, 200, "ok\n"),
    Case({"leader": passes}, 200, "[+] leader: ok\nok\n"),
    Case({"leader": passes, "caches": fails}, 503, "[+] leader: ok\n[-] caches: no list of services yet\nfailed\n"),
    Case({"caches": breaks}, 503, "[-] caches: the check failed: ValueError('bug')\nfailed\n"),
]


@pytest.mark.parametrize("case", CASES)
async def test_ready_and_alive_are_what_the_checks_of_each_say(case: Case) -> None:
    others: dict[str, Check] = {"others": fails}
    for path, checks, alive in (("/readyz", case.checks, others), ("/healthz", others, case.checks)):
        async with HealthServer("127.0.0.1:0", CollectorRegistry(), checks, alive=alive) as address:
            assert (await fetch(address, path))[:2] == (case.status, case.text)


async def test_checks_are_asked_each_time() -> None:
    problems = ["not yet"]
    async with HealthServer("127.0.0.1:0", CollectorRegistry(), {"caches": lambda: "".join(problems)}) as address:
        before = await fetch(address, "/readyz")
        problems.clear()
        after = await fetch(address, "/readyz")
    assert (before.status, after.status) == (503, 200)


@pytest.mark.parametrize("kind", ["text/plain", "application/openmetrics-text"])
async def test_metrics_are_those_of_the_given_registry(kind: str) -> None:
    registry = CollectorRegistry()
    Gauge("tsoperator_leader", "Whether it leads.", registry=registry).set(1)
    async with HealthServer("127.0.0.1:0", registry, {}) as address:
        answer = await fetch(address, "/metrics", accept=kind)
    assert "\ntsoperator_leader 1.0\n" in answer.text
    assert answer.content_type.startswith(kind)


async def test_an_empty_address_turns_it_off() -> None:
    async with HealthServer("", CollectorRegistry(), {}) as address:
        assert address == ""


async def test_the_port_is_free_again_afterwards() -> None:
    async with HealthServer("127.0.0.1:0", CollectorRegistry(), {}) as address:
        assert (await fetch(address, "/healthz")).status == 200
    async with HealthServer(address, CollectorRegistry(), {}) as again:
        assert again == address


async def test_a_port_in_use_is_said_so() -> None:
    async with HealthServer("127.0.0.1:0", CollectorRegistry(), {}) as address:
        with pytest.raises(ListenError, match=f"on {address}: Address already in use"):
            await HealthServer(address, CollectorRegistry(), {}).__aenter__()


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        (":8080", "", 8080),
        ("192.0.2.1:80", "192.0.2.1", 80),
        ("localhost:0", "localhost", 0),
        ("[2001:db8::1]:80", "2001:db8::1", 80),
        ("[::]:65535", "::", 65535),
    ],
)
def test_an_address_to_listen_on_is_host_and_port(text: str, host: str, port: int) -> None:
    assert parse_listen(text) == (host, port)


@pytest.mark.parametrize("text", ["8080", "192.0.2.1", "192.0.2.1:", ":http", ":65536", "2001:db8::1:80", ":-1", ":²"])
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(ListenError, match="is not ADDR:PORT"):
        parse_listen(text)
