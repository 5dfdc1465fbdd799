"""The prober of the readiness gate in virtual time, and its requests to a server on loopback."""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiohttp import web
from tsoperator.api.objects import Key
from tsoperator.reconcilers.egresspod.plan import Check, GateQuestion, HealthAnswer
from tsoperator.reconcilers.egresspod.probes import GatePace, GateProber, ask_by_http, health_session

from tests.support.cluster import Handler, running, serving
from tests.support.virtual_time import in_virtual_time, now

POD = Key("tailscale", "foo-0")
PACE = GatePace(backoff=replace(GatePace().backoff, jitter=lambda: 1.0))
OWN, OTHER, UNHEALTHY, UNREACHABLE, NO_HEADER = HealthAnswer


def check(name: str) -> Check:
    return Check(Key("default", name), f"http://{name}.example.org/healthz", "Pod-IPv4", "192.0.2.7")


def question(*names: str, pod: str = "uid-1", requests: int = 6) -> GateQuestion:
    return GateQuestion(pod, frozenset(map(check, names)), requests=requests)


class Services:
    """Services that give their *answers* in order, each answer after *seconds*. They repeat the final answer."""

    def __init__(self, seconds: float = 0.0, /, **answers: Sequence[HealthAnswer]) -> None:
        self.asked: list[tuple[float, str]] = []
        self.most = 0
        self._now = 0
        self._seconds = seconds
        self._answers = {name: list(given) for name, given in answers.items()}
        self.counted: Counter[HealthAnswer] = Counter()
        self.prober = GateProber(self.ask, lambda answer: self.counted.update([answer]), PACE)

    @property
    def times(self) -> list[float]:
        """The times at which the prober made its requests, in seconds."""
        return [round(time, 3) for time, _ in self.asked]

    async def ask(self, wanted: Check) -> HealthAnswer:
        name = wanted.service.name
        self.asked.append((now(), name))
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            await asyncio.sleep(self._seconds)
        finally:
            self._now -= 1
        answers = self._answers.get(name, [OWN])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def pass_all(self, wanted: GateQuestion) -> None:
        """Make the checks of *wanted* until all of them have passed, as the reconciles of the Pod do."""
        while (left := self.prober.follow(POD, wanted)) is not None:
            await left


@asynccontextmanager
async def asking(services: Services) -> AsyncIterator[GateProber]:
    async with running(services.prober.run()):
        yield services.prober


@pytest.mark.parametrize(
    ("answers", "times"),
    [
        ([OWN], [0]),
        ([NO_HEADER], [0]),
        ([OTHER] * 5 + [OWN], [0] * 6),
        ([OTHER] * 8 + [OWN], [0] * 6 + [0.05] * 3),
        ([UNHEALTHY] * 2 + [OWN], [0, 0.05, 0.15]),
        ([UNREACHABLE, UNHEALTHY, OTHER, OWN], [0, 0.05, 0.15, 0.15]),
        ([UNREACHABLE] * 8 + [OWN], [0, 0.05, 0.15, 0.35, 0.75, 1.55, 3.15, 5.15, 7.15]),
    ],
)
@in_virtual_time
async def test_the_prober_asks_a_service_until_the_service_routes_to_the_pod(
    answers: Sequence[HealthAnswer], times: Sequence[float]
) -> None:
    services = Services(db=answers)
    async with asking(services):
        await services.pass_all(question("db"))
    assert services.times == times


@in_virtual_time
async def test_a_service_that_does_not_answer_for_three_seconds_is_unreachable() -> None:
    services = Services(10.0)
    async with asking(services) as prober:
        prober.follow(POD, question("db"))
        await asyncio.sleep(7)
    assert services.times == [0, 3.05, 6.15]
    assert services.counted == {UNREACHABLE: 2}


