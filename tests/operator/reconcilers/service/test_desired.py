"""What a Service needs that leaves the cluster or is exposed."""

from dataclasses import replace
from typing import Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.api.device import Device
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import SECRET, SERVICE, Key, Object, annotations
from tsoperator.api.rules import child_name
from tsoperator.desired.devices import Destination, TailnetView
from tsoperator.desired.findings import Effect, Finding
from tsoperator.desired.login import NO_KEYS, Keys
from tsoperator.desired.plan import Note, Patch, Plan, Refusal
from tsoperator.desired.proxy import Children, Proxy
from tsoperator.reconcilers.service import desired, egress
from tsoperator.reconcilers.service.desired import Observed
from tsoperator.reconcilers.service.mode import Mode, mode_of
from tsoperator.reconcilers.service.rewrites import Reverts
from tsoperator.settings import Settings

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
FQDN_KEY = "tailscale.com/tailnet-fqdn"
IP_KEY = "tailscale.com/tailnet-ip"
OLD_IP_KEY = "tailscale.com/ts-tailnet-target-ip"
EXPOSE = {"tailscale.com/expose": "true"}
EXPOSED = {FQDN_KEY: FQDN, **EXPOSE}
FUNNEL = {"tailscale.com/funnel": "true"}
GROUP = {"tailscale.com/proxy-group": ""}
CLUSTER_IP = {"type": "ClusterIP", "clusterIP": "192.0.2.4"}
LOAD_BALANCER = {**CLUSTER_IP, "type": "LoadBalancer", "loadBalancerClass": "tailscale"}
HEADLESS = {**CLUSTER_IP, "clusterIP": "None"}
PUBLIC = {**LOAD_BALANCER, "ports": [{"port": 443, "protocol": "TCP"}]}
BY_NAME = {"type": "ExternalName", "externalName": "db.example.org"}
NAME = child_name("db", "db-uid")
READY = {"type": "TailscaleProxyReady", "status": "True", "reason": "ProxyCreated", "message": "ProxyCreated"}


KEY = Keys({0: "new-authkey"})


def planned(
    service: Object, observed: Observed = NOTHING, keys: Keys | Refusal = NO_KEYS, of: Settings = SETTINGS
) -> Plan:
    return desired.plan(service, desired.wanted(service, observed, of), observed, of, keys)


def proxy(service: Object, of: Settings = SETTINGS) -> Proxy:
    made = desired.wanted(service, NOTHING, of)
    assert isinstance(made, Proxy), made
    return made


OPT_OUT = {"tailscale.com/cluster-dns": "false"}
LB_NAME = "lb.tail1234.ts.net"


class Named(NamedTuple):
    annotations: dict[str, str]
    spec: Object
    notes: dict[str, str]
    """Of the Service in front of the proxy, without the digest."""
    words: str = ""
    """What the user is told, if there is a DNSConfig."""


@pytest.mark.parametrize(
    "case",
    [
        Named({FQDN_KEY: FQDN}, BY_NAME, {"magic-dnsname": FQDN}),
        Named({FQDN_KEY: FQDN, **OPT_OUT}, BY_NAME, {}),
        Named({IP_KEY: "100.64.0.9"}, BY_NAME, {}),
        Named({}, LOAD_BALANCER, {"magic-dnsname": LB_NAME, "operator-last-set-cluster-ip": "192.0.2.4"}),
        Named(EXPOSED, CLUSTER_IP, {"magic-dnsname": LB_NAME, "operator-last-set-cluster-ip": "192.0.2.4"}),
        Named(OPT_OUT, LOAD_BALANCER, {}),
        Named(FUNNEL, PUBLIC, {}, "because TLS ends at its proxy"),
        Named({**FUNNEL, **OPT_OUT}, PUBLIC, {}),
        Named(EXPOSE, BY_NAME, {}, "let them use db.example.org"),
    ],
)
def test_a_name_in_the_cluster_is_noted_or_told_to_be_missing_where_names_are_served(case: Named) -> None:
    service = egress_service(case.annotations, spec=case.spec)
    observed = logged_in()
    for has_dnsconfig in (False, True):
        plan = planned(service, replace(observed, has_dnsconfig=has_dnsconfig))
        words = [note.message for note in plan.notes if note.reason == "NoClusterName"]
        assert [case.words in each for each in words] == ([True] if case.words and has_dnsconfig else [])
        assert [each in condition_of(plan)["message"] for each in words] == [True for _ in words]
        noted = annotations(children_of(plan)[0])
        assert noted == {f"tailscale.com/{name}": value for name, value in case.notes.items()}


