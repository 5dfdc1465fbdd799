"""The plan for an Ingress: its proxy, its status and its Events."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.api.device import Device
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import INGRESSCLASS, STATEFULSET, Key, Object
from tsoperator.api.rules import child_name
from tsoperator.proxy.certificate import ObservedCertificate
from tsoperator.proxy.devices import TailnetView
from tsoperator.proxy.findings import DeviceFinding, Effect
from tsoperator.proxy.login import NO_KEYS, Keys
from tsoperator.proxy.proxy import Children, Proxy
from tsoperator.proxy.proxypod import served_ingress
from tsoperator.proxy.secret import Certificate
from tsoperator.reconcilers.ingress import plan as plans
from tsoperator.reconcilers.ingress.ask import parse
from tsoperator.reconcilers.ingress.plan import Observed
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import Note, Plan, Refusal, SetTags
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
from tests.support.rows import Row, Said, play

SETTINGS = settings()
WEB = {"web": backend_service()}
NEW = Observed(Children(), WEB)
UNSEEN = Observed(Children(), {}, knows_services=False)
NAME = child_name("web", "web-uid")
FORWARD = {"tailscale.com/experimental-forward-cluster-traffic-via-ingress": "true"}
OPT_OUT = {"tailscale.com/cluster-dns": "false"}
CLASS = {"tailscale.com/proxy-class": "prod"}
GROUP = {"tailscale.com/proxy-group": "group"}
SHOP = {"tailscale.com/hostname": "shop"}
BAD_TAG = {"tailscale.com/tags": "db"}
MISSING = {"defaultBackend": to_service("missing")}
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
    """Return the facts about a proxy whose Secret has *data*."""
    secret = slim_secret(f"{NAME}-0", data, OWNER.labels)
    return Observed(Children([headless(OWNER, "web-uid", NAME)], [], [secret], [pod(f"{NAME}-0", "P")]), WEB)


def named(parent: Object, name: str) -> Object:
    return {**parent, "metadata": {**parent["metadata"], "name": name}}


def shown(plan: Plan) -> list[Object]:
    """Return the load balancer's entries in the status of *plan*."""
    entries: list[Object] = status_of(plan)["loadBalancer"].get("ingress", [])
    return entries


class Case(NamedTuple):
    """An Ingress that isn't served now, the Events about it, words of the first Event, and the rest of its plan.

    If a test on a cluster can't show the case, *apart* says why.
    """

    parent: Object
    events: Sequence[str] = ()
    words: str = ""
    observed: Observed = NEW
    plan: Plan = Plan()
    keys: Keys = NO_KEYS
    apart: str = ""

    @property
    def row(self) -> Row:
        classes = [obj(INGRESSCLASS, Key("", "tailscael"), {"spec": {}})] * self.observed.class_exists
        given = [*WEB.values(), *classes, *filter(None, [self.observed.proxy_class])]
        return Row(self.parent, self.check, given, apart=self.apart)

    def check(self, said: Said) -> None:
        assert (said.reasons, said.makes) == (sorted({*self.events}), False)


def with_class(class_: Object | None) -> Observed:
    return Observed(Children(), WEB, class_)


