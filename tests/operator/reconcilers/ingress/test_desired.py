"""What an Ingress needs."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.api.device import Device
from tsoperator.api.names import FINALIZER, PROXY_CLASS
from tsoperator.api.objects import INGRESSCLASS, STATEFULSET, Key, Object
from tsoperator.api.rules import child_name
from tsoperator.desired.devices import TailnetView
from tsoperator.desired.findings import Effect, Finding
from tsoperator.desired.login import NO_KEYS, Keys
from tsoperator.desired.plan import Note, Plan, Refusal, SetTags
from tsoperator.desired.proxy import Children, Proxy
from tsoperator.desired.proxypod import served_ingress
from tsoperator.desired.secret import Certificate
from tsoperator.reconcilers.ingress import desired
from tsoperator.reconcilers.ingress.certificate import Seen
from tsoperator.reconcilers.ingress.desired import Observed
from tsoperator.settings import Settings

from tests.support.objects import (
    backend_service,
    children_of,
    deleting,
    headless,
    held,
    live_ingress,
    live_proxy_class,
    obj,
    pod,
    reasons_of,
    settings,
    slim_secret,
    status_of,
    stored,
    texts,
    to_path,
    to_service,
)

SETTINGS = settings()
WEB = {"web": backend_service()}
NEW = Observed(Children(), WEB)
NAME = child_name("web", "web-uid")
FORWARD = {"tailscale.com/experimental-forward-cluster-traffic-via-ingress": "true"}
OPT_OUT = {"tailscale.com/cluster-dns": "false"}
OWNER = desired.owner(Key("default", "web"))
DEVICE = {"device_id": "n1", "device_fqdn": "web.tail1234.ts.net."}
CURRENT = {**DEVICE, "tailscale_capver": "110", "pod_uid": "P"}
"""What the Pod that runs has reported."""
SERVED = obj(STATEFULSET, Key("tailscale", NAME), {"spec": {"selector": {"matchLabels": {"app": "web-uid"}}}})
HTTPS = {"port": 443, "protocol": "TCP"}
HTTP = {"port": 80, "protocol": "TCP"}
KEY = Keys({0: "new-authkey"})


def planned(parent: Object, observed: Observed = NEW, keys: Keys | Refusal = NO_KEYS, of: Settings = SETTINGS) -> Plan:
    return desired.plan(parent, desired.wanted(parent, observed, of), observed, of, keys)


def proxy(parent: Object, observed: Observed = NEW) -> Proxy:
    made = desired.wanted(parent, observed, SETTINGS)
    assert isinstance(made, Proxy), made
    return made


def logged_in(data: dict[str, str]) -> Observed:
    """A proxy whose Secret has *data*."""
    secret = slim_secret(f"{NAME}-0", data, OWNER.labels)
    return Observed(Children([headless(OWNER, "web-uid", NAME)], [], [secret], [pod(f"{NAME}-0", "P")]), WEB)


def shown(plan: Plan) -> list[Object]:
    """The load balancer's entries in the status that *plan* wants."""
    entries: list[Object] = status_of(plan)["loadBalancer"].get("ingress", [])
    return entries


@pytest.mark.parametrize(
    ("annotations", "class_", "ours"),
    [
        ({}, "tailscale", True),
        ({}, "nginx", False),
        ({}, None, False),
        ({"kubernetes.io/ingress.class": "tailscale"}, None, False),
        ({"tailscale.com/proxy-group": "group"}, "tailscale", True),
    ],
)
def test_an_ingress_of_our_class_is_ours(annotations: dict[str, str], class_: str | None, ours: bool) -> None:
    found = live_ingress(annotations, spec={"ingressClassName": class_})
    assert desired.is_ours(found, SETTINGS) is ours
    assert desired.is_leaving(found, SETTINGS) is not ours
    assert desired.is_leaving(deleting(found), SETTINGS)


