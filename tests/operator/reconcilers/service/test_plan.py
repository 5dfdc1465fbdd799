"""The plan for an egress Service with its own proxy, and for an exposed Service."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.api.device import Device
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import SECRET, SERVICE, Key, Object, annotations
from tsoperator.api.rules import child_name
from tsoperator.group.clusterip import Target
from tsoperator.group.places import Place, Places
from tsoperator.proxy.devices import Destination, TailnetView
from tsoperator.proxy.findings import DeviceFinding, Effect
from tsoperator.proxy.login import NO_KEYS, Keys
from tsoperator.proxy.proxy import Children, Proxy
from tsoperator.proxy.statefulset import egress_target
from tsoperator.reconcilers.service import plan as plans
from tsoperator.reconcilers.service.ask import ServiceMode, parse
from tsoperator.reconcilers.service.plan import Observed
from tsoperator.reconcilers.service.violations import violations
from tsoperator.runtime.plan import Note, Patch, Plan, Refusal
from tsoperator.runtime.reverts import Reverts
from tsoperator.settings import Settings

from tests.operator.reconcilers.service.specs import (
    BY_NAME,
    CLASS,
    CLUSTER_IP,
    EGRESS,
    EXPOSE,
    FQDN_KEY,
    FUNNEL,
    HEADLESS,
    IP_KEY,
    LOAD_BALANCER,
    NO_GROUP,
    OF_OTHERS,
    OLD_IP_KEY,
    OPT_OUT,
    PUBLIC,
)
from tests.support.objects import (
    FQDN,
    children_of,
    condition_of,
    deleting,
    egress_service,
    headless,
    held,
    live_proxy_class,
    patches_of,
    reasons_of,
    settings,
    slim_secret,
    status_of,
    stored,
    texts,
)

SETTINGS = settings()
NOTHING = Observed(Children())
NAME, PROXIES = child_name("db", "db-uid"), "tailscale.svc.cluster.local"
LEADS = {"type": "ExternalName", "externalName": f"{NAME}.{PROXIES}", "selector": None}
OURS = parse(egress_service(), SETTINGS).owner
UP = Observed(Children(), places=Places(own=Place(NAME, serves=True, is_headless=True)))
"""The facts about an egress Service whose own proxy serves."""
KEY = Keys({0: "new-authkey"})
LED = "Pods reach db.tail1234.ts.net as db.default.svc.cluster.local"
READY = {"type": "TailscaleProxyReady", "status": "True", "reason": "ProxyCreated", "message": LED}
LB_NAME = "lb.tail1234.ts.net"
LOGGED_IN = {"device_id": "n1", "device_fqdn": f"{LB_NAME}.", "device_ips": '["100.64.0.7","fd7a::7"]'}
REACHED = Note("Normal", "ProxyCreated", f"it is reached in the tailnet as {LB_NAME}", once=True)
SHOWN = {"ingress": [{"hostname": LB_NAME}, {"ip": "100.64.0.7"}]}
OTHERS_SHOWN = {"ingress": [{"ip": "192.0.2.9"}]}


def planned(
    service: Object, observed: Observed = NOTHING, keys: Keys | Refusal = NO_KEYS, of: Settings = SETTINGS
) -> Plan:
    return plans.plan(parse(service, of), wanted(service, observed, of), observed, of, keys)


def wanted(service: Object, observed: Observed = NOTHING, of: Settings = SETTINGS) -> Proxy | Plan:
    return plans.wanted(parse(service, of), observed, of)


def removed(service: Object, observed: Observed = NOTHING) -> Plan:
    return plans.plan_deletion(parse(service, SETTINGS), observed)


def logged_in(**data: str) -> Observed:
    """Return the facts about a proxy that has joined the tailnet."""
    return Observed(Children(secrets=[slim_secret(f"{NAME}-0", {**LOGGED_IN, **data}, OURS.labels)]))


def with_status(service: Object, **status: object) -> Object:
    return {**service, "status": status}


LB_NOTES = {"magic-dnsname": LB_NAME, "operator-last-set-cluster-ip": "192.0.2.4"}


@pytest.mark.parametrize(
    ("asked", "spec", "notes", "words"),
    [
        (EGRESS, BY_NAME, {"magic-dnsname": FQDN}, ""),
        (EGRESS | OPT_OUT, BY_NAME, {}, ""),
        ({IP_KEY: "100.64.0.9"}, BY_NAME, {}, ""),
        ({}, LOAD_BALANCER, LB_NOTES, ""),
        (EGRESS | EXPOSE, CLUSTER_IP, LB_NOTES, ""),
        (OPT_OUT, LOAD_BALANCER, {}, ""),
        (FUNNEL, PUBLIC, {}, "because TLS ends at its proxy"),
        (FUNNEL | OPT_OUT, PUBLIC, {}, ""),
        (EXPOSE, BY_NAME, {}, "let them use db.example.org"),
    ],
)
def test_a_proxys_service_has_the_magicdns_name_in_an_annotation_and_an_event_reports_a_missing_name(
    asked: Object, spec: Object, notes: dict[str, str], words: str
) -> None:
    for has_dnsconfig in (False, True):
        plan = planned(egress_service(asked, spec=spec), replace(logged_in(), has_dnsconfig=has_dnsconfig))
        told = [note.message for note in plan.notes if note.reason == "NoClusterName"]
        assert [words in each for each in told] == [True] * bool(words and has_dnsconfig)
        assert [each in condition_of(plan)["message"] for each in told] == [True for _ in told]
        noted = annotations(children_of(plan)[0])
        assert noted == {f"tailscale.com/{name}": value for name, value in notes.items()}


HOSTNAME, TAGS = "tailscale.com/hostname", "tailscale.com/tags"


@pytest.mark.parametrize(
    ("asked", "spec", "words"),
    [
        (EGRESS, None, []),
        ({FQDN_KEY: "a.b.deep.tail.example.org"}, None, []),
        (EGRESS | NO_GROUP, None, ["annotation tailscale.com/proxy-group names no ProxyGroup: name one"]),
        (EXPOSE | NO_GROUP, CLUSTER_IP, ["names no ProxyGroup"]),
        ({IP_KEY: "100.66.66.66"}, None, []),
        (EGRESS | {TAGS: "tag:a, tag:b-1"}, None, []),
        (EGRESS | {HOSTNAME: "DB-1"}, None, []),
        ({FQDN_KEY: "foo.tail4567"}, None, [f'{FQDN_KEY}: "foo.tail4567" is not a MagicDNS name in the zone ts.net']),
        ({IP_KEY: "not-an-ip"}, None, [f'{IP_KEY}: "not-an-ip" is not an IP address']),
        ({OLD_IP_KEY: "999.999.999.999"}, None, [f'{OLD_IP_KEY}: "999.999.999.999" is not an IP address']),
        ({FQDN_KEY: "100.64.0.9"}, None, [f"{FQDN_KEY} has the address 100.64.0.9: write it in {IP_KEY}"]),
        ({IP_KEY: FQDN}, None, [f"{IP_KEY} has the name {FQDN}: write it in {FQDN_KEY}"]),
        ({IP_KEY: "bad", OLD_IP_KEY: "100.64.0.1"}, None, [f'{IP_KEY}: "bad"']),
        (EGRESS | {IP_KEY: "100.64.0.1"}, None, [f"only one of {IP_KEY} and {FQDN_KEY}"]),
        (EGRESS | {OLD_IP_KEY: "100.64.0.1"}, None, []),
        (EGRESS | {IP_KEY: "100.64.0.1", OLD_IP_KEY: "100.64.0.2"}, None, [f"only one of {IP_KEY} and"]),
        ({IP_KEY: "127.0.0.1"}, None, ["is a loopback address"]),
        (EGRESS | {HOSTNAME: ""}, None, [f'{HOSTNAME}: "" is not a valid DNS']),
        (EGRESS | {TAGS: "tag:ok,db,tag:1"}, None, [f'{TAGS}: "db" is not', f'{TAGS}: "tag:1" is not']),
        (
            {FQDN_KEY: "x", IP_KEY: "y", HOSTNAME: "", TAGS: "z"},
            None,
            ["only one of", FQDN_KEY, IP_KEY, HOSTNAME, TAGS],
        ),
        ({FQDN_KEY: "x"}, HEADLESS, ["not supported: use a Service of type ExternalName", FQDN_KEY]),
        (EXPOSE, HEADLESS, ["headless Services are not supported: use a Service with a cluster IP"]),
        ({IP_KEY: "bad"}, LOAD_BALANCER, [IP_KEY]),
        (FUNNEL, {**PUBLIC, "ports": [{"port": 80}]}, []),
    ],
)
def test_each_violation_of_a_service_names_the_annotation_and_the_values_that_are_allowed(
    asked: Object, spec: Object | None, words: list[str]
) -> None:
    found = violations(parse(egress_service(asked, spec=spec), settings(zones=("ts.net", "tail.example.org"))))
    assert [each in message for each, message in zip(words, found, strict=True)] == [True for _ in words], found


def test_a_violation_names_a_default_hostname_that_is_too_long() -> None:
    (message,) = violations(parse(egress_service({}, name="x" * 60), SETTINGS))
    assert f"not 68: set annotation {HOSTNAME} to a shorter one" in message


def test_the_hostname_and_tags_of_a_device_come_from_annotations_or_have_defaults() -> None:
    for asking, hostname, tags in (
        ({HOSTNAME: "", TAGS: "tag:a, tag:b"}, "", ("tag:a", "tag:b")),
        (EGRESS, "default-db", ("tag:default",)),
    ):
        asked = parse(egress_service(asking), settings(proxy_tags=("tag:default",)))
        assert (asked.hostname, asked.tags) == (hostname, tags)


def test_an_invalid_service_says_so_in_its_condition_and_keeps_its_proxy() -> None:
    plan = planned(egress_service({IP_KEY: "bad", HOSTNAME: ""}))
    condition = condition_of(plan)
    assert (condition["status"], condition["reason"]) == ("False", "ProxyInvalid")
    assert condition["message"].startswith(f'invalid Service: annotation {IP_KEY}: "bad" is not')
    assert f'; annotation {HOSTNAME}: ""' in condition["message"]
    assert plan == Plan(status=plan.status, notes=[Note("Warning", "INVALIDSERVICE", condition["message"])])


@pytest.mark.parametrize(
    ("found", "kind", "reason"),
    [(None, "Warning", "ProxyFailed"), (live_proxy_class("prod"), "Normal", "ProxyPending")],
)
def test_a_service_waits_for_its_class_to_be_ready_and_keeps_its_proxy(
    found: Object | None, kind: str, reason: str
) -> None:
    plan = planned(egress_service(EGRESS | CLASS), Observed(Children(), found))
    condition = condition_of(plan)
    assert (condition["status"], condition["reason"], "'prod'" in condition["message"]) == ("False", reason, True)
    assert [(note.type, note.reason, note.message) for note in plan.notes] == [(kind, reason, condition["message"])]
    assert plan == Plan(status=plan.status, notes=plan.notes)
    changing = live_proxy_class("prod", ready=True, generation=2)  # the operator is still checking it
    assert planned(egress_service(EGRESS | CLASS), Observed(Children(), changing)) == Plan(whole=False)


def test_the_proxy_of_a_service_has_the_settings_of_its_ready_class() -> None:
    spec = {"tailscale": {"acceptRoutes": True}, "statefulSet": {"labels": {"team": "db"}}}
    observed = Observed(Children(), live_proxy_class("prod", spec, ready=True))
    made = children_of(planned(egress_service(EGRESS | CLASS), observed, KEY))
    assert made[2]["metadata"]["labels"]["team"] == "db"
    assert '"acceptRoutes":true' in texts(made[1])["cap-107.hujson"]


def test_a_service_is_pointed_at_its_proxy_and_is_ready_when_the_proxy_serves() -> None:
    service = egress_service(spec={**CLUSTER_IP, "selector": {"app": "db"}})
    plan = planned(service, UP, KEY)
    holds = {"finalizers": [FINALIZER], "resourceVersion": service["metadata"]["resourceVersion"]}
    assert plan.steps[0] == Patch(SERVICE, Key("default", "db"), {"spec": LEADS, "metadata": holds})
    assert condition_of(plan) == READY
    assert [obj["kind"] for obj in children_of(plan)] == ["Service", "Secret", "StatefulSet"]


@pytest.mark.parametrize(("there", "reason"), [("placeholder", "ProxyPending"), (f"{NAME}.{PROXIES}", "ProxyCreated")])
def test_a_service_whose_proxy_is_not_ready_keeps_its_external_name(there: str, reason: str) -> None:
    service = egress_service(spec={"type": "ExternalName", "externalName": there})
    for places in (Places(), Places(own=Place(NAME, serves=False, is_headless=True))):
        plan = planned(service, Observed(Children(), places=places), KEY)
        assert (condition_of(plan)["reason"], patches_of(plan), plan.hold) == (reason, [], FINALIZER)
        assert [obj["kind"] for obj in children_of(plan)] == ["Service", "Secret", "StatefulSet"]


@pytest.mark.parametrize("reason", ["ProxyPending", "ProxyFailed", "ProxyCreated"])
def test_a_new_service_is_pointed_at_its_proxy_last_but_a_reverted_service_is_pointed_back_at_once(
    reason: str,
) -> None:
    service = with_status(held(egress_service()), conditions=[{**READY, "reason": reason}])
    plan = planned(service, UP, KEY)
    assert (plan.steps[-1], len(plan.steps)) == (pointing(service), 4 if reason == "ProxyPending" else 1)
    of_another_type = held(egress_service(spec=CLUSTER_IP))
    assert planned(of_another_type, UP, KEY).steps[-1] == pointing(of_another_type)


def pointing(service: Object) -> Patch:
    """Return the step that points *service* at its proxy."""
    version = {"resourceVersion": service["metadata"]["resourceVersion"]}
    return Patch(SERVICE, Key("default", "db"), {"metadata": version, "spec": LEADS})


def led_to(*target: str) -> Observed:
    """Return the facts about a proxy that serves, and forwards to the device with this name or address."""
    return replace(UP, places=Places(own=Place(NAME, serves=True, is_headless=True, target=Target(*target))))


DOWN = replace(UP, places=Places(own=Place(NAME, serves=False, is_headless=True)))
FAULTY = EGRESS | {"tailscale.com/tags": "wrong"}
PLACEHOLDER = {"type": "ExternalName", "externalName": "placeholder"}
AWAY: dict[str, tuple[Object, Object, Observed, bool]] = {
    "class missing": (EGRESS | CLASS, PLACEHOLDER, UP, True),
    "class not ready": (EGRESS | CLASS, PLACEHOLDER, replace(UP, proxy_class=live_proxy_class("prod")), True),
    "invalid": (FAULTY, PLACEHOLDER, UP, True),
    "invalid without an external name": (FAULTY, {"type": "ExternalName"}, UP, True),
    "target is the same": (FAULTY, PLACEHOLDER, led_to(FQDN, ""), True),
    "target has a dot at its end": (FAULTY | {FQDN_KEY: f"{FQDN}."}, PLACEHOLDER, led_to(FQDN, ""), True),
    "target is the same address": (
        {IP_KEY: "100.64.0.9", "tailscale.com/tags": "wrong"},
        PLACEHOLDER,
        led_to("", "100.64.0.9"),
        True,
    ),
    "target is another": (FAULTY, PLACEHOLDER, led_to("old.tail1234.ts.net", ""), False),
    "target is invalid": (EGRESS | {FQDN_KEY: "bad"}, PLACEHOLDER, led_to(FQDN, ""), False),
    "proxy was for an exposed Service": (FAULTY, PLACEHOLDER, led_to("", ""), False),
    "proxy down": (FAULTY, PLACEHOLDER, DOWN, False),
    "no proxy": (FAULTY, PLACEHOLDER, NOTHING, False),
    "pointed at its proxy": (FAULTY, {"type": "ExternalName", "externalName": f"{NAME}.{PROXIES}"}, UP, False),
    "of another type": (FAULTY, CLUSTER_IP, UP, False),
    "exposed": (FAULTY | EXPOSE, PLACEHOLDER, UP, False),
    "asks for nothing": ({}, PLACEHOLDER, UP, False),
    "may not be rewritten yet": (FAULTY, PLACEHOLDER, replace(UP, reverts=Reverts(wait=3)), False),
}


@pytest.mark.parametrize(("asked", "spec", "observed", "is_restored"), AWAY.values(), ids=AWAY)
def test_the_plan_first_points_a_service_back_at_its_serving_proxy_whatever_else_is_wrong(
    asked: Object, spec: Object, observed: Observed, is_restored: bool
) -> None:
    service = held(egress_service(asked, spec=spec))
    for keys in (KEY, Refusal("no key")):
        plan = planned(service, observed, keys)
        assert [*plan.steps] == ([pointing(service)] if is_restored else [])
        assert (plan.status is None, plan.whole) == (is_restored or not asked, not is_restored)
    assert patches_of(planned(deleting(service), observed)) == []
    assert patches_of(planned(egress_service(asked | FAULTY, spec=spec), observed)) == []  # without our finalizer


def test_a_faulty_service_says_that_another_writer_reverts_its_spec() -> None:
    reverts = Reverts(("spec.externalName",), "argocd", wait=7, settles=8)
    plan = planned(held(egress_service(FAULTY)), replace(UP, reverts=reverts))
    assert (reasons_of(plan), plan.requeue_after) == (["INVALIDSERVICE", "ExternalNameOverwritten"], 7)


@pytest.mark.parametrize(
    ("asked", "spec", "target"),
    [
        (EGRESS, None, (FQDN, "")),
        ({IP_KEY: "100.64.0.9"}, None, ("", "100.64.0.9")),
        (EXPOSE, CLUSTER_IP, ("", "")),
    ],
)
def test_the_statefulset_of_a_proxy_tells_to_which_device_the_proxy_forwards(
    asked: Object, spec: Object | None, target: tuple[str, str]
) -> None:
    assert egress_target(children_of(planned(egress_service(asked, spec=spec), keys=KEY))[2]) == target


@pytest.mark.parametrize(
    ("reverts", "told", "reason", "writes", "again"),
    [
        (Reverts(("spec.externalName",), "argocd", wait=7, settles=8), True, "ProxyPending", False, 7),
        (Reverts(("spec.externalName",), "argocd", settles=8), True, "ProxyPending", True, 8),
        (Reverts(("spec.externalName",), "argocd"), True, "ProxyCreated", True, None),
        (Reverts(wait=3), False, "ProxyCreated", False, 3),
    ],
    ids=["all the time", "has yet to stay", "now and then", "the cache may be behind"],
)
def test_a_service_says_that_another_writer_reverts_its_spec_and_the_operator_waits_before_its_next_write(
    reverts: Reverts, told: bool, reason: str, writes: bool, again: float | None
) -> None:
    plan = planned(egress_service(), replace(UP, reverts=reverts), KEY)
    condition = condition_of(plan)
    assert (condition["reason"], condition["status"]) == (reason, str(reason == "ProxyCreated"))
    warnings = [note for note in plan.notes if note.type == "Warning"]
    assert [note.reason for note in warnings] == ["ExternalNameOverwritten"] * told
    assert [note.message.startswith("argocd keeps setting") for note in warnings] == [True] * told
    assert condition["message"] == (warnings[0].message if reason == "ProxyPending" else LED)
    assert plan.requeue_after == again
    assert bool(patches_of(plan)) is writes
    assert plans.rewritten_to(parse(egress_service(), SETTINGS), plan) == (f"{NAME}.{PROXIES}" if writes else "")


def test_the_external_name_has_the_clusters_domain_and_the_name_of_the_existing_proxy() -> None:
    child = headless(OURS, "db-uid", "ts-db-x7k2p")
    serving = Places(own=Place("ts-db-x7k2p", serves=True, is_headless=True))
    observed, of = Observed(Children([child]), places=serving), settings(cluster_domain="k8s.example.org")
    plan = planned(egress_service(), observed, of=of)
    assert patches_of(plan)[0].body["spec"]["externalName"] == "ts-db-x7k2p.tailscale.svc.k8s.example.org"


@pytest.mark.parametrize(
    ("asked", "spec", "shown"), [({}, LOAD_BALANCER, SHOWN), (EXPOSE, CLUSTER_IP, None), (None, None, {})]
)
def test_a_service_says_that_its_proxy_logs_in_again_and_keeps_its_load_balancer_status(
    asked: Object | None, spec: Object | None, shown: Object | None
) -> None:
    plan = planned(egress_service(asked, spec=spec), logged_in(reissue_authkey=""), KEY)
    condition = condition_of(plan)
    assert (condition["status"], condition["reason"]) == ("False", "ProxyPending")
    assert "A new auth key has been given" in condition["message"]
    assert (status_of(plan).get("loadBalancer"), reasons_of(plan)) == (shown, ["AuthKeyReissued"])


def test_a_load_balancer_of_another_class_loses_only_a_status_that_shows_our_device() -> None:
    for shown, left in ((SHOWN, {}), (OTHERS_SHOWN, OTHERS_SHOWN)):
        exposed = with_status(egress_service(EXPOSE, spec=OF_OTHERS), loadBalancer=shown)
        assert status_of(planned(exposed, logged_in()))["loadBalancer"] == left
        given_up = with_status(held(egress_service({}, spec=OF_OTHERS)), loadBalancer=shown)
        step = removed(given_up, logged_in())
        assert (step.status, step.release) == (({"loadBalancer": {}}, "") if shown == SHOWN else (None, FINALIZER))
    for_egress = with_status(egress_service(spec=OF_OTHERS), loadBalancer=SHOWN)
    assert status_of(planned(for_egress, logged_in()))["loadBalancer"] == {}


@pytest.mark.parametrize(
    ("asked", "spec", "reasons"),
    [
        (FUNNEL, PUBLIC, ["ProxyPending", "FunnelNeedsPolicy"]),
        (EXPOSE | FUNNEL, {**CLUSTER_IP, "ports": [{"port": 80}]}, ["FunnelIgnored"]),
        (FUNNEL, {**PUBLIC, "ports": [{"port": 80}]}, ["ProxyPending", "FunnelIgnored"]),
        (EXPOSE, {**CLUSTER_IP, "ports": [{"port": 80}]}, []),
    ],
)
def test_an_event_says_what_funnel_needs_in_the_policy_or_that_the_annotation_for_funnel_has_no_effect(
    asked: Object, spec: Object, reasons: list[str]
) -> None:
    plan = planned(egress_service(asked, spec=spec), keys=KEY)
    assert reasons_of(plan) == reasons
    told = [note for note in plan.notes if note.reason == "FunnelIgnored"]
    assert all((note.type, note.once) == ("Warning", True) for note in told)
    assert all(condition_of(plan)["message"].endswith(f"; {note.message}") for note in told)


@pytest.mark.parametrize(("asked", "spec"), [(None, None), (EXPOSE, CLUSTER_IP)])
def test_a_service_reports_findings_about_its_devices_in_its_condition_and_by_events(
    asked: Object | None, spec: Object | None
) -> None:
    news = [DeviceFinding(Effect.FAILED, "TagsRefused", "not permitted", requeue_after=60)]
    plan = planned(egress_service(asked, spec=spec), replace(UP, tailnet=TailnetView(news=news)), KEY)
    assert (condition_of(plan)["reason"], condition_of(plan)["message"]) == ("ProxyFailed", "not permitted")
    assert (reasons_of(plan), plan.requeue_after) == (["TagsRefused"], 60)


def test_an_event_says_the_name_of_an_exposed_service_unless_its_condition_or_status_shows_the_name() -> None:
    service = egress_service(EXPOSE, spec=CLUSTER_IP)
    plan = planned(service, logged_in())
    assert (condition_of(plan), plan.notes) == ({**READY, "message": REACHED.message}, [REACHED])
    assert planned(with_status(service, conditions=[condition_of(plan)]), logged_in()).notes == []
    balancer = egress_service({}, spec=LOAD_BALANCER)
    shown = planned(balancer, logged_in())
    assert (condition_of(shown), shown.notes) == ({**READY, "message": "ProxyCreated"}, [replace(REACHED, once=False)])
    assert (status_of(shown)["loadBalancer"], [patch.resource for patch in patches_of(shown)]) == (SHOWN, [SECRET])
    assert planned(with_status(balancer, loadBalancer=SHOWN), logged_in()).notes == []


SERVING: Object = {
    "metadata": {"name": NAME},
    "spec": {"template": {"spec": {"containers": [{"env": [{"name": "TS_SERVE_CONFIG"}]}]}}},
}


def test_a_public_service_keeps_its_proxy_and_names_an_added_port_that_funnel_cannot_serve() -> None:
    service = egress_service(FUNNEL, spec={**PUBLIC, "ports": [{"port": 443}, {"port": 80}]})
    made = wanted(service, Observed(Children(statefulsets=[SERVING])))
    assert isinstance(made, Plan)
    assert "Funnel can't serve port 80/TCP" in condition_of(made)["message"]
    forwarding = Observed(Children(statefulsets=children_of(planned(service, keys=KEY))[2:]))
    assert isinstance(wanted(service, forwarding), Proxy)


def test_the_condition_of_a_service_says_that_an_address_of_no_device_needs_accepted_routes() -> None:
    elsewhere, device = Destination("10.1.2.3"), Destination("10.1.2.3", Device("n9", FQDN))
    for accepts, destination, told in (
        (False, None, True),
        (False, elsewhere, True),
        (False, device, False),
        (True, None, False),
    ):
        class_ = live_proxy_class("prod", {"tailscale": {"acceptRoutes": accepts}}, ready=True)
        observed = replace(UP, proxy_class=class_, tailnet=TailnetView(destination=destination))
        plan = planned(egress_service({IP_KEY: "10.1.2.3", **CLASS}), observed, KEY)
        assert reasons_of(plan) == ["RoutesNotAccepted" if told else "ProxyCreated"]
        assert condition_of(plan)["status"] == "True"
        assert ("10.1.2.3 is not an address that the tailnet gives" in condition_of(plan)["message"]) is told


@pytest.mark.parametrize("given", ["", "UnsupportedByControlServer"])
def test_a_refused_write_for_a_service_is_reported_and_tried_again(given: str) -> None:
    refusal, told = (
        Refusal("the control server refuses the credentials", given, ValueError("401")),
        given or "ProxyFailed",
    )
    plan = planned(egress_service(), keys=refusal)
    assert condition_of(plan) == {**READY, "status": "False", "reason": told, "message": refusal.message}
    assert plan == Plan(status=plan.status, notes=[Note("Warning", told, refusal.message)], error=refusal.error)


UNKNOWN = {"tailscale.com/exposed": "true"}


@pytest.mark.parametrize(
    ("service", "keys"),
    [
        (egress_service(EGRESS | UNKNOWN), KEY),
        (egress_service(EGRESS | UNKNOWN), Refusal("no key")),
        (egress_service({FQDN_KEY: "bad", **UNKNOWN}), KEY),
        (egress_service(EGRESS | CLASS | UNKNOWN), KEY),
        (egress_service(UNKNOWN, spec=LOAD_BALANCER), KEY),
        (egress_service({**UNKNOWN, "tailscale.com/proxy-group": "g"}, spec=LOAD_BALANCER), KEY),
        (egress_service(UNKNOWN), KEY),
    ],
)
def test_the_condition_has_the_warning_about_an_unknown_annotation_beside_any_other_message(
    service: Object, keys: Keys | Refusal
) -> None:
    plan = planned(service, keys=keys)
    (told,) = [note for note in plan.notes if note.reason == "IgnoredAnnotation"]
    assert plan.status is None or condition_of(plan)["message"].endswith(f"; {told.message}")
    assert (plan.status is None) is (parse(service, SETTINGS).mode is ServiceMode.NOTHING)


def test_a_service_that_asks_for_nothing_loses_its_condition_together_with_our_finalizer() -> None:
    gone = {**egress_service({}), "status": {"loadBalancer": {}, "conditions": [READY]}}
    cleared: Object = {"loadBalancer": {}, "conditions": []}
    assert removed(gone) == Plan(status=cleared)
    assert removed(egress_service({})) == removed(deleting(gone)) == Plan()
    pods = stored(children_of(planned(egress_service(), keys=KEY))[2])
    steps = [removed(held(gone), Observed(Children(statefulsets=each))) for each in ([pods], [])]
    assert [(step.release, step.status) for step in steps] == [("", None), (FINALIZER, cleared)]


def test_a_service_with_an_empty_proxy_group_annotation_keeps_its_own_proxy() -> None:
    plan = planned(held(egress_service(EGRESS | NO_GROUP)), logged_in())
    assert ([*plan.steps], plan.release, reasons_of(plan)) == ([], "", ["INVALIDSERVICE"])


KEYS = [FQDN_KEY, IP_KEY, OLD_IP_KEY, HOSTNAME, TAGS, *EXPOSE, *FUNNEL, *NO_GROUP, *CLASS]
VALUES = [FQDN, "100.64.0.1", "2001:db8::1%eth0", "true", "tag:a", "a.ts.net..", ".", "é"]
ANNOTATIONS = st.dictionaries(st.sampled_from(KEYS), st.text(max_size=70) | st.sampled_from(VALUES))


@given(ANNOTATIONS, st.sampled_from([CLUSTER_IP, LOAD_BALANCER, PUBLIC, BY_NAME, {}, {"clusterIP": "None"}]))
def test_the_operator_can_make_a_plan_for_a_service_with_any_annotations_and_spec(
    annotations: Object, spec: Object
) -> None:
    service = held(egress_service(annotations, spec=spec))
    plan, made, mode = planned(service), wanted(service), parse(service, SETTINGS).mode
    if mode is ServiceMode.NOTHING:
        assert plan.release
    elif isinstance(made, Plan):
        grouped = mode is ServiceMode.GROUP  # nothing runs at a group, and so the finalizer goes
        assert ([*plan.steps], bool(plan.release), made.hold) == ([], grouped, "")
    else:
        assert len(children_of(plan)) == 3