class Violation(NamedTuple):
    annotations: dict[str, str]
    words: list[str]
    """In each message, in order."""
    spec: Object | None = None
    name: str = "db"


@pytest.mark.parametrize(
    "case",
    [
        Violation({FQDN_KEY: FQDN}, []),
        Violation({FQDN_KEY: "a.b.deep.tail.example.org"}, []),
        Violation({FQDN_KEY: FQDN, **GROUP}, ["annotation tailscale.com/proxy-group names no ProxyGroup: name one"]),
        Violation({**EXPOSE, **GROUP}, ["names no ProxyGroup"], CLUSTER_IP),
        Violation({IP_KEY: "100.66.66.66"}, []),
        Violation({FQDN_KEY: FQDN, "tailscale.com/tags": "tag:a, tag:b-1"}, []),
        Violation({FQDN_KEY: FQDN, "tailscale.com/hostname": "DB-1"}, []),
        Violation(
            {FQDN_KEY: "foo.tail4567"}, [f'{FQDN_KEY}: "foo.tail4567" is not a MagicDNS name in the zone ts.net']
        ),
        Violation({IP_KEY: "not-an-ip"}, [f'{IP_KEY}: "not-an-ip" is not an IP address']),
        Violation({OLD_IP_KEY: "999.999.999.999"}, [f'{OLD_IP_KEY}: "999.999.999.999" is not an IP address']),
        Violation({FQDN_KEY: "100.64.0.9"}, [f"{FQDN_KEY} has the address 100.64.0.9: write it in {IP_KEY}"]),
        Violation({IP_KEY: FQDN}, [f"{IP_KEY} has the name {FQDN}: write it in {FQDN_KEY}"]),
        Violation({IP_KEY: "bad", OLD_IP_KEY: "100.64.0.1"}, [f'{IP_KEY}: "bad"']),
        Violation({FQDN_KEY: FQDN, IP_KEY: "100.64.0.1"}, [f"only one of {IP_KEY} and {FQDN_KEY}"]),
        Violation({FQDN_KEY: FQDN, OLD_IP_KEY: "100.64.0.1"}, []),
        Violation({FQDN_KEY: FQDN, IP_KEY: "100.64.0.1", OLD_IP_KEY: "100.64.0.2"}, [f"only one of {IP_KEY} and"]),
        Violation({IP_KEY: "127.0.0.1"}, ["is a loopback address"]),
        Violation({FQDN_KEY: FQDN, "tailscale.com/hostname": ""}, ['tailscale.com/hostname: "" is not a valid DNS']),
        Violation(
            {FQDN_KEY: FQDN, "tailscale.com/tags": "tag:ok,db,tag:1"},
            ['tailscale.com/tags: "db" is not', 'tailscale.com/tags: "tag:1" is not'],
        ),
        Violation(
            {FQDN_KEY: "x", IP_KEY: "y", "tailscale.com/hostname": "", "tailscale.com/tags": "z"},
            ["only one of", FQDN_KEY, IP_KEY, "tailscale.com/hostname", "tailscale.com/tags"],
        ),
        Violation({}, ["not 68: set annotation tailscale.com/hostname to a shorter one"], name="x" * 60),
        Violation({FQDN_KEY: "x"}, ["not supported: use a Service of type ExternalName", FQDN_KEY], HEADLESS),
        Violation(EXPOSE, ["headless Services are not supported: use a Service with a cluster IP"], HEADLESS),
        Violation({IP_KEY: "bad"}, [IP_KEY], LOAD_BALANCER),
        Violation(FUNNEL, [], {**PUBLIC, "ports": [{"port": 80}]}),
        Violation({}, [], {**LOAD_BALANCER, "ports": [{"port": 80}]}),
        Violation({FQDN_KEY: "db.tail.example.org"}, []),
    ],
)
def test_each_violation_names_the_annotation_and_what_it_takes(case: Violation) -> None:
    asked = settings(zones=("ts.net", "tail.example.org"))
    found = desired.violations(egress_service(case.annotations, name=case.name, spec=case.spec), asked)
    assert len(found) == len(case.words)
    assert all(words in message for words, message in zip(case.words, found, strict=True)), found