@pytest.mark.parametrize(
    ("host", "name"),
    [("web", "web"), ("web.tail1234.ts.net", "web"), ("", "default-web-ingress"), (".x", "default-web-ingress")],
)
def test_the_hostname_is_the_first_label_of_the_tls_host(host: str, name: str) -> None:
    assert desired.hostname(live_ingress({"tailscale.com/hostname": "ignored"}, host=host)) == name


class Refused(NamedTuple):
    annotations: dict[str, str]
    host: str
    reasons: list[str]
    words: str


@pytest.mark.parametrize(
    "case",
    [
        Refused(
            {}, "-web", ["InvalidHostname"], "must start with a letter or number: set another by spec.tls[0].hosts"
        ),
        Refused({}, "x" * 64, ["InvalidHostname"], "at most 63 characters"),
        Refused({"tailscale.com/tags": "db"}, "web", ["InvalidTags"], 'annotation tailscale.com/tags: "db" is not'),
        Refused({"tailscale.com/tags": "db,x"}, "web", ["InvalidTags"] * 2, '"db"'),
        Refused({"tailscale.com/proxy-class": "prod"}, "web", ["ProxyFailed"], "'prod' does not exist"),
    ],
)
def test_an_ingress_that_cannot_be_served_is_told_why_and_keeps_what_runs(case: Refused) -> None:
    plan = planned(live_ingress(case.annotations, host=case.host))
    assert reasons_of(plan) == case.reasons
    assert case.words in plan.notes[0].message
    assert plan == Plan(notes=plan.notes)


def test_an_ingress_waits_for_its_proxy_class() -> None:
    found = Observed(Children(), WEB, live_proxy_class("prod"))
    plan = planned(live_ingress({"tailscale.com/proxy-class": "prod"}), found)
    assert reasons_of(plan) == ["ProxyPending"]


def test_an_ingress_waits_quietly_while_its_proxy_class_is_looked_at_again() -> None:
    found = Observed(Children(), WEB, live_proxy_class("prod", ready=True, generation=2))
    assert planned(live_ingress({"tailscale.com/proxy-class": "prod"}), found) == Plan(notes=[])


def test_an_ingress_is_not_kept_from_its_proxy_by_a_class_that_is_ready() -> None:
    spec = {"tailscale": {"acceptRoutes": True}}
    found = Observed(Children(), WEB, live_proxy_class("prod", spec, ready=True))
    made = proxy(live_ingress({"tailscale.com/proxy-class": "prod"}), found)
    assert (made.proxy_class is not None, made.config.accept_routes) == (True, True)


def test_without_a_usable_backend_what_runs_stays() -> None:
    plan = planned(live_ingress(spec=missing()), logged_in(CURRENT))
    assert reasons_of(plan) == ["InvalidIngressBackend", "NoValidBackends"]
    assert plan == Plan(notes=plan.notes)


@pytest.mark.parametrize(
    ("found", "waits"),
    [
        (replace(NEW, age=0), True),
        (replace(NEW, age=1.9), True),
        (replace(NEW, age=2), False),
        (replace(NEW, age=-1), False),
        (replace(logged_in(CURRENT), age=0), False),
    ],
)
def test_a_new_ingress_waits_quietly_for_services_that_were_applied_with_it(found: Observed, waits: bool) -> None:
    plan = planned(live_ingress(spec=missing()), found)
    assert (plan == Plan(requeue_after=2.0)) is waits
    assert bool(plan.notes) is not waits
    assert planned(live_ingress(), replace(NEW, age=0), KEY).steps


def missing() -> Object:
    return {"defaultBackend": to_service("missing")}


@pytest.mark.parametrize(
    ("annotations", "named", "forward"),
    [
        ({}, False, False),
        (FORWARD, False, True),
        ({}, True, True),
        (OPT_OUT, True, False),
        ({**OPT_OUT, **FORWARD}, True, True),
        (dict.fromkeys(FORWARD, "false"), True, False),
        (dict.fromkeys(FORWARD, "yes"), True, False),
    ],
)
def test_the_proxy_serves_and_forwards_only_if_asked(annotations: dict[str, str], named: bool, forward: bool) -> None:
    made = proxy(live_ingress(annotations), replace(NEW, names_ingresses=named))
    assert (str(made.owner), made.parent_uid) == ("ingress:default/web", "web-uid")
    assert made.pod == served_ingress(forward_cluster_traffic=forward)
    assert made.config.serve_config is not None
    assert proxy(live_ingress({**annotations, "tailscale.com/tags": "tag:web"})).tags == ("tag:web",)


