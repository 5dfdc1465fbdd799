"""The place to which a Service leads while it moves to another one."""

from dataclasses import replace

import pytest
from tsoperator.group.places import Place, is_over, led_to
from tsoperator.reconcilers.service.view import Timers

from tests.support.manifests import egress
from tests.support.objects import stored
from tests.support.shown import Shown

UP, DOWN = Place("new", serves=True), Place("new", serves=False)
OWN_UP, OWN_DOWN = replace(UP, is_headless=True), replace(DOWN, is_headless=True)
OLD, DEAD, OLDER = Place("old", serves=True), Place("old", serves=False), Place("older", serves=True)


@pytest.mark.parametrize(
    ("here", "new", "old", "leads", "over"),
    [
        ("placeholder", DOWN, [], "new", False),
        ("placeholder", UP, [], "new", True),
        ("old", DOWN, [OLD], "old", False),
        ("old", UP, [OLD], "new", False),
        ("new", UP, [OLD], "new", True),
        ("new", DOWN, [DEAD], "new", False),
        ("new", DOWN, [OLD], "old", False),
        ("old", DOWN, [DEAD], "old", False),
        ("old", UP, [DEAD], "new", False),
        ("placeholder", DOWN, [OLD], "old", False),
        ("placeholder", DOWN, [DEAD], "new", False),
        ("placeholder", UP, [OLD], "new", True),
        ("older", DOWN, [OLD, OLDER], "older", False),
        ("old", DOWN, [DEAD, OLDER], "older", False),
        ("placeholder", OWN_DOWN, [], "", False),
        ("placeholder", OWN_DOWN, [DEAD], "", False),
        ("placeholder", OWN_DOWN, [OLD], "old", False),
        ("placeholder", OWN_UP, [], "new", True),
        ("new", OWN_DOWN, [], "new", False),
        ("new", OWN_DOWN, [DEAD], "new", False),
        ("old", OWN_DOWN, [DEAD], "old", False),
    ],
)
def test_clients_get_to_a_place_that_serves_and_to_the_new_place_if_it_does(
    here: str, new: Place, old: list[Place], leads: str, over: bool
) -> None:
    assert (led_to(here, new, old), is_over(here, new, old)) == (leads, over)


def test_the_age_of_a_fact_grows_while_it_is_true_and_then_starts_anew() -> None:
    db, web = (stored(egress(name)) for name in ("db", "web"))
    timers = Timers(Shown(db, web))
    assert timers.ages(db, {"a"}, 10.0) == {"a": 0.0}
    assert timers.ages(db, {"a", "b"}, 12.0) == {"a": 2.0, "b": 0.0}
    assert timers.ages(web, {"a"}, 13.0) == {"a": 0.0}
    assert timers.ages(db, {"b"}, 15.0) == {"b": 3.0}
    assert timers.ages(db, {"a", "b"}, 16.0) == {"a": 0.0, "b": 4.0}
    assert timers.ages(db, (), 17.0) == {}
    assert timers.ages(db, {"b"}, 18.0) == {"b": 0.0}