@pytest.mark.parametrize(
    ("annotations", "name"),
    [({}, "default-db"), ({"tailscale.com/hostname": "mine"}, "mine"), ({"tailscale.com/hostname": ""}, "")],
)
def test_the_hostname_is_the_annotation_if_there_is_one(annotations: dict[str, str], name: str) -> None:
    assert desired.hostname(egress_service(annotations)) == name


def test_tags_are_the_annotations_trimmed_or_the_operators() -> None:
    asked = settings(proxy_tags=("tag:default",))
    assert desired.tags(egress_service({"tailscale.com/tags": "tag:a, tag:b"}), asked) == ("tag:a", "tag:b")
    assert desired.tags(egress_service(), asked) == ("tag:default",)


def test_the_proxy_logs_in_where_its_tailnet_is() -> None:
    observed = Observed(Children(), tailnet=TailnetView(login_url="https://headscale.example.org"))
    made = desired.wanted(egress_service(), observed, SETTINGS)
    assert isinstance(made, Proxy)
    assert made.config.server_url == "https://headscale.example.org"


def test_an_invalid_service_is_told_so_and_keeps_what_runs() -> None:
    plan = planned(egress_service({IP_KEY: "bad", "tailscale.com/hostname": ""}))
    condition = condition_of(plan)
    assert (condition["status"], condition["reason"]) == ("False", "ProxyInvalid")
    assert condition["message"].startswith(f'invalid Service: annotation {IP_KEY}: "bad" is not')
    assert '; annotation tailscale.com/hostname: ""' in condition["message"]
    assert plan == Plan(status=plan.status, notes=[Note("Warning", "INVALIDSERVICE", condition["message"])])


def test_a_class_that_changes_is_no_news_to_a_service() -> None:
    service = egress_service({FQDN_KEY: FQDN, "tailscale.com/proxy-class": "prod"})
    changing = Observed(Children(), live_proxy_class("prod", ready=True, generation=2))
    assert planned(service, changing) == Plan()


@pytest.mark.parametrize(
    ("found", "kind", "reason"),
    [(None, "Warning", "ProxyFailed"), (live_proxy_class("prod"), "Normal", "ProxyPending")],
)
def test_a_service_with_a_proxy_class_waits_and_keeps_what_runs(
    found: Object | None, kind: Literal["Normal", "Warning"], reason: str
) -> None:
    service = egress_service({FQDN_KEY: FQDN, "tailscale.com/proxy-class": "prod"})
    plan = planned(service, Observed(Children(), found))
    condition = condition_of(plan)
    assert (condition["status"], condition["reason"]) == ("False", reason)
    assert "'prod'" in condition["message"]
    assert plan == Plan(status=plan.status, notes=[Note(kind, reason, condition["message"])])


def test_a_service_has_a_proxy_as_its_class_says_once_that_is_ready() -> None:
    spec = {"tailscale": {"acceptRoutes": True}, "statefulSet": {"labels": {"team": "db"}}}
    observed = Observed(Children(), live_proxy_class("prod", spec, ready=True))
    service = egress_service({FQDN_KEY: FQDN, "tailscale.com/proxy-class": "prod"})
    made = children_of(planned(service, observed, KEY))
    assert made[2]["metadata"]["labels"]["team"] == "db"
    assert '"acceptRoutes":true' in texts(made[1])["cap-107.hujson"]


