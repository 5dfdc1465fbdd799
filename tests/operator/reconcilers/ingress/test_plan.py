"""The plan for an Ingress: its proxy, its status and its Events."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.api.device import Device
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import INGRESSCLASS, STATEFULSET, Key, Object
from tsoperator.api.rules import child_name
from tsoperator.proxy.devices import TailnetView
from tsoperator.proxy.findings import DeviceFinding, Effect
from tsoperator.proxy.login import NO_KEYS, Keys
from tsoperator.proxy.proxy import Children, Proxy
from tsoperator.proxy.proxypod import served_ingress
from tsoperator.proxy.secret import Certificate
from tsoperator.reconcilers.ingress import plan as plans
from tsoperator.reconcilers.ingress.ask import parse
from tsoperator.reconcilers.ingress.certificate import ObservedCertificate
from tsoperator.reconcilers.ingress.plan import Observed
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import Plan, Refusal, SetTags
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
CLASS = {"tailscale.com/proxy-class": "prod"}
GROUP = {"tailscale.com/proxy-group": "group"}
SHOP = {"tailscale.com/hostname": "shop"}
BAD_TAG = {"tailscale.com/tags": "db"}
MISSING = {"defaultBackend": to_service("missing")}
KEEPS_TAGS = "and hyphens; until then its device keeps its tags"
OWNER = Owner("ingress", Key("default", "web"))
DEVICE = {"device_id": "n1", "device_fqdn": "web.tail1234.ts.net."}
CURRENT = {**DEVICE, "tailscale_capver": "110", "pod_uid": "P"}
"""The state that the current Pod has reported."""
SERVED = obj(STATEFULSET, Key("tailscale", NAME), {"spec": {"selector": {"matchLabels": {"app": "web-uid"}}}})
HTTPS = {"port": 443, "protocol": "TCP"}
HTTP = {"port": 80, "protocol": "TCP"}
KEY = Keys({0: "new-authkey"})


def planned(parent: Object, observed: Observed = NEW, keys: Keys | Refusal = NO_KEYS, of: Settings = SETTINGS) -> Plan:
    ask = parse(parent, of)
    return plans.plan(ask, plans.wanted(ask, observed, of), observed, of, keys)


def proxy(parent: Object, observed: Observed = NEW) -> Proxy:
    made = plans.wanted(parse(parent, SETTINGS), observed, SETTINGS)
    assert isinstance(made, Proxy), made
    return made


def removed(parent: Object, observed: Observed) -> Plan:
    return plans.plan_deletion(parse(parent, SETTINGS), observed)


def logged_in(data: dict[str, str]) -> Observed:
    """Return what the reconciler observes of a proxy whose Secret has *data*."""
    secret = slim_secret(f"{NAME}-0", data, OWNER.labels)
    return Observed(Children([headless(OWNER, "web-uid", NAME)], [], [secret], [pod(f"{NAME}-0", "P")]), WEB)


def shown(plan: Plan) -> list[Object]:
    """Return the load balancer's entries in the status of *plan*."""
    entries: list[Object] = status_of(plan)["loadBalancer"].get("ingress", [])
    return entries


@pytest.mark.parametrize(
    ("annotations", "host", "reasons", "words"),
    [
        ({}, "-web", ["InvalidHostname"], "must start with a letter or number: set another by spec.tls[0].hosts"),
        ({}, "x" * 64, ["InvalidHostname"], "at most 63 characters"),
        (BAD_TAG, "web", ["InvalidTags"], 'annotation tailscale.com/tags: "db" is not'),
        ({"tailscale.com/tags": "db,x"}, "web", ["InvalidTags"] * 2, '"db"'),
        (CLASS, "web", ["ProxyFailed"], "'prod' does not exist"),
    ],
)
def test_an_event_says_why_an_ingress_cannot_be_served_and_nothing_changes(
    annotations: Object, host: str, reasons: list[str], words: str
) -> None:
    plan = planned(live_ingress(annotations, host=host))
    assert (reasons_of(plan), words in plan.notes[0].message) == (reasons, True)
    assert plan == Plan(notes=plan.notes, whole=annotations != CLASS)


