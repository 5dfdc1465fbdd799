"""The plan for a Service that a ProxyGroup exposes: its finalizer, its conditions, its load balancer and its Events."""

import asyncio
import json
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from tsoperator.api.conditions import condition
from tsoperator.api.names import CONDITION_PROXY_READY, CONDITION_PROXYGROUP_AVAILABLE, FINALIZER, HA_SERVICE_FINALIZER
from tsoperator.api.objects import PROXYGROUP, Key, Object
from tsoperator.api.owners import ANNOTATION_OWNERS
from tsoperator.api.tailscaleservice import NOT_APPROVED, ServiceHost, TailscaleService
from tsoperator.group.claims import claim_of
from tsoperator.group.hosted import Hosting
from tsoperator.group.hosts import ServiceView
from tsoperator.proxy.proxy import Children
from tsoperator.reconcilers.service import plan as plans
from tsoperator.reconcilers.service.ask import parse
from tsoperator.reconcilers.service.plan import Observed
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import Plan, Refusal
from tsoperator.runtime.result import Pending

from tests.operator.reconcilers.service.specs import CLUSTER_IP, EXPOSE, HEADLESS, LOAD_BALANCER, user_service
from tests.support.objects import deleting, headless, obj, reasons_of, settings, slim_secret, status_of

SETTINGS = settings()
GROUP = {"tailscale.com/proxy-group": "ing"}
NAME = "default-db.tail1234.ts.net"
VALID, CONFIGURED = "TailscaleIngressSvcValid", "TailscaleIngressSvcConfigured"
HELD = {"finalizers": [HA_SERVICE_FINALIZER]}
OWNED = TailscaleService(
    "svc:default-db",
    ("100.64.1.2", "fd7a::2"),
    annotations={ANNOTATION_OWNERS: json.dumps({"ownerRefs": [{"operatorID": "nOP"}]})},
)
SHOWN = {"hostname": NAME, "ip": "100.64.1.2"}


def group(type_: str = "ingress", *, available: bool = True, **spec: Any) -> Object:
    conditions = [condition(CONDITION_PROXYGROUP_AVAILABLE, available, "x", "x")]
    return obj(PROXYGROUP, Key("", "ing"), {"spec": {"type": type_, **spec}, "status": {"conditions": conditions}})


def service(spec: Object = LOAD_BALANCER, /, status: Object | None = None, **annotations: str) -> Object:
    given = GROUP | {f"tailscale.com/{name}": value for name, value in annotations.items()}
    made = user_service(given, spec, **HELD)
    return {**made, **({"status": status} if status else {})}


def states(advertising: int, of: int = 2) -> list[Object]:
    """Return the state Secrets of proxies. *of* counts them, and *advertising* those that advertise the Service."""
    device = {"device_id": "n1", "device_fqdn": "ing-0.tail1234.ts.net."}
    profile = {"_current-profile": "p", "p": '{"AdvertiseServices":["svc:default-db"]}'}
    return [slim_secret(f"ing-{each}", device | (profile if each < advertising else {})) for each in range(of)]


def hosting(of: Object, **changes: Any) -> Hosting | None:
    """Return the facts about the Service *of*, which a group exposes with both of its proxies.

    *changes* replace facts.
    """
    claim = claim_of(of, SETTINGS)
    found: dict[str, Any] = {"group": group(), "view": ServiceView(OWNED), "holder": claim, "states": states(2)}
    found |= {"domain": "tail1234.ts.net", "operator_id": "nOP"}
    return Hosting(claim, **found | changes) if claim else None


def planned(of: Object, **changes: Any) -> Plan:
    observed = Observed(Children(), hosting=hosting(of, **changes))
    ask = parse(of, SETTINGS)
    return plans.plan(ask, plans.wanted(ask, observed, SETTINGS), observed, SETTINGS)


def conditions(plan: Plan) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in status_of(plan)["conditions"]}


def message(plan: Plan, type_: str = CONFIGURED) -> str:
    return str(next(each["message"] for each in status_of(plan)["conditions"] if each["type"] == type_))


SOUND, CONFIGURED_TRUE = ("True", "IngressSvcValid"), ("True", "IngressSvcConfigured")
NO_BACKENDS, FAULTY = ("False", "IngressSvcNoBackendsConfigured"), ("False", "IngressSvcInvalid")


def test_a_load_balancer_shows_its_name_and_its_ipv4_address() -> None:
    made = planned(service())
    assert conditions(made) == {VALID: SOUND, CONFIGURED: CONFIGURED_TRUE}
    assert message(made) == "2/2 proxy backends ready and advertising"
    assert status_of(made)["loadBalancer"] == {"ingress": [SHOWN]}
    assert (made.hold, [note.message for note in made.notes]) == (
        HA_SERVICE_FINALIZER,
        [f"it is reached in the tailnet as {NAME}"],
    )


def test_a_service_whose_status_is_right_already_keeps_its_status_and_gets_no_event() -> None:
    live = service(status=status_of(planned(service())))
    made = planned(live)
    assert (status_of(made), made.notes) == (live["status"], [])


