"""The plan for the places of a Service at ProxyGroups while the Service moves, and when it is deleted."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import Object, key_of
from tsoperator.group.places import Place, Places
from tsoperator.proxy.login import NO_KEYS, Keys
from tsoperator.proxy.proxy import NO_CHILDREN, Children
from tsoperator.reconcilers.service import plan as plans
from tsoperator.reconcilers.service.ask import parse
from tsoperator.reconcilers.service.plan import Observed
from tsoperator.runtime.plan import Patch, Plan, Refusal

from tests.operator.group.places import (
    CLUSTER_DOMAIN,
    NEW_DOWN,
    NEW_PLACE,
    NEW_UP,
    OLD_DOWN,
    OLD_PLACE,
    OLD_UP,
    OWNER,
    moving,
)
from tests.operator.reconcilers.service.specs import CLASS, CLUSTER_IP, EGRESS, EXPOSE, GROUP_KEY, user_service
from tests.support.objects import (
    children_of,
    condition_of,
    deleting,
    deletions_of,
    egress_service,
    headless,
    held,
    settings,
    slim_secret,
    status_of,
)

SETTINGS = settings(cluster_domain=CLUSTER_DOMAIN)
OWN = Place("ts-db-own", serves=True)


def pointed_at(name: str, annotations: Object | None = None) -> Object:
    """Return the Service, pointed at the place called *name*."""
    return held(user_service(annotations, spec={"externalName": f"{name}.tailscale.svc.{CLUSTER_DOMAIN}"}))


def led_by(plan: Plan) -> str:
    """Return the name of the place at which *plan* points the Service, or an empty string without such a step."""
    bodies = [step.body for step in plan.steps if isinstance(step, Patch) and "spec" in step.body]
    return bodies[0]["spec"]["externalName"].partition(".")[0] if bodies else ""


def names(objects: Iterable[Object]) -> list[str]:
    return [key_of(each).name for each in objects]


def gone(plan: Plan) -> list[str]:
    return names(each.obj for each in deletions_of(plan))


def planned(service: Object, places: Places, children: Children = NO_CHILDREN, keys: Keys | Refusal = NO_KEYS) -> Plan:
    ask, observed = parse(service, SETTINGS), Observed(children, places=places)
    return plans.plan(ask, plans.wanted(ask, observed, SETTINGS), observed, SETTINGS, keys)


GOES = ["ts-db-old-ipv4", "ts-db-old"]


@pytest.mark.parametrize(
    ("here", "slices", "age", "leads", "left", "requeue_after"),
    [
        ("ts-db-old", [NEW_DOWN, OLD_UP], 0.0, "", [], None),
        ("ts-db-old", [NEW_DOWN, OLD_DOWN], 0.0, "", [], None),
        ("ts-db-old", [NEW_UP, OLD_UP], 0.0, "ts-db-new", [], None),
        ("ts-db-new", [NEW_UP, OLD_UP], 0.0, "", [], 10.0),
        ("ts-db-new", [NEW_UP, OLD_UP], 9.0, "", [], 1.0),
        ("ts-db-new", [NEW_UP, OLD_UP], 10.0, "", GOES, None),
        ("ts-db-new", [NEW_DOWN, OLD_UP], 0.0, "ts-db-old", [], None),
    ],
    ids=["not there yet", "both down", "there", "just through", "a while through", "through", "down again"],
)
def test_a_service_moves_to_the_new_place_and_its_old_place_is_deleted_a_while_later(
    here: str, slices: list[Object], age: float, leads: str, left: list[str], requeue_after: float | None
) -> None:
    places = moving([NEW_PLACE, OLD_PLACE], slices, {"ts-db-old": age} if age else {})
    plan = planned(pointed_at(here), places)
    assert (led_by(plan), gone(plan), plan.requeue_after) == (leads, left, requeue_after)
    kept = {"ts-db-new", "ts-db-new-ipv4"} | ({"ts-db-old-ipv4"} if not left else set())
    assert {*names(children_of(plan))} == kept
    assert plan.hold == FINALIZER


OWNED = Children(
    services=[headless(OWNER, "db-uid", "ts-db-own")],
    secrets=[slim_secret("ts-db-own-0", {"device_id": "n1"}, OWNER.labels)],
)


@pytest.mark.parametrize("service", [user_service(), egress_service(EGRESS)], ids=["at a group", "on its own"])
def test_an_old_place_without_a_grace_period_stays_until_the_service_points_elsewhere(service: Object) -> None:
    places = moving([OLD_PLACE], [OLD_UP], {}, own=replace(OWN, serves=False), move_grace=0.0)
    assert gone(planned(service, places, OWNED)) == []


def test_a_services_own_proxy_is_deleted_when_the_group_has_served_for_a_while() -> None:
    for age, left in ((9.9, []), (10.0, ["ts-db-own", "ts-db-own-0"])):
        places = moving([NEW_PLACE], [NEW_UP], {"ts-db-own": age}, own=OWN)
        plan = planned(pointed_at("ts-db-new"), places, OWNED)
        assert (gone(plan), plan.release, bool(plan.way_out)) == (left, "", bool(left))


@pytest.mark.parametrize(
    ("own", "here", "age", "leads", "left", "requeue_after"),
    [
        (False, "ts-db-old", 0.0, "", [], None),
        (True, "ts-db-old", 0.0, "ts-db-own", [], None),
        (True, "ts-db-own", 4.0, "", [], 6.0),
        (True, "ts-db-own", 10.0, "", GOES, None),
    ],
    ids=["not there yet", "there", "just through", "through"],
)
def test_a_service_of_a_group_moves_to_a_proxy_of_its_own(
    own: bool, here: str, age: float, leads: str, left: list[str], requeue_after: float | None
) -> None:
    places = moving([OLD_PLACE], [OLD_UP], {"ts-db-old": age} if age else {}, own=replace(OWN, serves=own))
    plan = planned(pointed_at(here, EGRESS), places, OWNED)
    assert (led_by(plan), gone(plan), plan.requeue_after) == (leads, left, requeue_after)
    assert ("ts-db-old-ipv4" in names(children_of(plan))) is (left == [])


UP, FAULTY = moving([NEW_PLACE], [NEW_UP], {}), {"tailscale.com/tags": "wrong"}
ELSEWHERE = {"tailscale.com/tailnet-fqdn": "other.tail1234.ts.net"}
AWAY: dict[str, tuple[Object, Places, str]] = {
    "sound": ({}, UP, "ts-db-new"),
    "invalid": (FAULTY, replace(UP, ports=None), "ts-db-new"),
    "no ports left": ({}, replace(UP, ports=None), "ts-db-new"),
    "group missing": ({}, replace(UP, groups={}), "ts-db-new"),
    "moving": ({}, replace(moving([NEW_PLACE, OLD_PLACE], [OLD_UP], {}), ports=None), "ts-db-old"),
    "moving from its own proxy": ({}, replace(moving([], [], {}, own=OWN), ports=None), "ts-db-own"),
    "place down": (FAULTY, moving([NEW_PLACE], [NEW_DOWN], {}, ports=None), ""),
    "target is another": (ELSEWHERE, replace(UP, ports=None), ""),
}


@pytest.mark.parametrize(("asked", "places", "leads"), AWAY.values(), ids=AWAY)
def test_the_plan_first_points_a_served_service_back_at_its_place_whatever_else_is_wrong(
    asked: Object, places: Places, leads: str
) -> None:
    plan = planned(held(user_service(EGRESS | {GROUP_KEY: "egress"} | asked)), places)
    assert (led_by(plan), plan.status is None, plan.whole) == (leads, bool(leads), not leads)
    assert len(plan.steps) == 1 or not leads


def test_the_places_of_a_service_that_becomes_exposed_are_deleted_at_once() -> None:
    exposed = held(egress_service(EXPOSE, spec=CLUSTER_IP))
    assert gone(planned(exposed, moving([OLD_PLACE], [OLD_UP], {}))) == GOES


@pytest.mark.parametrize(
    ("annotations", "spec", "reason"),
    [
        (EXPOSE | {GROUP_KEY: "ingress"}, CLUSTER_IP, "IngressSvcInvalid"),
        (EGRESS | {"tailscale.com/tags": "wrong"}, None, "ProxyInvalid"),
        (EGRESS | CLASS, None, "ProxyFailed"),
    ],
)
def test_the_places_of_a_service_that_cannot_be_served_stay_as_they_are(
    annotations: Object, spec: Object | None, reason: str
) -> None:
    live = held(egress_service(annotations, spec=spec)) if spec else pointed_at("ts-db-old", annotations)
    plan = planned(live, moving([OLD_PLACE], [OLD_UP], {}), OWNED)
    assert condition_of(plan)["reason"] == reason
    assert (names(children_of(plan)), gone(plan)) == (["ts-db-old-ipv4"], [])


KEYS: dict[str, Keys | Refusal] = {
    "awaited": Keys(awaited=frozenset({0}), pending=ValueError("waiting")),
    "refused": Refusal("no", error=ValueError("no")),
}


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_the_endpointslices_of_a_place_are_updated_even_while_the_services_own_proxy_gets_no_auth_key(
    keys: Keys | Refusal,
) -> None:
    plan = planned(pointed_at("ts-db-old", EGRESS), moving([OLD_PLACE], [], {}), Children(), keys)
    assert names(children_of(plan)) == ["ts-db-old-ipv4"]
    assert plan.error == (keys.pending if isinstance(keys, Keys) else keys.error)


STALE = [{"type": f"TailscaleEgressSvc{name}", "status": "True"} for name in ("Valid", "Configured", "Ready")]


def test_a_service_loses_the_conditions_about_a_group_when_it_has_no_place_at_a_group_any_more() -> None:
    service = {**pointed_at("ts-db-own", EGRESS), "status": {"conditions": STALE}}
    for services, count in (([OLD_PLACE], 4), ([], 1)):
        plan = planned(service, moving(services, [], {}), OWNED)
        assert len(status_of(plan)["conditions"]) == count


LEAVING = held(user_service({}))


@pytest.mark.parametrize("service", [LEAVING, deleting(pointed_at("ts-db-old"))])
def test_the_finalizer_stays_until_all_places_and_entries_of_the_service_are_gone(service: Object) -> None:
    for places, left in (
        (Places([OLD_PLACE], [OLD_UP]), GOES),
        (Places([], [OLD_UP]), ["ts-db-old-ipv4"]),
        (Places([OLD_PLACE]), ["ts-db-old"]),
        (Places(with_entry=["old"]), []),
    ):
        plan = planned(service, places)
        assert (gone(plan), plan.release, plan.requeue_after) == (left, "", 5.0)
    assert planned(service, Places()).release == FINALIZER


def test_a_service_loses_the_conditions_about_a_group_when_it_loses_its_finalizer() -> None:
    service = {**LEAVING, "status": {"conditions": STALE}}
    assert planned(service, Places([OLD_PLACE])).status is None
    assert planned(service, Places()).status == {"conditions": []}


@pytest.mark.parametrize("name", ["ts-db-old-ipv4", "ts-db-new-x7k2p"])
def test_an_endpointslice_that_has_no_place_or_that_somebody_else_made_is_deleted(name: str) -> None:
    other = {**NEW_UP, "metadata": {**NEW_UP["metadata"], "name": name}}
    assert gone(planned(pointed_at("ts-db-new"), moving([NEW_PLACE], [NEW_UP, other], {}))) == [name]
