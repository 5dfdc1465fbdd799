"""The facts about objects that ProxyGroups expose: which object has a label, and what remains of an unclaimed label."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
from clustersim.sim import SimOptions, cluster_sim
from tsoperator.api.names import HA_INGRESS_FINALIZER, KUBE_APISERVER_FINALIZER
from tsoperator.api.objects import ENDPOINTSLICE, PROXYGROUP, SECRET, SERVICE, Key, Object
from tsoperator.api.owners import ANNOTATION_OWNERS
from tsoperator.api.tailscaleservice import TailscaleService
from tsoperator.group.hosts import NO_SERVICE, ServiceView
from tsoperator.group.proxygroup import group_owner
from tsoperator.reconcilers.hosting import HostingChanges, HostingView, HostingWorld
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.plan import Refusal
from tsoperator.sources import sources
from tsoperator.tsclient.errors import Forbidden

from tests.operator.reconcilers.tailscaleservice.test_look import certificate, pg, web
from tests.support.cluster import kube_client, put, running
from tests.support.manifests import backend, load_balancer
from tests.support.objects import OPERATOR_NAMESPACE, deleting, endpoint, live_ingress, obj, settings

OURS = ServiceView(
    TailscaleService("svc:web", annotations={ANNOTATION_OWNERS: json.dumps({"ownerRefs": [{"operatorID": "nOP"}]})})
)
AWAY = ServiceView(refusal=Refusal("away", is_passing=True))
FORBIDDEN = ServiceView(refusal=Refusal("no scope", error=Forbidden("no scope", 403, "")))
PASSING, STUCK = True, False


@pytest.mark.parametrize(
    ("view", "known", "problem", "left"),
    [
        (NO_SERVICE, True, "", None),
        (OURS, True, "", PASSING),
        (NO_SERVICE, False, "", None),
        (OURS, False, "", PASSING),
        (OURS, False, "the Secret can't be read", STUCK),
        (ServiceView(pending=ValueError("unread")), True, "", PASSING),
        (ServiceView(refusal=Refusal("no scope")), True, "", STUCK),
        (ServiceView(refusal=Refusal("Headscale", "UnsupportedByControlServer")), True, "", None),
    ],
)
def test_a_deleted_ingress_has_a_leftover_if_our_operator_could_own_its_tailscale_service(
    view: ServiceView, known: bool, problem: str, left: bool | None
) -> None:
    def service(tailnet: str, label: str, /, *, hosts: bool = False) -> ServiceView:
        return view

    world = HostingWorld(service, lambda: [""], lambda: "nOP" if known else "", lambda: problem, lambda: known)
    found = HostingView(Cache(sources(OPERATOR_NAMESPACE)), settings(), world)
    remainder = found.remainder(deleting(live_ingress(finalizers=[HA_INGRESS_FINALIZER])))
    assert (remainder and remainder.is_passing) is left


class Left(NamedTuple):
    """A deleted Ingress, the other *objects*, and the *view* of its Tailscale Service in another tailnet."""

    ends: Object
    objects: list[Object]
    view: ServiceView = NO_SERVICE
    is_left: bool = True


HERE, ELSEWHERE = [pg("ing"), *certificate("ing")], [pg("far", tailnet="lab"), *certificate("far", "lab.ts.net")]
CLAIMED = [*ELSEWHERE, web("far", "other")]
ENDS = {
    "certificate": Left(web(), HERE),
    "certificate of another tailnet": Left(web(), [pg("ing"), *CLAIMED], is_left=False),
    "certificate of a group that is gone": Left(web(), [pg("ing"), *certificate("gone")]),
    "no group": Left(web("gone"), [], OURS),
    "no group, another tailnet is away": Left(web("gone"), [], AWAY),
    "no group, nothing allowed in another tailnet": Left(web("gone"), [], FORBIDDEN, is_left=False),
    "in a group, nothing allowed": Left(web("far"), [pg("far", tailnet="lab")], FORBIDDEN),
}


@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS)
async def test_a_deleted_ingress_waits_for_another_tailnet_only_if_that_tailnet_could_have_its_leftovers(
    case: Left,
) -> None:
    def service(tailnet: str, _label: str, /, *, hosts: bool = False) -> ServiceView:
        del hosts
        return case.view if tailnet else NO_SERVICE

    async with cluster_sim(SimOptions(controllers=False)) as sim, kube_client(sim.api_url) as client:
        await put(client, *case.objects)
        cache = Cache(sources(OPERATOR_NAMESPACE))
        async with running(cache.follow(client)):
            await cache.synced()
            world = HostingWorld(service, lambda: ["", "lab"], lambda: "nOP", lambda: "")
            assert (HostingView(cache, settings(), world).remainder(deleting(case.ends)) is not None) is case.is_left


def kapi(**metadata: Any) -> Object:
    """Return a ProxyGroup that claims the label web."""
    spec = {"type": "kube-apiserver", "kubeAPIServer": {"hostname": "web"}}
    given = {"finalizers": [KUBE_APISERVER_FINALIZER]}
    return obj(PROXYGROUP, Key("", "kapi"), {"spec": spec}, **{**given, **metadata})


def owned(*owners: Any) -> ServiceView:
    return ServiceView(TailscaleService("svc:web", annotations={ANNOTATION_OWNERS: json.dumps({"ownerRefs": owners})}))


BY_GROUP = {"operatorID": "nOP", "resource": {"kind": "ProxyGroup", "name": "kapi", "uid": "u"}}
GROUP, INGRESS = "ProxyGroup", "Ingress"


class Claimed(NamedTuple):
    """The claims on a label, the Tailscale Service, and the kind of object that has the label."""

    objects: list[Object]
    view: ServiceView
    holder: str


CLAIMS = {
    "group": Claimed([kapi()], ServiceView(pending=ValueError("unread")), GROUP),
    "Ingress": Claimed([pg("ing"), web()], ServiceView(pending=ValueError("unread")), INGRESS),
    "both, of the Ingress": Claimed([pg("ing"), web(), kapi()], OURS, INGRESS),
    "both, of the group": Claimed([pg("ing"), web(), kapi()], owned(BY_GROUP), GROUP),
    "both, of others": Claimed([pg("ing"), web(), kapi()], owned({"operatorID": "nOther"}), INGRESS),
    "both, unread": Claimed([pg("ing"), web(), kapi()], ServiceView(pending=ValueError("unread")), ""),
    "both, not held": Claimed([pg("ing"), web(), kapi(finalizers=[])], owned(BY_GROUP), INGRESS),
}


@pytest.mark.parametrize("case", CLAIMS.values(), ids=CLAIMS)
async def test_the_owner_of_a_tailscale_service_decides_whether_an_ingress_or_a_group_has_its_label(
    case: Claimed,
) -> None:
    async with seen(*case.objects, view=case.view) as view:
        holder = view.holder("", "web")
        assert (holder.obj["kind"] if holder else "") == case.holder


ENDED = kapi(uid="u", deletionTimestamp="2026-01-02T03:04:05Z")
OF_GROUP: dict[str, tuple[list[Object], ServiceView, bool | None]] = {
    "nothing": ([], NO_SERVICE, None),
    "its service": ([], owned(BY_GROUP), PASSING),
    "the service of another group": ([], owned({**BY_GROUP, "resource": {"kind": "ProxyGroup", "uid": "v"}}), None),
    "the service of an Ingress": ([], OURS, None),
    "an unread service": ([], ServiceView(pending=ValueError("unread")), PASSING),
    "a forbidden service": ([], FORBIDDEN, STUCK),
    "Headscale": ([], ServiceView(refusal=Refusal("Headscale", "UnsupportedByControlServer")), None),
    "its certificate": (certificate("kapi"), NO_SERVICE, PASSING),
    "the certificate of an earlier hostname": (
        [{**each, "metadata": {**each["metadata"], "name": "old.ts.net"}} for each in certificate("kapi")],
        NO_SERVICE,
        PASSING,
    ),
    "the certificate of another group": (certificate("ing"), NO_SERVICE, None),
}


@pytest.mark.parametrize(("objects", "shown", "left"), OF_GROUP.values(), ids=OF_GROUP)
async def test_a_deleted_apiserver_group_waits_until_its_tailscale_services_and_certificates_are_gone(
    objects: list[Object], shown: ServiceView, left: bool | None
) -> None:
    async with seen(*objects, view=shown) as view:
        remainder = view.remainder_of_group(ENDED)
        assert (remainder and remainder.is_passing) is left


@pytest.mark.parametrize(
    ("config", "uses"),
    [({"AdvertiseServices": ["svc:web"]}, True), ({"APIServerProxy": {"ServiceName": "svc:web"}}, True), ({}, False)],
)
async def test_a_tailscale_service_is_in_use_while_the_config_of_a_proxy_names_it(config: Object, uses: bool) -> None:
    labels = {**group_owner("kapi").labels, "tailscale.com/secret-type": "config"}
    secret = obj(SECRET, Key(OPERATOR_NAMESPACE, "kapi-0-config"), labels=labels)
    async with seen(kapi(), {**secret, "stringData": {"config.hujson": json.dumps(config)}}, view=NO_SERVICE) as view:
        assert view.uses("", "svc:web") is uses


def slice_of(service: str, *, ready: bool) -> Object:
    labels = {"kubernetes.io/service-name": service}
    return obj(ENDPOINTSLICE, Key("default", "s"), {"endpoints": [endpoint("10.9.0.1", ready=ready)]}, labels=labels)


@pytest.mark.parametrize(("service", "is_exposed"), [("lb", True), ("web", False), ("gone", False)])
async def test_a_change_of_an_endpointslice_causes_a_reconcile_of_an_exposed_service_only_if_readiness_changes(
    service: str, is_exposed: bool
) -> None:
    async with cluster_sim(SimOptions(controllers=False)) as sim, kube_client(sim.api_url) as client:
        await put(client, load_balancer("lb", proxy_group="ing"), backend("web"))
        cache = Cache(sources(OPERATOR_NAMESPACE))
        async with running(cache.follow(client)):
            await cache.synced()
            changes = HostingChanges(cache, SERVICE)
            idle, busy = (slice_of(service, ready=ready) for ready in (False, True))
            told = [Key("default", service)] if is_exposed else []
            assert [changes.of_slice(idle, busy), changes.of_slice(busy, None)] == [told, told]
            assert [changes.of_slice(busy, busy), changes.of_slice(None, idle)] == [[], []]


@asynccontextmanager
async def seen(*objects: Object, view: ServiceView) -> AsyncIterator[HostingView]:
    """Yield the view of a cluster with *objects*, whose tailnet shows each Tailscale Service as *view*."""

    def service(_tailnet: str, _label: str, /, *, hosts: bool = False) -> ServiceView:
        return view

    async with cluster_sim(SimOptions(controllers=False)) as sim, kube_client(sim.api_url) as client:
        await put(client, *objects)
        cache = Cache(sources(OPERATOR_NAMESPACE))
        async with running(cache.follow(client)):
            await cache.synced()
            yield HostingView(cache, settings(), HostingWorld(service, lambda: [""], lambda: "nOP", lambda: ""))