def test_an_ingress_waits_for_its_class_without_an_event_if_the_class_was_ready_before() -> None:
    for class_, reasons in (
        (live_proxy_class("prod"), ["ProxyPending"]),
        (live_proxy_class("prod", ready=True, generation=2), []),
    ):
        plan = planned(live_ingress(CLASS), Observed(Children(), WEB, class_))
        assert (plan, reasons_of(plan)) == (Plan(notes=plan.notes, whole=False), reasons)


def test_an_ingress_gets_a_proxy_with_the_settings_of_its_ready_class() -> None:
    spec = {"tailscale": {"acceptRoutes": True}}
    made = proxy(live_ingress(CLASS), Observed(Children(), WEB, live_proxy_class("prod", spec, ready=True)))
    assert (made.proxy_class is not None, made.config.accept_routes) == (True, True)


def test_the_proxy_of_an_ingress_without_a_usable_backend_stays_as_it_is() -> None:
    plan = planned(live_ingress(spec=MISSING), logged_in(CURRENT))
    assert reasons_of(plan) == ["InvalidIngressBackend", "NoValidBackends"]
    assert plan == Plan(notes=plan.notes)


def test_a_new_ingress_waits_two_seconds_without_an_event_for_missing_services() -> None:
    for found, waits in (
        (replace(NEW, age=0), True),
        (replace(NEW, age=1.9), True),
        (replace(NEW, age=2), False),
        (replace(NEW, age=-1), False),
        (replace(logged_in(CURRENT), age=0), False),
    ):
        plan = planned(live_ingress(spec=MISSING), found)
        assert (plan == Plan(requeue_after=2.0), bool(plan.notes)) == (waits, not waits)
    assert planned(live_ingress(), replace(NEW, age=0), KEY).steps


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
def test_the_proxy_serves_and_forwards_connections_of_the_cluster_only_if_asked_to(
    annotations: Object, named: bool, forward: bool
) -> None:
    made = proxy(live_ingress({**annotations, "tailscale.com/tags": "tag:web"}), replace(NEW, names_ingresses=named))
    assert (str(made.owner), made.parent_uid, made.tags) == ("ingress:default/web", "web-uid", ("tag:web",))
    assert made.pod == served_ingress(forward_cluster_traffic=forward)
    assert made.config.serve_config is not None


def test_a_new_ingress_gets_its_proxy_and_an_empty_status() -> None:
    plan = planned(live_ingress(), keys=KEY)
    assert [obj["kind"] for obj in children_of(plan)] == ["Service", "Secret", "StatefulSet"]
    files = texts(children_of(plan)[1])
    assert json.loads(files["serve-config"])["TCP"] == {"443": {"HTTPS": True}}
    assert json.loads(files["cap-107.hujson"])["AuthKey"] == "new-authkey"
    assert (plan.hold, plan.status, list(plan.notes)) == (FINALIZER, {"loadBalancer": {}}, [])


NO_HTTPS = {**CURRENT, "https_endpoint": "no-https"}
WEB_NAME, OTHER_NAME = "web.tail1234.ts.net", "web.example.org"


@pytest.mark.parametrize(
    ("data", "served", "name", "notes"),
    [
        ({}, "", "", []),
        ({"device_id": "n1"}, "", "", []),
        (DEVICE, WEB_NAME, WEB_NAME, []),
        (CURRENT, "", WEB_NAME, []),
        ({**CURRENT, "https_endpoint": f"{OTHER_NAME}."}, OTHER_NAME, OTHER_NAME, []),
        (NO_HTTPS, "", "", ["HTTPSNotEnabled"]),
        ({**NO_HTTPS, "device_id": "7"}, "", "", ["UnsupportedByControlServer"]),
        ({**NO_HTTPS, "pod_uid": "other"}, WEB_NAME, WEB_NAME, []),
    ],
)
def test_status_and_name_are_what_the_device_reports(
    data: dict[str, str], served: str, name: str, notes: list[str]
) -> None:
    plan = planned(live_ingress(), logged_in(data))
    assert shown(plan) == ([{"hostname": served, "ports": [HTTPS]}] if served else [])
    assert proxy(live_ingress(), logged_in(data)).magic_dns_name == name
    assert proxy(live_ingress(OPT_OUT), logged_in(data)).magic_dns_name == ""
    assert reasons_of(plan) == notes


