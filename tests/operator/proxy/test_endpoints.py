"""The endpoints of a Service."""

import pytest
from tsoperator.api.objects import Object
from tsoperator.proxy.endpoints import by_service, has_ready_endpoint, ready_addresses, slim_slice

from tests.support.objects import OPERATOR_NAMESPACE, endpoint, endpoint_slice

MARKED = {"tailscale.com/managed": "true"}
READY = {"ready": True, "serving": True, "terminating": False}


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        (READY, True),
        ({}, True),
        (dict.fromkeys(READY), True),
        ({**READY, "ready": False}, False),
        ({**READY, "serving": False}, False),
        ({**READY, "terminating": True}, False),
    ],
)
def test_an_endpoint_is_ready_unless_a_condition_says_that_it_is_not(conditions: Object, ready: bool) -> None:
    found = ready_addresses([endpoint_slice("ts-db", endpoint("10.0.0.1", **conditions))])
    assert list(found) == ["10.0.0.1"] * ready


def test_an_endpointslice_without_endpoints_does_not_hide_the_endpoints_of_another_slice() -> None:
    slices = [{**endpoint_slice("ts-db"), "endpoints": None}, endpoint_slice("ts-db", endpoint("10.0.0.1", "10.0.0.2"))]
    assert list(ready_addresses(slices)) == ["10.0.0.1", "10.0.0.2"]
    assert has_ready_endpoint(slices)
    assert list(by_service(endpoint_slice("ts-db"))) == ["tailscale/ts-db"]
    assert list(by_service({"metadata": {}})) == []


USERS = {
    "ours, managed": (OPERATOR_NAMESPACE, MARKED, True),
    "ours": (OPERATOR_NAMESPACE, {}, False),
    "a user's": ("default", MARKED, False),
}


@pytest.mark.parametrize(("namespace", "labels", "is_whole"), USERS.values(), ids=USERS)
@pytest.mark.parametrize("ready", [True, False])
def test_the_cache_keeps_our_endpointslices_whole_and_only_the_readiness_of_other_slices(
    namespace: str, labels: Object, is_whole: bool, ready: bool
) -> None:
    whole = endpoint_slice("web", endpoint("10.0.0.1", ready=False), endpoint("10.0.0.2", ready=ready))
    metadata = {**whole["metadata"], "namespace": namespace, "labels": {**whole["metadata"]["labels"], **labels}}
    kept = slim_slice(OPERATOR_NAMESPACE)({**whole, "metadata": {**metadata, "managedFields": ["x"]}})
    assert ("endpoints" in kept, has_ready_endpoint([kept])) == (is_whole, ready)
    assert [*by_service(kept)] == [f"{namespace}/web"]
    assert (kept["metadata"] == metadata) is (is_whole or metadata["labels"] == {"kubernetes.io/service-name": "web"})
