"""How often a Service is pointed at its proxy again, on a clock of the tests'."""

from dataclasses import dataclass, field

import pytest
from tsoperator.api.objects import Object, key_of
from tsoperator.desired.reverts import Reverts
from tsoperator.runtime.rewrites import AT_ONCE, LAG, LONGEST, MEMORY, Rewrites

from tests.support.objects import egress_service

FIELDS = ("spec.externalName",)
PROXY = "ts-db-x"


@dataclass
class Fight:
    """A Service that somebody sets back, and how we have taken it so far."""

    now: float = 1000.0
    version: int = 1
    uid: str = "db-uid"
    rewrites: Rewrites = field(init=False)

    def __post_init__(self) -> None:
        self.rewrites = Rewrites(lambda: self.now)

    @property
    def service(self) -> Object:
        return egress_service(resourceVersion=str(self.version), uid=self.uid)

    def seen(self, *fields: str) -> Reverts:
        """Look at a version of the Service that was not seen before."""
        self.version += 1
        return self.rewrites.look(self.service, fields, PROXY)

    def set_back(self, after: float = 1.0) -> Reverts:
        """Look at the Service that is set back some seconds *after* it was rewritten."""
        self.now += after
        return self.seen(*FIELDS)

    def mend(self, reverts: Reverts) -> None:
        """Wait for as long as is to be waited, and rewrite the Service."""
        self.now += reverts.wait
        assert self.seen(*FIELDS).wait == 0
        self.rewrites.rewritten(self.service, PROXY)

    def lose(self, times: int, after: float = 1.0) -> list[float]:
        """Be set back so many *times*; return how long was waited each time from one rewrite to the next."""
        pauses = []
        for _ in range(times):
            start = self.now
            self.mend(self.set_back(after))
            pauses.append(self.now - start)
        return pauses


def fight() -> Fight:
    """A Service that was pointed at its proxy just now."""
    begun = Fight()
    assert begun.seen(*FIELDS) == Reverts()
    begun.rewrites.rewritten(begun.service, PROXY)
    return begun


def test_a_writer_who_sets_a_service_back_is_waited_for_longer_and_longer_up_to_a_minute() -> None:
    assert fight().lose(12, after=0.5) == [0.5, 0.5, 0.5, 1, 2, 4, 8, 16, 32, LONGEST, LONGEST, LONGEST]


def test_reverts_are_told_from_the_time_on_that_a_rewrite_waits() -> None:
    begun = fight()
    for _ in range(AT_ONCE):
        reverts = begun.set_back(0.25)
        assert reverts == Reverts()
        begun.mend(reverts)
    assert begun.set_back(0.25) == Reverts(FIELDS, wait=0.75, settles=1)
    begun.rewrites.remember_writer(begun.service, "argocd-controller")
    assert begun.seen(*FIELDS).who == "argocd-controller"


def test_a_service_is_believed_in_again_once_it_has_stayed_as_it_is() -> None:
    begun = fight()
    begun.lose(AT_ONCE + 2)
    begun.now += 0.5
    assert begun.seen() == Reverts(FIELDS, settles=1.5)
    begun.now += 1.5
    assert begun.seen() == Reverts()


@pytest.mark.parametrize("slowness", [0.9, 1.5, 12, 50])
def test_a_slow_writer_is_told_of_without_a_break(slowness: float) -> None:
    begun = fight()
    begun.lose(AT_ONCE + 1, after=slowness)
    for _ in range(4):
        begun.now += slowness - 0.25
        assert begun.seen().fields == FIELDS
        begun.mend(begun.set_back(0.25))
    begun.now += LONGEST
    assert begun.seen() == Reverts()


def test_the_slowness_of_an_earlier_fight_is_forgotten() -> None:
    begun = fight()
    begun.lose(AT_ONCE + 1, after=20)
    begun.lose(1, after=LONGEST)
    begun.lose(AT_ONCE + 1, after=0.5)
    assert begun.set_back(0.5).settles == 4


def test_the_same_setback_counts_once() -> None:
    begun = fight()
    begun.lose(AT_ONCE - 1)
    assert [begun.set_back(0).wait for _ in range(10)] == [0] * 10


def test_a_writer_who_mends_a_service_and_sets_it_back_again_counts_twice() -> None:
    begun = fight()
    for _ in range(AT_ONCE + 2):
        reverts = begun.set_back(0.1)
        begun.seen()
    assert reverts.settles == 2


def test_a_rewrite_that_failed_is_tried_again_at_once() -> None:
    begun = fight()
    begun.lose(AT_ONCE + 1)
    reverts = begun.set_back()
    begun.now += reverts.wait
    assert [begun.seen(*FIELDS).wait for _ in range(3)] == [0] * 3


@pytest.mark.parametrize("every", [LONGEST, 600])
def test_a_writer_who_comes_seldom_is_told_of_and_not_waited_for(every: float) -> None:
    begun = fight()
    assert begun.lose(2 * AT_ONCE, after=every) == [every] * 2 * AT_ONCE
    assert begun.set_back(every) == Reverts(FIELDS)


def test_a_writer_who_was_not_there_for_an_hour_is_forgotten() -> None:
    begun = fight()
    begun.lose(2 * AT_ONCE)
    begun.rewrites.remember_writer(begun.service, "kustomize-controller")
    assert begun.set_back(MEMORY) == Reverts()
    begun.lose(AT_ONCE)
    assert begun.set_back().who == ""


def test_a_service_that_looks_as_before_it_was_rewritten_may_be_the_caches_delay() -> None:
    begun = fight()
    assert begun.rewrites.look(begun.service, FIELDS, PROXY) == Reverts(wait=LAG)
    assert begun.rewrites.look(begun.service, (), PROXY) == Reverts()
    begun.lose(AT_ONCE)
    begun.now += LAG
    assert begun.rewrites.look(begun.service, FIELDS, PROXY).fields == FIELDS


def test_a_service_that_was_never_pointed_anywhere_is_no_fight() -> None:
    begun = Fight()
    assert [begun.set_back() for _ in range(10)] == [Reverts()] * 10


@pytest.mark.parametrize("end", ["forgotten", "made anew"])
def test_the_fight_ends_with_the_service(end: str) -> None:
    begun = fight()
    begun.lose(2 * AT_ONCE)
    if end == "forgotten":
        begun.rewrites.forget(key_of(begun.service))
    begun.uid = "other-uid" if end == "made anew" else begun.uid
    assert begun.set_back() == Reverts()
    begun.rewrites.rewritten(begun.service, PROXY)
    assert begun.lose(AT_ONCE) == [1] * AT_ONCE


def test_a_service_that_moves_to_another_proxy_is_pointed_there_at_once() -> None:
    begun = fight()
    begun.lose(2 * AT_ONCE)
    assert begun.rewrites.look(begun.service, FIELDS, "ts-db-y") == Reverts()
    begun.rewrites.rewritten(begun.service, "ts-db-y")
    assert begun.rewrites.look(begun.service, (), "ts-db-y") == Reverts()