def test_a_service_is_pointed_at_its_proxy_and_is_ready_at_once() -> None:
    service = egress_service(spec={**CLUSTER_IP, "selector": {"app": "db"}})
    plan = planned(service, keys=KEY)
    spec = {"type": "ExternalName", "externalName": f"{NAME}.tailscale.svc.cluster.local", "selector": None}
    holds = {"finalizers": [FINALIZER], "resourceVersion": service["metadata"]["resourceVersion"]}
    assert plan.steps[0] == Patch(SERVICE, Key("default", "db"), {"spec": spec, "metadata": holds})
    assert condition_of(plan) == READY
    assert [obj["kind"] for obj in children_of(plan)] == ["Service", "Secret", "StatefulSet"]


def test_a_service_that_is_held_is_pointed_at_its_proxy_after_that_was_made() -> None:
    service = held(egress_service())
    plan = planned(service, keys=KEY)
    assert (plan.hold, plan.steps[-1]) == (FINALIZER, *egress.rewrite(service, NAME, SETTINGS))


def planned_under(reverts: Reverts) -> Plan:
    """The plan for a Service that leads elsewhere while another writer reverts it."""
    return planned(egress_service(), Observed(Children(), reverts=reverts), KEY)


def test_a_service_that_is_set_back_all_the_time_waits_and_says_so() -> None:
    plan = planned_under(Reverts(("spec.externalName",), "argocd-controller", wait=7, settles=8))
    (note,) = plan.notes
    assert (note.type, note.reason, note.message.startswith("argocd-controller keeps")) == (
        "Warning",
        "ExternalNameOverwritten",
        True,
    )
    assert (condition_of(plan)["status"], condition_of(plan)["reason"]) == ("False", "ProxyPending")
    assert condition_of(plan)["message"] == note.message
    assert (patches_of(plan), plan.requeue_after, desired.rewrites(plan, egress_service())) == ([], 7, False)


def test_a_service_that_has_just_been_set_right_has_yet_to_stay_so() -> None:
    plan = planned_under(Reverts(("spec.externalName",), "something", settles=8))
    assert desired.rewrites(plan, egress_service())
    assert (condition_of(plan)["reason"], plan.requeue_after) == ("ProxyPending", 8)


def test_a_service_that_is_set_back_now_and_then_is_ready_and_says_so() -> None:
    plan = planned_under(Reverts(("spec.externalName",), "something"))
    assert (condition_of(plan), reasons_of(plan)) == (READY, ["ExternalNameOverwritten"])
    assert (desired.rewrites(plan, egress_service()), plan.requeue_after) == (True, None)


def test_a_cache_that_may_be_behind_is_waited_for_without_a_word() -> None:
    plan = planned_under(Reverts(wait=3))
    assert (patches_of(plan), condition_of(plan), plan.notes, plan.requeue_after) == ([], READY, [], 3)


def test_the_external_name_has_the_clusters_domain_and_the_proxys_old_name() -> None:
    child = headless(desired.owner(Key("default", "db")), "db-uid", "ts-db-x7k2p")
    plan = planned(egress_service(), Observed(Children([child])), of=settings(cluster_domain="k8s.example.org"))
    assert patches_of(plan)[0].body["spec"]["externalName"] == "ts-db-x7k2p.tailscale.svc.k8s.example.org"


LOGGED_IN = {"device_id": "n1", "device_fqdn": "lb.tail1234.ts.net.", "device_ips": '["100.64.0.7","fd7a::7"]'}
REACHED = Note("Normal", "ProxyCreated", "it is reached in the tailnet as lb.tail1234.ts.net", once=True)
SHOWN = {"ingress": [{"hostname": "lb.tail1234.ts.net"}, {"ip": "100.64.0.7"}]}
OURS = desired.owner(Key("default", "db"))


