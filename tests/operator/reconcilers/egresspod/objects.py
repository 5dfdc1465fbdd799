"""Builders for the tests of the gate: a Pod that waits, its ProxyGroup, and the Services of the group."""

from collections.abc import Sequence
from typing import Any

from tsoperator.api.names import EGRESS_GATE, HEALTH_PORT_NAME, LABEL_SERVICE_NAME
from tsoperator.api.objects import ENDPOINTSLICE, POD, PROXYGROUP, SERVICE, Key, Object
from tsoperator.group.clusterip import place_labels
from tsoperator.group.proxygroup import group_owner
from tsoperator.runtime.ownership import Owner

from tests.support.objects import OPERATOR_NAMESPACE, egress_config, obj

GROUP = "foo"
POD_IP = "192.0.2.7"
USER = Key("default", "db")
HEALTH = {"name": HEALTH_PORT_NAME, "protocol": "TCP", "port": 9002, "targetPort": 9002}


def group(replicas: int | None = None, type_: str = "egress") -> Object:
    return obj(
        PROXYGROUP, Key("", GROUP), {"spec": {"type": type_, **({} if replicas is None else {"replicas": replicas})}}
    )


def pod(*ips: str, env: str = "true", status: Object | None = None, **metadata: Any) -> Object:
    """Return a Pod of the group with a closed gate and the addresses *ips*.

    *env* is the value of its variable TS_ENABLE_HEALTH_CHECK. *status* and *metadata* are other fields of the Pod.
    """
    variables = [{"name": "TS_USERSPACE", "value": "false"}, {"name": "TS_ENABLE_HEALTH_CHECK", "value": env}]
    content = {
        "spec": {
            "readinessGates": [{"conditionType": EGRESS_GATE}],
            "containers": [{"name": "tailscale", "image": "tailscale/tailscale", "env": variables}],
        },
        "status": {"podIP": ips[0] if ips else "", "podIPs": [{"ip": ip} for ip in ips], **(status or {})},
    }
    labelled = {"labels": group_owner(GROUP).labels, **metadata}
    return obj(POD, Key(OPERATOR_NAMESPACE, f"{GROUP}-0"), content, **labelled)


def gate(status: str) -> Object:
    return {"conditions": [{"type": "Initialized", "status": "True"}, {"type": EGRESS_GATE, "status": status}]}


def service(user: Key = USER, health: Object | None = HEALTH, **metadata: Any) -> Object:
    ports = [{"name": "sql", "protocol": "TCP", "port": 5432, "targetPort": 10437}, *([health] if health else [])]
    key = Key(OPERATOR_NAMESPACE, f"ts-{user.name}")
    return obj(SERVICE, key, {"spec": {"ports": ports}}, labels=_served(user), **metadata)


def endpoints(*ips: str, user: Key = USER, ready: bool | None = True, **metadata: Any) -> Object:
    conditions = {} if ready is None else {"ready": ready, "serving": ready, "terminating": False}
    marks = {**_served(user), LABEL_SERVICE_NAME: f"ts-{user.name}"}
    content = {
        "addressType": "IPv4",
        "endpoints": [{"addresses": [ip], "conditions": conditions} for ip in ips],
        "ports": [{"name": "sql", "port": 10437}, {"name": HEALTH_PORT_NAME, "port": 9002}],
    }
    return obj(ENDPOINTSLICE, Key(OPERATOR_NAMESPACE, f"ts-{user.name}-ipv4"), content, labels=marks, **metadata)


def config(users: Sequence[Key]) -> Object:
    return egress_config(GROUP, *(f"{user.namespace}-{user.name}" for user in users))


def _served(user: Key) -> dict[str, str]:
    return place_labels(Owner("svc", user), GROUP)