def test_a_new_ingress_gets_its_proxy_and_an_empty_status() -> None:
    plan = planned(live_ingress(), keys=KEY)
    assert [obj["kind"] for obj in children_of(plan)] == ["Service", "Secret", "StatefulSet"]
    files = texts(children_of(plan)[1])
    assert json.loads(files["serve-config"])["TCP"] == {"443": {"HTTPS": True}}
    assert json.loads(files["cap-107.hujson"])["AuthKey"] == "new-authkey"
    assert (plan.hold, plan.status, list(plan.notes)) == (FINALIZER, {"loadBalancer": {}}, [])


class Reported(NamedTuple):
    data: dict[str, str]
    shown: str
    name: str
    notes: tuple[str, ...] = ()


@pytest.mark.parametrize(
    "case",
    [
        Reported({}, "", ""),
        Reported({"device_id": "n1"}, "", ""),
        Reported(DEVICE, "web.tail1234.ts.net", "web.tail1234.ts.net"),
        Reported(CURRENT, "", "web.tail1234.ts.net"),
        Reported({**CURRENT, "https_endpoint": "web.example.org."}, "web.example.org", "web.example.org"),
        Reported({**CURRENT, "https_endpoint": "no-https"}, "", "", ("HTTPSNotEnabled",)),
        Reported({**CURRENT, "device_id": "7", "https_endpoint": "no-https"}, "", "", ("UnsupportedByControlServer",)),
        Reported(
            {**CURRENT, "https_endpoint": "no-https", "pod_uid": "other"}, "web.tail1234.ts.net", "web.tail1234.ts.net"
        ),
    ],
)
def test_status_and_name_are_what_the_device_reports(case: Reported) -> None:
    plan = planned(live_ingress(), logged_in(case.data))
    wanted = [{"hostname": case.shown, "ports": [HTTPS]}] if case.shown else []
    assert shown(plan) == wanted
    assert proxy(live_ingress(), logged_in(case.data)).magic_dns_name == case.name
    assert proxy(live_ingress(OPT_OUT), logged_in(case.data)).magic_dns_name == ""
    assert reasons_of(plan) == [*case.notes]


@pytest.mark.parametrize(
    ("keys", "reason"),
    [(KEY, "AuthKeyReissued"), (Keys({0: ""}, requeue_after=20.0), "AuthKeyDelayed")],
)
def test_an_ingress_whose_proxy_logs_in_anew_says_so_by_an_event(keys: Keys, reason: str) -> None:
    plan = planned(live_ingress(), logged_in({**DEVICE, "reissue_authkey": ""}), keys)
    assert (reasons_of(plan), plan.requeue_after) == ([reason], keys.requeue_after)
    assert shown(plan) == [{"hostname": "web.tail1234.ts.net", "ports": [HTTPS]}]


def test_paths_that_are_left_out_and_findings_about_devices_are_told_by_events() -> None:
    news = [Finding(Effect.FAILED, "TagsRefused", "not permitted", requeue_after=60)]
    spec = {"rules": [{"http": {"paths": [to_path("/bad", to_service("missing")), to_path("/good")]}}]}
    plan = planned(live_ingress(spec=spec), Observed(Children(), WEB, tailnet=TailnetView(news=news)))
    assert (reasons_of(plan), plan.requeue_after) == (["InvalidIngressBackend", "TagsRefused"], 60)
    assert len(children_of(plan)) == 3


def test_with_a_redirect_port_80_is_shown_second() -> None:
    plan = planned(live_ingress({"tailscale.com/http-redirect": "true"}), logged_in(DEVICE))
    assert shown(plan)[0]["ports"] == [HTTPS, HTTP]