@pytest.mark.parametrize(
    ("keys", "reason"),
    [(KEY, "AuthKeyReissued"), (Keys({0: ""}, requeue_after=20.0), "AuthKeyDelayed")],
)
def test_an_event_says_that_the_proxy_of_an_ingress_logs_in_anew(keys: Keys, reason: str) -> None:
    plan = planned(live_ingress(), logged_in({**DEVICE, "reissue_authkey": ""}), keys)
    assert (reasons_of(plan), plan.requeue_after) == ([reason], keys.requeue_after)
    assert shown(plan) == [{"hostname": "web.tail1234.ts.net", "ports": [HTTPS]}]


AWAITED = Keys(awaited=frozenset({0}), pending=ValueError("waiting"))


def test_a_new_ingress_writes_nothing_while_it_waits_for_an_auth_key() -> None:
    assert planned(live_ingress(), keys=AWAITED) == Plan(error=AWAITED.pending)


def test_events_report_paths_that_are_left_out_and_findings_about_devices() -> None:
    news = [DeviceFinding(Effect.FAILED, "TagsRefused", "not permitted", requeue_after=60)]
    spec = {"rules": [{"http": {"paths": [to_path("/bad", to_service("missing")), to_path("/good")]}}]}
    plan = planned(live_ingress(spec=spec), Observed(Children(), WEB, tailnet=TailnetView(news=news)))
    assert (reasons_of(plan), plan.requeue_after) == (["InvalidIngressBackend", "TagsRefused"], 60)
    assert len(children_of(plan)) == 3


def test_the_status_of_an_ingress_with_a_redirect_shows_port_80_after_port_443() -> None:
    plan = planned(live_ingress({"tailscale.com/http-redirect": "true"}), logged_in(DEVICE))
    assert shown(plan)[0]["ports"] == [HTTPS, HTTP]


def test_a_status_that_is_out_of_date_is_cleared() -> None:
    old = {**live_ingress(), "status": {"loadBalancer": {"ingress": [{"hostname": "old.tail1234.ts.net"}]}, "more": 1}}
    assert planned(old).status == {"loadBalancer": {}, "more": 1}


def test_an_event_reports_a_tls_host_outside_of_the_tailnets_domain() -> None:
    for host, told in (("web", []), (WEB_NAME, []), (OTHER_NAME, ["IgnoredTLSHosts"])):
        assert reasons_of(planned(live_ingress(host=host), logged_in(DEVICE))) == told
        assert reasons_of(planned(live_ingress(host=host))) == []


@pytest.mark.parametrize(("missed_for", "told", "again"), [(0, [], 600), (601, ["CertificatePending"], None)])
def test_an_ingress_whose_certificate_is_missing_is_looked_at_again_after_ten_minutes(
    missed_for: float, told: list[str], again: float | None
) -> None:
    seen = ObservedCertificate(WEB_NAME, Certificate(is_there=False), datetime(2026, 1, 2, tzinfo=UTC), missed_for)
    plan = planned(live_ingress(), replace(logged_in(DEVICE), certificate=seen))
    assert (reasons_of(plan), plan.requeue_after) == (told, again)


def served_before(data: dict[str, str], hostname: str = "web", *tags: str) -> Observed:
    """Return what the reconciler observes of a proxy with *hostname* in its config, whose device has *tags*."""
    found = logged_in({**data, "cap-107.hujson": json.dumps({"Hostname": hostname})})
    devices = {"n1": Device("n1", f"{hostname}.tail1234.ts.net", tags=tags)} if tags else {}
    return replace(found, tailnet=TailnetView(devices=devices))