def logged_in() -> Observed:
    """What is there once the proxy has joined the tailnet."""
    return Observed(Children(secrets=[slim_secret(f"{NAME}-0", LOGGED_IN, OURS.labels)]))


def with_status(service: Object, **status: object) -> Object:
    return {**service, "status": status}


def test_a_load_balancer_shows_its_device_and_is_not_rewritten() -> None:
    plan = planned(egress_service({}, spec=LOAD_BALANCER), logged_in())
    assert (status_of(plan)["loadBalancer"], condition_of(plan)) == (SHOWN, READY)
    assert [patch.resource for patch in patches_of(plan)] == [SECRET]
    assert not desired.rewrites(plan, egress_service())


@pytest.mark.parametrize(
    ("annotations", "spec", "shown"), [({}, LOAD_BALANCER, SHOWN), (EXPOSE, CLUSTER_IP, None), (None, None, {})]
)
def test_a_service_whose_proxy_logs_in_anew_says_so_and_keeps_what_it_shows(
    annotations: dict[str, str] | None, spec: Object | None, shown: Object | None
) -> None:
    data = {**LOGGED_IN, "reissue_authkey": ""}
    observed = Observed(Children(secrets=[slim_secret(f"{NAME}-0", data, OURS.labels)]))
    plan = planned(egress_service(annotations, spec=spec), observed, KEY)
    condition = condition_of(plan)
    assert (condition["status"], condition["reason"]) == ("False", "ProxyPending")
    assert "A new auth key has been given" in condition["message"]
    assert (plan.status or {}).get("loadBalancer") == shown
    assert reasons_of(plan) == ["AuthKeyReissued"]


@pytest.mark.parametrize(("shown", "left"), [(SHOWN, {}), ({"ingress": [{"ip": "192.0.2.9"}]}, None)])
def test_an_exposed_load_balancer_of_another_class_keeps_what_that_shows(shown: Object, left: Object | None) -> None:
    spec = {**LOAD_BALANCER, "loadBalancerClass": "other"}
    plan = planned(with_status(egress_service(EXPOSE, spec=spec), loadBalancer=shown), logged_in())
    assert status_of(plan)["loadBalancer"] == (shown if left is None else left)


@pytest.mark.parametrize(
    ("annotations", "spec", "reasons"),
    [
        (FUNNEL, PUBLIC, ["ProxyPending", "FunnelNeedsPolicy"]),
        ({**EXPOSE, **FUNNEL}, {**CLUSTER_IP, "ports": [{"port": 80}]}, ["FunnelIgnored"]),
        (FUNNEL, {**PUBLIC, "ports": [{"port": 80}]}, ["ProxyPending", "FunnelIgnored"]),
        (EXPOSE, CLUSTER_IP, []),
    ],
)
def test_a_service_with_funnel_says_what_the_policy_needs_or_that_it_has_no_effect(
    annotations: dict[str, str], spec: Object, reasons: list[str]
) -> None:
    assert reasons_of(planned(egress_service(annotations, spec=spec), keys=KEY)) == reasons


@pytest.mark.parametrize(("annotations", "spec"), [(None, None), (EXPOSE, CLUSTER_IP)])
def test_findings_about_devices_are_told_in_the_condition_and_by_events(
    annotations: dict[str, str] | None, spec: Object | None
) -> None:
    news = [Finding(Effect.FAILED, "TagsRefused", "not permitted", requeue_after=60)]
    plan = planned(egress_service(annotations, spec=spec), Observed(Children(), tailnet=TailnetView(news=news)), KEY)
    assert (condition_of(plan)["reason"], condition_of(plan)["message"]) == ("ProxyFailed", "not permitted")
    assert (reasons_of(plan), plan.requeue_after) == (["TagsRefused"], 60)


def test_an_exposed_service_shows_its_name_in_its_condition_and_by_one_event() -> None:
    service = egress_service(EXPOSE, spec=CLUSTER_IP)
    plan = planned(service, logged_in())
    assert condition_of(plan) == {**READY, "message": REACHED.message}
    assert plan.notes == [REACHED]
    assert planned(with_status(service, conditions=[condition_of(plan)]), logged_in()).notes == []


