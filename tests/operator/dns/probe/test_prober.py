"""The prober, which asks the cluster's DNS again and again, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random

from prometheus_client import CollectorRegistry
from tsoperator.dns.probe.answers import Authority, Reply, ServerVerdict
from tsoperator.dns.probe.asking import Query
from tsoperator.dns.probe.prober import VERDICT, DNSProber, Found, ProbePace
from tsoperator.dns.probe.question import Canary, CanaryQuestion

from tests.support.cluster import running
from tests.support.virtual_time import in_virtual_time, now

SERVER, NAMESERVER, CANARY = "10.96.0.10", "10.96.0.53", "_nameserver-1.ts.net"
QUESTION = CanaryQuestion((SERVER,), NAMESERVER, (Canary("ts.net", CANARY),))
RIGHT = Reply("NOERROR", frozenset({NAMESERVER}))
SERVFAIL = Reply("SERVFAIL")
DENIED = Reply("NXDOMAIN", authority=Authority("ts.net", "nameserver.x", "hostmaster.ts.net", 7))
PACE = ProbePace(replace(ProbePace().steady, jitter=lambda: 1.0), replace(ProbePace().backoff, jitter=lambda: 1.0))


class Servers:
    """Servers whose answers the test chooses, and a prober that asks them."""

    def __init__(self, answer: Callable[[Query], Reply] = lambda query: RIGHT, seconds: float = 0.0) -> None:
        self.answer = answer
        self.asked: list[Query] = []
        self.times: list[float] = []
        self.told: list[float] = []
        self.most = self._now = 0
        self._seconds = seconds
        self.prober = DNSProber(self.ask, PACE, token=lambda: f"t{len(self.asked)}", clock=lambda: 1000 + now())
        self.prober.feed.listen(VERDICT, lambda old, new: self.told.append(now()))

    async def ask(self, query: Query) -> Reply:
        self.asked.append(query)
        self.times += [now()] if query.server == NAMESERVER and query.name == CANARY else []
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(self._seconds)
        self._now -= 1
        return self.answer(query)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[DNSProber]:
        """Run the prober with `QUESTION` as its first question."""
        assert self.prober.follow(QUESTION) is None
        async with running(self.prober.run()):
            yield self.prober


def failing(query: Query) -> Reply:
    """Answer like a cluster's DNS that doesn't reach the nameserver."""
    return RIGHT if query.server == NAMESERVER else SERVFAIL


def faults(prober: DNSProber, question: CanaryQuestion = QUESTION) -> list[str]:
    """Return the faults of the cluster's DNS that the prober has found."""
    found = prober.follow(question)
    return [each.fault for each in found.cluster] if found else []


@in_virtual_time
async def test_without_a_fault_the_prober_asks_less_and_less_often_down_to_every_three_minutes() -> None:
    servers = Servers()
    async with servers.running() as prober:
        await asyncio.sleep(630)
        assert prober.follow(QUESTION) == Found(ServerVerdict("", NAMESERVER), (ServerVerdict("ts.net", SERVER),))
    assert (servers.times, servers.told) == ([0, 2, 5, 10, 19, 36, 69, 134, 263, 444, 625], [0])
    first = [Query(NAMESERVER, CANARY, timeout=2), Query(SERVER, CANARY), Query(SERVER, CANARY, "tcp")]
    assert servers.asked == 11 * first


@in_virtual_time
async def test_with_a_fault_the_prober_asks_again_within_nine_seconds() -> None:
    servers = Servers(failing)
    async with servers.running() as prober:
        await asyncio.sleep(40)
        assert faults(prober) == ["ServerFailure"]
        servers.answer = lambda query: RIGHT
        await asyncio.sleep(60)
        servers.answer = failing
        await asyncio.sleep(19)
    assert servers.times == [0, 2, 5, 10, 19, 28, 37, 46, 47, 48, 50, 53, 58, 67, 84, 117, 118]
    assert servers.told == [0, 48, 118]


@in_virtual_time
async def test_the_shown_verdicts_seldom_change_although_the_pods_of_the_clusters_dns_answer_differently() -> None:
    chosen = Random(1)
    servers = Servers(lambda query: RIGHT if query.server == NAMESERVER or chosen.random() < 0.5 else SERVFAIL)
    async with servers.running():
        await asyncio.sleep(3600)
    assert len(servers.told) <= 30  # if each round counted, they would change hundreds of times


@in_virtual_time
async def test_the_pauses_of_the_prober_go_on_growing_when_an_earlier_verdict_returns() -> None:
    servers = Servers(lambda query: failing(query) if 30 < now() < 60 else RIGHT)
    async with servers.running():
        await asyncio.sleep(170)
    assert servers.told == [0, 37, 67]
    assert servers.times == [0, 2, 5, 10, 19, 36, 37, 39, 42, 47, 56, 65, 66, 67, 100, 165]


@in_virtual_time
async def test_the_pauses_of_the_prober_go_on_growing_while_each_round_contradicts_the_round_before() -> None:
    names = ["c.z0", "c.z1", "c.z2"]
    many = replace(QUESTION, canaries=tuple(Canary(name[2:], name) for name in names))
    rounds: list[float] = []

    def one_by_turns(query: Query) -> Reply:
        if query.server == NAMESERVER:
            rounds.extend([now()] if query.name == names[0] else [])
            return RIGHT
        return RIGHT if query.name == names[len(rounds) % 3] else SERVFAIL

    servers = Servers(one_by_turns)
    async with servers.running() as prober:
        prober.follow(many)
        await asyncio.sleep(40)
    assert rounds == [0, 2, 3, 4, 6, 9, 14, 23, 32]


