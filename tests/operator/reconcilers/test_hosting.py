"""The facts about objects that ProxyGroups expose: the leftovers of a Tailscale Service that nobody claims."""

import json
from typing import NamedTuple

import pytest
from clustersim.sim import SimOptions, cluster_sim
from tsoperator.api.names import HA_INGRESS_FINALIZER
from tsoperator.api.objects import Object
from tsoperator.api.owners import ANNOTATION_OWNERS
from tsoperator.api.tailscaleservice import TailscaleService
from tsoperator.group.hosts import NO_SERVICE, ServiceView
from tsoperator.reconcilers.hosting import HostingView, HostingWorld
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.plan import Refusal
from tsoperator.sources import sources
from tsoperator.tsclient.errors import Forbidden

from tests.operator.reconcilers.tailscaleservice.test_look import certificate, pg, web
from tests.support.cluster import kube_client, put, running
from tests.support.objects import OPERATOR_NAMESPACE, deleting, live_ingress, settings

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
def test_a_tailscale_service_that_our_operator_may_own_counts_as_a_leftover(
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
async def test_a_deleted_ingress_waits_for_another_tailnet_only_if_that_tailnet_may_have_its_leftovers(
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
