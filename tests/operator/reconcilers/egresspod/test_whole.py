"""The gate on a cluster with the whole operator, where a kubelet also writes the status of the Pods."""

from clustersim.objects import ENDPOINTSLICE as SIM_ENDPOINTSLICE
from tsoperator.api.names import EGRESS_GATE
from tsoperator.api.objects import POD, Object, uid

from tests.support.groups import endpoints, ready_group
from tests.support.manifests import group_egress, proxy_group
from tests.support.operator import World, is_ready

FOO = proxy_group("foo")
EGRESS = ("tailscale.com/svc-type", "egress")
SERVICES = [group_egress(name, "foo") for name in ("db", "web")]


async def test_a_pod_that_replaces_another_is_ready_when_each_service_routes_to_the_new_pod(world: World) -> None:
    await world.apply(FOO, *SERVICES)
    await world.becomes(lambda: endpoint_counts(world), {2})
    old = (await ready_group(world, FOO))[1].pod
    assert old is not None
    await world.delete(old)
    pod = await world.eventually(lambda: next_pod(world, old))
    assert conditions(pod)[EGRESS_GATE] == "2 Services lead to this Pod"
    assert {"Initialized", "ContainersReady"} <= conditions(pod).keys()
    assert await endpoint_counts(world) == {2}


async def test_the_end_and_the_replacement_of_an_egress_pod_each_cause_one_write_of_each_endpointslice(
    world: World,
) -> None:
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
    """Return the different numbers of endpoints in the EndpointSlices of `SERVICES`.

    A Service without an EndpointSlice counts as one with 0 endpoints.
    """
    found = [await endpoints(world, service) for service in SERVICES]
    return {len(each) for slices in found for each in slices.values() or [()]}


async def next_pod(world: World, old: Object) -> Object | None:
    """Return the Pod that replaces *old*, or None until it is ready."""
    live = await world.find(POD, "foo-1")
    return live if live and uid(live) != uid(old) and is_ready(live) else None


def conditions(pod: Object) -> dict[str, str]:
    """Return the messages of the true conditions of *pod*, by type."""
    found = pod["status"]["conditions"]
    return {each["type"]: each.get("message", "") for each in found if each["status"] == "True"}
