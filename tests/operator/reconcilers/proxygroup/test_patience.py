"""For how long a ProxyGroup that leaves waits for a proxy that does not report any more."""

import json
from datetime import UTC, datetime, timedelta

from clustersim.sim import SimOptions, cluster_sim
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import CONFIGMAP, POD, PROXYGROUP, SECRET, STATEFULSET, Key, Object, resource_of
from tsoperator.desired.egressgroup import Entry, group_owner, render_entries
from tsoperator.kube.client import KubeClient
from tsoperator.reconcilers.proxies import Proxies
from tsoperator.reconcilers.proxygroup.reconciler import ProxyGroupReconciler
from tsoperator.runtime.cache import Cache
from tsoperator.sources import sources

from tests.support.cluster import kube_client, running, until
from tests.support.manifests import proxy_group
from tests.support.objects import OPERATOR_NAMESPACE, obj, settings, whole_secret
from tests.support.tailnets import applier, running_tailnets, tailnet_client

KEY, LABELS = Key("", "foo"), group_owner("foo").labels
IP = "192.0.2.7"
REPORT: Object = {"podIPv4": IP, "services": {"default-db": {"ports": [], "tailnetTarget": {"ip": "100.64.0.9"}}}}
ENTRIES = render_entries({"default-db": Entry("", "100.64.0.9", frozenset())})
THERE = [
    whole_secret("foo-0", {"egress-services": json.dumps(REPORT)}, LABELS),
    obj(POD, Key(OPERATOR_NAMESPACE, "foo-0"), {"status": {"podIP": IP, "podIPs": [{"ip": IP}]}}, labels=LABELS),
    obj(
        CONFIGMAP,
        Key(OPERATOR_NAMESPACE, "foo-egress-config"),
        {"binaryData": {"egress-services": ENTRIES}},
        labels=LABELS,
    ),
    obj(STATEFULSET, Key(OPERATOR_NAMESPACE, "foo"), {"spec": {}}, labels=LABELS),
]


async def make_leaving_group(client: KubeClient) -> None:
    """Create a group that leaves, and what there is of it: one proxy that forwards something."""
    for each in THERE:
        metadata = {name: each["metadata"][name] for name in ("namespace", "name", "labels")}
        stored = await client.create(resource_of(each), {**each, "metadata": metadata})
        if "status" in each:
            await client.replace_status(resource_of(each), {**stored, "status": each["status"]})
    group = proxy_group("foo", replicas=1)
    await client.create(PROXYGROUP, {**group, "metadata": {**group["metadata"], "finalizers": [FINALIZER]}})
    await client.delete(PROXYGROUP, KEY)


async def test_a_proxy_that_does_not_report_is_waited_for_three_minutes() -> None:
    cache, times = Cache(sources(OPERATOR_NAMESPACE)), [datetime.now(UTC)]
    async with (
        cluster_sim(SimOptions(controllers=False)) as sim,
        kube_client(sim.api_url) as client,
        tailnet_client(sim.control, sim.control_url) as opened,
        running_tailnets(opened, client, cache, settings()) as tailnets,
    ):
        await make_leaving_group(client)
        acting = applier(client, cache, tailnets)
        reconciler = ProxyGroupReconciler(Proxies(cache, acting, tailnets, settings()), acting, lambda: times[-1])
        async with running(cache.follow(client)):
            await cache.synced()
            assert (await reconciler.reconcile(KEY)).requeue_after == 30
            assert cache.all(STATEFULSET)
            times.append(times[0] + timedelta(seconds=200))
            await reconciler.reconcile(KEY)
            await until(lambda: not cache.all(STATEFULSET))
        assert cache.all(SECRET)
