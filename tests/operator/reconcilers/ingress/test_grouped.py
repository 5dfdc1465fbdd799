"""The plan for an Ingress that a ProxyGroup serves, or has served: its finalizer, its status and its Events."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from tsoperator.api.conditions import condition
from tsoperator.api.names import FINALIZER, HA_INGRESS_FINALIZER
from tsoperator.api.objects import PROXYGROUP, Key, Object
from tsoperator.api.owners import ANNOTATION_OWNERS
from tsoperator.api.tailscaleservice import NOT_APPROVED, ServiceHost, TailscaleService
from tsoperator.group.claims import LabelClaim, claim_of
from tsoperator.group.hosted import Hosting
from tsoperator.group.hosts import NO_SERVICE, ServiceView
from tsoperator.proxy.certificate import ObservedCertificate
from tsoperator.proxy.devices import TailnetView
from tsoperator.proxy.login import Keys
from tsoperator.proxy.proxy import Children, Proxy
from tsoperator.proxy.secret import Certificate, ReportedDevice
from tsoperator.reconcilers.ingress import plan as plans
from tsoperator.reconcilers.ingress.ask import parse
from tsoperator.reconcilers.ingress.grouped import Approval, AtGroups, may_lack_approval
from tsoperator.reconcilers.ingress.plan import Observed
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import Plan, Refusal

from tests.support.objects import (
    backend_service,
    children_of,
    deleting,
    headless,
    live_ingress,
    obj,
    pod,
    reasons_of,
    settings,
    slim_secret,
    to_path,
    to_service,
)

SETTINGS = settings()
WEB = {"web": backend_service()}
GROUP = {"tailscale.com/proxy-group": "ing"}
ENDPOINT, REDIRECT = {"tailscale.com/http-endpoint": "enabled"}, {"tailscale.com/http-redirect": "true"}
NAME, OLD = "web.tail1234.ts.net", "old.tail1234.ts.net"
HTTPS, HTTP = {"port": 443, "protocol": "TCP"}, {"port": 80, "protocol": "TCP"}
EMPTY: Object = {"loadBalancer": {}}
WAITING = ValueError("not read yet")
KEYS = Keys({0: "key"})
NO_CHILDREN = Children()


def web(*finalizers: str, host: str = "web", shown: str = "", spec: Object | None = None, **annotations: str) -> Object:
    """Return an Ingress with *finalizers* that names the group ``ing``. Its status shows the name *shown*, or nothing.

    The keywords of *annotations* lack the prefix ``tailscale.com/``, and have ``_`` in place of ``-``.
    """
    given = GROUP | {f"tailscale.com/{name.replace('_', '-')}": value for name, value in annotations.items()}
    found = live_ingress(
        given, host=host, spec=spec, finalizers=[*finalizers], creationTimestamp="2026-01-02T00:00:00Z"
    )
    return {**found, "status": {"loadBalancer": {"ingress": [{"hostname": shown}]} if shown else {}}}


HELD = web(HA_INGRESS_FINALIZER)


def group(type_: str = "ingress", *, is_up: bool = True) -> Object:
    there = condition("ProxyGroupAvailable", is_up, "x", "x")
    return obj(PROXYGROUP, Key("", "ing"), {"spec": {"type": type_}, "status": {"conditions": [there]}})


def owned(*owners: str) -> ServiceView:
    text = json.dumps({"ownerRefs": [{"operatorID": each} for each in owners]})
    return ServiceView(TailscaleService("svc:web", annotations={ANNOTATION_OWNERS: text} if owners else {}))


def states(*names: str) -> list[Object]:
    """Return the state Secrets of two proxies, of which the first advertises the Tailscale Services *names*."""
    data = {"_current-profile": "profile", "profile": json.dumps({"AdvertiseServices": names})}
    return [slim_secret("ing-0", {"device_id": "n0", **data}), slim_secret("ing-1", {"device_id": "n1"})]


def hosting(ingress: Object, **facts: Any) -> Hosting:
    claim = claim_of(ingress, SETTINGS)
    assert claim is not None
    found = {"group": group(), "view": owned("nOP"), "operator_id": "nOP", "domain": "tail1234.ts.net", **facts}
    return Hosting(claim, **found)


def seen(ingress: Object, certificate: bool = True, at: dict[str, Any] | None = None, **facts: Any) -> Observed:
    """Return the facts about an Ingress without an own proxy.

    *certificate* tells whether its certificate exists. *facts* are about its group and its Tailscale Service, and *at*
    has further fields of `AtGroups`.
    """
    found = ObservedCertificate(NAME, Certificate(certificate), datetime(2026, 1, 2, tzinfo=UTC), writer="ing-0")
    return Observed(Children(), WEB, certificate=found, at_groups=AtGroups(hosting(ingress, **facts), **(at or {})))


def planned(ingress: Object, observed: Observed, keys: Keys = KEYS) -> Plan:
    ask = parse(ingress, SETTINGS)
    return plans.plan(ask, plans.wanted(ask, observed, SETTINGS), observed, SETTINGS, keys)


SERVED: dict[str, Any] = {"states": states("svc:web")}


def older(of: Object) -> LabelClaim:
    """Return the claim of an older Ingress on the same label."""
    metadata = {**of["metadata"], "name": "first", "creationTimestamp": "2026-01-01T00:00:00Z", "uid": "first-uid"}
    return hosting({**of, "metadata": {**metadata, "finalizers": [HA_INGRESS_FINALIZER]}}).claim


class Shown(NamedTuple):
    """An Ingress, the facts about it, and the entries that its status should have; None if the status should stay."""

    ingress: Object
    observed: Observed
    entries: Sequence[Object] | None


def entry(*ports: Object) -> list[Object]:
    return [{"hostname": NAME, "ports": [*ports]}]


PLAIN = web(HA_INGRESS_FINALIZER, http_endpoint="enabled")
TO_HTTPS = web(HA_INGRESS_FINALIZER, http_redirect="true")
SHOWN: dict[str, Shown] = {
    "nobody advertises": Shown(HELD, seen(HELD, states=states()), []),
    "another Service is advertised": Shown(HELD, seen(HELD, states=states("svc:other")), []),
    "HTTPS": Shown(HELD, seen(HELD, **SERVED), entry(HTTPS)),
    "no certificate": Shown(HELD, seen(HELD, certificate=False, **SERVED), []),
    "plain HTTP": Shown(PLAIN, seen(PLAIN, **SERVED), entry(HTTPS, HTTP)),
    "plain HTTP without a certificate": Shown(PLAIN, seen(PLAIN, certificate=False, **SERVED), entry(HTTP)),
    "redirect": Shown(TO_HTTPS, seen(TO_HTTPS, **SERVED), entry(HTTPS, HTTP)),
    "no domain yet": Shown(HELD, seen(HELD, domain="", **SERVED), None),
    "invalid": Shown(bad := web(HA_INGRESS_FINALIZER, tags="db", shown=NAME), seen(bad, states=states()), None),
    "wrong group": Shown(was := web(HA_INGRESS_FINALIZER, shown=NAME), seen(was, group=group("egress")), None),
    "no group": Shown(was, seen(was, group=None), []),
    "no group, still served": Shown(was, seen(was, group=None, at={"is_advertised": True}), None),
    "a name that another has": Shown(HELD, seen(HELD, holder=older(HELD), **SERVED), []),
}


@pytest.mark.parametrize("case", SHOWN.values(), ids=SHOWN)
def test_the_status_shows_the_name_and_the_ports_at_which_the_proxies_serve_an_ingress(case: Shown) -> None:
    plan = planned(case.ingress, case.observed)
    entries = None if plan.status is None else plan.status["loadBalancer"].get("ingress", [])
    assert entries == case.entries
    assert [*plan.steps] == []


class Blocked(NamedTuple):
    """An Ingress that can't be served, the facts about it, and the Event that says so.

    The Event has this *reason*, and its message contains *words*.
    """

    ingress: Object
    facts: dict[str, Any]
    reason: str
    words: str
    claims: bool = False
    once: bool = False


NEW, NOT_SUPPORTED = web(), Refusal("it is Headscale", "UnsupportedByControlServer")
BLOCKED: dict[str, Blocked] = {
    "two hosts": Blocked(
        {**NEW, "spec": {**NEW["spec"], "tls": [{"hosts": ["web", "shop"]}]}},
        {},
        "InvalidIngressConfiguration",
        "make an Ingress of its own for each further host",
    ),
    "bad tag": Blocked(web(tags="db"), {}, "InvalidIngressConfiguration", "tailscale.com/tags"),
    "no group": Blocked(NEW, {"group": None}, "ProxyGroupNotFound", "create it, or name another one"),
    "group ends": Blocked(NEW, {"group": deleting(group())}, "ProxyGroupNotFound", "is being deleted"),
    "egress group": Blocked(NEW, {"group": group("egress")}, "InvalidIngressConfiguration", "one of type ingress"),
    "foreign Service": Blocked(NEW, {"view": owned()}, "InvalidTailscaleService", "choose another name"),
    "label taken": Blocked(NEW, {"holder": older(NEW)}, "LabelTaken", "Ingress default/first is older", claims=True),
    "no identity": Blocked(NEW, {"no_identity": "set OPERATOR_SECRET"}, "NoOperatorDevice", "OPERATOR_S", claims=True),
    "Headscale": Blocked(
        NEW, {"view": ServiceView(refusal=NOT_SUPPORTED)}, "UnsupportedByControlServer", "Headscale", once=True
    ),
    "no scope": Blocked(NEW, {"view": ServiceView(refusal=Refusal("no scope"))}, "TailscaleServiceFailed", "no scope"),
}


@pytest.mark.parametrize("case", BLOCKED.values(), ids=BLOCKED)
def test_an_event_says_why_no_group_can_serve_an_ingress_and_nothing_changes(case: Blocked) -> None:
    plan = planned(case.ingress, seen(case.ingress, **case.facts))
    (note,) = plan.notes
    assert (note.type, note.reason, note.once) == ("Warning", case.reason, case.once)
    assert case.words in note.message
    assert (plan.hold, plan.release, [*plan.steps], plan.error) == (HA_INGRESS_FINALIZER * case.claims, "", [], None)
    kept = {**case.ingress, "metadata": {**case.ingress["metadata"], "finalizers": [HA_INGRESS_FINALIZER]}}
    assert planned(kept, seen(kept, **case.facts)).release == ""


def test_an_ingress_gets_the_finalizer_as_soon_as_the_operator_knows_whether_the_name_is_free() -> None:
    unread = planned(NEW, seen(NEW, view=ServiceView(pending=WAITING)))
    assert (unread.hold, unread.error, unread.whole) == ("", WAITING, False)
    for view in (NO_SERVICE, owned("nFAR"), owned("nOP")):
        plan = planned(NEW, seen(NEW, view=view))
        assert (plan.hold, plan.error, plan.status, reasons_of(plan)) == (HA_INGRESS_FINALIZER, None, EMPTY, [])
    assert planned(HELD, seen(HELD, view=ServiceView(pending=WAITING))).error is None


class Told(NamedTuple):
    """An Ingress that a group serves, the facts and the Events about it, and the seconds until the next look."""

    ingress: Object
    observed: Observed
    reasons: Sequence[str]
    again: float | None = None
    error: Exception | None = None


def missing(seconds: float, *, is_there: bool = False, **facts: Any) -> Observed:
    """Return the facts about an Ingress that has had to wait *seconds* for its certificate.

    *is_there* tells whether the certificate exists now. *facts* are other arguments of `seen`.
    """
    found = seen(HELD, is_there, states=states(), **facts)
    assert found.certificate is not None
    return replace(found, certificate=replace(found.certificate, missed_for=seconds))


NO_HTTPS = ReportedDevice("n0", NAME, "", serves_no_https=True)
UNAPPROVED, APPROVED = [ServiceHost("n0", NOT_APPROVED)], [ServiceHost("n0", "approved:auto")]
PATHS = {"rules": [{"http": {"paths": [to_path(None), to_path("/b", to_service("none"))]}}]}
ODD = web(HA_INGRESS_FINALIZER, spec=PATHS)
NOTHING = web(HA_INGRESS_FINALIZER, spec={"defaultBackend": to_service("none")})
NAMED = web(HA_INGRESS_FINALIZER, host="web.example.org")
TLS = {"tls": [{"hosts": ["web"], "secretName": "tls"}]}
SECRET = web(HA_INGRESS_FINALIZER, spec={"defaultBackend": to_service(), **TLS})
FUNNEL = web(HA_INGRESS_FINALIZER, funnel="true")
AWAY = ServiceView(refusal=Refusal("away", is_passing=True))
TOLD: dict[str, Told] = {
    "all is well": Told(HELD, seen(HELD, **SERVED), ["IngressReachable"]),
    "outage": Told(
        HELD, seen(HELD, view=ServiceView(refusal=Refusal("away", is_passing=True)), **SERVED), ["IngressReachable"]
    ),
    "group starts": Told(HELD, seen(HELD, group=group(is_up=False)), ["ProxyGroupNotReady"]),
    "paths": Told(ODD, seen(ODD), ["PathUndefined", "InvalidIngressBackend"]),
    "no backend": Told(NOTHING, seen(NOTHING), ["InvalidIngressBackend", "NoValidBackends"]),
    "no backend yet": Told(NOTHING, replace(seen(NOTHING), age=1), [], 2),
    "another host": Told(NAMED, seen(NAMED), ["IgnoredTLSHosts"]),
    "certificate": Told(SECRET, seen(SECRET), ["IgnoredTLSSecret"]),
    "Funnel": Told(FUNNEL, seen(FUNNEL), ["IgnoredAnnotation"]),
    "no HTTPS": Told(HELD, seen(HELD, at={"without_https": NO_HTTPS}), ["HTTPSNotEnabled"]),
    "shared": Told(HELD, seen(HELD, view=owned("nFAR", "nOP")), ["SharedTailscaleService"]),
    "no certificate": Told(HELD, missing(5), [], 595),
    "no certificate for long": Told(HELD, missing(601), ["CertificateMissing"]),
    "a certificate at last": Told(HELD, missing(5, is_there=True), ["CertificateReady"]),
    "not asked for hosts": Told(HELD, missing(5, at={"approval": Approval(10)}), [], 20),
    "asked for hosts": Told(HELD, missing(30, at={"approval": Approval(30, None, WAITING)}), [], 570, WAITING),
    "approved": Told(HELD, missing(30, at={"approval": Approval(30, APPROVED)}), [], 570),
    "not approved": Told(HELD, missing(30, at={"approval": Approval(30, UNAPPROVED)}), ["HostsNotApproved"], 570),
}


@pytest.mark.parametrize("case", TOLD.values(), ids=TOLD)
def test_events_report_the_state_of_an_ingress_that_a_group_serves(case: Told) -> None:
    plan = planned(case.ingress, case.observed)
    assert (reasons_of(plan), plan.requeue_after, plan.error) == ([*case.reasons], case.again, case.error)
    assert (plan.hold, plan.release) == (HA_INGRESS_FINALIZER, "")


def test_missing_approval_is_suspected_only_if_an_ingress_has_our_tailscale_service_but_no_certificate() -> None:
    def matters(ingress: Object, observed: Observed) -> bool:
        assert observed.at_groups.hosting is not None
        return may_lack_approval(parse(ingress, SETTINGS), observed.at_groups.hosting, observed.certificate)

    assert matters(HELD, seen(HELD, certificate=False))
    assert not matters(HELD, seen(HELD))
    assert not matters(NEW, seen(NEW, certificate=False))
    for facts in ({"view": NO_SERVICE}, {"group": group(is_up=False)}, {"holder": older(HELD)}):
        assert not matters(HELD, seen(HELD, certificate=False, **facts))


OWNER = Owner("ingress", Key("default", "web"))
PROXY = Children(
    [headless(OWNER, "web-uid", "ts-web")],
    [],
    [slim_secret("ts-web-0", {"device_id": "n9"}, OWNER.labels)],
    [pod("ts-web-0", "P")],
)
OWN = (FINALIZER,)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        *(pytest.param(case.facts, case.reason, id=name) for name, case in BLOCKED.items() if case.ingress is NEW),
        pytest.param({"group": group(is_up=False)}, "ProxyGroupNotReady", id="group starts"),
    ],
)
def test_the_own_proxy_of_an_ingress_stays_as_long_as_no_group_can_take_over(
    facts: dict[str, Any], reason: str
) -> None:
    ingress = web(*OWN)
    observed = replace(seen(ingress, **facts), children=PROXY, certificate=None)
    plan = planned(ingress, observed)
    assert "StatefulSet" in [each["kind"] for each in children_of(plan)]
    assert (plan.hold, reasons_of(plan)[0], plan.release) == (FINALIZER, reason, "")


def test_an_ingress_keeps_its_own_proxy_until_the_operator_knows_that_the_group_can_take_over() -> None:
    ingress = web(*OWN)
    unserved = web(*OWN, spec={"defaultBackend": to_service("none")})
    for parent, facts in (
        (ingress, {"view": ServiceView(pending=WAITING)}),
        (ingress, {"operator_id": ""}),
        (unserved, {}),
    ):
        plan = planned(parent, replace(seen(parent, **facts), children=PROXY, certificate=None))
        assert (HA_INGRESS_FINALIZER in (plan.hold, plan.release), plan.release) == (False, "")


def test_a_group_takes_over_an_ingress_when_the_device_of_the_own_proxy_is_gone() -> None:
    ingress = web(*OWN, shown=NAME)
    plan = planned(ingress, replace(seen(ingress, view=NO_SERVICE), children=PROXY))
    assert (plan.hold, plan.release, plan.status) == ("", FINALIZER, EMPTY)
    assert [type(step).__name__ for step in plan.steps] == ["Deletion", "DeleteDevice", "Deletion"]
    after = web(shown=NAME)
    assert planned(after, seen(after, view=NO_SERVICE)).hold == HA_INGRESS_FINALIZER


def test_an_ingress_at_a_group_loses_its_own_proxy_even_if_the_control_server_refuses_the_tailscale_service() -> None:
    both = web(FINALIZER, HA_INGRESS_FINALIZER)
    taken = ServiceView(refusal=Refusal("a device has the name"))
    plan = planned(both, replace(seen(both, view=taken), children=PROXY))
    assert (plan.release, reasons_of(plan)) == (FINALIZER, ["TailscaleServiceFailed"])


REMOVING, STUCK = Refusal("being removed", is_passing=True), Refusal("no scope: give it")


def left(reason: Refusal | None, children: Children = NO_CHILDREN) -> Observed:
    return Observed(children, WEB, at_groups=AtGroups(left=reason), tailnet=TailnetView())


def alone(*finalizers: str, shown: str = "", class_: str = "tailscale") -> Object:
    """Return an Ingress that no longer names a group."""
    found = web(*finalizers, shown=shown)
    spec = {**found["spec"], "ingressClassName": class_}
    return {**found, "spec": spec, "metadata": {**found["metadata"], "annotations": {}}}


class Ended(NamedTuple):
    """An Ingress that no longer asks for a group, the facts about it, and the content of its plan."""

    ingress: Object
    observed: Observed
    release: str = ""
    reasons: Sequence[str] = ()
    status: Object | None = None
    again: float | None = 30


GONE, BOTH = deleting(HELD), (FINALIZER, HA_INGRESS_FINALIZER)
ENDED: dict[str, Ended] = {
    "deleted": Ended(GONE, left(None), HA_INGRESS_FINALIZER, again=None),
    "deleted, being removed": Ended(GONE, left(REMOVING)),
    "deleted, shown": Ended(deleting(web(HA_INGRESS_FINALIZER, shown=NAME)), left(REMOVING)),
    "deleted, stuck": Ended(GONE, left(STUCK), reasons=["DeletionBlocked"]),
    "deleted with a proxy": Ended(deleting(web(*BOTH)), left(None, PROXY), FINALIZER, again=None),
    "deleted after its proxy": Ended(deleting(web(*BOTH)), left(None), FINALIZER, again=None),
    "another class": Ended(alone(HA_INGRESS_FINALIZER, shown=NAME, class_="nginx"), left(REMOVING), status=EMPTY),
    "another class, other name": Ended(alone(HA_INGRESS_FINALIZER, shown=OLD, class_="nginx"), left(REMOVING)),
    "moves": Ended(alone(HA_INGRESS_FINALIZER, shown=NAME), left(REMOVING), status=EMPTY),
}


@pytest.mark.parametrize("case", ENDED.values(), ids=ENDED)
def test_an_ingress_is_released_when_its_tailscale_service_is_completely_removed(case: Ended) -> None:
    plan = planned(case.ingress, case.observed)
    assert (plan.release, reasons_of(plan), plan.requeue_after) == (case.release, [*case.reasons], case.again)
    assert (plan.status, children_of(plan)) == (case.status, [])


def test_an_ingress_gets_a_proxy_of_its_own_when_its_tailscale_service_is_completely_removed() -> None:
    ingress = alone(HA_INGRESS_FINALIZER, shown=NAME)
    assert isinstance(plans.wanted(parse(ingress, SETTINGS), left(None), SETTINGS), Proxy)
    plan = planned(ingress, left(None))
    assert (plan.hold, plan.release, plan.status) == (FINALIZER, HA_INGRESS_FINALIZER, EMPTY)
    assert "StatefulSet" in [each["kind"] for each in children_of(plan)]
    both = planned(ingress, left(REMOVING, PROXY))
    assert (both.release, "StatefulSet" in [each["kind"] for each in children_of(both)]) == ("", True)
