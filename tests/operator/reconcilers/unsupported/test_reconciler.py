"""Kinds without a reconciler on a cluster: the operator runs, and the state of the world is looked at."""

import pytest
from tsoperator.api.objects import PEERRELAY, PROXYGROUPPOLICY, RECORDER, Object, Resource
from tsoperator.reconcilers.unsupported.desired import CONDITIONS

from tests.support.operator import World

SPECS: dict[Resource, Object] = {
    PEERRELAY: {},
    PROXYGROUPPOLICY: {"egress": ["egress-proxies"]},
    RECORDER: {"enableUI": True},
}


def thing(resource: Resource) -> Object:
    metadata = {"name": "one", **({"namespace": "default"} if resource.namespaced else {})}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "spec": SPECS[resource],
    }


@pytest.mark.parametrize("resource", SPECS, ids=lambda resource: resource.kind)
async def test_an_object_of_a_kind_without_a_reconciler_says_so_and_can_be_deleted(
    world: World, resource: Resource
) -> None:
    await world.apply(thing(resource))
    await world.becomes(lambda: world.reason(thing(resource), CONDITIONS[resource]), "NotSupportedYet")
    assert not await world.writes_when_left_alone()
    await world.delete(thing(resource))
    await world.eventually(lambda: world.gone(thing(resource)))
