"""The endpoints of a Service."""

import pytest
from tsoperator.api.objects import Object
from tsoperator.proxy.endpoints import by_service, ready_addresses

from tests.support.objects import endpoint, endpoint_slice

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


def test_a_slice_is_found_by_its_service_and_may_have_no_endpoints() -> None:
    slices = [{**endpoint_slice("ts-db"), "endpoints": None}, endpoint_slice("ts-db", endpoint("10.0.0.1", "10.0.0.2"))]
    assert list(ready_addresses(slices)) == ["10.0.0.1", "10.0.0.2"]
    assert list(by_service(endpoint_slice("ts-db"))) == ["ts-db"]
    assert list(by_service({"metadata": {}})) == []
