"""The address family of a proxy's Pods, which it has to know where it listens at its Pod's own address.

The image takes an address and a port together: one of IPv6 wants brackets, and one of IPv4 may have none. With the
wrong ones the proxy doesn't start, and a Pod that never was ready isn't replaced when its template is put right.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from tsoperator.api.objects import Object

POD_IPV4: Final = "$(POD_IP)"
POD_IPV6: Final = "[$(POD_IP)]"
_HOSTS: Final = {POD_IPV4: False, POD_IPV6: True}


def pods_have_ipv6(pods: Sequence[Object], statefulset: Object | None, service: Object | None) -> bool | None:
    """Tell whether the first address of a proxy's Pods is of IPv6; None if that isn't known yet.

    The Pods themselves say it best. While there are none the *statefulset* stays as it is, or its template would change
    to and fro; before that the headless *service* tells, which has the cluster's families in their order.
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
    """Yield what the containers listen at."""
    for container in statefulset["spec"]["template"]["spec"]["containers"]:
        for variable in container.get("env") or ():
            yield str(variable.get("value", "")).rpartition(":")[0]