def test_a_status_that_is_out_of_date_is_cleared() -> None:
    old = {**live_ingress(), "status": {"loadBalancer": {"ingress": [{"hostname": "old.tail1234.ts.net"}]}, "more": 1}}
    assert planned(old).status == {"loadBalancer": {}, "more": 1}


@pytest.mark.parametrize(
    ("host", "told"), [("web", []), ("web.tail1234.ts.net", []), ("web.example.org", ["IgnoredTLSHosts"])]
)
def test_a_host_of_another_domain_than_the_tailnets_is_told(host: str, told: list[str]) -> None:
    assert reasons_of(planned(live_ingress(host=host), logged_in(DEVICE))) == told
    assert reasons_of(planned(live_ingress(host=host))) == []


@pytest.mark.parametrize(("missed_for", "told", "again"), [(0, [], 600), (601, ["CertificatePending"], None)])
def test_a_certificate_is_waited_for(missed_for: float, told: list[str], again: float | None) -> None:
    seen = Seen("web.tail1234.ts.net", Certificate(is_there=False), datetime(2026, 1, 2, tzinfo=UTC), missed_for)
    plan = planned(live_ingress(), replace(logged_in(DEVICE), certificate=seen))
    assert (reasons_of(plan), plan.requeue_after) == (told, again)


GROUP = {"tailscale.com/proxy-group": "group"}
SHOP = {"tailscale.com/hostname": "shop"}
KEPT = "; until then the proxy keeps the hostname web"


def served_before(data: dict[str, str], hostname: str = "web", *tags: str) -> Observed:
    """A proxy with *hostname* in its config, whose device has *tags*."""
    found = logged_in({**data, "cap-107.hujson": json.dumps({"Hostname": hostname})})
    devices = {"n1": Device("n1", f"{hostname}.tail1234.ts.net", tags=tags)} if tags else {}
    return replace(found, tailnet=TailnetView(devices=devices))


class Kept(NamedTuple):
    annotations: dict[str, str]
    host: str
    observed: Observed
    hostname: str
    tags: Sequence[str]
    told: tuple[str, str]


@pytest.mark.parametrize(
    "case",
    [
        Kept({}, "-web", served_before(DEVICE), "web", ("tag:k8s",), ("InvalidHostname", KEPT)),
        Kept(
            {}, "a_b", served_before(DEVICE, "a_b"), "a_b", ("tag:k8s",), ("InvalidHostname", "keeps the hostname a_b")
        ),
        Kept({}, "a_b", logged_in(DEVICE), "a_b", ("tag:k8s",), ("InvalidHostname", "by spec.tls[0].hosts[0]")),
        Kept(
            {"tailscale.com/tags": "db"},
            "web",
            served_before(DEVICE, "web", "tag:old"),
            "web",
            ("tag:old",),
            ("InvalidTags", "and hyphens; until then its device keeps its tags"),
        ),
        Kept(
            {"tailscale.com/tags": "db"}, "web", served_before(DEVICE), "web", ("db",), ("InvalidTags", '"db" is not')
        ),
    ],
)
def test_an_ingress_that_is_served_goes_on_with_what_it_has_and_is_warned(case: Kept) -> None:
    parent = live_ingress(case.annotations, host=case.host)
    made = proxy(parent, case.observed)
    assert (made.config.hostname, tuple(made.tags)) == (case.hostname, case.tags)
    plan = planned(parent, case.observed)
    assert [(note.type, note.reason) for note in plan.notes] == [("Warning", case.told[0])]
    assert plan.notes[0].message.endswith(case.told[1]) or case.told[1] in plan.notes[0].message
    assert [step for step in plan.steps if isinstance(step, SetTags)] == []
    assert "StatefulSet" in [each["kind"] for each in children_of(plan)]


