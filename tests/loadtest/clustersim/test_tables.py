"""What ``kubectl get`` prints."""

from typing import Any, NamedTuple

import pytest
from clustersim.objects import (
    CONNECTOR,
    DEPLOYMENT,
    DNSCONFIG,
    ENDPOINTSLICE,
    EVENT,
    INGRESS,
    NODE,
    POD,
    SECRET,
    SERVICE,
    STATEFULSET,
    Object,
    Resource,
)
from clustersim.tables import duration, table

NAMED = {"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}}


def cells(resource: Resource, obj: Object) -> dict[str, Any]:
    shown = table(resource, [{**NAMED, **obj}], {})
    names = [column["name"] for column in shown["columnDefinitions"]]
    return dict(zip(names, shown["rows"][0]["cells"], strict=True))


class Case(NamedTuple):
    resource: Resource
    obj: Object
    shown: dict[str, Any]


RUNNING = {"ready": True, "restartCount": 2, "state": {"running": {}}}
CRASHED = {"ready": False, "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
WORKLOAD = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {"containers": []}}}


@pytest.mark.parametrize(
    "case",
    [
        Case(
            SERVICE, {"spec": {"type": "ExternalName", "externalName": "b"}}, {"External-IP": "b", "Port(s)": "<none>"}
        ),
        Case(SERVICE, {"spec": {"type": "LoadBalancer"}, "status": {}}, {"External-IP": "<pending>"}),
        Case(
            SERVICE,
            {"spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30001, "protocol": "TCP"}]}},
            {"Port(s)": "80:30001/TCP"},
        ),
        Case(
            POD,
            {"spec": {"containers": [{}, {}]}, "status": {"phase": "Running", "containerStatuses": [RUNNING, CRASHED]}},
            {"Ready": "1/2", "Status": "CrashLoopBackOff", "Restarts": "5", "IP": "<none>"},
        ),
        Case(STATEFULSET, {"spec": WORKLOAD, "status": {"readyReplicas": 2}}, {"Ready": "2/3"}),
        Case(DEPLOYMENT, {"spec": WORKLOAD, "status": {}}, {"Ready": "0/3", "Selector": "app=web", "Available": 0}),
        Case(INGRESS, {"spec": {"rules": [{"host": "b"}, {}], "tls": [{}]}}, {"Hosts": "b", "Ports": "80, 443"}),
        Case(SECRET, {"type": "Opaque", "data": {"b": "", "c": ""}}, {"Data": "2"}),
        Case(
            ENDPOINTSLICE,
            {"addressType": "IPv4", "ports": [{"port": 80}], "endpoints": [{"addresses": ["192.0.2.1"]}] * 5},
            {"Ports": "80", "Endpoints": "192.0.2.1,192.0.2.1,192.0.2.1 + 2 more..."},
        ),
        Case(NODE, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, {"Status": "Ready"}),
        Case(
            EVENT,
            {"involvedObject": {"kind": "Pod", "name": "b"}, "message": "c\n"},
            {"Object": "pod/b", "Message": "c"},
        ),
        Case(DNSCONFIG, {"status": {"nameserver": {"ip": "10.96.0.2"}}}, {"NameserverIP": "10.96.0.2"}),
        Case(DNSCONFIG, {}, {"NameserverIP": "", "Name": "a"}),
        Case(
            CONNECTOR,
            {"status": {"isExitNode": True, "conditions": [{"type": "ConnectorReady", "reason": "ConnectorCreated"}]}},
            {"IsExitNode": True, "Status": "ConnectorCreated"},
        ),
    ],
)
def test_cells(case: Case) -> None:
    shown = cells(case.resource, case.obj)
    assert {name: shown[name] for name in case.shown} == case.shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-1, "0s"),
        (119, "119s"),
        (120, "2m"),
        (450, "7m30s"),
        (3600, "60m"),
        (3 * 3600 + 60, "3h1m"),
        (47 * 3600, "47h"),
        (52 * 3600, "2d4h"),
        (9 * 86400 + 3600, "9d"),
    ],
)
def test_durations_are_rounded_as_kubectl_does(seconds: int, shown: str) -> None:
    assert duration(seconds) == shown
