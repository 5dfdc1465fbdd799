"""The Tailscale Services that the proxies of an ingress group serve and advertise for given objects."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from tsoperator.api.names import HA_INGRESS_FINALIZER, HA_SERVICE_FINALIZER
from tsoperator.api.objects import SERVICE, Key, Object
from tsoperator.api.owners import ANNOTATION_OWNERS
from tsoperator.api.tailscaleservice import TailscaleService
from tsoperator.group import exposing
from tsoperator.group.exposing import Exposed, Exposing, Host, kept_label, offer
from tsoperator.proxy.hosting import Hosted, HostReport, Mapped, rules_document, serve_document
from tsoperator.proxy.serve import hosted_config
from tsoperator.proxy.serviceview import NO_SERVICE, ServiceView
from tsoperator.runtime.plan import DeleteService, Refusal

from tests.support.hosting import claimed
from tests.support.objects import backend_service, deleting, live_ingress, obj, pod

GROUP = {"tailscale.com/proxy-group": "ing"}
REDIRECT, HTTP = {"tailscale.com/http-redirect": "true"}, {"tailscale.com/http-endpoint": "enabled"}
WRONG = {"tailscale.com/tags": "wrong"}
DNS_NAME = "web.tail1234.ts.net"
OLD = "2026-01-02T03:04:05Z"


def owned(name: str, *owners: str) -> TailscaleService:
    references = json.dumps({"ownerRefs": [{"operatorID": each} for each in owners or ("nOP",)]})
    return TailscaleService(name, ("100.64.1.2", "fd7a::2"), annotations={ANNOTATION_OWNERS: references})


def web(
    annotations: Mapping[str, str] = {}, finalizers: tuple[str, ...] = (HA_INGRESS_FINALIZER,), **given: Any
) -> Object:
    return live_ingress({**GROUP, **annotations}, finalizers=[*finalizers], creationTimestamp=OLD, **given)


def api(annotations: Mapping[str, str] = {}, ips: tuple[str, ...] = ("10.0.0.9",)) -> Object:
    spec = {"type": "LoadBalancer", "loadBalancerClass": "tailscale", "clusterIP": ips[0], "clusterIPs": [*ips]}
    given = {"annotations": {**GROUP, **annotations}, "finalizers": [HA_SERVICE_FINALIZER], "creationTimestamp": OLD}
    return obj(SERVICE, Key("default", "api"), {"spec": spec}, **given)


def exposed(of: Object, **changes: Any) -> Exposed:
    """Return the facts about the object *of*, which has its label, its Tailscale Service and ready backends.

    *changes* replace some of these facts.
    """
    made = claimed(of)
    label = changes.pop("label", made.label)
    facts: dict[str, Any] = {
        "view": ServiceView(owned(f"svc:{label}")),
        "holder": made if made.counts else None,
        "backends": {"web": backend_service()},
        "is_ready": True,
        "has_certificate": made.is_web,
    }
    return Exposed(made, label, **facts | changes)


EMPTY = Hosted()
RULE = {4: Mapped("100.64.1.2", "10.0.0.9")}
REPORT = HostReport("10.1.0.1", "", {"svc:default-api": RULE})
POD = {**pod("ing-0", "p0"), "status": {"podIPs": [{"ip": "10.1.0.1"}]}}
DUAL = {**POD, "status": {"podIPs": [{"ip": "10.1.0.1"}, {"ip": "fd01::1"}]}}
HOST = Host(POD, REPORT)
PATHS = {"/": "http://192.0.2.4:8080"}
SERVED = hosted_config(DNS_NAME, PATHS, serves_http=False, redirects=False)
WITH_HTTP = hosted_config(DNS_NAME, PATHS, serves_http=True, redirects=False)
REDIRECTED = hosted_config(DNS_NAME, PATHS, serves_http=False, redirects=True)
WEB, API = Hosted(served={"svc:web": SERVED}), Hosted(rules={"svc:default-api": RULE})
LABELS = ("svc:web", "svc:default-api")
OTHER = claimed(replace_uid := {**web(), "metadata": {**web()["metadata"], "uid": "a", "name": "older"}})

OLDER_AND_WRONG = replace(OTHER, wrong=["wrong"])


def offered(
    *given: Exposed, host: Host = HOST, there: Hosted = EMPTY, **changes: Any
) -> tuple[Hosted, tuple[str, ...]]:
    facts = {"domain": "tail1234.ts.net", "operator_id": "nOP", **changes}
    made = offer(Exposing(given, there, {0: host}, **facts))
    return made.hosted, made.advertised[0]


class Case(NamedTuple):
    """An exposed object, the entry that it gets in the ConfigMap of its group, and whether a proxy advertises it.

    If *is_there* is true, the object had an entry before, and the proxy advertised it before.
    """

    given: Exposed
    wanted: Hosted
    is_advertised: bool
    is_there: bool = False
    facts: Mapping[str, Any] = {}


UNREAD = ServiceView(pending=ValueError("wait"))
REFUSED = ServiceView(refusal=Refusal("no scope"))
UNWRITABLE = ServiceView(owned("svc:web"), refusal=Refusal("no", step=DeleteService("", None, owned("svc:web"))))  # type: ignore[arg-type]
SHARED = ServiceView(owned("svc:web", "nOTHER", "nOP"))
OF_OTHERS = ServiceView(owned("svc:web", "nOTHER"))
UNREADABLE = ServiceView(replace(owned("svc:web"), annotations={ANNOTATION_OWNERS: "{"}))
STATUS: Object = {"status": {"loadBalancer": {"ingress": [{"hostname": DNS_NAME}]}}}

CASES = {
    "ingress": Case(exposed(web()), WEB, True),
    "no certificate": Case(exposed(web(), has_certificate=False), WEB, False),
    "endpoint": Case(exposed(web(HTTP), has_certificate=False), Hosted(served={"svc:web": WITH_HTTP}), True),
    "redirect": Case(exposed(web(REDIRECT), has_certificate=False), Hosted(served={"svc:web": REDIRECTED}), True),
    "both: endpoint": Case(exposed(web(REDIRECT | HTTP)), Hosted(served={"svc:web": WITH_HTTP}), True),
    "no backend": Case(
        exposed(web(), backends={}, is_ready=False),
        Hosted(served={"svc:web": hosted_config(DNS_NAME, {}, serves_http=False, redirects=False)}),
        True,
    ),
    "unready": Case(exposed(web(), is_ready=False), WEB, True),
    "shared": Case(exposed(web(), view=SHARED), WEB, True),
    "shared, unready": Case(exposed(web(), view=SHARED, is_ready=False), WEB, False, is_there=True),
    "not made": Case(exposed(web(), view=NO_SERVICE), Hosted(), False, is_there=True),
    "others', new": Case(exposed(web(), view=OF_OTHERS), Hosted(), False),
    "others'": Case(exposed(web(HTTP), view=OF_OTHERS), WEB, True, is_there=True),
    "foreign": Case(exposed(web(), view=ServiceView(replace(owned("svc:web"), annotations={}))), WEB, True, True),
    "unreadable": Case(exposed(web(), view=UNREADABLE), WEB, True, is_there=True),
    "unread": Case(exposed(web(HTTP), view=UNREAD), WEB, True, is_there=True),
    "unread, new": Case(exposed(web(), view=UNREAD), Hosted(), False),
    "refused": Case(exposed(web(), view=REFUSED), WEB, True, is_there=True),
    "write refused": Case(exposed(web(), view=UNWRITABLE), WEB, True),
    "no identity": Case(exposed(web(HTTP)), WEB, True, is_there=True, facts={"operator_id": ""}),
    "no domain": Case(exposed(web(HTTP)), WEB, True, is_there=True, facts={"domain": ""}),
    "deleted": Case(exposed(deleting(web()), holder=None), Hosted(), False, is_there=True),
    "taken": Case(exposed(web(), holder=OTHER), Hosted(), False, is_there=True),
    "not held": Case(exposed(web(HTTP, ())), WEB, True, is_there=True),
    "not held, new": Case(exposed(web(finalizers=())), Hosted(), False),
    "invalid": Case(exposed(web(WRONG | HTTP)), WEB, True, is_there=True),
    "invalid, new": Case(exposed(web(WRONG)), Hosted(), False),
    "invalid, taken": Case(exposed(web(WRONG), holder=OTHER), Hosted(), False, is_there=True),
    "invalid, has its label": Case(exposed(web(WRONG | HTTP), holder=claimed(web(WRONG))), WEB, True, is_there=True),
    "taken by an invalid one": Case(exposed(web(), holder=OLDER_AND_WRONG), Hosted(), False),
    "invalid, others'": Case(exposed(web(WRONG), view=OF_OTHERS), WEB, True, is_there=True),
    "service": Case(exposed(api()), API, True),
    "service, unready": Case(exposed(api(), is_ready=False), API, False, is_there=True),
    "service, two families": Case(
        exposed(api(ips=("10.0.0.9", "fd00::9"))),
        Hosted({"svc:default-api": {**RULE, 6: Mapped("fd7a::2", "fd00::9")}}),
        False,
    ),
    "service, no address": Case(
        exposed(api(), view=ServiceView(replace(owned("svc:default-api"), addresses=("fd7a::2",)))), Hosted(), False
    ),
    "service, unread": Case(exposed(api(), view=UNREAD), API, True, is_there=True),
    "service, invalid": Case(exposed(api(WRONG)), API, True, is_there=True),
    "service, invalid, unready": Case(exposed(api(WRONG), is_ready=False), API, False, is_there=True),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_facts_about_an_object_decide_whether_the_proxies_serve_and_advertise_it(
    case: Case,
) -> None:
    there = Hosted()
    if case.is_there:
        there = WEB if case.given.claim.is_web else API
    host = HOST._replace(advertised=(case.given.name,) if case.is_there else ())
    found, advertised = offered(case.given, host=host, there=there, **case.facts)
    assert (found, advertised) == (case.wanted, (case.given.name,) * case.is_advertised)


HOSTS = {
    "in effect": (HOST, True),
    "no pod": (HOST._replace(pod=None), False),
    "ending": (HOST._replace(pod=deleting(POD)), False),
    "of the pod before": (HOST._replace(report=replace(REPORT, ip4="10.1.0.7")), False),
    "of both families": (HOST._replace(pod=DUAL, report=replace(REPORT, ip6="fd01::1")), True),
    "of one family": (HOST._replace(report=replace(REPORT, ip6="fd01::1")), False),
    "of one of two families": (HOST._replace(pod=DUAL), False),
    "no address": (HOST._replace(pod=pod("ing-0", "p0"), report=replace(REPORT, ip4="")), False),
    "none": (HOST._replace(report=None), False),
    "other rule": (HOST._replace(report=HostReport("10.1.0.1", "", {"svc:default-api": {}})), False),
}


@pytest.mark.parametrize("was_advertised", [True, False])
@pytest.mark.parametrize(("host", "is_advertised"), HOSTS.values(), ids=HOSTS)
def test_a_proxy_advertises_a_service_only_while_its_pod_reports_the_rule_for_the_service(
    host: Host, is_advertised: bool, was_advertised: bool
) -> None:
    host = host._replace(advertised=("svc:default-api",) * was_advertised)
    assert offered(exposed(api()), host=host) == (API, ("svc:default-api",) * is_advertised)


def test_a_proxy_whose_pod_is_being_replaced_advertises_ingresses_but_no_services() -> None:
    both, there = [exposed(web(), view=UNREAD), exposed(api(), view=UNREAD)], Hosted(API.rules, WEB.served)
    for current in (deleting(POD), None):
        assert offered(*both, host=HOST._replace(pod=current, advertised=LABELS), there=there)[1] == ("svc:web",)
    assert offered(*both, host=HOST._replace(advertised=LABELS), there=there)[1] == LABELS


def test_a_proxy_advertises_new_services_after_the_old_ones_which_keep_their_order() -> None:
    objects = [exposed(api()), exposed(web()), exposed(web(host="a"))]
    host = HOST._replace(advertised=("svc:web", "svc:gone", "svc:default-api"))
    assert offered(*objects, host=host)[1] == ("svc:web", "svc:default-api", "svc:a")


def test_a_proxy_that_has_yet_to_use_its_auth_key_advertises_nothing_new() -> None:
    host = HOST._replace(has_joined=False)
    assert offered(exposed(web()), host=host) == (WEB, ())
    assert offered(exposed(web()), host=host._replace(advertised=("svc:web", "svc:gone")))[1] == ("svc:web",)


def test_an_entry_without_an_object_is_removed_only_if_the_operator_can_see_all_objects() -> None:
    there, host = Hosted(API.rules, WEB.served), HOST._replace(advertised=LABELS)
    assert offered(host=host, there=there) == (Hosted(), ())
    assert offered(host=host, there=there, sees_all=False) == (there, LABELS)


RULES_OF_HOSTS = {DNS_NAME: True, "": True, "web": True, "other.example.org": False}


@pytest.mark.parametrize(("host", "is_served"), RULES_OF_HOSTS.items())
def test_a_rule_of_an_ingress_is_served_if_its_host_is_empty_or_the_magicdns_name(host: str, is_served: bool) -> None:
    path = {"path": "/a", "backend": {"service": {"name": "web", "port": {"number": 8080}}}}
    rule = {"http": {"paths": [path]}} | ({"host": host} if host else {})
    found, _ = offered(exposed(web(spec={"rules": [rule]})))
    handlers = {"/a": {"Proxy": "http://192.0.2.4:8080/a"}} if is_served else None
    assert found.served["svc:web"]["Web"] == {f"{DNS_NAME}:443": {"Handlers": handlers}}


@pytest.mark.parametrize(
    ("of", "label"),
    [
        (web(host="new"), "new"),
        ({**web(WRONG, host="new"), **STATUS}, "web"),
        (web(WRONG, host="new"), "new"),
        (api({"tailscale.com/hostname": "new"}), "new"),
        (api(WRONG | {"tailscale.com/hostname": "new"}), "default-api"),
        (api(WRONG | {"tailscale.com/hostname": "new"}, ips=("10.0.0.8",)), "new"),
    ],
)
def test_the_label_of_an_invalid_object_follows_from_its_status_or_from_its_rule(of: Object, label: str) -> None:
    assert kept_label(claimed(of), Hosted(API.rules, WEB.served)) == label


def test_the_newest_objects_are_left_out_if_the_configmap_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    young = web(host="young")
    young["metadata"] |= {"creationTimestamp": "2026-02-02T03:04:05Z", "name": "young"}
    both = Hosted(served={"svc:web": SERVED, "svc:young": SERVED})
    monkeypatch.setattr(exposing, "SIZE_MAX", len(rules_document({})) + len(serve_document(both.served)) - 1)
    made = offer(Exposing([exposed(young), exposed(web())], Hosted(), {0: HOST}, "tail1234.ts.net", "nOP"))
    assert (made.hosted, made.advertised, made.left_out) == (WEB, {0: ("svc:web",)}, [Key("default", "young")])
    there = Hosted(served={"svc:young": SERVED})
    made = offer(Exposing([exposed(young), exposed(web())], there, {0: HOST}, "tail1234.ts.net", "nOP"))
    assert ({*made.hosted.served}, made.left_out) == ({"svc:young"}, [Key("default", "web")])


@pytest.mark.parametrize("is_first", [True, False])
def test_of_two_objects_with_one_label_only_the_holder_is_served(is_first: bool) -> None:
    young = web(HTTP)
    young["metadata"] |= {"creationTimestamp": "2026-02-02T03:04:05Z", "name": "young", "uid": "young-uid"}
    objects = [exposed(web()), exposed(young, holder=claimed(web()))]
    assert offered(*(objects if is_first else reversed(objects))) == (WEB, ("svc:web",))


def test_the_group_waits_for_tailscale_services_that_have_yet_to_be_read() -> None:
    assert offer(Exposing([exposed(web()), exposed(api(), view=UNREAD)])).pending is UNREAD.pending
    assert offer(Exposing([exposed(web())])).pending is None
