"""The ClusterIP Service in front of a ProxyGroup's proxies, for one egress Service (docs/development/groups.md)."""

from collections.abc import Mapping
from itertools import count
from typing import NamedTuple

from tsoperator.api.names import (
    ANNOTATION_LAST_TAILNET_TARGET_FQDN,
    ANNOTATION_LAST_TAILNET_TARGET_IP,
    ANNOTATION_MAGIC_DNSNAME,
    HEALTH_PORT,
    HEALTH_PORT_NAME,
    LABEL_SERVICE_TYPE,
    PROXY_GROUP,
    SERVICE_TYPE_EGRESS,
)
from tsoperator.api.objects import SERVICE, Key, Object, key_of, labels, uid
from tsoperator.api.rules import child_name
from tsoperator.group.ports import Wanted
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import Patch


class Target(NamedTuple):
    """The device to which the proxies forward: its MagicDNS name as the user wrote it, or else its address."""

    fqdn: str
    ip: str


def new_name(service: Object, group: str) -> str:
    """Return the name of a new place of a user's *service* at *group*.

    The name depends on *group*, because a Service has places at two groups while it moves from one group to another.
    """
    return child_name(key_of(service).name, f"{uid(service)}/{group}")


def cluster_ip_service(
    key: Key,
    labels: Mapping[str, str],
    target: Target,
    ports: Mapping[Wanted, int],
    names: Mapping[Wanted, str],
    *,
    is_named: bool = True,
) -> Object:
    """Return the ClusterIP Service named *key* in front of proxies, which forward its connections to *target*.

    *names* has the name of each port of the Service, and *ports* has the port of the proxies for each of them. *labels*
    are from `place_labels`. If *is_named*, Pods can use the target's MagicDNS name. The Service has no selector,
    because its endpoints depend on the reports of the proxies.
    """
    numbers = {each.port for each in names}
    health = next(port for port in count(HEALTH_PORT) if port not in numbers)
    notes = {ANNOTATION_LAST_TAILNET_TARGET_IP: target.ip}
    if target.fqdn:
        notes = {ANNOTATION_LAST_TAILNET_TARGET_FQDN: target.fqdn}
    if target.fqdn and is_named:
        notes[ANNOTATION_MAGIC_DNSNAME] = target.fqdn.removesuffix(".")
    return {
        "apiVersion": SERVICE.api_version,
        "kind": SERVICE.kind,
        "metadata": {
            "namespace": key.namespace,
            "name": key.name,
            "labels": {**labels},
            "annotations": notes,
        },
        "spec": {
            "type": "ClusterIP",
            "ipFamilyPolicy": "PreferDualStack",
            "ports": [
                *(
                    {"name": names[each], "protocol": each.protocol, "port": each.port, "targetPort": port}
                    for each, port in ports.items()
                ),
                {"name": HEALTH_PORT_NAME, "protocol": "TCP", "port": health, "targetPort": HEALTH_PORT},
            ],
        },
    }


def unselected(live: Object | None) -> list[Patch]:
    """Return the step that removes the selector from a *live* ClusterIP Service; no step if it has none.

    Only somebody else can have set the selector. It would make Kubernetes add other Pods to the Service's endpoints.
    """
    if live is None or not live["spec"].get("selector"):
        return []
    return [Patch(SERVICE, key_of(live), {"spec": {"selector": None}})]


def place_labels(owner: Owner, group: str) -> dict[str, str]:
    """Return the labels of the objects that make up the place of *owner* at *group*."""
    return {**owner.labels, PROXY_GROUP: group, LABEL_SERVICE_TYPE: SERVICE_TYPE_EGRESS}


def is_place(child: Object) -> bool:
    """Tell whether *child*, which the operator made for a ProxyGroup, is a part of a place.

    It is one if the operator made it for an egress Service.
    """
    return labels(child).get(LABEL_SERVICE_TYPE) == SERVICE_TYPE_EGRESS