def test_an_ingress_of_a_group_keeps_its_proxy_and_says_that_groups_are_not_served() -> None:
    for observed in (logged_in(DEVICE), Observed(Children(statefulsets=[SERVED]), WEB)):
        plan = planned(held(live_ingress(GROUP)), observed, KEY)
        (note,) = plan.notes
        assert (note.type, note.reason) == ("Warning", "NotSupportedYet")
        assert note.message.endswith("the proxy that the Ingress has goes on serving it; remove the annotation")
        assert [*plan.steps] == [*planned(held(live_ingress()), observed, KEY).steps] != []
    spoilt = planned(live_ingress(GROUP, spec=missing()), logged_in(DEVICE))
    assert reasons_of(spoilt) == ["NotSupportedYet", "InvalidIngressBackend", "NoValidBackends"]
    waiting = planned(live_ingress({**GROUP, PROXY_CLASS: "prod"}), logged_in(DEVICE))
    assert reasons_of(waiting) == ["NotSupportedYet", "ProxyFailed"]


def test_an_ingress_of_a_group_that_has_no_proxy_gets_none() -> None:
    plan = planned(live_ingress(GROUP))
    (note,) = plan.notes
    assert plan == Plan(notes=plan.notes)
    assert (note.type, note.reason) == ("Warning", "NotSupportedYet")
    assert note.message.endswith("to give it a proxy of its own, remove the annotation")
    assert planned(held(live_ingress(GROUP))).release == FINALIZER
    assert planned(deleting(held(live_ingress(GROUP))), logged_in(DEVICE)).notes == ()


@pytest.mark.parametrize(
    ("parent", "told"),
    [
        (live_ingress(SHOP), []),
        (live_ingress(SHOP, host="-web"), ["InvalidHostname"]),
        (live_ingress(SHOP, spec=missing()), ["InvalidIngressBackend", "NoValidBackends"]),
        (live_ingress({**SHOP, PROXY_CLASS: "prod"}), ["ProxyFailed"]),
    ],
)
def test_an_ingress_says_what_has_no_effect_whether_it_is_served_or_not(parent: Object, told: list[str]) -> None:
    notes = planned(parent).notes
    (note,) = (note for note in notes if note.reason == "IgnoredAnnotation")
    assert note.once
    assert note.message.endswith("write the hostname in spec.tls[0].hosts[0] instead")
    assert [each.reason for each in notes if each != note] == told


def test_an_ingress_whose_class_is_nearly_ours_says_so_and_is_left_alone() -> None:
    parent = live_ingress(spec={"ingressClassName": "tailscael"})
    assert planned(parent) == Plan(notes=planned(parent).notes)
    assert reasons_of(planned(parent)) == ["IgnoredIngressClass"]
    assert planned(parent, replace(NEW, class_exists=True)) == Plan(notes=())
    assert reasons_of(planned(held(parent))) == ["IgnoredIngressClass"]
    assert planned(held(parent)).release == FINALIZER


@pytest.mark.parametrize(("length", "told"), [(63, []), (64, ["InvalidName"])])
def test_a_name_that_is_too_long_for_labels_is_told(length: int, told: list[str]) -> None:
    parent = live_ingress()
    parent["metadata"]["name"] = "a" * length
    assert reasons_of(planned(parent)) == told
    assert bool(planned(parent).steps) is not bool(told)


def ingress_class(controller: str = "tailscale.com/ts-ingress", **annotations: str) -> Object:
    return obj(INGRESSCLASS, Key("", "tailscale"), {"spec": {"controller": controller}}, annotations=annotations)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (ingress_class(), ""),
        (None, "there is no IngressClass tailscale"),
        (
            ingress_class("example.org/nginx"),
            "IngressClass tailscale is of controller example.org/nginx, not tailscale",
        ),
        (ingress_class() | {"spec": {}}, "is of controller None"),
        (ingress_class(**{"ingressclass.kubernetes.io/is-default-class": "true"}), "is marked as the default by"),
    ],
)
def test_a_wrong_ingress_class_is_said_to_be_wrong(found: Object | None, words: str) -> None:
    warning = desired.class_warning(found, "tailscale")
    assert words in warning
    assert bool(warning) == bool(words)