def test_an_exposed_service_that_is_no_load_balancer_shows_its_name_only_in_the_condition() -> None:
    made = planned(service(CLUSTER_IP, expose="true"))
    assert NAME in message(made)
    assert "loadBalancer" not in status_of(made)


def test_a_tailscale_service_without_an_ipv4_address_shows_only_its_name() -> None:
    made = planned(service(), view=ServiceView(replace(OWNED, addresses=("fd7a::2",))))
    assert status_of(made)["loadBalancer"] == {"ingress": [{"hostname": NAME}]}


class Obstacle(NamedTuple):
    """A reason why a group doesn't expose a Service, with the Event about it: its reason, and words of its message."""

    changes: dict[str, Any]
    event: str
    words: str
    valid: tuple[str, str] = FAULTY
    hold: str = ""


def foreign(annotation: str | None) -> ServiceView:
    return ServiceView(replace(OWNED, annotations={ANNOTATION_OWNERS: annotation} if annotation else {}))


RESOURCE = '{"ownerRefs":[{"operatorID":"nOP","resource":{"kind":"ProxyGroup"}}]}'
OBSTACLES = {
    "no group": Obstacle({"group": None}, "ProxyGroupNotFound", "create it", ("False", "ProxyGroupNotFound")),
    "deleted group": Obstacle({"group": deleting(group())}, "ProxyGroupNotFound", "", ("False", "ProxyGroupNotFound")),
    "other type": Obstacle({"group": group("egress")}, "IngressSvcInvalid", "name one of type ingress"),
    "foreign": Obstacle({"view": foreign(None)}, "InvalidTailscaleService", "no operator made it"),
    "exclusive": Obstacle({"view": foreign(RESOURCE)}, "InvalidTailscaleService", "belongs to another object"),
    "unreadable": Obstacle({"view": foreign("{")}, "InvalidTailscaleService", "can't be read"),
    "refused": Obstacle(
        {"view": ServiceView(refusal=Refusal("no scope", "NoScope"))},
        "NoScope",
        "no scope",
        ("True", "IngressSvcValid"),
    ),
    "no identity": Obstacle(
        {"no_identity": "set it", "operator_id": ""}, "NoOperatorDevice", "set it", SOUND, HA_SERVICE_FINALIZER
    ),
}


@pytest.mark.parametrize("case", OBSTACLES.values(), ids=OBSTACLES)
def test_an_event_and_the_condition_say_why_a_group_does_not_expose_a_service(case: Obstacle) -> None:
    made = planned(service(), **case.changes)
    assert reasons_of(made) == [case.event]
    assert case.words in made.notes[0].message
    assert conditions(made)[VALID] == case.valid
    assert case.words in " ".join(each["message"] for each in status_of(made)["conditions"])
    assert made.hold == case.hold


def test_a_service_that_names_a_missing_group_shows_the_name_that_another_group_still_serves() -> None:
    before = status_of(planned(service()))
    made = planned(service(status=before), group=None, states=(), is_kept=True)
    assert (conditions(made)[VALID], conditions(made)[CONFIGURED]) == (("False", "ProxyGroupNotFound"), CONFIGURED_TRUE)
    assert status_of(made)["loadBalancer"] == before["loadBalancer"]


@pytest.mark.parametrize(("annotation", "value"), [("hostname", "a_b"), ("tags", "tag:1")])
def test_an_invalid_edit_of_an_exposed_service_changes_nothing_that_runs(annotation: str, value: str) -> None:
    before = status_of(planned(service()))
    of = service(status=before)
    of["metadata"]["annotations"][f"tailscale.com/{annotation}"] = value
    made = planned(of)
    assert (conditions(made)[VALID], conditions(made)[CONFIGURED]) == (FAULTY, CONFIGURED_TRUE)
    assert status_of(made)["loadBalancer"] == before["loadBalancer"]
    assert (made.hold, made.release, [*made.steps]) == ("", "", [])


def test_a_service_reports_that_an_older_object_claims_its_label_but_ignores_a_newer_claim() -> None:
    ours, other = service(), service()
    other["metadata"] |= {"name": "first", "uid": "u", "creationTimestamp": "2020-01-01T00:00:00Z"}
    ours["metadata"]["creationTimestamp"] = "2021-01-01T00:00:00Z"
    lost = planned(ours, holder=claim_of(other, SETTINGS))
    assert "Service default/first is older" in lost.notes[0].message
    assert conditions(lost)[VALID] == FAULTY
    assert conditions(planned(other, holder=claim_of(ours, SETTINGS)))[VALID] == SOUND


@pytest.mark.parametrize(
    ("spec", "annotations", "words"),
    [
        ({"type": "ExternalName", "externalName": "db.example.org"}, EXPOSE, "no cluster IP"),
        ({"type": "LoadBalancer", "clusterIP": "192.0.2.4"}, {}, "spec.loadBalancerClass"),
        (HEADLESS, EXPOSE, "headless"),
    ],
)
def test_a_service_that_no_group_can_expose_reports_the_reason(
    spec: Object, annotations: dict[str, str], words: str
) -> None:
    of = user_service(GROUP | annotations, spec)
    ask = parse(of, settings(default_load_balancer=True))
    made = plans.plan(ask, plans.wanted(ask, Observed(Children()), SETTINGS), Observed(Children()), SETTINGS)
    assert words in made.notes[0].message
    assert (conditions(made)[VALID], made.hold) == (FAULTY, "")


