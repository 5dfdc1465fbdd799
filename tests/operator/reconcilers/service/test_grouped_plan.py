"""The plan for an egress Service at its ProxyGroup: its place, its conditions and its Events."""

import hashlib
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from tsoperator.api.names import ANNOTATION_EGRESS_LEFT_OUT, FINALIZER
from tsoperator.api.objects import SERVICE, Key, Object, key_of
from tsoperator.group.clusterip import new_name
from tsoperator.group.places import Place, Places
from tsoperator.group.ports import Wanted
from tsoperator.group.proxygroup import Group
from tsoperator.group.slices import Serving, endpoint_slices
from tsoperator.proxy.entries import Entry, Port
from tsoperator.reconcilers.service import grouped
from tsoperator.reconcilers.service.ask import Ask, parse
from tsoperator.reconcilers.service.grouped import FRESH, config_digest, configured, not_configured, readiness
from tsoperator.runtime.plan import Note, Patch, Plan, Refusal
from tsoperator.runtime.reverts import NO_REVERTS, Reverts

from tests.operator.group.places import (
    BOTH,
    CLUSTER_DOMAIN,
    ENTRY,
    GROUP,
    PLACE,
    PORT,
    PORTS,
    configmap,
    group,
    live_group,
    place,
    pod,
    report,
    serving,
)
from tests.operator.reconcilers.service.specs import GROUP_KEY, IP_KEY, user_service
from tests.support.objects import (
    FQDN,
    children_of,
    deleting,
    deletions_of,
    held,
    patches_of,
    reasons_of,
    settings,
    status_of,
    stored,
)

SETTINGS = settings(cluster_domain=CLUSTER_DOMAIN)
DOMAIN = f"tailscale.svc.{CLUSTER_DOMAIN}"
AT_PLACE = held(user_service(spec={"externalName": f"{PLACE}.{DOMAIN}"}))
NEW = new_name(user_service(), GROUP)


def at(*services: Object, **changes: Any) -> Places:
    """Return the Places of a Service whose places at a group are *services*. *changes* are other fields."""
    found = {"groups": {GROUP: group()}, "ports": PORTS, "cluster_domain": CLUSTER_DOMAIN, "move_grace": 35.0}
    return Places(**{"services": services, **found, **changes})


def ask(service: Object) -> Ask:
    return parse(service, SETTINGS)


def planned(service: Object, places: Places, reverts: Reverts = NO_REVERTS) -> Plan:
    return grouped.plan(ask(service), places, reverts=reverts)


def told(plan: Plan) -> dict[str, tuple[str, str]]:
    """Return the status and the first part of the reason of each condition, by the condition's type."""
    return {
        each["type"].removeprefix("TailscaleEgressSvc"): (each["status"], each["reason"].partition(":")[0])
        for each in status_of(plan)["conditions"]
    }


def names(objects: list[Object]) -> list[str]:
    return [key_of(each).name for each in objects]


def seeing(**changes: Any) -> Places:
    """Return the Places of a Service with one place at a group, and with *changes* of the facts about the group."""
    return at(place(), groups={GROUP: group(**changes)})


class Case(NamedTuple):
    valid: tuple[str, str]
    configured: tuple[str, str] | None
    ready: tuple[str, str]
    events: list[str]
    places: Places
    service: Object = AT_PLACE