def leaving(host: str) -> Object:
    """An Ingress that has moved to another class, whose status shows *host*."""
    status = {"loadBalancer": {"ingress": [{"hostname": host}]}}
    return {**held(live_ingress(spec={"ingressClassName": "nginx"})), "status": status}


def test_an_ingress_that_we_never_held_is_left_alone() -> None:
    assert desired.plan_deletion(live_ingress(), logged_in(DEVICE)) == Plan()


@pytest.mark.parametrize(
    ("host", "status"), [("web.tail1234.ts.net", {"loadBalancer": {}}), ("nginx.example.org", None)]
)
def test_of_an_ingress_of_another_class_only_our_status_goes(host: str, status: Object | None) -> None:
    plan = desired.plan_deletion(leaving(host), logged_in(DEVICE))
    assert (plan.release, plan.status) == (FINALIZER, status)
    statefulsets = [stored(children_of(planned(live_ingress(), keys=KEY))[2])]
    first = desired.plan_deletion(
        leaving(host), Observed(replace(logged_in(DEVICE).children, statefulsets=statefulsets), WEB)
    )
    assert (first.release, first.status) == ("", None)


def test_a_refusal_is_told_by_an_event_and_tried_again() -> None:
    refusal = Refusal("the control server is away", error=ValueError("503"))
    plan = Plan(notes=[Note("Warning", "ProxyFailed", refusal.message)], error=refusal.error)
    assert planned(live_ingress(), keys=refusal) == plan


def test_an_ingress_whose_services_cannot_be_seen_keeps_what_runs_and_is_looked_at_again() -> None:
    unseen = Observed(Children(), {}, knows_services=False)
    assert planned(live_ingress(), unseen) == Plan(requeue_after=60)
    assert planned(deleting(held(live_ingress())), unseen).release == FINALIZER


def having(**fields: st.SearchStrategy[object]) -> st.SearchStrategy[Object]:
    """Objects with any of *fields*."""
    return st.fixed_dictionaries({}, optional=fields)


PORTS = having(number=st.none() | st.integers(0, 65535), name=st.sampled_from([None, "", "https", "x"]))
SERVICES = having(name=st.sampled_from(["web", "missing", ""]), port=st.none() | PORTS)
BACKENDS = st.none() | having(service=st.none() | SERVICES, resource=st.sampled_from([None, {"kind": "Bucket"}]))
PATHS = having(
    path=st.sampled_from([None, "", "/", "/a"]),
    pathType=st.sampled_from(["Exact", "Prefix", "ImplementationSpecific"]),
    backend=BACKENDS,
)
RULES = having(
    host=st.sampled_from([None, "", "web", "other.example.org"]),
    http=st.none() | having(paths=st.none() | st.lists(PATHS, max_size=3)),
)
TLS = having(hosts=st.none() | st.lists(st.text(max_size=9), max_size=2))
SPECS = having(
    defaultBackend=BACKENDS,
    rules=st.none() | st.lists(RULES, max_size=3),
    tls=st.none() | st.lists(TLS, max_size=2),
)
ANNOTATIONS = st.dictionaries(
    st.sampled_from([*FORWARD, "tailscale.com/tags", "tailscale.com/funnel", "tailscale.com/http-redirect"]),
    st.text(max_size=9) | st.sampled_from(["true", "tag:a"]),
)


@given(ANNOTATIONS, SPECS, st.sampled_from([{}, DEVICE, CURRENT, {**CURRENT, "https_endpoint": "no-https"}]))
def test_every_ingress_has_a_plan(annotations: dict[str, str], spec: Object, data: dict[str, str]) -> None:
    found = live_ingress(annotations, spec=spec, finalizers=[FINALIZER])
    observed = logged_in(data) if data else NEW
    assert desired.plan_deletion(found, observed).release == FINALIZER
    plan, wanted = planned(found, observed, KEY), desired.wanted(found, observed, SETTINGS)
    if isinstance(wanted, Plan):
        assert plan == wanted == Plan(notes=wanted.notes)
        assert wanted.notes
    else:
        assert plan.steps
