"""Connector, read from the wire."""

from typing import NamedTuple

import pytest
from tsoperator.api.objects import Object
from tsoperator.api.v1alpha1.connector import AppConnector, Connector, ConnectorStatus
from tsoperator.api.v1alpha1.invalid import Invalid

from tests.support.objects import live_connector


def parsed(obj: Object) -> Connector:
    made = Connector.parse(obj)
    assert isinstance(made, Connector), made
    return made


def test_what_is_not_said_has_its_default() -> None:
    spec = parsed(live_connector({})).spec
    assert (spec.subnet_router, spec.app_connector, spec.exit_node) == (None, None, False)
    assert (spec.hostname, spec.hostname_prefix, spec.proxy_class, spec.tailnet) == (None, None, None, None)
    assert (spec.replicas, list(spec.tags)) == (1, [])
    assert parsed(live_connector({})).status == ConnectorStatus()


def test_every_field_is_read() -> None:
    names = {"hostname": "router", "hostnamePrefix": "ts-prod", "proxyClass": "prod", "tailnet": "other"}
    roles = {"subnetRouter": {"advertiseRoutes": ["10.40.0.0/14"]}, "exitNode": True, "appConnector": {}}
    spec = parsed(live_connector({**names, **roles, "replicas": 0, "tags": ["tag:k8s"]})).spec
    assert (spec.hostname, spec.hostname_prefix, spec.proxy_class, spec.tailnet) == tuple(names.values())
    assert spec.subnet_router is not None
    assert spec.subnet_router.advertise_routes == ["10.40.0.0/14"]
    assert (spec.exit_node, spec.app_connector, spec.replicas, spec.tags) == (True, AppConnector(), 0, ["tag:k8s"])


def test_the_status_is_read() -> None:
    device = {"hostname": "router.tail1234.ts.net", "tailnetIPs": ["100.64.0.1"]}
    status = parsed(live_connector() | {"status": {"devices": [device], "isExitNode": True, **device}}).status
    assert (status.hostname, status.tailnet_ips, status.is_exit_node) == (*device.values(), True)
    assert [each.hostname for each in status.devices] == ["router.tail1234.ts.net"]


class Case(NamedTuple):
    spec: object
    message: str


@pytest.mark.parametrize(
    "case",
    [
        Case(None, "spec must be an object, not null"),
        Case({"subnetRouter": {}}, "spec.subnetRouter.advertiseRoutes is required: add it"),
        Case(
            {"subnetRouter": {"advertiseRoutes": []}},
            "spec.subnetRouter.advertiseRoutes must have at least 1 item, not []",
        ),
        Case({"appConnector": {"routes": []}}, "spec.appConnector.routes must have at least 1 item, not []"),
        Case({"exitNode": "true"}, 'spec.exitNode must be true or false, not "true"'),
        Case({"hostname": "a"}, 'spec.hostname must match ^[a-z0-9][a-z0-9-]{0,61}[a-z0-9]$, not "a"'),
        Case({"hostnamePrefix": "-a"}, 'spec.hostnamePrefix must match ^[a-z0-9][a-z0-9-]{0,61}$, not "-a"'),
        Case({"replicas": -1}, "spec.replicas must be at least 0, not -1"),
        Case({"tags": ["tag:a", "b"]}, 'spec.tags[1] must match ^tag:[a-zA-Z][a-zA-Z0-9-]*$, not "b"'),
    ],
)
def test_what_is_wrong_is_told_by_field(case: Case) -> None:
    assert Connector.parse({**live_connector(), "spec": case.spec}) == Invalid(case.message)
