"""The places of a Service: the place at which it points while it moves, and the steps that keep or remove places."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from tsoperator.api.names import DNS_FINALIZER
from tsoperator.api.objects import SERVICE, Object, key_of
from tsoperator.group.places import Place, Places, await_newcomers, best_of, has_moved, removal, unused, upkeep
from tsoperator.runtime.plan import Deletion, Plan

from tests.operator.group.places import (
    GROUP,
    GROUPS,
    NEW_DOWN,
    NEW_PLACE,
    NEW_UP,
    OLD_PLACE,
    OLD_UP,
    THIRD_PLACE,
    group,
    moving,
    pod,
    slice_of,
)
from tests.support.objects import children_of, deleting, deletions_of, down

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
def test_a_moving_service_points_at_an_old_place_that_serves_until_its_new_place_serves(
    here: str, new: Place, old: list[Place], leads: str, over: bool
) -> None:
    assert (best_of(here, new, old), has_moved(here, new, old)) == (leads, over)


OWN = Place("ts-db-own", serves=True)


def names(objects: Iterable[Object]) -> list[str]:
    return [key_of(each).name for each in objects]


def gone(plan: Plan) -> list[str]:
    return names(each.obj for each in deletions_of(plan))


def test_the_old_places_are_unused_when_the_service_has_moved_to_the_new_place() -> None:
    for here, slices, left in (
        ("ts-db-new", [NEW_UP], ["ts-db-old", "ts-db-third", "ts-db-own"]),
        ("placeholder", [NEW_UP], ["ts-db-old", "ts-db-third", "ts-db-own"]),
        ("ts-db-own", [NEW_UP], []),
        ("ts-db-new", [NEW_DOWN], []),
    ):
        places = moving([NEW_PLACE, OLD_PLACE, THIRD_PLACE], slices, {}, own=OWN)
        assert unused(here, "ts-db-new", places) == left


@pytest.mark.parametrize(
    ("new", "leads_to", "requeue_after"),
    [
        ({}, 0, 20.0),
        ({"egress-1-uid": 3.0}, 0, 3.0),
        ({"egress-1-uid": 30.0}, 0, 20.0),
        ({"egress-1-uid": 3.0}, 1, 20.0),
        ({"egress-0-uid": 4.0, "egress-1-uid": 3.0}, 0, 20.0),
    ],
    ids=["no new Pod", "one waits", "one waits for long", "one is led to", "all are new"],
)
def test_a_service_is_reconciled_again_at_the_time_from_which_a_new_pod_can_get_connections(
    new: dict[str, float], leads_to: int, requeue_after: float
) -> None:
    slices = [slice_of(NEW_PLACE, pod(leads_to, "10.0.0.1"))]
    places = replace(moving([NEW_PLACE], slices, {}), groups={GROUP: group(new=new)})
    assert await_newcomers(Plan(requeue_after=20.0), places).requeue_after == requeue_after


def test_a_new_pod_gets_connections_at_once_if_all_older_pods_are_down() -> None:
    pods = [down(pod(0, "10.0.0.1")), pod(1, "10.0.0.2")]
    places = replace(moving([NEW_PLACE], [NEW_UP], {}), groups={GROUP: group(pods=pods, new={"egress-1-uid": 3.0})})
    (made,) = children_of(Plan(steps=upkeep(places)))
    assert [each["hostname"] for each in made["endpoints"]] == ["egress-1-uid"]


def test_the_deletion_of_a_place_also_removes_the_go_operators_finalizer() -> None:
    assert removal(Places([OLD_PLACE])) == [Deletion(SERVICE, OLD_PLACE, release=DNS_FINALIZER)]


def test_an_object_of_a_place_that_is_being_deleted_only_loses_its_finalizer() -> None:
    going = Places([deleting(OLD_PLACE)], [deleting(OLD_UP)], GROUPS)
    for kept in (["ts-db-old"], []):
        found = [each.obj for each in removal(going, kept) if isinstance(each, Deletion)]
        assert names(found) == ["ts-db-old"]  # it is deleted again, so that its finalizer comes off
    assert upkeep(going) == ()


def test_the_upkeep_of_slices_deletes_the_extra_slice_of_a_new_port_once_all_pods_serve_the_port() -> None:
    other = {**NEW_UP, "metadata": {**NEW_UP["metadata"], "name": "ts-db-new-ipv4-1b2c3d4e"}}
    steps = upkeep(moving([NEW_PLACE], [NEW_UP, other], {}))
    assert gone(Plan(steps=steps)) == ["ts-db-new-ipv4-1b2c3d4e"]
    assert names(children_of(Plan(steps=steps))) == ["ts-db-new-ipv4"]