CURRENTLY, MISSPELT = logged_in(CURRENT), live_ingress(spec={"ingressClassName": "tailscael"})
NO_BACKEND = ["InvalidIngressBackend", "NoValidBackends"]
AWAITED = Keys(awaited=frozenset({0}), pending=ValueError("waiting"))
BAD_TAGS = {"tailscale.com/tags": "db,x"}
CHANGING = live_proxy_class("prod", ready=True, generation=2)
WAITS, AGAIN = Plan(requeue_after=2.0), Plan(whole=False)
MOMENT = "it is so for a moment"
LONG = "its name must have at most 63 characters, not 64: make it anew"
OF_SERVICES = "write the hostname in spec.tls[0].hosts[0] instead"
UNSERVED = {
    "bad host": Case(live_ingress(host="-web"), ["InvalidHostname"], "letter or number: set another by spec.tls[0].h"),
    "long host": Case(live_ingress(host="x" * 64), ["InvalidHostname"], "at most 63 characters"),
    "bad tag": Case(live_ingress(BAD_TAG), ["InvalidTags"], 'annotation tailscale.com/tags: "db" is not'),
    "bad tags": Case(live_ingress(BAD_TAGS), ["InvalidTags"] * 2, '"db"'),
    "long name": Case(named(live_ingress(), "a" * 64), ["InvalidName"], LONG),
    "no class": Case(live_ingress(CLASS), ["ProxyFailed"], "'prod' does not exist", plan=AGAIN),
    "new class": Case(
        live_ingress(CLASS), ["ProxyPending"], "", with_class(live_proxy_class("prod")), AGAIN, apart=MOMENT
    ),
    "class in check": Case(live_ingress(CLASS), [], "", with_class(CHANGING), AGAIN, apart=MOMENT),
    "no backend": Case(live_ingress(spec=MISSING), NO_BACKEND, "", CURRENTLY),
    "new": Case(live_ingress(spec=MISSING), [], "", replace(NEW, age=0), WAITS, apart=MOMENT),
    "rather new": Case(live_ingress(spec=MISSING), [], "", replace(NEW, age=1.9), WAITS, apart=MOMENT),
    "two seconds old": Case(live_ingress(spec=MISSING), NO_BACKEND, "", replace(NEW, age=2)),
    "of the future": Case(live_ingress(spec=MISSING), NO_BACKEND, "", replace(NEW, age=-1)),
    "new, with a proxy": Case(live_ingress(spec=MISSING), NO_BACKEND, "", replace(CURRENTLY, age=0)),
    "no auth key": Case(live_ingress(), keys=AWAITED, plan=Plan(error=AWAITED.pending), apart=MOMENT),
    "unread Services": Case(live_ingress(), [], "", UNSEEN, Plan(requeue_after=60, whole=False), apart=MOMENT),
    "misspelt": Case(MISSPELT, ["IgnoredIngressClass"]),
    "of a like class": Case(MISSPELT, observed=replace(NEW, class_exists=True)),
    "hostname, bad host": Case(live_ingress(SHOP, host="-web"), ["InvalidHostname", "IgnoredAnnotation"]),
    "hostname, no backend": Case(live_ingress(SHOP, spec=MISSING), ["IgnoredAnnotation", *NO_BACKEND], OF_SERVICES),
    "hostname, no class": Case(
        live_ingress(SHOP | CLASS), ["IgnoredAnnotation", "ProxyFailed"], OF_SERVICES, plan=AGAIN
    ),
}


@pytest.mark.parametrize("case", UNSERVED.values(), ids=UNSERVED)
def test_events_say_why_an_ingress_is_not_served_and_nothing_changes(case: Case) -> None:
    plan = planned(case.parent, case.observed, case.keys)
    assert (reasons_of(plan), plan) == ([*case.events], replace(case.plan, notes=plan.notes))
    assert all(note.type == "Warning" and note.once == note.reason.startswith("Ignored") for note in plan.notes)
    assert not case.words or case.words in plan.notes[0].message


@pytest.mark.virtual_time
async def test_on_a_cluster_an_ingress_that_is_not_served_has_the_events_of_its_plan() -> None:
    await play({name: case.row for name, case in UNSERVED.items()})


