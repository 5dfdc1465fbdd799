"""Where a Service leads while it moves."""

from typing import NamedTuple

import pytest
from tsoperator.api.objects import Key
from tsoperator.reconcilers.service.moves import Place, Timers, is_over, led_to

UP, DOWN = Place("new", serves=True), Place("new", serves=False)
OLD, DEAD = Place("old", serves=True), Place("old", serves=False)
OLDER = Place("older", serves=True)


class Case(NamedTuple):
    here: str
    new: Place
    old: list[Place]
    leads: str
    over: bool = False


CASES = {
    "fresh": Case("placeholder", DOWN, [], "new"),
    "fresh and up": Case("placeholder", UP, [], "new", over=True),
    "on its way": Case("old", DOWN, [OLD], "old"),
    "there": Case("old", UP, [OLD], "new"),
    "through": Case("new", UP, [OLD], "new", over=True),
    "through, both down": Case("new", DOWN, [DEAD], "new"),
    "back down": Case("new", DOWN, [OLD], "old"),
    "from a dead place": Case("old", DOWN, [DEAD], "old"),
    "from a dead place to a live one": Case("old", UP, [DEAD], "new"),
    "reverted on its way": Case("placeholder", DOWN, [OLD], "old"),
    "reverted, all down": Case("placeholder", DOWN, [DEAD], "new"),
    "reverted when there": Case("placeholder", UP, [OLD], "new", over=True),
    "two old ones": Case("older", DOWN, [OLD, OLDER], "older"),
    "two old ones, here dead": Case("old", DOWN, [DEAD, OLDER], "older"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_clients_are_led_to_a_place_that_serves_the_new_one_first(case: Case) -> None:
    assert led_to(case.here, case.new, case.old) == case.leads
    assert is_over(case.here, case.new, case.old) is case.over


def test_a_fact_ages_until_it_is_no_longer_so() -> None:
    timers, db, web = Timers(), Key("default", "db"), Key("default", "web")
    assert timers.ages(db, {"a"}, 10.0) == {"a": 0.0}
    assert timers.ages(db, {"a", "b"}, 12.0) == {"a": 2.0, "b": 0.0}
    assert timers.ages(web, {"a"}, 13.0) == {"a": 0.0}
    assert timers.ages(db, {"b"}, 15.0) == {"b": 3.0}
    assert timers.ages(db, {"a", "b"}, 16.0) == {"a": 0.0, "b": 4.0}
    assert timers.ages(db, (), 17.0) == {}
    assert timers.ages(db, {"b"}, 18.0) == {"b": 0.0}
