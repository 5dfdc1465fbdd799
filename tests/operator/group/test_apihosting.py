"""The Tailscale Service that each proxy of a ProxyGroup of type kube-apiserver should serve and advertise."""

import json
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from tsoperator.api.names import KUBE_APISERVER_FINALIZER
from tsoperator.api.objects import INGRESS, PROXYGROUP, Key
from tsoperator.api.owners import ANNOTATION_OWNERS
from tsoperator.api.tailscaleservice import TailscaleService
from tsoperator.group.apihosting import APIHost, APIHosting, APIOffer, api_obstacle, api_offers
from tsoperator.group.claims import LabelClaim
from tsoperator.proxy.serviceview import ServiceView
from tsoperator.runtime.plan import Refusal

from tests.support.hosting import claimed
from tests.support.objects import obj

US, RESOURCE = {"operatorID": "nUS"}, {"kind": "ProxyGroup", "name": "kapi", "uid": "kapi-uid"}
OURS = {**US, "resource": RESOURCE}


def group(name: str = "kapi", **metadata: Any) -> LabelClaim:
    spec = {"type": "kube-apiserver", "kubeAPIServer": {"hostname": "kapi"}}
    return claimed(obj(PROXYGROUP, Key("", name), {"spec": spec}, finalizers=[KUBE_APISERVER_FINALIZER], **metadata))


def shown(*owners: Any) -> ServiceView:
    return ServiceView(TailscaleService("svc:kapi", annotations={ANNOTATION_OWNERS: json.dumps({"ownerRefs": owners})}))


def ingress() -> LabelClaim:
    spec = {"ingressClassName": "tailscale", "tls": [{"hosts": ["kapi"]}]}
    return claimed(
        obj(INGRESS, Key("default", "web"), {"spec": spec}, annotations={"tailscale.com/proxy-group": "ing"})
    )


KAPI = group()
FACTS = APIHosting(KAPI, shown(OURS), KAPI, domain="tail1234.ts.net", operator_id="nUS")
NEW, OLD = "svc:kapi", "svc:old"
FRESH = APIHost()
SERVES = APIHost(NEW, (NEW,), (NEW,))
SERVED_OLD = APIHost(OLD, (OLD,), (OLD,))
DRAINING = APIHost(OLD)


class Case(NamedTuple):
    """The states of two proxies, further facts, and the Services that the proxies should serve and advertise."""

    first: APIHost
    second: APIHost
    expected: tuple[APIOffer, APIOffer]
    facts: Mapping[str, Any] = MappingProxyType({})


