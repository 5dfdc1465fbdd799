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
    """The target of the proxies: a MagicDNS name as the user wrote it, or else an address."""

    fqdn: str
    ip: str


def new_name(service: Object, group: str) -> str:
    """Return the name of a new ClusterIP Service of *service* at *group*.

    It depends on the group: while a Service moves, it has a ClusterIP Service at each of two groups.
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
    """Return the ClusterIP Service *key*, which leads *ports* to the proxies; they forward them to *target*.

    *labels* are those of `place_labels`, *names* are the names of the ports. If *is_named*, Pods find the target by its
    name. The Service has no selector, because its endpoints depend on what the proxies report.
    """
    numbers = {each.port for each in names}
    health = next(port for port in count(HEALTH_PORT) if port not in numbers)
    leads = {ANNOTATION_LAST_TAILNET_TARGET_IP: target.ip}
    if target.fqdn:
        leads = {ANNOTATION_LAST_TAILNET_TARGET_FQDN: target.fqdn}
    if target.fqdn and is_named:
        leads[ANNOTATION_MAGIC_DNSNAME] = target.fqdn.removesuffix(".")
    return {
        "apiVersion": SERVICE.api_version,
        "kind": SERVICE.kind,
        "metadata": {
            "namespace": key.namespace,
            "name": key.name,
            "labels": {**labels},
            "annotations": leads,
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
    """Return the step that removes a selector from a *live* ClusterIP Service. It would lead to other Pods."""
    if live is None or not live["spec"].get("selector"):
        return []
    return [Patch(SERVICE, key_of(live), {"spec": {"selector": None}})]


def place_labels(owner: Owner, group: str) -> dict[str, str]:
    """Return the labels of the children of *owner* at *group*."""
    return {**owner.labels, PROXY_GROUP: group, LABEL_SERVICE_TYPE: SERVICE_TYPE_EGRESS}


def is_place(child: Object) -> bool:
    """Tell whether *child*, which was made for a Service at a ProxyGroup, is for egress."""
    return labels(child).get(LABEL_SERVICE_TYPE) == SERVICE_TYPE_EGRESS
