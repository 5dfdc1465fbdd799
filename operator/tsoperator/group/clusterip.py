"""The ClusterIP Service in front of a ProxyGroup's proxies, for one egress Service (docs/development/groups.md).

Each port of the user's Service gets a port of its own on the proxies, so that they can tell their Services apart. Once
a port is allocated it stays, because the proxies' connections go by it.
"""

from collections.abc import Collection, Container, Iterable, Mapping
from itertools import count
from typing import Final, NamedTuple
from zlib import crc32

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
from tsoperator.group.egress import by_serving_group
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import Patch

FIRST_PORT: Final = 10000
PORT_COUNT: Final = 1000
"""The proxies of a ProxyGroup listen at so many ports for all of their Services, from `FIRST_PORT` on."""
BY_PROXY_PORT: Final = "proxy-port"
"""The index of ClusterIP Services by the ports of the proxies that they have; its values are of `indexed_port`."""


class Wanted(NamedTuple):
    """A port of a user's Service."""

    protocol: str
    port: int


class Target(NamedTuple):
    """The target of the proxies: a MagicDNS name as the user wrote it, or else an address."""

    fqdn: str
    ip: str


def allocated(cluster_ip: Object | None) -> dict[Wanted, int]:
    """Return the proxies' ports that a live ClusterIP Service has, in order, without the one for health checks."""
    if cluster_ip is None:
        return {}
    return {
        Wanted(each.get("protocol", "TCP"), each["port"]): each["targetPort"]
        for each in cluster_ip["spec"].get("ports") or ()
        if each.get("name") != HEALTH_PORT_NAME and _is_ours(each.get("targetPort"))
    }


def indexed_port(group: str, port: object) -> str:
    """Return the value of the index `BY_PROXY_PORT` for a *port* of the proxies of *group*."""
    return f"{group}/{port}"


def by_proxy_port(cluster_ip: Object) -> Iterable[str]:
    """Index ClusterIP Services by the ports of the proxies that they have."""
    groups = by_serving_group(cluster_ip)
    return [indexed_port(group, port) for group in groups for port in {*allocated(cluster_ip).values()}]


def allocate(
    service_uid: str, wanted: Collection[Wanted], kept: Mapping[Wanted, int], used: Container[int]
) -> Mapping[Wanted, int] | None:
    """Return the proxies' port for each *wanted* port; None if the ProxyGroup doesn't have enough free ports.

    The *kept* ports stay as they are and come first. A new port depends only on the Service's UID and on the ports that
    are *used* by others, so a repeated allocation gives the same port.
    """
    ports = {each: port for each, port in kept.items() if each in wanted}
    taken = {*ports.values()}
    for each in wanted:
        if each in ports:
            continue
        start = crc32(f"{service_uid}/{each.protocol}/{each.port}".encode())
        candidates = (FIRST_PORT + (start + step) % PORT_COUNT for step in range(PORT_COUNT))
        port = next((port for port in candidates if port not in taken and port not in used), None)
        if port is None:
            return None
        ports[each] = port
        taken.add(port)
    return ports


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


def _is_ours(port: object) -> bool:
    return isinstance(port, int) and FIRST_PORT <= port < FIRST_PORT + PORT_COUNT