@in_virtual_time
async def test_the_first_verdict_after_a_change_of_the_question_is_shown_at_once() -> None:
    servers = Servers(failing)
    async with servers.running() as prober:
        await asyncio.sleep(24)  # the next time would be 28
        servers.answer = lambda query: RIGHT
        changed = replace(QUESTION, seen=(1,))
        assert faults(prober, changed) == ["ServerFailure"]
        await asyncio.sleep(0.1)
        assert faults(prober, changed) == [""]
    assert servers.told == [0, 24]


@in_virtual_time
async def test_the_prober_asks_a_changed_question_at_once_but_at_most_once_a_second() -> None:
    servers = Servers(failing)
    async with servers.running() as prober:
        await asyncio.sleep(24)  # the next time would be 28
        for seen in (1, 2):
            assert prober.follow(replace(QUESTION, seen=(seen,)))
            prober.follow(replace(QUESTION, seen=(seen,)))
            await asyncio.sleep(0.4)
        await asyncio.sleep(4)
    assert servers.times == [0, 2, 5, 10, 19, 24, 25, 27]
    assert servers.told == [0]


@in_virtual_time
async def test_a_new_question_has_no_results_yet() -> None:
    servers = Servers(seconds=1)
    other = replace(QUESTION, canaries=(Canary("example.org", CANARY), Canary("ts.net", CANARY)))
    async with servers.running() as prober:
        await asyncio.sleep(2.5)
        assert prober.follow(other) is None
        await asyncio.sleep(0.6)  # the answers to the first question come
        assert prober.follow(other) is None
        await asyncio.sleep(10)
        found = prober.follow(other)
        assert found
        assert found.cluster == (ServerVerdict("example.org", SERVER), ServerVerdict("ts.net", SERVER))
        assert prober.follow(QUESTION) is None


@in_virtual_time
async def test_without_a_question_the_prober_asks_nobody() -> None:
    servers = Servers()
    async with servers.running() as prober:
        await asyncio.sleep(10)
        assert prober.follow(None) is None
        await asyncio.sleep(1000)
        assert prober.follow(QUESTION) is None
        await asyncio.sleep(1)
    assert servers.times == [0, 2, 5, 1010]
    assert prober.follow(None) is None


@in_virtual_time
async def test_the_prober_does_not_ask_the_cluster_for_a_name_that_the_nameserver_denies() -> None:
    servers = Servers(lambda query: DENIED if now() < 1 else Reply("REFUSED"))
    async with servers.running() as prober:
        for _ in range(6):
            await asyncio.sleep(2)
            assert faults(prober) == ["RecordsMissing"]
    assert ({query.server for query in servers.asked}, servers.told) == ({NAMESERVER}, [0, 10])


@in_virtual_time
async def test_a_query_for_a_new_name_shows_whether_a_cache_or_another_nameserver_denies_the_canary() -> None:
    servers = Servers(lambda query: RIGHT if query.server == NAMESERVER and query.name == CANARY else DENIED)
    async with servers.running() as prober:
        await asyncio.sleep(0.1)
        assert faults(prober) == ["CachedNegativeAnswer"]
    fresh = f"t2.{CANARY}"
    assert servers.asked[2:] == [Query(SERVER, fresh), Query(NAMESERVER, fresh, timeout=2)]


@in_virtual_time
async def test_the_prober_asks_every_server_for_every_zone_but_for_only_a_few_zones_at_a_time() -> None:
    servers = Servers(seconds=1)
    zones = tuple(Canary(f"z{number}", f"c.z{number}") for number in range(20))
    many = replace(QUESTION, servers=(SERVER, "10.96.0.11"), nameserver="2001:db8::1", canaries=zones)
    async with servers.running() as prober:
        prober.follow(many)
        await asyncio.sleep(60)
        found = prober.follow(many)
    assert found
    assert len({(each.zone, each.server) for each in found.cluster}) == 40
    assert servers.most == 8
    assert {query.ipv6 for query in servers.asked if query.name != CANARY} == {True}


@in_virtual_time
async def test_the_prober_does_not_ask_a_server_that_forwards_to_itself() -> None:
    servers = Servers(failing)
    looped = replace(QUESTION, servers=(SERVER, "10.96.0.11"), targets={"ts.net": [SERVER]})
    async with servers.running() as prober:
        prober.follow(looped)
        await asyncio.sleep(0.1)
        assert faults(prober, looped) == ["ForwardingLoop", "ServerFailure"]
    assert {query.server for query in servers.asked} == {NAMESERVER, "10.96.0.11"}


@in_virtual_time
async def test_the_metrics_of_the_prober_have_each_zone_and_the_time_of_the_most_recent_answer() -> None:
    servers, registry = Servers(failing), CollectorRegistry()
    registry.register(servers.prober)

    def told(reason: str) -> tuple[float | None, float | None]:
        labels = {"zone": "ts.net", "server": SERVER, "reason": reason}
        ready = registry.get_sample_value("tsoperator_cluster_dns_ready", labels)
        return ready, registry.get_sample_value("tsoperator_cluster_dns_asked_timestamp_seconds")

    assert told("") == (None, None)
    async with servers.running():
        await asyncio.sleep(1.5)
        assert told("ServerFailure") == (0, 1000)
        servers.answer = lambda query: RIGHT
        await asyncio.sleep(3)
        assert told("") == (1, 1004)
