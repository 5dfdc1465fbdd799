"""The gate on a cluster with the whole operator, whose kubelet writes the status of the Pods too."""

from clustersim.objects import ENDPOINTSLICE as SIM_ENDPOINTSLICE
from tsoperator.api.names import EGRESS_GATE
from tsoperator.api.objects import POD, Object, uid

from tests.support.groups import endpoints, ready_group
from tests.support.manifests import group_egress, proxy_group
from tests.support.operator import World, is_ready

FOO = proxy_group("foo")
EGRESS = ("tailscale.com/svc-type", "egress")
SERVICES = [group_egress(name, "foo") for name in ("db", "web")]


async def test_the_next_pod_is_ready_once_each_service_leads_to_it(world: World) -> None:
    await world.apply(FOO, *SERVICES)
    await world.becomes(lambda: endpoint_counts(world), {2})
    old = (await ready_group(world, FOO))[1].pod
    assert old is not None
    await world.delete(old)
    pod = await world.eventually(lambda: next_pod(world, old))
    assert conditions(pod)[EGRESS_GATE] == "2 Services lead to this Pod"
    assert {"Initialized", "ContainersReady"} <= conditions(pod).keys()
    assert await endpoint_counts(world) == {2}


async def test_a_pod_in_the_place_of_another_is_taken_out_of_each_slice_and_put_in_by_one_write(world: World) -> None:
    await world.apply(FOO, *SERVICES)
    await world.becomes(lambda: endpoint_counts(world), {2})
    old = (await ready_group(world, FOO))[1].pod
    assert old is not None
    await world.settled()
    with world.store.subscribe(SIM_ENDPOINTSLICE) as changes:
        await world.delete(old)
        await world.eventually(lambda: next_pod(world, old))
        await world.settled()
        changes.close()
        ours = [change.object async for change in changes if EGRESS in change.object["metadata"]["labels"].items()]
    assert sorted(len(each["endpoints"]) for each in ours) == [1, 1, 2, 2]


async def endpoint_counts(world: World) -> set[int]:
    """Return how many endpoints each EndpointSlice has; 0 for a Service without any."""
    found = [await endpoints(world, service) for service in SERVICES]
    return {len(each) for slices in found for each in slices.values() or [()]}


async def next_pod(world: World, old: Object) -> Object | None:
    """Return the Pod in the place of *old* once it is ready."""
    live = await world.find(POD, "foo-1")
    return live if live and uid(live) != uid(old) and is_ready(live) else None


def conditions(pod: Object) -> dict[str, str]:
    """Return the messages of the conditions of *pod* that hold, by type."""
    found = pod["status"]["conditions"]
    return {each["type"]: each.get("message", "") for each in found if each["status"] == "True"}