@in_virtual_time
async def test_the_prober_reports_the_result_of_each_health_request_to_the_metrics() -> None:
    services = Services(db=[OTHER, OTHER, UNHEALTHY, OWN], web=[NO_HEADER])
    async with asking(services):
        await services.pass_all(question("db", "web"))
    assert services.counted == {OTHER: 2, UNHEALTHY: 1, OWN: 1, NO_HEADER: 1}


@in_virtual_time
async def test_the_prober_asks_at_most_eight_services_at_the_same_time() -> None:
    names = [f"s{number}" for number in range(20)]
    services = Services(1.0)
    async with asking(services):
        await services.pass_all(question(*names))
        assert now() == 3
    assert services.most == 8
    assert sorted(name for _, name in services.asked) == sorted(names)


@in_virtual_time
async def test_a_service_that_waits_for_its_next_health_request_delays_no_other_service() -> None:
    names = [f"s{number}" for number in range(8)]
    services = Services(**{name: [UNREACHABLE] * 7 + [OWN] for name in names})
    async with asking(services) as prober:
        prober.follow(POD, question(*names))
        await asyncio.sleep(0.01)
        prober.follow(POD, question(*names, "late"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert services.asked[-1] == (0.01, "late")


ONE, BOTH, OTHERS = question("db"), question("db", "web"), question("db", "new")
ANEW = {
    "each Service until it passes": ([BOTH, BOTH, OTHERS], ["db", "new", "web", "web"]),
    "another Pod": ([ONE, question("db", pod="uid-2")], ["db", "db"]),
    "a Service that comes back": ([ONE, question(), ONE], ["db", "db"]),
}


@pytest.mark.parametrize(("questions", "asked"), ANEW.values(), ids=ANEW)
@in_virtual_time
async def test_the_prober_repeats_a_passed_check_only_for_a_new_pod_or_a_service_that_was_gone(
    questions: Sequence[GateQuestion], asked: Sequence[str]
) -> None:
    services = Services(web=[UNREACHABLE, OWN])
    async with asking(services):
        for each in questions:
            await services.pass_all(each)
    assert sorted(name for _, name in services.asked) == asked


@in_virtual_time
async def test_the_prober_asks_services_about_several_pods_at_the_same_time() -> None:
    services = Services(1.0)
    async with asking(services) as prober:
        pods = [prober.follow(Key("tailscale", f"foo-{number}"), question(f"s{number}")) for number in range(20)]
        await asyncio.gather(*(left for left in pods if left is not None))
        assert now() == 1


ENDS: dict[str, tuple[GateQuestion | None, Sequence[str]]] = {
    "the Pod is gone": (None, []),
    "the Service is gone": (question(), []),
    "another Pod has the name": (question("new", pod="uid-2"), ["new"]),
    "another Service": (question("new"), ["new"]),
}


@pytest.mark.parametrize(("then", "asked"), ENDS.values(), ids=ENDS)
@in_virtual_time
async def test_the_health_requests_of_the_prober_end_when_the_pod_or_the_service_is_gone(
    then: GateQuestion | None, asked: Sequence[str]
) -> None:
    services = Services(1.0, db=[UNREACHABLE], new=[OWN])
    async with asking(services) as prober:
        prober.follow(POD, question("db"))
        await asyncio.sleep(5)
        services.asked.clear()
        prober.follow(POD, then)
        await asyncio.sleep(10)
    assert [name for _, name in services.asked] == asked


@in_virtual_time
async def test_the_health_requests_of_the_prober_end_when_the_operator_no_longer_leads() -> None:
    services = Services(1.0, db=[UNREACHABLE])
    async with asking(services) as prober:
        prober.follow(POD, question("db"))
        await asyncio.sleep(5)
    services.asked.clear()
    await asyncio.sleep(100)
    assert services.asked == []


@in_virtual_time
async def test_only_one_task_asks_a_service_even_if_the_service_is_gone_for_a_moment() -> None:
    services = Services(db=[UNREACHABLE, OWN])
    async with asking(services) as prober:
        for names in (["db"], [], ["db"], [], ["db"]):
            prober.follow(POD, question(*names))
        await services.pass_all(question("db"))
    assert services.times == [0, 0.05]


def many(left: int) -> GateQuestion:
    return replace(question(), unserved=frozenset(Key("default", f"s{number:02}") for number in range(left)))


READY, GOING = Key("tailscale", "foo-1"), Key("tailscale", "foo-2")
TWO = replace(question("db", "web"), unserved=frozenset([Key("a", "b")]))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (TWO, "2 of its egress Services don't lead to it yet: a/b, default/db"),
        (many(10), "10 of its .*default/s09"),
        (many(11), "11 of its .*default/s09, …"),
    ],
)
def test_the_log_names_a_waiting_pod_only_after_a_minute(
    asked: GateQuestion, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    @in_virtual_time
    async def follow() -> None:
        async with asking(Services(db=[UNREACHABLE])) as prober:
            prober.follow(POD, asked)
            prober.follow(READY, question("web"))
            prober.follow(GOING, question("db"))
            await asyncio.sleep(59.9)
            prober.follow(GOING, None)
            assert not caplog.records
            await asyncio.sleep(1000)

    follow()
    [record] = caplog.records
    assert (record.levelno, record.name) == (logging.WARNING, "tsoperator.reconcilers.egresspod.probes")
    assert re.fullmatch(f"Pod tailscale/foo-0 has waited for 60 s to become ready: {words}", record.getMessage())


def answering(status: int, headers: dict[str, str], connections: list[object] | None = None) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        if connections is not None:
            connections.append(request.transport.get_extra_info("peername") if request.transport else None)
        return web.Response(status=status, headers=headers, text="ok")

    return handle


@pytest.mark.parametrize(
    ("status", "headers", "means"),
    [
        (200, {"Pod-IPv4": "192.0.2.7", "Pod-IPv6": "2001:db8::7"}, OWN),
        (200, {"pod-ipv4": "192.0.2.8"}, OTHER),
        (200, {}, NO_HEADER),
        (503, {"Pod-IPv4": "192.0.2.7"}, UNHEALTHY),
        (302, {"Location": "http://192.0.2.99/"}, UNHEALTHY),
    ],
)
async def test_the_result_of_a_health_request_depends_on_the_status_and_the_header_of_the_answer(
    status: int, headers: dict[str, str], means: HealthAnswer
) -> None:
    async with serving(answering(status, headers)) as url, health_session(in_cluster=True) as session:
        assert await ask_by_http(session, replace(check("db"), url=f"{url}/healthz")) is means


@pytest.mark.parametrize(("in_cluster", "means"), [(True, OWN), (False, NO_HEADER)])
async def test_only_an_operator_outside_of_the_cluster_uses_the_http_proxy_of_its_environment(
    monkeypatch: pytest.MonkeyPatch, in_cluster: bool, means: HealthAnswer
) -> None:
    pod, web_proxy = answering(200, {"Pod-IPv4": "192.0.2.7"}), answering(404, {})
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    async with serving(pod) as url, serving(web_proxy) as proxy, health_session(in_cluster=in_cluster) as session:
        monkeypatch.setenv("http_proxy", proxy)
        assert await ask_by_http(session, replace(check("db"), url=f"{url}/healthz")) is means


async def test_each_health_request_has_a_connection_of_its_own() -> None:
    connections: list[object] = []
    async with serving(answering(200, {}, connections)) as url, health_session(in_cluster=True) as session:
        for _ in range(3):
            await ask_by_http(session, replace(check("db"), url=url))
    assert len(set(connections)) == 3


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/healthz", "http://[bad", "http:///"])
async def test_a_health_request_to_a_useless_url_has_the_result_unreachable(url: str) -> None:
    async with health_session(in_cluster=True) as session:
        assert await ask_by_http(session, replace(check("db"), url=url)) is UNREACHABLE