TAG = {"tailscale.com/tags": "tag:web"}
KEEPS_TAGS = "and hyphens; until then its device keeps its tags"
NAMED = replace(NEW, names_ingresses=True)
OF_CLASS = with_class(live_proxy_class("prod", {"tailscale": {"acceptRoutes": True}}, ready=True))
PROXIES: dict[str, tuple[Object, Observed, Object]] = {
    "plain": (live_ingress(TAG), NEW, {"tags": ("tag:web",)}),
    "forwards": (live_ingress(FORWARD), NEW, {"forwards": True}),
    "named": (live_ingress(), NAMED, {"forwards": True}),
    "named, opted out": (live_ingress(OPT_OUT), NAMED, {}),
    "named, both": (live_ingress({**OPT_OUT, **FORWARD}), NAMED, {"forwards": True}),
    "named, false": (live_ingress(dict.fromkeys(FORWARD, "false")), NAMED, {}),
    "named, yes": (live_ingress(dict.fromkeys(FORWARD, "yes")), NAMED, {}),
    "class": (live_ingress(CLASS), OF_CLASS, {"accepts": True}),
    "longest name": (named(live_ingress(), "a" * 63), NEW, {"owner": f"ingress:default/{'a' * 63}"}),
}


@pytest.mark.parametrize(("parent", "observed", "special"), PROXIES.values(), ids=PROXIES)
def test_the_annotations_and_the_spec_of_an_ingress_configure_its_proxy(
    parent: Object, observed: Observed, special: Object
) -> None:
    made = proxy(parent, observed)
    wanted = {"owner": "ingress:default/web", "tags": ("tag:k8s",), "forwards": False, "accepts": False, **special}
    assert made.pod == served_ingress(forward_cluster_traffic=wanted.pop("forwards"))
    config = made.config
    assert {"owner": str(made.owner), "tags": (*made.tags,), "accepts": config.accept_routes} == wanted
    assert (made.parent_uid, config.hostname, config.serve_config is None) == ("web-uid", "web", False)


def test_a_new_ingress_gets_its_proxy_and_an_empty_status() -> None:
    plan = planned(live_ingress(), replace(NEW, age=0), KEY)
    assert [obj["kind"] for obj in children_of(plan)] == ["Service", "Secret", "StatefulSet"]
    files = texts(children_of(plan)[1])
    assert json.loads(files["serve-config"])["TCP"] == {"443": {"HTTPS": True}}
    assert json.loads(files["cap-107.hujson"])["AuthKey"] == "new-authkey"
    assert (plan.hold, plan.status, list(plan.notes)) == (FINALIZER, {"loadBalancer": {}}, [])


REACHED = "IngressReachable"
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
def test_the_status_and_the_magicdns_name_of_an_ingress_come_from_the_report_of_its_proxy(
    data: dict[str, str], served: str, name: str, notes: list[str]
) -> None:
    old = {"loadBalancer": {"ingress": [{"hostname": "old.tail1234.ts.net"}]}, "more": 1}
    plan = planned({**live_ingress(), "status": old}, logged_in(data))
    entries = [{"hostname": served, "ports": [HTTPS]}]
    assert plan.status == {"loadBalancer": {"ingress": entries} if served else {}, "more": 1}
    assert proxy(live_ingress(), logged_in(data)).magic_dns_name == name
    assert proxy(live_ingress(OPT_OUT), logged_in(data)).magic_dns_name == ""
    assert reasons_of(plan) == [*notes, *([REACHED] if served else [])]


def certified(missed_for: float) -> Observed:
    """Return the facts about a proxy whose certificate has been missing for *missed_for* seconds."""
    seen = ObservedCertificate(WEB_NAME, Certificate(is_there=False), datetime(2026, 1, 2, tzinfo=UTC), missed_for)
    return replace(logged_in(DEVICE), certificate=seen)