NOTHING, WITHOUT_CERTIFICATE, WHOLE, STAYS = APIOffer(), APIOffer(NEW), APIOffer(NEW, (NEW,)), APIOffer(OLD, (OLD,))
DRAINS = APIOffer(OLD)
CERTIFIED: dict[str, Any] = {"has_certificate": True}
CASES = {
    "no certificate yet": Case(FRESH, FRESH, (WITHOUT_CERTIFICATE, WITHOUT_CERTIFICATE)),
    "certificate not prepared": Case(FRESH, SERVED_OLD, (NOTHING, STAYS), {"is_prepared": False}),
    "certificate": Case(FRESH, FRESH, (WHOLE, WHOLE), CERTIFIED),
    "served": Case(SERVES, SERVES, (WHOLE, WHOLE), CERTIFIED),
    "certificate gone": Case(SERVES, SERVES, (WITHOUT_CERTIFICATE, WITHOUT_CERTIFICATE)),
    "new replica": Case(SERVES, APIHost(has_joined=False), (WHOLE, NOTHING), CERTIFIED),
    "no service yet": Case(FRESH, SERVED_OLD, (NOTHING, STAYS), {"view": ServiceView()}),
    "unread service": Case(SERVES, SERVED_OLD, (WHOLE, STAYS), {"view": ServiceView(pending=Exception())}),
    "unknown owners": Case(SERVES, FRESH, (WHOLE, NOTHING), {"view": ServiceView(TailscaleService(NEW))}),
    "no identity": Case(SERVES, FRESH, (WHOLE, NOTHING), {"operator_id": ""}),
    "service of others": Case(SERVES, SERVED_OLD, (NOTHING, STAYS), {"view": shown(US)}),
    "label of another": Case(SERVES, SERVED_OLD, (NOTHING, STAYS), {"holder": ingress()}),
    "renamed": Case(SERVED_OLD, SERVED_OLD, (DRAINS, STAYS)),
    "renamed, drains": Case(DRAINING, SERVED_OLD, (DRAINS, STAYS), {"drained_for": 19.0}),
    "renamed, drained": Case(DRAINING, SERVED_OLD, (WITHOUT_CERTIFICATE, STAYS), {"drained_for": 20.0}),
    "renamed, certificate": Case(APIHost(NEW), SERVED_OLD, (WHOLE, STAYS), CERTIFIED),
    "renamed, advertised": Case(SERVES, SERVED_OLD, (WHOLE, STAYS), {**CERTIFIED, "advertised_for": 7.0}),
    "renamed, served": Case(SERVES, SERVED_OLD, (WHOLE, WHOLE), {**CERTIFIED, "advertised_for": 8.0}),
    "renamed, no other proxy advertises": Case(SERVED_OLD, FRESH, (WITHOUT_CERTIFICATE, WITHOUT_CERTIFICATE)),
    "renamed, old not advertised": Case(FRESH, APIHost(OLD), (WITHOUT_CERTIFICATE, WITHOUT_CERTIFICATE)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_states_of_the_proxies_decide_which_names_each_proxy_serves_and_advertises(case: Case) -> None:
    found = api_offers(replace(FACTS, hosts={0: case.first, 1: case.second}, **case.facts))
    assert (found[0], found[1]) == case.expected


REFUSED = Refusal("no", "Unsupported")
OBSTACLES: dict[str, tuple[dict[str, Any], str, str]] = {
    "none": ({}, "", ""),
    "no service yet": ({"view": ServiceView()}, "", ""),
    "label of another": ({"holder": ingress()}, "LabelTaken", "Ingress default/web has the name kapi"),
    "refused": ({"view": ServiceView(refusal=REFUSED)}, "Unsupported", "no"),
    "no identity": ({"operator_id": "", "no_identity": "why"}, "NoOperatorDevice", "why"),
    "foreign": ({"view": shown()}, "InvalidTailscaleService", "no operator made it"),
    "of others": ({"view": shown(US)}, "InvalidTailscaleService", "belongs to something else"),
    "unreadable": (
        {"view": ServiceView(TailscaleService("svc:kapi", annotations={ANNOTATION_OWNERS: "{"}))},
        "InvalidTailscaleService",
        "can't be read",
    ),
}


@pytest.mark.parametrize(("facts", "reason", "words"), OBSTACLES.values(), ids=OBSTACLES)
def test_the_obstacle_to_offering_the_kubernetes_api_says_what_to_change(
    facts: dict[str, Any], reason: str, words: str
) -> None:
    found = api_obstacle(replace(FACTS, **facts))
    assert (found.reason if found else "") == reason
    assert words in (found.message if found else "")


@pytest.mark.parametrize(
    ("facts", "pause"),
    [
        ({"hosts": {0: DRAINING, 1: SERVED_OLD}, "drained_for": 5.0}, 15.0),
        ({"hosts": {0: DRAINING, 1: SERVED_OLD}, "drained_for": 20.0}, None),
        # No pause is needed: the first proxy's Secret changes when that proxy drains.
        ({"hosts": {0: SERVED_OLD, 1: SERVED_OLD}}, None),
        ({"hosts": {0: SERVES, 1: SERVED_OLD}, "advertised_for": 5.0}, 3.0),
        ({"hosts": {0: SERVES, 1: SERVED_OLD}, "advertised_for": 7.999999999999}, 0.1),
        ({"hosts": {0: DRAINING, 1: SERVED_OLD}, "drained_for": 19.99999999999}, 0.1),
        ({"hosts": {0: SERVES, 1: SERVED_OLD}, "advertised_for": 8.0}, None),
        ({"hosts": {0: SERVES, 1: SERVES}, "advertised_for": 5.0}, None),
    ],
)
def test_the_proxies_of_a_group_move_to_a_new_name_one_after_another_with_a_pause_between_them(
    facts: dict[str, Any], pause: float | None
) -> None:
    assert replace(FACTS, **facts).pause == pause


@pytest.mark.parametrize(
    ("facts", "url"),
    [
        ({"hosts": {0: SERVES}}, "https://kapi.tail1234.ts.net"),
        ({"hosts": {0: SERVED_OLD}}, ""),
        ({"hosts": {0: SERVES}, "domain": ""}, ""),
    ],
)
def test_a_group_has_a_url_while_a_proxy_advertises_its_name(facts: dict[str, Any], url: str) -> None:
    assert replace(FACTS, **facts).url == url


@pytest.mark.parametrize(
    ("facts", "awaits"),
    [
        ({"hosts": {0: APIHost(NEW)}}, True),
        ({"hosts": {0: APIHost(NEW)}, **CERTIFIED}, False),
        ({"hosts": {0: FRESH, 1: SERVED_OLD}}, False),
        ({"hosts": {0: APIHost(NEW)}, "view": shown(US)}, False),
        ({"hosts": {0: APIHost(NEW)}, "holder": ingress()}, False),
    ],
)
def test_a_group_awaits_a_certificate_once_a_proxy_serves_its_name(facts: dict[str, Any], awaits: bool) -> None:
    assert replace(FACTS, **facts).awaits_certificate is awaits
