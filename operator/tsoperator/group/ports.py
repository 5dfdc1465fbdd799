"""The ports at which the proxies of a ProxyGroup listen for the objects that it serves (docs/development/groups.md).

Each port of a user's Service gets a port of its own on the proxies, so that the proxies can tell the Services apart.
The operator keeps an allocated port, because a change would break the connections that use the port.
"""

from collections.abc import Collection, Container, Iterable, Mapping
from typing import Final, NamedTuple
from zlib import crc32

from tsoperator.api.names import HEALTH_PORT_NAME
from tsoperator.api.objects import Object
from tsoperator.group.egress import by_serving_group

FIRST_PORT: Final = 10000
PORT_COUNT: Final = 1000
"""The number of ports, from `FIRST_PORT` on, at which the proxies of a ProxyGroup can listen."""
BY_PROXY_PORT: Final = "proxy-port"
"""The index of ClusterIP Services by their target ports, which are ports of the proxies.

`indexed_port` makes its values.
"""


class Wanted(NamedTuple):
    """A port of a user's Service that needs a port of the proxies."""

    protocol: str
    port: int


def allocated(cluster_ip: Object | None) -> dict[Wanted, int]:
    """Return the port of the proxies for each port of the live ClusterIP Service *cluster_ip*.

    The ports are in the order in which the Service has them. The result leaves out the port for health checks, and
    ports whose target port isn't one that the operator allocates. It is empty if *cluster_ip* is None.
    """
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
    """Return the values for the index `BY_PROXY_PORT`: the ports of the proxies to which *cluster_ip* leads.

    *cluster_ip* is a ClusterIP Service in front of a ProxyGroup's proxies. Each value also has the name of the group.
    """
    groups = by_serving_group(cluster_ip)
    return [indexed_port(group, port) for group in groups for port in {*allocated(cluster_ip).values()}]


def allocate(
    service_uid: str, wanted: Collection[Wanted], kept: Mapping[Wanted, int], used: Container[int]
) -> Mapping[Wanted, int] | None:
    """Return a port of the proxies for each *wanted* port; None if the ProxyGroup has too few free ports.

    *kept* has the ports of an earlier allocation, which stay as they are. A new port depends only on the Service's UID
    and on the ports that are *used* by other Services. So a repeated allocation gives the same port.
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


def _is_ours(port: object) -> bool:
    return isinstance(port, int) and FIRST_PORT <= port < FIRST_PORT + PORT_COUNT