def test_a_load_balancer_tells_its_name_by_an_event_until_its_status_shows_it() -> None:
    service = egress_service({}, spec=LOAD_BALANCER)
    assert planned(service, logged_in()).notes == [Note("Normal", "ProxyCreated", REACHED.message)]
    assert planned(with_status(service, loadBalancer=SHOWN), logged_in()).notes == []


SERVING = {"metadata": {}, "spec": {"template": {"spec": {"containers": [{"env": [{"name": "TS_SERVE_CONFIG"}]}]}}}}


def test_a_public_service_that_gets_a_port_without_funnel_stays_public_and_says_so() -> None:
    service = egress_service(FUNNEL, spec={**PUBLIC, "ports": [{"port": 443}, {"port": 80}]})
    serving = Observed(Children(statefulsets=[SERVING]))
    made = desired.wanted(service, serving, SETTINGS)
    assert isinstance(made, Plan)
    assert "Funnel can't serve port 80/TCP" in condition_of(made)["message"]
    forwarding = Observed(Children(statefulsets=children_of(planned(service, keys=KEY))[2:]))
    assert isinstance(desired.wanted(service, forwarding, SETTINGS), Proxy)


ROUTED = {IP_KEY: "10.1.2.3", "tailscale.com/proxy-class": "prod"}
ACCEPTING = live_proxy_class("prod", {"tailscale": {"acceptRoutes": True}}, ready=True)
THERE = Destination("10.1.2.3", Device("n9", FQDN))


@pytest.mark.parametrize(
    ("proxy_class", "destination", "reasons"),
    [
        (live_proxy_class("prod", ready=True), None, ["RoutesNotAccepted"]),
        (live_proxy_class("prod", ready=True), Destination("10.1.2.3"), ["RoutesNotAccepted"]),
        (live_proxy_class("prod", ready=True), THERE, []),
        (ACCEPTING, None, []),
    ],
)
def test_an_address_of_no_device_is_said_to_need_routes(
    proxy_class: Object, destination: Destination | None, reasons: list[str]
) -> None:
    observed = Observed(Children(), proxy_class, TailnetView(destination=destination))
    plan = planned(egress_service(ROUTED), observed, KEY)
    assert reasons_of(plan) == reasons
    assert condition_of(plan)["status"] == "True"
    assert ("10.1.2.3 is not an address that the tailnet gives" in condition_of(plan)["message"]) is bool(reasons)


def test_a_load_balancer_that_becomes_egress_shows_nothing() -> None:
    service = with_status(egress_service(spec={**LOAD_BALANCER, "loadBalancerClass": "other"}), loadBalancer=SHOWN)
    assert status_of(planned(service, logged_in()))["loadBalancer"] == {}


@pytest.mark.parametrize(
    ("given", "told"), [("", "ProxyFailed"), ("UnsupportedByControlServer", "UnsupportedByControlServer")]
)
def test_a_refusal_is_told_and_tried_again(given: str, told: str) -> None:
    refusal = Refusal("the control server refuses the credentials", given, ValueError("401"))
    plan = planned(egress_service(), keys=refusal)
    assert condition_of(plan) == {**READY, "status": "False", "reason": told, "message": refusal.message}
    assert plan == Plan(status=plan.status, notes=[Note("Warning", told, refusal.message)], error=refusal.error)


UNKNOWN = {"tailscale.com/exposed": "true"}


