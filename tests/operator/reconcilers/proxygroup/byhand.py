"""A cluster without controllers, and a reconciler of ProxyGroups that a test calls."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import NamedTuple

from clustersim.sim import SimOptions, cluster_sim
from tsoperator.api.objects import Key, Object, resource_of
from tsoperator.kube.client import KubeClient
from tsoperator.reconcilers.proxies import Proxies
from tsoperator.reconcilers.proxygroup.reconciler import ProxyGroupReconciler
from tsoperator.runtime.apply import utc_now
from tsoperator.runtime.cache import Cache
from tsoperator.sources import sources

from tests.support.cluster import kube_client, running
from tests.support.objects import OPERATOR_NAMESPACE, settings
from tests.support.tailnets import applier, running_tailnets, tailnet_client

_GIVEN = ("namespace", "name", "labels", "finalizers", "ownerReferences")


class Hand(NamedTuple):
    """The cluster as the operator sees it, and the reconciler."""

    client: KubeClient
    cache: Cache
    reconciler: ProxyGroupReconciler


@asynccontextmanager
async def by_hand(there: Sequence[Object], now: Callable[[], datetime] = utc_now) -> AsyncIterator[Hand]:
    """Yield a reconciler in a cluster in which these objects are *there*; those that have a deletion time leave."""
    cache = Cache(sources(OPERATOR_NAMESPACE))
    async with (
        cluster_sim(SimOptions(controllers=False)) as sim,
        kube_client(sim.api_url) as client,
        tailnet_client(sim.control, sim.control_url) as opened,
        running_tailnets(opened, client, cache, settings()) as tailnets,
    ):
        for each in there:
            await _make(client, each)
        acting = applier(client, cache, tailnets)
        async with running(cache.follow(client)):
            await cache.synced()
            yield Hand(client, cache, ProxyGroupReconciler(Proxies(cache, acting, tailnets, settings()), acting, now))


async def _make(client: KubeClient, obj: Object) -> None:
    resource, metadata = resource_of(obj), obj["metadata"]
    given = {name: metadata[name] for name in _GIVEN if name in metadata}
    stored = await client.create(resource, {**obj, "metadata": given})
    if "status" in obj:
        await client.replace_status(resource, {**stored, "status": obj["status"]})
    if "deletionTimestamp" in metadata:
        await client.delete(resource, Key(metadata.get("namespace", ""), metadata["name"]))
