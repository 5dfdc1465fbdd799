"""The conditions of an egress Service while a ProxyGroup serves it."""

import hashlib
import json
from collections.abc import Mapping

from tsoperator.api.conditions import condition
from tsoperator.api.names import CONDITION_EGRESS_CONFIGURED, CONDITION_EGRESS_READY
from tsoperator.api.objects import Object, key_of
from tsoperator.group.egress import is_available, replica_count
from tsoperator.reconcilers.service.clusterip import Target
from tsoperator.reconcilers.service.slices import Group, Serving

_PORT_FIELDS = ("name", "protocol", "appProtocol", "port", "targetPort", "nodePort")
_ALWAYS = ("port", "targetPort")


def config_digest(service: Object, target: Target, group: str) -> str:
    """Return the digest of what the proxies are told for *service*, as the Go operator computes it."""
    ports = [
        {name: each.get(name, 0) for name in _PORT_FIELDS if name in _ALWAYS or each.get(name)}
        for each in service["spec"].get("ports") or ()
    ]
    config = {"ports": ports, "tailnetTarget": {"ip": target.ip, "fqdn": target.fqdn}, "proxyGroup": group}
    return hashlib.sha256(json.dumps(config, separators=(",", ":")).encode()).hexdigest()


def configured(group: str, digest: str) -> Object:
    """Return the condition of a Service that the proxies of *group* are told of."""
    reason = f"ConfiguredFor:ProxyGroup:{group}:Config:{digest}"
    return condition(CONDITION_EGRESS_CONFIGURED, True, reason, reason)


def not_configured(group: str, digest: str, message: str = "") -> Object:
    """Return the condition of a Service that the proxies of *group* aren't told of, with a *message* that says why."""
    reason = f"ConfigurationFailed:ProxyGroup:{group}:Config:{digest}"
    return condition(CONDITION_EGRESS_CONFIGURED, False, reason, message or reason)


def readiness(group: Group, serving: Mapping[int, Serving]) -> Object:
    """Return the condition that says how many proxies of *group* route traffic.

    *serving* are the Pods in the EndpointSlices of each IP version, by port; there are none while the ClusterIP Service
    has no address. A Pod counts if all ports lead to it, in all IP versions.
    """
    if not serving or group.obj is None or not is_available(group.obj):
        message = (
            f"ProxyGroup {group.name!r} doesn't serve it yet: look at the conditions of the ProxyGroup if that stays"
        )
        return _ready(False, "ClusterResourcesNotReady", message)
    replicas = replica_count(group.obj)
    if replicas == 0:
        message = f"ProxyGroup {group.name!r} has no proxies: give it spec.replicas of at least 1"
        return _ready(False, "NoProxiesConfigured", message)
    names = {f"{group.name}-{ordinal}" for ordinal in range(replicas)}
    if not names <= {key_of(pod).name for pod in group.pods}:
        return _ready("Unknown", "ClusterResourcesNotReady", f"a Pod of ProxyGroup {group.name!r} is not there")
    led = [{key_of(pod).name for pod in pods} for each in serving.values() for pods in each.values() or [()]]
    count = len(names.intersection(*led))
    message = f"{count} out of {replicas} replicas are ready to route traffic"
    if count == 0:
        some = "; some of the Service's ports and addresses lead to proxies already" if any(led) else ""
        return _ready(False, "NotReadyToRouteTraffic", f"{message}{some}")
    return _ready(True, "ReadyToRouteTraffic" if count == replicas else "PartiallyReadyToRouteTraffic", message)


def _ready(status: bool | str, reason: str, message: str) -> Object:
    return condition(CONDITION_EGRESS_READY, status, reason, message)
