"""The address family of a proxy's Pods, which a proxy that listens at the address of its Pod has to know.

The image takes an address and a port together: an IPv6 address needs brackets, and an IPv4 address must have none. With
the wrong format the proxy doesn't start. A Pod that was never ready isn't replaced when its template is corrected.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from tsoperator.api.objects import Object

POD_IPV4: Final = "$(POD_IP)"
POD_IPV6: Final = "[$(POD_IP)]"
_HOSTS: Final = {POD_IPV4: False, POD_IPV6: True}


def pods_have_ipv6(pods: Sequence[Object], statefulset: Object | None, service: Object | None) -> bool | None:
    """Tell whether the first address of a proxy's Pods is an IPv6 address; None if that isn't known yet.

    The Pods themselves know best. While there are none, the *statefulset* decides, so that its template doesn't change
    to and fro. Before the StatefulSet exists, the headless *service* decides: it has the cluster's families in order.
    """
    for pod in pods:
        if address := (pod.get("status") or {}).get("podIP"):
            return ":" in address
    for host in _hosts(statefulset) if statefulset else ():
        if host in _HOSTS:
            return _HOSTS[host]
    if service is None:
        return None
    families: Sequence[str] = service["spec"].get("ipFamilies") or ()
    return families[:1] == ["IPv6"]


def _hosts(statefulset: Object) -> Iterable[str]:
    """Yield the hosts that the containers listen at, among other texts."""
    for container in statefulset["spec"]["template"]["spec"]["containers"]:
        for variable in container.get("env") or ():
            yield str(variable.get("value", "")).rpartition(":")[0]