SOUND, INVALID, NOT_READY = ("True", "EgressSvcValid"), ("False", "EgressSvcInvalid"), ("Unknown", "ProxyGroupNotReady")
DONE, FAILED = ("True", "ConfiguredFor"), ("False", "ConfigurationFailed")
ALL, NO_RESOURCES = ("True", "ReadyToRouteTraffic"), ("False", "ClusterResourcesNotReady")
NOBODY = ("False", "NotReadyToRouteTraffic")
AWAITED, GROUP_NOT_READY = [NOBODY[1]], [NOT_READY[1]]
OTHER_ENTRY = {"default-db": replace(ENTRY, health_check="http://elsewhere.example.org")}
FULL = configmap({}, **{ANNOTATION_EGRESS_LEFT_OUT: "1"})
UNAVAILABLE = live_group(available=False)
WITH_CLUSTER_IP = held(user_service(spec={"type": "ClusterIP"}))
CASES = {
    "served": Case(SOUND, DONE, ALL, [ALL[1]], at(place())),
    "waiting for the entry": Case(SOUND, FAILED, NOBODY, AWAITED, seeing(configmap=configmap({}), reports={})),
    "without a ConfigMap": Case(SOUND, FAILED, ALL, [], seeing(configmap=None)),
    "another entry": Case(SOUND, FAILED, ALL, [], seeing(configmap=configmap(OTHER_ENTRY))),
    "left out": Case(SOUND, FAILED, NOBODY, ["ProxyGroupFull"], seeing(configmap=FULL, reports={})),
    "group missing": Case(NOT_READY, None, NO_RESOURCES, GROUP_NOT_READY, seeing(obj=None)),
    "group leaving": Case(NOT_READY, None, ALL, GROUP_NOT_READY, seeing(obj=deleting(live_group()))),
    "group not available": Case(NOT_READY, None, NO_RESOURCES, GROUP_NOT_READY, seeing(obj=UNAVAILABLE)),
    "invalid": Case(INVALID, None, ALL, ["INVALIDSERVICE"], at(place(), ports=None), WITH_CLUSTER_IP),
    "no ports left": Case(SOUND, FAILED, ALL, ["ProxyGroupFull"], at(place(), ports=None)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_conditions_say_whether_the_service_is_valid_configured_and_ready(case: Case) -> None:
    plan = planned(case.service, case.places)
    wanted = {"Valid": case.valid, "Configured": case.configured, "Ready": case.ready}
    assert told(plan) == {name: value for name, value in wanted.items() if value}
    assert reasons_of(plan) == case.events
    assert all(note.once for note in plan.notes if note.reason == "ProxyGroupNotReady")  # this can last for long


def test_a_service_that_becomes_ready_says_once_where_pods_reach_its_device() -> None:
    words = "Pods reach db.tail1234.ts.net at 192.0.2.50 and as db.default.svc.k8s.example.org"
    plan = planned(AT_PLACE, at(place()))
    (shown,) = [each for each in status_of(plan)["conditions"] if each["type"] == "TailscaleEgressSvcReady"]
    assert shown["message"] == f"2 out of 2 replicas are ready to route traffic; {words}"
    assert [*plan.notes] == [Note("Normal", "ReadyToRouteTraffic", words, once=True)]
    moved, old = shown["message"].replace("192.0.2.50", "192.0.2.7"), "2 out of 2 replicas are ready to route traffic"
    for status, said, told in (
        ("True", shown["message"], []),
        ("True", moved, [words]),
        ("True", old, []),
        ("Unknown", old, [words]),
        ("Unknown", f"a Pod is not there; {words}", []),
        ("False", old, [words]),
    ):
        before = {**AT_PLACE, "status": {"conditions": [{**shown, "status": status, "message": said}]}}
        assert [note.message for note in planned(before, at(place())).notes] == told
        of_missing_pod = status_of(planned(before, seeing(pods=[])))["conditions"]
        assert any(words in each["message"] for each in of_missing_pod) is ("Pods reach" in said)


def test_a_place_has_an_annotation_with_the_name_of_the_device_unless_the_user_wants_none() -> None:
    target = {"tailscale.com/operator-last-set-ts-tailnet-target-fqdn": FQDN}
    for opt_out, noted in (("false", {}), ("true", {"tailscale.com/magic-dnsname": FQDN})):
        service = held(user_service(AT_PLACE["metadata"]["annotations"] | {"tailscale.com/cluster-dns": opt_out}))
        made = children_of(planned(service, at(place())))[-1]
        assert made["metadata"]["annotations"] == target | noted


def test_an_event_says_how_many_proxies_are_ready_unless_the_condition_has_this_number_already() -> None:
    case = CASES["waiting for the entry"]
    plan = planned(case.service, case.places)
    (note,) = plan.notes
    assert (note.type, note.message) == ("Normal", "0 out of 2 replicas are ready to route traffic")
    assert planned({**case.service, "status": plan.status}, case.places).notes == []
    other = {**case.service, "status": {"conditions": [{**OWN_READY, "type": "TailscaleEgressSvcReady"}]}}
    assert planned(other, case.places).notes == [note]
    assert planned(case.service, seeing(pods=[], reports={})).notes == []  # without Pods the number is not known


LOST = replace(ENTRY, is_lost=True)
OLD_FQDN = "old.tail1234.ts.net"


@pytest.mark.parametrize(
    ("first", "second", "is_told"),
    [
        (LOST, LOST, True),
        (LOST, None, True),
        (LOST, replace(ENTRY, fqdn=OLD_FQDN), True),
        (LOST, ENTRY, False),
        (None, None, False),
        (replace(LOST, fqdn=OLD_FQDN), None, False),
    ],
)
def test_an_event_and_the_condition_say_that_no_proxy_finds_the_device(
    first: Entry | None, second: Entry | None, is_told: bool
) -> None:
    reports = {"egress-0": report("10.0.0.1", entry=first), "egress-1": report("10.0.0.2", entry=second)}
    plan = planned(AT_PLACE, seeing(reports=reports))
    assert [note.once for note in plan.notes if note.reason == "TargetNotFound"] == [True] * is_told
    words = f"; the proxies of ProxyGroup '{GROUP}' find no device db.tail1234.ts.net in the tailnet: check the name"
    assert (words in status_of(plan)["conditions"][-1]["message"]) is is_told


def test_the_event_about_a_missing_group_tells_the_user_to_create_the_group() -> None:
    for found, words in ((None, "does not exist: create it, or"), (deleting(live_group()), "is being deleted: create")):
        (note,) = planned(AT_PLACE, seeing(obj=found)).notes
        assert f"ProxyGroup 'egress' {words}" in note.message


def test_a_lost_endpointslice_with_endpoints_is_created_again_but_a_lost_empty_endpointslice_is_not() -> None:
    both = place(ips=BOTH)  # no Pod has an IPv6 address
    made = [stored(each) for each in endpoint_slices(both, [], {4: {}, 6: {}})]
    for live, kept in ((made, [f"{PLACE}-ipv6"]), (made[1:], [f"{PLACE}-ipv6"]), (made[:1], []), ([], [])):
        plan = planned(AT_PLACE, at(both, slices=live))
        assert names(children_of(plan)) == [f"{PLACE}-ipv4", *kept, PLACE]


MORE_PORTS = held(user_service(spec={"ports": [{"port": 5432}, {"port": 53, "protocol": "UDP", "name": "dns"}]}))
TWO_PORTS = PORTS | {Wanted("UDP", 53): 10001}


def test_a_new_port_leads_nowhere_until_proxies_report_it_while_other_ports_keep_their_endpoints() -> None:
    plan = planned(MORE_PORTS, at(place(), ports=TWO_PORTS))
    others, service = children_of(plan)
    assert (len(others["endpoints"]), key_of(others).name) == (2, f"{PLACE}-ipv4")
    assert len(service["spec"]["ports"]) == 3
    added = {**others, "metadata": {**others["metadata"], "name": f"{PLACE}-ipv4-0123abcd"}, "endpoints": []}
    (gone,) = deletions_of(planned(AT_PLACE, at(place(), slices=[stored(added), stored(others)])))
    assert key_of(gone.obj) == key_of(added)


@pytest.mark.parametrize("name", ["group missing", "group leaving", "invalid", "no ports left"])
def test_a_service_that_cannot_be_served_keeps_its_place_and_its_finalizer(name: str) -> None:
    case = CASES[name]
    plan = planned(case.service, case.places)
    assert names(children_of(plan)) == [f"{PLACE}-ipv4"]  # this EndpointSlice is still kept up to date with the Pods
    assert (plan.hold, plan.release, patches_of(plan), deletions_of(plan)) == ("", "", [], [])


def test_a_service_whose_group_is_missing_loses_its_finalizer_if_it_has_neither_a_place_nor_a_proxy() -> None:
    missing = at(groups={GROUP: group(obj=None)})
    assert planned(held(user_service()), missing).release == FINALIZER
    own = replace(missing, own=Place("ts-db-own", serves=True))
    assert planned(held(user_service()), own).release == ""


def test_a_place_without_annotations_has_the_endpoints_of_the_entry_in_the_configmap() -> None:
    plan = planned(CASES["invalid"].service, at(place(annotations={}), ports=None))
    assert [len(each["endpoints"]) for each in children_of(plan)] == [2]


def test_a_service_loses_the_condition_about_its_configuration_when_its_group_is_missing() -> None:
    service = {**AT_PLACE, "status": {"conditions": [configured(GROUP, "abc")]}}
    assert "Configured" not in told(planned(service, CASES["group missing"].places))


def test_a_service_without_free_ports_is_reconciled_again_after_half_a_minute() -> None:
    assert planned(AT_PLACE, at(place(), ports=None)).requeue_after == 30


def test_one_write_adds_the_finalizer_and_points_a_new_service_at_its_place_before_the_place_is_made() -> None:
    plan = planned(user_service(), at())
    (patch,) = patches_of(plan)
    assert patch.body == {
        "metadata": {"finalizers": [FINALIZER], "resourceVersion": "1"},
        "spec": {"type": "ExternalName", "externalName": f"{NEW}.{DOMAIN}", "selector": None},
    }
    assert (plan.steps[0], len(plan.steps), names(children_of(plan))) == (patch, 2, [NEW])
    assert (plan.status, plan.hold) == (None, "")


def test_a_place_of_the_go_operator_keeps_its_name_and_gets_an_annotation_with_its_target() -> None:
    live = place("ts-db-go", annotations={})
    plan = planned(AT_PLACE, at(live))
    assert names(children_of(plan)) == ["ts-db-go-ipv4", "ts-db-go"]
    notes = children_of(plan)[1]["metadata"]["annotations"]
    assert notes["tailscale.com/operator-last-set-ts-tailnet-target-fqdn"] == "db.tail1234.ts.net"
    assert len(children_of(plan)[0]["endpoints"]) == 2


def test_the_operator_removes_a_selector_that_somebody_gave_to_a_place() -> None:
    live = place()
    selecting = {**live, "spec": {**live["spec"], "selector": {"app": "web"}}}
    without = Patch(SERVICE, key_of(live), {"spec": {"selector": None}})
    assert [patches_of(planned(AT_PLACE, at(each))) for each in (selecting, live)] == [[without], []]


def test_a_place_that_is_being_deleted_is_replaced_by_a_new_place() -> None:
    plan = planned(AT_PLACE, at(deleting(place())))
    assert (names(children_of(plan)), names([each.obj for each in deletions_of(plan)])) == ([NEW], [PLACE])


WAITING = seeing(configmap=configmap({}), serving=0)


@pytest.mark.parametrize(
    ("places", "age", "shown"),
    [
        (WAITING, 0.0, False),
        (WAITING, 0.9, False),
        (WAITING, 1.0, True),
        (at(place()), 0.0, True),
        (CASES["left out"].places, 0.0, True),
    ],
)
def test_a_new_service_gets_no_status_for_a_second_unless_it_is_served_or_the_group_is_full(
    places: Places, age: float, shown: bool
) -> None:
    plan = planned(AT_PLACE, replace(places, ages={FRESH: age}))
    assert (plan.status is not None) is shown
    assert plan.requeue_after == (None if shown else pytest.approx(1 - age))


def test_a_service_counts_as_new_until_its_status_shows_whether_it_is_ready() -> None:
    shown = {**AT_PLACE, "status": planned(AT_PLACE, at(place())).status}
    assert (grouped.is_fresh(ask(AT_PLACE)), grouped.is_fresh(ask(shown))) == (True, False)


def test_a_warning_says_that_an_older_service_keeps_a_proxy_port() -> None:
    plan = planned(AT_PLACE, at(place(), contested={Wanted("TCP", 5432): Key("default", "web")}))
    _ready, note = plan.notes
    assert (note.type, note.reason) == ("Warning", "ProxyPortChanged")
    assert "for port 5432/TCP of this Service and for Service default/web, which is older" in note.message
    assert status_of(plan) == status_of(planned(AT_PLACE, at(place())))


def test_an_event_reports_reverts_of_a_service_and_the_operator_waits_before_its_next_write() -> None:
    away = held(user_service())
    plan = planned(away, at(place()), Reverts(["spec.externalName"], "argocd", wait=3.0))
    assert (patches_of(plan), reasons_of(plan), plan.requeue_after) == ([], ["ExternalNameOverwritten", ALL[1]], 3.0)
    assert len(patches_of(planned(away, at(place())))) == 1


@pytest.mark.parametrize("available", [True, False])
def test_the_condition_says_that_another_writer_keeps_reverting_the_external_name(available: bool) -> None:
    for reverts in (Reverts(["spec.externalName"], "argocd"), NO_REVERTS):
        there = at(place(), groups={GROUP: group(obj=live_group(available=available))})
        message = status_of(planned(AT_PLACE, there, reverts))["conditions"][0]["message"]
        assert ("; argocd keeps setting spec.externalName back" in message) is (reverts != NO_REVERTS)


OWN_READY = {"type": "TailscaleProxyReady", "status": "True", "reason": "ProxyCreated", "message": ""}


def test_the_condition_about_a_services_own_proxy_is_removed_when_the_proxy_is_gone() -> None:
    service = {**AT_PLACE, "status": {"conditions": [OWN_READY]}}
    for own in (None, Place("ts-db-own", serves=True)):
        assert ("TailscaleProxyReady" in told(planned(service, at(place(), own=own)))) is bool(own)


def test_the_condition_configured_shows_a_failed_write_unless_the_condition_is_true_already() -> None:
    refusal = Refusal("no room", error=ValueError())
    plan = grouped.failed(ask(AT_PLACE), refusal)
    assert (told(plan), reasons_of(plan), plan.error) == ({"Configured": FAILED}, ["ProxyFailed"], refusal.error)
    done = {**AT_PLACE, "status": {"conditions": [configured(GROUP, "abc")]}}
    assert grouped.failed(ask(done), refusal).status is None


SERVED = group()
FIRST, SECOND, THIRD = pod(0, "10.0.0.1"), pod(1, "10.0.0.2"), pod(2, "10.0.0.3")
NOT_SERVED = "ProxyGroup 'egress' doesn't serve it yet: if that stays, look at TailscaleEgressSvcValid, and at"


class Readiness(NamedTuple):
    status: str
    reason: str
    serving: dict[int, Serving]
    message: str
    group: Group = SERVED


READY = " replicas are ready to route traffic"
PARTLY = f"{READY}; some of the Service's ports and addresses lead to proxies already"
OTHER_PORT = Port("UDP", 10001, 53)
NO_POD = "NotReadyToRouteTraffic"
NO_PLACE = "ClusterResourcesNotReady"
SOME, EVERY = "PartiallyReadyToRouteTraffic", "ReadyToRouteTraffic"
NO_PROXIES = "ProxyGroup 'egress' has no proxies"
READINESS = {
    "no place": Readiness("False", NO_PLACE, {}, NOT_SERVED),
    "no group": Readiness("False", NO_PLACE, {4: serving(FIRST)}, NOT_SERVED, group(obj=None)),
    "not available": Readiness(
        "False", NO_PLACE, {4: serving(FIRST)}, NOT_SERVED, group(obj=live_group(available=False))
    ),
    "no replicas": Readiness(
        "False", "NoProxiesConfigured", {4: serving()}, NO_PROXIES, group(obj=live_group(replicas=0))
    ),
    "a Pod missing": Readiness(
        "Unknown", NO_PLACE, {4: serving(FIRST)}, "a Pod of ProxyGroup 'egress'", group(pods=[FIRST])
    ),
    "none": Readiness("False", NO_POD, {4: serving()}, f"0 out of 2{READY}"),
    "one": Readiness("True", SOME, {4: serving(FIRST)}, "1 out of 2"),
    "both": Readiness("True", EVERY, {4: serving(FIRST, SECOND)}, "2 out of 2"),
    "one in both families": Readiness("True", SOME, {4: serving(FIRST, SECOND), 6: serving(SECOND)}, "1 out of 2"),
    "each in one family": Readiness("False", NO_POD, {4: serving(FIRST), 6: serving(SECOND)}, "0 out of 2"),
    "another port in one": Readiness("True", SOME, {4: {PORT: [FIRST, SECOND], OTHER_PORT: [SECOND]}}, "1 out of 2"),
    "another port in none": Readiness(
        "False", NO_POD, {4: {PORT: [FIRST, SECOND], OTHER_PORT: []}}, f"0 out of 2{PARTLY}"
    ),
    "scaled down": Readiness(
        "True", EVERY, {4: serving(FIRST, SECOND, THIRD)}, "2 out of 2", group(pods=[FIRST, SECOND, THIRD])
    ),
}


@pytest.mark.parametrize("case", READINESS.values(), ids=READINESS)
def test_a_replica_is_ready_if_all_addresses_and_ports_of_the_service_lead_to_the_replica(
    case: Readiness,
) -> None:
    shown = readiness(case.group, case.serving)
    assert (shown["type"], shown["status"], shown["reason"]) == ("TailscaleEgressSvcReady", case.status, case.reason)
    assert shown["message"].startswith(case.message)


PLAIN_TEXT = (
    '{"ports":[{"protocol":"TCP","port":5432,"targetPort":0}],'
    '"tailnetTarget":{"ip":"","fqdn":"db.tail1234.ts.net"},"proxyGroup":"egress"}'
)
FULL_PORT = {"nodePort": 3, "targetPort": 81, "port": 80, "appProtocol": "http", "protocol": "TCP", "name": "w"}
FULL_TEXT = (
    '{"ports":[{"name":"w","protocol":"TCP","appProtocol":"http","port":80,"targetPort":81,"nodePort":3}],'
    '"tailnetTarget":{"ip":"100.64.0.9","fqdn":""},"proxyGroup":"egress"}'
)


def test_the_hash_of_the_configuration_in_the_reason_equals_the_hash_that_the_go_operator_computes() -> None:
    for service, text in (
        (user_service(), PLAIN_TEXT),
        (user_service({IP_KEY: "100.64.0.9", GROUP_KEY: GROUP}, {"ports": [FULL_PORT]}), FULL_TEXT),
    ):
        assert config_digest(parse(service, settings())) == hashlib.sha256(text.encode()).hexdigest()


def test_the_reason_of_the_condition_names_the_group_and_the_hash_of_the_configuration() -> None:
    good, bad = configured("egress", "abc"), not_configured("egress", "abc")
    assert (good["status"], good["reason"]) == ("True", "ConfiguredFor:ProxyGroup:egress:Config:abc")
    assert (bad["status"], bad["reason"]) == ("False", "ConfigurationFailed:ProxyGroup:egress:Config:abc")
    assert (good["message"], bad["message"]) == (good["reason"], bad["reason"])
    assert not_configured("egress", "abc", "full")["message"] == "full"
