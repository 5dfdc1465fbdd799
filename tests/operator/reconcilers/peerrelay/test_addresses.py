"""The addresses of load balancers' hostnames, in virtual time."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from tsoperator.api.objects import Key, key_of
from tsoperator.reconcilers.peerrelay.addresses import ADDRESSES, HostAddresses, resolve_ipv4
from tsoperator.reconcilers.peerrelay.endpoints import Resolved
from tsoperator.runtime.workqueue import Backoff

from tests.support.cluster import running
from tests.support.virtual_time import in_virtual_time, now

A, B = "203.0.113.4", "203.0.113.10"
LB, OTHER = "lb.example.org", "other.example.org"
EDGE, GATE = Key("", "edge"), Key("", "gate")


class DNS:
    """A resolver whose answers a test chooses, and the addresses that the operator has stored from it."""

    def __init__(self, *answer: str) -> None:
        self.answer: Sequence[str] | Exception = answer
        self.seconds = 0.0
        self.asked: list[tuple[str, float]] = []
        self.told: list[tuple[str, float]] = []
        self.busy = self.most = 0
        self.kept = HostAddresses(self.resolve, Backoff(first=2.0, cap=60.0, jitter=lambda: 1.0))
        self.kept.feed.listen(ADDRESSES, lambda old, new: self.told.append((key_of(new or {}).name, now())))

    async def resolve(self, host: str) -> Sequence[str]:
        self.asked.append((host, now()))
        self.busy += 1
        self.most = max(self.most, self.busy)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.busy -= 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    @property
    def times(self) -> list[float]:
        return [at for _, at in self.asked]

    @asynccontextmanager
    async def following(self, *hosts: str) -> AsyncIterator[HostAddresses]:
        """Run the look-ups of hostnames for the PeerRelay `EDGE`, whose load balancers have these *hosts*."""
        async with running(self.kept.run()):
            assert self.kept.follow(EDGE, hosts) == {}
            await asyncio.sleep(0.1)
            yield self.kept


@in_virtual_time
async def test_a_hostname_is_looked_up_in_the_background_and_its_addresses_are_announced_once() -> None:
    dns = DNS(A, B, A)
    async with dns.following(LB) as kept:
        assert kept.follow(EDGE, [LB]) == {LB: Resolved((B, A))}
        await asyncio.sleep(700)
    assert (dns.times, dns.told) == ([0, 300, 600], [("edge", 0)])


@in_virtual_time
async def test_changed_addresses_of_a_hostname_are_announced_to_each_peerrelay_that_has_the_hostname() -> None:
    dns = DNS(A)
    async with dns.following(LB) as kept:
        kept.follow(GATE, [LB])
        dns.answer = [B]
        await asyncio.sleep(301)
        assert kept.follow(GATE, [LB]) == {LB: Resolved((B,))}
    assert sorted(dns.told) == [("edge", 0), ("edge", 300), ("gate", 300)]


FAILURES = {
    "no such host": (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
    "no text": (OSError("nothing"), "nothing"),
    "no hostname": (UnicodeError(), "it is no hostname"),
    "no addresses": ((), "no address"),
}


@pytest.mark.parametrize(("answer", "words"), FAILURES.values(), ids=FAILURES)
@in_virtual_time
async def test_a_failed_look_up_of_a_hostname_is_reported_and_soon_repeated(
    answer: Sequence[str] | Exception, words: str
) -> None:
    dns = DNS()
    dns.answer = answer
    async with dns.following(LB) as kept:
        assert kept.follow(EDGE, [LB]) == {LB: Resolved(failure=words)}
        await asyncio.sleep(20)
        dns.answer = [A]
        await asyncio.sleep(15)
        assert kept.follow(EDGE, [LB]) == {LB: Resolved((A,))}
    assert (dns.times, dns.told) == ([0, 2, 6, 14, 30], [("edge", 0), ("edge", 30)])


@in_virtual_time
async def test_a_look_up_of_a_hostname_ends_after_five_seconds_and_delays_no_other_look_up() -> None:
    dns = DNS(A)
    dns.seconds = 9
    async with dns.following(LB) as kept:
        await asyncio.sleep(1)
        dns.seconds = 0
        kept.follow(GATE, [OTHER])
        await asyncio.sleep(1)
        assert kept.follow(GATE, [OTHER]) == {OTHER: Resolved((A,))}
        await asyncio.sleep(3)
        assert kept.follow(EDGE, [LB]) == {LB: Resolved(failure="no answer within 5 s")}


@in_virtual_time
async def test_at_most_eight_look_ups_of_hostnames_run_at_the_same_time() -> None:
    dns = DNS(A)
    dns.seconds = 1
    async with dns.following(*(f"lb-{number}.example.org" for number in range(20))):
        await asyncio.sleep(5)
    assert (dns.most, len(dns.asked)) == (8, 20)


@in_virtual_time
async def test_the_operator_forgets_a_hostname_that_no_load_balancer_has_any_longer() -> None:
    dns = DNS(A)
    async with dns.following(LB) as kept:
        kept.follow(GATE, [LB])
        for relay in (EDGE, GATE):
            kept.follow(relay, [])
        await asyncio.sleep(1000)
        assert kept.follow(EDGE, [LB]) == {}
        assert len(dns.asked) == 1


@in_virtual_time
async def test_an_operator_that_leads_again_looks_up_all_hostnames_again() -> None:
    dns = DNS(A)
    async with dns.following(LB):
        pass
    dns.answer = [B]
    async with dns.following(LB) as kept:
        assert kept.follow(EDGE, [LB]) == {LB: Resolved((B,))}


async def test_hostnames_are_resolved_by_the_operating_system_and_only_to_ipv4_addresses() -> None:
    assert {*await resolve_ipv4("localhost")} == {"127.0.0.1"}
    with pytest.raises(OSError, match=r".+"):
        await resolve_ipv4("::1")