@pytest.mark.parametrize(
    ("service", "keys"),
    [
        (egress_service({FQDN_KEY: FQDN, **UNKNOWN}), KEY),
        (egress_service({FQDN_KEY: FQDN, **UNKNOWN}), Refusal("no key")),
        (egress_service({FQDN_KEY: "bad", **UNKNOWN}), KEY),
        (egress_service({FQDN_KEY: FQDN, "tailscale.com/proxy-class": "nonesuch", **UNKNOWN}), KEY),
        (egress_service(UNKNOWN, spec=LOAD_BALANCER), KEY),
        (egress_service({**UNKNOWN, "tailscale.com/proxy-group": "g"}, spec=LOAD_BALANCER), KEY),
        (egress_service(UNKNOWN), KEY),
    ],
)
def test_what_has_no_effect_is_told_whatever_else_is_said(service: Object, keys: Keys | Refusal) -> None:
    plan = planned(service, keys=keys)
    (told,) = [note for note in plan.notes if note.reason == "IgnoredAnnotation"]
    assert plan.status is None or condition_of(plan)["message"].endswith(f"; {told.message}")
    assert (plan.status is None) is desired.is_leaving(service, SETTINGS)


def gone() -> Object:
    """A Service that asks for nothing any more, with the condition that it had."""
    return {**egress_service({}), "status": {"loadBalancer": {}, "conditions": [READY]}}


def test_a_service_that_we_never_held_only_loses_its_condition() -> None:
    assert desired.plan_deletion(gone(), NOTHING) == Plan(status={"loadBalancer": {}, "conditions": []})
    assert desired.plan_deletion(egress_service({}), NOTHING) == Plan()
    assert desired.plan_deletion(deleting(gone()), NOTHING) == Plan()


def test_the_condition_goes_with_the_finalizer() -> None:
    service, pods = held(gone()), stored(children_of(planned(egress_service(), keys=KEY))[2])
    waiting = desired.plan_deletion(service, Observed(Children(statefulsets=[pods])))
    assert (waiting.release, waiting.status) == ("", None)
    last = desired.plan_deletion(service, NOTHING)
    assert (last.release, last.status) == (FINALIZER, {"loadBalancer": {}, "conditions": []})


@pytest.mark.parametrize(("shown", "left"), [(SHOWN, {}), ({"ingress": [{"ip": "192.0.2.9"}]}, None)])
def test_a_load_balancer_that_is_no_longer_ours_stops_showing_our_device(shown: Object, left: Object | None) -> None:
    service = with_status(
        held(egress_service({}, spec={**LOAD_BALANCER, "loadBalancerClass": "other"})), loadBalancer=shown
    )
    step = desired.plan_deletion(service, logged_in())
    assert step.status == (None if left is None else {"loadBalancer": left})
    assert step.release == (FINALIZER if left is None else "")


def test_a_service_that_names_no_group_keeps_its_own_proxy() -> None:
    service = held(egress_service({FQDN_KEY: FQDN, **GROUP}))
    plan = planned(service, logged_in())
    assert ([*plan.steps], plan.release, reasons_of(plan)) == ([], "", ["INVALIDSERVICE"])


OTHER_KEYS = [f"tailscale.com/{name}" for name in ("hostname", "tags", "proxy-class")]
KEYS = [FQDN_KEY, IP_KEY, OLD_IP_KEY, *EXPOSE, *FUNNEL, *GROUP, *OTHER_KEYS]
ANNOTATIONS = st.dictionaries(
    st.sampled_from(KEYS),
    st.text(max_size=70)
    | st.sampled_from([FQDN, "100.64.0.1", "2001:db8::1%eth0", "true", "tag:a", "a.ts.net..", ".", "é"]),
)


@given(ANNOTATIONS, st.sampled_from([CLUSTER_IP, LOAD_BALANCER, PUBLIC, BY_NAME, {}, {"clusterIP": "None"}]))
def test_every_service_has_a_plan(annotations: dict[str, str], spec: Object) -> None:
    service = held(egress_service(annotations, spec=spec))
    plan, wanted = planned(service), desired.wanted(service, NOTHING, SETTINGS)
    if desired.is_leaving(service, SETTINGS):
        assert plan.release
    elif isinstance(wanted, Plan):
        grouped = mode_of(service, SETTINGS) is Mode.GROUP  # where nothing runs, the finalizer goes
        assert ([*plan.steps], bool(plan.release), wanted.hold) == ([], grouped, "")
    else:
        assert len(children_of(plan)) == 3
