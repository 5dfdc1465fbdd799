"""The objects that the operator watches, and the part of each object that the cache stores."""

import json

import pytest
from tsoperator.api.objects import (
    ADMISSIONPOLICY,
    CRD,
    ENDPOINTSLICE,
    NODE,
    POD,
    SECRET,
    SECRET_METADATA,
    Key,
    Object,
    Resource,
)
from tsoperator.reconcilers.proxygroup.reconciler import NODES
from tsoperator.sources import sources

from tests.support.objects import OPERATOR_NAMESPACE, obj

BULK = "bm90IHJlYWQ="
LARGE: dict[Resource, Object] = {
    ADMISSIONPOLICY: {"spec": {"validations": [{"expression": BULK}]}},
    CRD: {"spec": {"versions": [{"schema": BULK}]}},
    ENDPOINTSLICE: {"endpoints": [{"nodeName": BULK}], "ports": [{"name": BULK}]},
    NODE: {"status": {"images": [{"names": [BULK]}], "conditions": [{"lastHeartbeatTime": BULK}]}},
    POD: {"spec": {"containers": [{"name": "tailscale", "image": BULK}]}},
    SECRET: {"data": {"_machinekey": BULK}},
    SECRET_METADATA: {"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": BULK}}},
}


@pytest.mark.parametrize(("resource", "rest"), LARGE.items(), ids=[each.plural for each in LARGE])
def test_the_cache_keeps_only_a_part_of_each_object_of_a_kind_whose_objects_can_be_large(
    resource: Resource, rest: Object
) -> None:
    whole = obj(resource, Key(OPERATOR_NAMESPACE, "a"), {})
    metadata = {**whole["metadata"], **rest.get("metadata", {}), "managedFields": [BULK]}
    kept = [
        source.slim({**whole, **rest, "metadata": metadata})
        for source in (*sources(OPERATOR_NAMESPACE), NODES)
        if source.selection.resource == resource and source.selection.namespace in ("", OPERATOR_NAMESPACE)
    ]
    assert {each["metadata"]["name"] for each in kept} == {"a"}
    assert BULK not in json.dumps(kept)
