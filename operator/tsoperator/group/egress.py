"""Egress through a ProxyGroup: the objects by which two reconcilers and the proxies work together.

Each of these objects has one writer (docs/development/groups.md):

- The reconciler of Services makes a ClusterIP Service for each egress Service of a user. Its ports and annotations say
  which connections the proxies should forward. It also makes the EndpointSlices of that Service.
- The reconciler of ProxyGroups writes the ConfigMap with one entry for each of these ClusterIP Services.
- Each proxy says in its state Secret which entries it has put into effect.
"""

from collections.abc import Iterable
from typing import Final

from tsoperator.api.names import (
    ANNOTATION_LAST_TAILNET_TARGET_FQDN,
    ANNOTATION_LAST_TAILNET_TARGET_IP,
    HEALTH_PORT_NAME,
    LABEL_MANAGED,
    LABEL_PARENT_NAME,
    LABEL_PARENT_NAMESPACE,
    LABEL_SERVICE_TYPE,
    MANAGED,
    PROXY_GROUP,
    SERVICE_TYPE_EGRESS,
)
from tsoperator.api.objects import Key, Object, annotations, key_of, labels
from tsoperator.group.proxygroup import by_group
from tsoperator.proxy.entries import Entry, Port

BY_SERVING_GROUP: Final = "serving-group"
"""The index of the ClusterIP Services and EndpointSlices of egress Services by the ProxyGroup that serves them."""

BY_ENTRY: Final = "group-entry"
"""The index of users' Services, and of their ClusterIP Services, by the entry at a ProxyGroup.

The index finds a user's Service by the entry that it asks for, and a ClusterIP Service by the entry that it has.
`indexed_entry` makes the values of the index.
"""


def entry_name(service: Key) -> str:
    """Return the name of the entry that a user's *service* has at a ProxyGroup."""
    return f"{service.namespace}-{service.name}"


def indexed_entry(group: str, name: str) -> str:
    """Return the value of the index `BY_ENTRY` for the entry called *name* of *group*."""
    return f"{group}/{name}"


def by_serving_group(child: Object) -> Iterable[str]:
    """Return the values for the index `BY_SERVING_GROUP`: the name of the ProxyGroup that serves *child*, or nothing.

    *child* is a Service or an EndpointSlice. The result is empty if the operator didn't make it for an egress Service.
    """
    found = labels(child)
    name = found.get(PROXY_GROUP)
    is_egress = found.get(LABEL_SERVICE_TYPE) == SERVICE_TYPE_EGRESS and found.get(LABEL_MANAGED) == MANAGED
    return (name,) if name and is_egress else ()


def by_entry(service: Object) -> Iterable[str]:
    """Return the values for the index `BY_ENTRY`: the entry of *service* at its ProxyGroup; nothing if it has no group.

    *service* is a user's Service, or the ClusterIP Service that the operator made for it.
    """
    for group in by_serving_group(service):
        yield indexed_entry(group, entry_name(served_service(service)))
    for group in by_group(service):
        yield indexed_entry(group, entry_name(key_of(service)))


def served_service(child: Object) -> Key:
    """Return the key of the user's Service for which *child*, a ClusterIP Service or an EndpointSlice, was made."""
    found = labels(child)
    return Key(found.get(LABEL_PARENT_NAMESPACE, ""), found.get(LABEL_PARENT_NAME, ""))


def entry_of(service: Object, cluster_domain: str) -> Entry | None:
    """Return the entry for a ClusterIP *service*.

    Return None if its annotations don't say to which device it leads, as with Services of the Go operator, or if
    somebody gave it a port without a numeric target port.
    """
    given = annotations(service)
    fqdn, ip = given.get(ANNOTATION_LAST_TAILNET_TARGET_FQDN, ""), given.get(ANNOTATION_LAST_TAILNET_TARGET_IP, "")
    ports = [each for each in service["spec"].get("ports") or () if each.get("name") != HEALTH_PORT_NAME]
    if not (fqdn or ip) or not all(isinstance(each.get("targetPort"), int) for each in ports):
        return None
    found = frozenset(map(port_of, ports))
    return Entry(fqdn, "" if fqdn else ip, found, health_url(service, cluster_domain))


def port_of(given: Object) -> Port:
    """Return the port of the proxies and the port of the device for *given*, a port of the ClusterIP Service."""
    return Port(given.get("protocol", "TCP"), given["targetPort"], given["port"])


def health_url(service: Object, cluster_domain: str) -> str:
    """Return the URL at which a ClusterIP *service* leads to its proxies' health checks; empty if it leads to none."""
    key, ports = key_of(service), service["spec"].get("ports") or ()
    port = next((each["port"] for each in ports if each.get("name") == HEALTH_PORT_NAME), None)
    return f"http://{key.name}.{key.namespace}.svc.{cluster_domain}:{port}/healthz" if port else ""
