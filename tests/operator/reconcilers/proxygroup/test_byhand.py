"""What a ProxyGroup waits for, what it leaves alone, and what concerns it, in a cluster that stands still."""

import json
from datetime import UTC, datetime, timedelta

from tsoperator.api.device import Device
from tsoperator.api.objects import (
    CONFIGMAP,
    DEVICE,
    POD,
    PROXYGROUP,
    SECRET,
    SERVICE,
    STATEFULSET,
    TAILNET,
    Key,
    Object,
)
from tsoperator.desired.children import owner_reference
from tsoperator.desired.egressgroup import Entry, group_owner, render_entries
from tsoperator.tailnet.tailnet import device_object

from tests.operator.reconcilers.proxygroup.byhand import by_hand
from tests.operator.reconcilers.proxygroup.groups import live_group
from tests.support.cluster import until
from tests.support.manifests import tailnet
from tests.support.objects import OPERATOR_NAMESPACE, deleting, held, obj, whole_secret

KEY, LABELS = Key("", "foo"), group_owner("foo").labels
IP = "192.0.2.7"
REPORT: Object = {"podIPv4": IP, "services": {"default-db": {"ports": [], "tailnetTarget": {"ip": "100.64.0.9"}}}}
ENTRIES = {"egress-services": render_entries({"default-db": Entry("", "100.64.0.9", frozenset())})}
LEAVING = deleting(held(live_group({"replicas": 1})))


def named(name: str) -> Key:
    return Key(OPERATOR_NAMESPACE, name)


FORWARDING = [
    LEAVING,
    whole_secret("foo-0", {"egress-services": json.dumps(REPORT)}, LABELS),
    obj(POD, named("foo-0"), {"status": {"podIP": IP, "podIPs": [{"ip": IP}]}}, labels=LABELS),
    obj(CONFIGMAP, named("foo-egress-config"), {"binaryData": ENTRIES}, labels=LABELS),
    obj(STATEFULSET, named("foo"), {"spec": {}}, labels=LABELS),
]


async def test_a_proxy_that_does_not_report_is_waited_for_three_minutes() -> None:
    times = [datetime.now(UTC)]
    async with by_hand(FORWARDING, lambda: times[-1]) as (_, cache, reconciler):
        assert (await reconciler.reconcile(KEY)).requeue_after == 30
        assert cache.all(STATEFULSET)
        times.append(times[0] + timedelta(seconds=200))
        await reconciler.reconcile(KEY)
        await until(lambda: not cache.all(STATEFULSET))
        assert cache.all(SECRET)


async def test_a_group_that_leaves_takes_nothing_along_that_another_controls() -> None:
    owned = {"ownerReferences": [owner_reference(PROXYGROUP, "bar", "bar-uid")]}
    secret = whole_secret("foo-7", {}, LABELS)
    there = [
        LEAVING,
        {**secret, "metadata": {**secret["metadata"], **owned}},
        obj(SERVICE, named("foo-7-nodeport"), {"spec": {"ports": [{"port": 1}]}}, labels=LABELS, **owned),
    ]
    async with by_hand(there) as (client, cache, reconciler):
        await reconciler.reconcile(KEY)
        await until(lambda: not cache.all(PROXYGROUP))
        for resource, name in ((SECRET, "foo-7"), (SERVICE, "foo-7-nodeport")):
            assert await client.get(resource, named(name))


async def test_a_tailnet_and_a_device_concern_the_groups_that_have_them() -> None:
    groups = [live_group({"tailnet": "lab"}), live_group(name="bar")]
    async with by_hand([*groups, whole_secret("foo-0", {"device_id": "n1"}, LABELS)]) as (_, _, reconciler):
        assert [*reconciler.watches[TAILNET](tailnet("lab"))] == [KEY]
        assert [*reconciler.watches[TAILNET](tailnet("other"))] == []
        for device, keys in (("n1", [KEY]), ("n2", [])):
            assert [*reconciler.watches[DEVICE](device_object("lab", Device(device, "foo-0.example.org")))] == keys