REFUSED = DeviceFinding(Effect.FAILED, "TagsRefused", "not permitted", requeue_after=60)
PATHS_OF = {"rules": [{"http": {"paths": [to_path("/bad", to_service("missing")), to_path("/good")]}}]}
TAGS_REFUSED = replace(NEW, tailnet=TailnetView(news=[REFUSED]))
ANEW = logged_in({**DEVICE, "reissue_authkey": ""})
DELAYED = Keys({0: ""}, requeue_after=20.0)
REPORTED: dict[str, tuple[Object, Observed, Keys, list[str], float | None]] = {
    "a new key": (live_ingress(), ANEW, KEY, ["AuthKeyReissued", REACHED], None),
    "a key that is delayed": (live_ingress(), ANEW, DELAYED, ["AuthKeyDelayed", REACHED], 20),
    "a path and tags": (
        live_ingress(spec=PATHS_OF),
        TAGS_REFUSED,
        NO_KEYS,
        ["InvalidIngressBackend", "TagsRefused"],
        60,
    ),
    "the name of the device": (live_ingress(host=WEB_NAME), logged_in(DEVICE), NO_KEYS, [REACHED], None),
    "another name": (
        live_ingress(host=OTHER_NAME),
        logged_in(DEVICE),
        NO_KEYS,
        ["IgnoredTLSHosts", REACHED],
        None,
    ),
    "another name so far": (live_ingress(host=OTHER_NAME), NEW, NO_KEYS, [], None),
    "no certificate": (live_ingress(), certified(0), NO_KEYS, [REACHED], 600),
    "no certificate for long": (
        live_ingress(),
        certified(601),
        NO_KEYS,
        ["CertificatePending", REACHED],
        None,
    ),
    "an annotation without effect": (live_ingress(SHOP), NEW, NO_KEYS, ["IgnoredAnnotation"], None),
}


@pytest.mark.parametrize(("parent", "observed", "keys", "events", "again"), REPORTED.values(), ids=REPORTED)
def test_events_report_auth_keys_paths_tags_hosts_and_certificates_of_a_served_ingress(
    parent: Object, observed: Observed, keys: Keys, events: list[str], again: float | None
) -> None:
    plan = planned(parent, observed, keys)
    assert (reasons_of(plan), plan.requeue_after) == (events, again)
    assert {"Service", "StatefulSet"} <= {each["kind"] for each in children_of(plan)}
    assert [each["hostname"] for each in shown(plan)] == [WEB_NAME] * bool(observed.children.secrets)


def test_an_event_says_the_url_of_an_ingress_unless_the_status_of_the_ingress_has_the_name_already() -> None:
    seen = logged_in({**DEVICE, "device_ips": '["100.64.0.7","fd7a:115c:a1e0::7"]'})
    plan = planned(live_ingress(), seen)
    words = f"the tailnet reaches it at https://{WEB_NAME} (100.64.0.7, fd7a:115c:a1e0::7)"
    assert [*plan.notes] == [Note("Normal", "IngressReachable", words, once=True)]
    assert [*planned({**live_ingress(), "status": plan.status}, seen).notes] == []


def test_the_status_of_an_ingress_with_a_redirect_shows_port_80_after_port_443() -> None:
    plan = planned(live_ingress({"tailscale.com/http-redirect": "true"}), logged_in(DEVICE))
    assert shown(plan)[0]["ports"] == [HTTPS, HTTP]


def served_before(hostname: str = "web", *tags: str) -> Observed:
    """Return the facts about a proxy with *hostname* in its config, whose device has *tags*."""
    found = logged_in({**DEVICE, "cap-107.hujson": json.dumps({"Hostname": hostname})})
    devices = {"n1": Device("n1", f"{hostname}.tail1234.ts.net", tags=tags)} if tags else {}
    return replace(found, tailnet=TailnetView(devices=devices))


UNTAGGED, A_B = ("tag:k8s",), live_ingress(host="a_b")
KEPT: dict[str, tuple[Object, Observed, str, tuple[str, ...], str]] = {
    "host": (live_ingress(host="-web"), served_before(), "web", UNTAGGED, "then the proxy keeps the hostname web"),
    "host of Go": (A_B, served_before("a_b"), "a_b", UNTAGGED, "keeps the hostname a_b"),
    "host without a config": (A_B, logged_in(DEVICE), "a_b", UNTAGGED, "by spec.tls[0].hosts[0]"),
    "tag": (live_ingress(BAD_TAG), served_before("web", "tag:old"), "web", ("tag:old",), KEEPS_TAGS),
    "tag of nobody": (live_ingress(BAD_TAG), served_before(), "web", ("db",), KEEPS_TAGS),
}


