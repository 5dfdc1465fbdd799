"""The pace at which a shared object is rewritten after reverts, by a clock that the tests set."""

from dataclasses import dataclass, field

import pytest
from tsoperator.runtime.reverts import Reverts
from tsoperator.runtime.rewrites import AT_ONCE, LAG, LONGEST, MEMORY, Rewrites

FIELDS = ("spec.externalName",)
GOAL = "ts-db-x"


@dataclass
class Fight:
    """An object that another writer reverts, and the record of our rewrites so far."""

    now: float = 1000.0
    version: int = 1
    rewrites: Rewrites = field(init=False)

    def __post_init__(self) -> None:
        self.rewrites = Rewrites(lambda: self.now)

    def seen(self, *fields: str) -> Reverts:
        """Look at a new version of the object, in which *fields* are reverted."""
        self.version += 1
        return self.look(*fields)

    def look(self, *fields: str, goal: str = GOAL) -> Reverts:
        return self.rewrites.look(str(self.version), fields, goal)

    def rewrite(self, goal: str = GOAL) -> None:
        self.rewrites.rewritten(str(self.version), goal)

    def set_back(self, after: float = 1.0) -> Reverts:
        """Advance the clock by *after* seconds, and look at the object, whose fields somebody has reverted since."""
        self.now += after
        return self.seen(*FIELDS)

    def mend(self, reverts: Reverts) -> None:
        """Wait until *reverts* allows a rewrite, and rewrite the object."""
        self.now += reverts.wait
        assert self.seen(*FIELDS).wait == 0
        self.rewrite()

    def lose(self, times: int, after: float = 1.0) -> list[float]:
        """Revert the object and rewrite it *times* times. Return the seconds from each rewrite to the next."""
        pauses = []
        for _ in range(times):
            start = self.now
            self.mend(self.set_back(after))
            pauses.append(self.now - start)
        return pauses


def fight() -> Fight:
    """Return a `Fight` about an object that was rewritten just now."""
    begun = Fight()
    assert begun.seen(*FIELDS) == Reverts()
    begun.rewrite()
    return begun


def test_the_wait_before_a_rewrite_of_an_object_grows_with_each_revert_up_to_a_minute() -> None:
    assert fight().lose(12, after=0.5) == [0.5, 0.5, 0.5, 1, 2, 4, 8, 16, 32, LONGEST, LONGEST, LONGEST]


def test_the_reverts_of_an_object_are_reported_as_soon_as_the_next_rewrite_has_to_wait() -> None:
    begun = fight()
    for _ in range(AT_ONCE):
        reverts = begun.set_back(0.25)
        assert reverts == Reverts()
        begun.mend(reverts)
    assert begun.set_back(0.25) == Reverts(FIELDS, wait=0.75, settles=1)
    begun.rewrites.remember_writer("argocd-controller")
    assert begun.seen(*FIELDS).who == "argocd-controller"


def test_the_reverts_of_an_object_are_forgotten_when_nobody_has_reverted_the_object_for_long_enough() -> None:
    begun = fight()
    begun.lose(AT_ONCE + 2)
    begun.now += 0.5
    assert begun.seen() == Reverts(FIELDS, settles=1.5)
    begun.now += 1.5
    assert begun.seen() == Reverts()


@pytest.mark.parametrize("slowness", [0.9, 1.5, 12, 50])
def test_the_reverts_by_a_slow_writer_are_reported_even_between_two_reverts(slowness: float) -> None:
    begun = fight()
    begun.lose(AT_ONCE + 1, after=slowness)
    for _ in range(4):
        begun.now += slowness - 0.25
        assert begun.seen().fields == FIELDS
        begun.mend(begun.set_back(0.25))
    begun.now += LONGEST
    assert begun.seen() == Reverts()


def test_long_pauses_between_the_reverts_of_an_earlier_fight_do_not_prolong_a_later_fight() -> None:
    begun = fight()
    begun.lose(AT_ONCE + 1, after=20)
    begun.lose(1, after=LONGEST)
    begun.lose(AT_ONCE + 1, after=0.5)
    assert begun.set_back(0.5).settles == 4


def test_a_revert_that_the_operator_sees_twice_is_counted_once() -> None:
    begun = fight()
    begun.lose(AT_ONCE - 1)
    assert [begun.set_back(0).wait for _ in range(10)] == [0] * 10


def test_two_reverts_without_our_rewrite_between_them_count_as_two_if_the_object_was_right_in_between() -> None:
    begun = fight()
    for _ in range(AT_ONCE + 2):
        reverts = begun.set_back(0.1)
        begun.seen()
    assert reverts.settles == 2


def test_a_failed_rewrite_of_a_reverted_object_is_tried_again_at_once() -> None:
    begun = fight()
    begun.lose(AT_ONCE + 1)
    reverts = begun.set_back()
    begun.now += reverts.wait
    assert [begun.seen(*FIELDS).wait for _ in range(3)] == [0] * 3


@pytest.mark.parametrize("every", [LONGEST, 600])
def test_the_reverts_of_a_writer_that_reverts_rarely_are_reported_and_the_object_is_rewritten_at_once(
    every: float,
) -> None:
    begun = fight()
    assert begun.lose(2 * AT_ONCE, after=every) == [every] * 2 * AT_ONCE
    assert begun.set_back(every) == Reverts(FIELDS)


def test_another_writer_that_has_reverted_nothing_for_an_hour_is_forgotten() -> None:
    begun = fight()
    begun.lose(2 * AT_ONCE)
    begun.rewrites.remember_writer("kustomize-controller")
    assert begun.set_back(MEMORY) == Reverts()
    begun.lose(AT_ONCE)
    assert begun.set_back().who == ""


def test_an_old_version_that_the_cache_can_show_soon_after_a_rewrite_counts_as_no_revert() -> None:
    begun = fight()
    assert begun.look(*FIELDS) == Reverts(wait=LAG)
    assert begun.look() == Reverts()
    begun.lose(AT_ONCE)
    begun.now += LAG
    assert begun.look(*FIELDS).fields == FIELDS


def test_changes_of_an_object_that_the_operator_has_never_rewritten_count_as_no_reverts() -> None:
    begun = Fight()
    assert [begun.set_back() for _ in range(10)] == [Reverts()] * 10


def test_a_reverted_object_is_rewritten_at_once_if_the_operator_wants_another_value() -> None:
    begun = fight()
    begun.lose(2 * AT_ONCE)
    assert begun.look(*FIELDS, goal="ts-db-y") == Reverts()
    begun.rewrite("ts-db-y")
    assert begun.look(goal="ts-db-y") == Reverts()


def test_an_object_that_somebody_deletes_again_and_again_is_created_more_and_more_rarely() -> None:
    begun = Fight()
    begun.rewrites.rewritten("", GOAL)
    waits = []
    for _ in range(AT_ONCE + 3):
        begun.now += 0.5
        waits.append(begun.rewrites.look("", FIELDS, GOAL).wait)
        begun.now += waits[-1]
        begun.rewrites.rewritten("", GOAL)
    assert waits == [0, 0, 0, 0.5, 1.5, 3.5]
