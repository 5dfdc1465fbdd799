"""The addresses and ports to which Services lead by their EndpointSlices, as kube-proxy would connect to them."""

from typing import NamedTuple

from clustersim.controller import Key
from clustersim.objects import ENDPOINTSLICE, SERVICE, Object, labels_of, namespace_of
from clustersim.store import Store

_SERVICE_NAME = "kubernetes.io/service-name"


class Backend(NamedTuple):
    """An address and a port to which a Service leads."""

    address: str
    port: int


def backends(store: Store, key: Key, port: int) -> list[Backend]:
    """Return the backends of *port* of the Service *key*, in its first IP family, or [] if it has no such port."""
    service = store.find(SERVICE, *key)
    ports = {each["port"]: each.get("name", "") for each in service["spec"].get("ports") or ()} if service else {}
    if service is None or port not in ports:
        return []
    slices = store.list(ENDPOINTSLICE, key.namespace, {_SERVICE_NAME: key.name})
    return sorted(
        Backend(address, listening["port"])
        for each in slices
        if each["addressType"] == service["spec"]["ipFamilies"][0]
        for listening in each.get("ports") or ()
        if listening.get("name", "") == ports[port]
        for address in ready_addresses(each)
    )


def services_leading_to(store: Store, address: str) -> set[Key]:
    """Return the keys of the Services that have *address* as a ready endpoint."""
    return {
        Key(namespace_of(each), labels_of(each).get(_SERVICE_NAME, ""))
        for each in store.list(ENDPOINTSLICE)
        if address in ready_addresses(each)
    }


def ready_addresses(endpointslice: Object) -> list[str]:
    """Return the addresses of the slice's endpoints that take new connections.

    An endpoint takes them unless its ``ready`` condition is false.
    """
    return [
        address
        for endpoint in endpointslice.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready", True)
        for address in endpoint["addresses"]
    ]