@pytest.mark.parametrize(
    ("annotations", "host", "observed", "hostname", "tags", "reason", "words"),
    [
        (
            {},
            "-web",
            served_before(DEVICE),
            "web",
            ("tag:k8s",),
            "InvalidHostname",
            "then the proxy keeps the hostname web",
        ),
        ({}, "a_b", served_before(DEVICE, "a_b"), "a_b", ("tag:k8s",), "InvalidHostname", "keeps the hostname a_b"),
        ({}, "a_b", logged_in(DEVICE), "a_b", ("tag:k8s",), "InvalidHostname", "by spec.tls[0].hosts[0]"),
        (BAD_TAG, "web", served_before(DEVICE, "web", "tag:old"), "web", ("tag:old",), "InvalidTags", KEEPS_TAGS),
        (BAD_TAG, "web", served_before(DEVICE), "web", ("db",), "InvalidTags", KEEPS_TAGS),
    ],
)
def test_a_served_ingress_with_a_bad_hostname_or_tag_keeps_its_old_one_and_gets_a_warning(
    annotations: Object, host: str, observed: Observed, hostname: str, tags: Sequence[str], reason: str, words: str
) -> None:
    parent = live_ingress(annotations, host=host)
    made, plan = proxy(parent, observed), planned(parent, observed)
    assert (made.config.hostname, tuple(made.tags)) == (hostname, tags)
    assert [(note.type, note.reason, note.message.endswith(words)) for note in plan.notes] == [
        ("Warning", reason, True)
    ]
    assert [step for step in plan.steps if isinstance(step, SetTags)] == []
    assert "StatefulSet" in [each["kind"] for each in children_of(plan)]


def test_an_ingress_of_a_group_keeps_its_proxy_and_says_that_groups_are_not_served() -> None:
    for observed in (logged_in(DEVICE), Observed(Children(statefulsets=[SERVED]), WEB)):
        plan = planned(held(live_ingress(GROUP)), observed, KEY)
        (note,) = plan.notes
        assert (note.type, note.reason) == ("Warning", "NotSupportedYet")
        assert note.message.endswith("the proxy that the Ingress has goes on serving it; remove the annotation")
        assert [*plan.steps] == [*planned(held(live_ingress()), observed, KEY).steps] != []
    spoilt = planned(live_ingress(GROUP, spec=MISSING), logged_in(DEVICE))
    assert reasons_of(spoilt) == ["NotSupportedYet", "InvalidIngressBackend", "NoValidBackends"]
    assert reasons_of(planned(live_ingress(GROUP | CLASS), logged_in(DEVICE))) == ["NotSupportedYet", "ProxyFailed"]


def test_an_ingress_of_a_group_that_has_no_proxy_gets_none() -> None:
    plan = planned(live_ingress(GROUP))
    (note,) = plan.notes
    assert (plan, note.type, note.reason) == (Plan(notes=plan.notes), "Warning", "NotSupportedYet")
    assert note.message.endswith("to give it a proxy of its own, remove the annotation")
    assert planned(held(live_ingress(GROUP))).release == FINALIZER
    assert planned(deleting(held(live_ingress(GROUP))), logged_in(DEVICE)).notes == ()


@pytest.mark.parametrize(
    ("parent", "told"),
    [
        (live_ingress(SHOP), []),
        (live_ingress(SHOP, host="-web"), ["InvalidHostname"]),
        (live_ingress(SHOP, spec=MISSING), ["InvalidIngressBackend", "NoValidBackends"]),
        (live_ingress(SHOP | CLASS), ["ProxyFailed"]),
    ],
)
def test_an_event_names_an_annotation_without_effect_even_if_the_ingress_cannot_be_served(
    parent: Object, told: list[str]
) -> None:
    notes = planned(parent).notes
    (note,) = (note for note in notes if note.reason == "IgnoredAnnotation")
    assert note.once
    assert note.message.endswith("write the hostname in spec.tls[0].hosts[0] instead")
    assert [each.reason for each in notes if each != note] == told


def test_an_ingress_whose_class_is_misspelt_gets_an_event_and_nothing_else() -> None:
    parent = live_ingress(spec={"ingressClassName": "tailscael"})
    assert planned(parent) == Plan(notes=planned(parent).notes)
    assert reasons_of(planned(parent)) == ["IgnoredIngressClass"]
    assert planned(parent, replace(NEW, class_exists=True)) == Plan(notes=())
    assert reasons_of(planned(held(parent))) == ["IgnoredIngressClass"]
    assert planned(held(parent)).release == FINALIZER


def test_an_event_says_that_the_name_of_an_ingress_is_too_long_for_labels() -> None:
    for length, told in ((63, []), (64, ["InvalidName"])):
        parent = live_ingress()
        parent["metadata"]["name"] = "a" * length
        assert (reasons_of(planned(parent)), bool(planned(parent).steps)) == (told, not told)


