from weakref import ref

import pytest
from tsoperator.api.objects import Key
from tsoperator.runtime.gathering import Gatherer, Gathering

from tests.support.virtual_time import Clock

KEY, OTHER = Key("", "a"), Key("", "b")
GROWING = Gathering(first=1, longest=5)


@pytest.mark.parametrize(
    ("times", "changes", "due"),
    [
        (GROWING, [0, 3, 6], [1, 4, 7]),
        (GROWING, [0, 0.5, 0.9], [1, 1, 1]),
        (GROWING, [0, 1], [1, 3]),
        (GROWING, [0, 2], [1, 4]),
        (GROWING, [0, 2.1], [1, 3.1]),
        (GROWING, [0, 1, 2, 3, 4], [1, 3, 3, 7, 7]),
        (GROWING, [0, 1, 3, 7, 12, 17], [1, 3, 7, 12, 17, 22]),
        (GROWING, [0, 1, 3, 8.1, 9.1], [1, 3, 7, 9.1, 11.1]),
        (Gathering(2), [0, 1, 2], [2, 3, 4]),
        (Gathering(0), [0, 0, 1], [0, 0, 1]),
    ],
    ids=str,
)
def test_the_time_for_which_the_changes_of_a_key_are_gathered_grows_during_a_burst(
    times: Gathering, changes: list[float], due: list[float]
) -> None:
    clock = Clock()
    gatherer = Gatherer(times, clock)
    for change, moment in zip(changes, due, strict=True):
        clock.now = change
        assert change + gatherer.delay(KEY) == pytest.approx(moment)


class Name(str):
    """A text to which a weak reference is possible, by which the test sees when the gatherer has forgotten the text."""

    __slots__ = ("__weakref__",)


def test_a_gatherer_delays_no_other_key_during_a_burst_of_one_key_and_forgets_that_key_after_the_burst() -> None:
    clock, name = Clock(0), Name("a")
    gatherer = Gatherer(GROWING, clock)
    delays = [gatherer.delay(Key("", name))]
    clock.now = 1
    delays += [gatherer.delay(Key("", name)), gatherer.delay(OTHER)]
    assert delays == [1, 2, 1]
    remembered = ref(name)
    del name
    clock.now = 10
    gatherer.delay(OTHER)
    assert remembered() is None