def test_while_no_proxy_advertises_a_service_its_condition_says_so_and_its_load_balancer_is_empty() -> None:
    live = service(status=status_of(planned(service())))
    made = planned(live, states=states(0))
    assert conditions(made)[CONFIGURED] == NO_BACKENDS
    assert message(made).startswith("0/2 proxy backends")
    assert status_of(made)["loadBalancer"] == {}
    waits = planned(live, states=states(0), group=group(available=False))
    assert "no proxy of ProxyGroup 'ing' is in the tailnet yet" in message(waits)
    idle = planned(live, states=states(0), has_pods=False)
    assert (reasons_of(idle), "see that spec.selector chooses Pods" in message(idle)) == (
        ["IngressSvcNoBackendsConfigured"],
        True,
    )


@pytest.mark.asyncio
async def test_the_status_of_a_service_stays_while_its_tailscale_service_has_not_been_read() -> None:
    pending = Pending(asyncio.get_running_loop().create_future())
    made = planned(service(), view=ServiceView(pending=pending))
    assert (made.status, made.error, made.hold) == (None, pending, "")


def test_after_thirty_seconds_an_event_says_that_no_proxy_is_an_approved_host() -> None:
    view = ServiceView(OWNED, [ServiceHost("n1", NOT_APPROVED)])
    of = service(status=status_of(planned(service())))
    found = hosting(of, view=view)
    for age, reasons, again in ((10.0, [], 20.0), (30.0, ["HostsNotApproved"], None)):
        observed = Observed(Children(), hosting=found)
        observed = replace(observed, places=replace(observed.places, ages={"unapproved": age}))
        ask = parse(of, SETTINGS)
        made = plans.plan(ask, plans.wanted(ask, observed, SETTINGS), observed, SETTINGS)
        assert (reasons_of(made), made.requeue_after) == (reasons, again)


OWN_PROXY = headless(Owner("svc", Key("default", "db")), "db-uid", "ts-db-abcde")


def with_own_proxy(of: Object, **changes: Any) -> Plan:
    observed = Observed(Children(services=[OWN_PROXY]), hosting=hosting(of, **changes))
    ask = parse(of, SETTINGS)
    return plans.plan(ask, plans.wanted(ask, observed, SETTINGS), observed, SETTINGS)


def test_the_own_proxy_of_a_service_is_removed_before_the_group_gets_the_name() -> None:
    of = user_service(GROUP, LOAD_BALANCER, finalizers=[FINALIZER])
    made = with_own_proxy(of)
    assert made.hold == ""
    assert made.steps
    assert "its own proxy is leaving" in message(made)


def test_the_own_proxy_of_a_service_stays_while_the_group_cannot_take_over() -> None:
    of = user_service(GROUP, LOAD_BALANCER, finalizers=[FINALIZER])
    made = with_own_proxy(of, group=None)
    assert ([*made.steps], made.hold, made.release) == ([], "", "")


REMOVING = Refusal("it is being removed", is_passing=True)
STANDALONE = {"standalone": user_service({}, LOAD_BALANCER, **HELD), "unexposed": user_service({}, CLUSTER_IP, **HELD)}


@pytest.mark.parametrize("of", [*STANDALONE.values(), deleting(service())], ids=[*STANDALONE, "deleted"])
def test_the_finalizer_of_a_service_stays_until_its_tailscale_service_is_completely_removed(of: Object) -> None:
    ask = parse(of, SETTINGS)
    for left, release, reasons in (
        (REMOVING, "", []),
        (Refusal("no scope"), "", ["DeletionBlocked"]),
        (None, HA_SERVICE_FINALIZER, []),
    ):
        observed = Observed(Children(), left=left)
        made = plans.plan(ask, plans.wanted(ask, observed, SETTINGS), observed, SETTINGS)
        assert (made.release, reasons_of(made), [*made.steps]) == (release, reasons, [])


def test_the_status_of_a_released_service_shows_nothing_about_its_tailscale_service() -> None:
    before = status_of(planned(service()))
    of = {**STANDALONE["unexposed"], "status": before}
    ask = parse(of, SETTINGS)
    made = plans.plan(ask, plans.wanted(ask, Observed(Children()), SETTINGS), Observed(Children()), SETTINGS)
    assert (status_of(made)["conditions"], status_of(made)["loadBalancer"]) == ([], {})


def test_a_service_waits_for_its_name_before_it_gets_a_proxy_of_its_own() -> None:
    ask = parse(STANDALONE["standalone"], SETTINGS)
    waits = Observed(Children(), left=REMOVING)
    made = plans.wanted(ask, waits, SETTINGS)
    assert isinstance(made, Plan)
    assert conditions(made)[CONDITION_PROXY_READY] == ("False", "ProxyPending")
    free = user_service({}, LOAD_BALANCER)
    assert not isinstance(plans.wanted(parse(free, SETTINGS), Observed(Children()), SETTINGS), Plan)