def test_a_warning_says_what_is_wrong_with_the_ingress_class() -> None:
    def class_(controller: str, **annotations: str) -> Object:
        return obj(INGRESSCLASS, Key("", "tailscale"), {"spec": {"controller": controller}}, annotations=annotations)

    ours, default = "tailscale.com/ts-ingress", {"ingressclass.kubernetes.io/is-default-class": "true"}
    assert plans.class_warning(class_(ours), "tailscale") == ""
    for found, words in (
        (None, "there is no IngressClass tailscale"),
        (class_("example.org/nginx"), "IngressClass tailscale is of controller example.org/nginx, not tailscale"),
        (class_(ours) | {"spec": {}}, "is of controller None"),
        (class_(ours, **default), "is marked as the default by"),
    ):
        assert words in plans.class_warning(found, "tailscale")


@pytest.mark.parametrize(("host", "status"), [(WEB_NAME, {"loadBalancer": {}}), ("nginx.example.org", None)])
def test_an_ingress_that_now_has_another_class_loses_its_status_only_if_it_is_ours(
    host: str, status: Object | None
) -> None:
    shows = {"loadBalancer": {"ingress": [{"hostname": host}]}}
    leaving = {**held(live_ingress(spec={"ingressClassName": "nginx"})), "status": shows}
    plan = removed(leaving, logged_in(DEVICE))
    assert (plan.release, plan.status) == (FINALIZER, status)
    pods = stored(children_of(planned(live_ingress(), keys=KEY))[2])
    there = Observed(replace(logged_in(DEVICE).children, statefulsets=[pods]), WEB)
    first = removed(leaving, there)
    assert (first.release, first.status) == ("", None)
    assert removed(deleting(leaving), logged_in(DEVICE)).status is None
    unheld = {**live_ingress(), "status": shows}
    assert removed(unheld, logged_in(DEVICE)) == plan  # somebody took our finalizer off
    assert removed(unheld, Observed(Children(), WEB)) == Plan()


def test_an_ingress_whose_services_cannot_be_read_keeps_its_proxy_and_is_looked_at_again() -> None:
    unseen = Observed(Children(), {}, knows_services=False)
    assert planned(live_ingress(), unseen) == Plan(requeue_after=60, whole=False)
    assert planned(deleting(held(live_ingress())), unseen).release == FINALIZER


def having(**fields: st.SearchStrategy[object]) -> st.SearchStrategy[Object]:
    """Return a strategy for objects with any of *fields*, each of which may be null."""
    return st.fixed_dictionaries({}, optional={name: st.none() | field for name, field in fields.items()})


PORTS = having(number=st.integers(0, 65535), name=st.sampled_from(["", "https", "x"]))
SERVICES = having(name=st.sampled_from(["web", "missing", ""]), port=PORTS)
BACKENDS = having(service=SERVICES, resource=st.just({"kind": "Bucket"}))
TYPES = ["Exact", "Prefix", "ImplementationSpecific"]
PATHS = having(path=st.sampled_from(["", "/", "/a"]), pathType=st.sampled_from(TYPES), backend=BACKENDS)
HOSTS = st.sampled_from(["", "web", "other.example.org"])
RULES = having(host=HOSTS, http=having(paths=st.lists(PATHS, max_size=3)))
TLS = having(hosts=st.lists(st.text(max_size=9), max_size=2))
SPECS = having(defaultBackend=BACKENDS, rules=st.lists(RULES, max_size=3), tls=st.lists(TLS, max_size=2))
ANNOTATIONS = st.dictionaries(
    st.sampled_from([*FORWARD, "tailscale.com/tags", "tailscale.com/funnel", "tailscale.com/http-redirect"]),
    st.text(max_size=9) | st.sampled_from(["true", "tag:a"]),
)


@given(ANNOTATIONS, SPECS, st.sampled_from([{}, DEVICE, CURRENT, NO_HTTPS]))
def test_an_ingress_with_any_spec_has_a_plan(annotations: Object, spec: Object, data: dict[str, str]) -> None:
    found = live_ingress(annotations, spec=spec, finalizers=[FINALIZER])
    observed = logged_in(data) if data else NEW
    assert removed(found, observed).release == FINALIZER
    plan, wanted = planned(found, observed, KEY), plans.wanted(parse(found, SETTINGS), observed, SETTINGS)
    if isinstance(wanted, Plan):
        assert plan == wanted == Plan(notes=wanted.notes)
        assert wanted.notes
    else:
        assert plan.steps
