"""Kinds that the operator doesn't support: `kubectl get` and the condition of such an object say so."""

import pytest
from tsoperator.api.crds import DEFINITIONS
from tsoperator.api.objects import RECORDER, Object, Resource
from tsoperator.reconcilers.unsupported.desired import CONDITIONS

from tests.support.operator import World

SPECS: dict[Resource, Object] = {
    RECORDER: {"enableUI": True},
}


def test_kubectl_get_shows_the_reason() -> None:
    columns = {each.resource: {column.name: column.json_path for column in each.columns} for each in DEFINITIONS}
    assert f'@.type == "{CONDITIONS[RECORDER]}"' in columns[RECORDER]["Status"]


@pytest.mark.parametrize("resource", SPECS, ids=lambda resource: resource.kind)
async def test_an_object_of_a_kind_without_a_reconciler_says_so_and_can_be_deleted(
    world: World, resource: Resource
) -> None:
    metadata = {"name": "one", **({"namespace": "default"} if resource.namespaced else {})}
    kind = {"apiVersion": resource.api_version, "kind": resource.kind}
    thing = {**kind, "metadata": metadata, "spec": SPECS[resource]}
    await world.apply(thing)
    await world.becomes(lambda: world.reason(thing, CONDITIONS[resource]), "NotSupportedYet")
    assert not await world.writes_when_left_alone()
    await world.delete(thing)
    await world.eventually(lambda: world.gone(thing))