@pytest.mark.parametrize(("parent", "observed", "hostname", "tags", "words"), KEPT.values(), ids=KEPT)
def test_a_served_ingress_with_a_bad_hostname_or_tag_keeps_the_old_value_and_gets_a_warning(
    parent: Object, observed: Observed, hostname: str, tags: Sequence[str], words: str
) -> None:
    made, plan = proxy(parent, observed), planned(parent, observed)
    assert (made.config.hostname, tuple(made.tags)) == (hostname, tags)
    reason = "InvalidTags" if words == KEEPS_TAGS else "InvalidHostname"
    note, _reachable = plan.notes
    assert (note.type, note.reason, note.message.endswith(words)) == ("Warning", reason, True)
    assert [step for step in plan.steps if isinstance(step, SetTags)] == []
    assert "StatefulSet" in [each["kind"] for each in children_of(plan)]


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


@pytest.mark.parametrize(
    ("parent", "observed", "events"),
    [
        (deleting(held(live_ingress(GROUP))), logged_in(DEVICE), []),
        (held(MISSPELT), NEW, ["IgnoredIngressClass"]),
        (deleting(held(live_ingress())), UNSEEN, []),
    ],
    ids=["deleted with a group", "misspelt class", "deleted with unread Services"],
)
def test_an_ingress_that_is_no_longer_served_is_released(parent: Object, observed: Observed, events: list[str]) -> None:
    plan = planned(parent, observed)
    assert (plan.release, reasons_of(plan)) == (FINALIZER, events)


@pytest.mark.parametrize(
    ("device", "host", "status"),
    [
        (DEVICE, WEB_NAME, {"loadBalancer": {}}),
        (NO_HTTPS, WEB_NAME, {"loadBalancer": {}}),
        (DEVICE, "nginx.example.org", None),
    ],
)
def test_an_ingress_that_now_has_another_class_loses_its_status_only_if_the_status_is_ours(
    device: dict[str, str], host: str, status: Object | None
) -> None:
    shows = {"loadBalancer": {"ingress": [{"hostname": host}]}}
    leaving = {**held(live_ingress(spec={"ingressClassName": "nginx"})), "status": shows}
    plan = removed(leaving, logged_in(device))
    assert (plan.release, plan.status) == (FINALIZER, status)
    pods = stored(children_of(planned(live_ingress(), keys=KEY))[2])
    there = Observed(replace(logged_in(device).children, statefulsets=[pods]), WEB)
    first = removed(leaving, there)
    assert (first.release, first.status) == ("", None)
    assert removed(deleting(leaving), logged_in(device)).status is None
    unheld = {**live_ingress(), "status": shows}
    assert removed(unheld, logged_in(device)) == plan  # somebody took our finalizer off
    assert removed(unheld, Observed(Children(), WEB)) == Plan()


def having(**fields: st.SearchStrategy[object]) -> st.SearchStrategy[Object]:
    """Return a strategy for objects with all, some or none of *fields*. The value of a field can also be null."""
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
def test_the_operator_can_make_a_plan_for_an_ingress_with_any_spec(
    annotations: Object, spec: Object, data: dict[str, str]
) -> None:
    found = live_ingress(annotations, spec=spec, finalizers=[FINALIZER])
    observed = logged_in(data) if data else NEW
    assert removed(found, observed).release == FINALIZER
    plan, wanted = planned(found, observed, KEY), plans.wanted(parse(found, SETTINGS), observed, SETTINGS)
    if isinstance(wanted, Plan):
        assert plan == wanted == Plan(notes=wanted.notes)
        assert wanted.notes
    else:
        assert plan.steps
