"""Services as the API server stores them: it fills in defaults, and assigns cluster IPs and load balancer addresses."""

from collections.abc import Sequence
from ipaddress import IPv4Network

from clustersim.errors import invalid
from clustersim.objects import SERVICE, Object

FAMILIES = ("IPv4", "IPv6")
_CLUSTER_NETWORK = IPv4Network("10.96.0.0/16")
_NODE_PORTS = range(30000, 32768)
"""The node ports that a Service may ask for. The simulated API server assigns none by itself."""
_CLUSTER_FIELDS = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")


class Allocator:
    """Hands out cluster IPs, each to one Service."""

    def __init__(self, families: Sequence[str] = FAMILIES) -> None:
        """*families* are those of the Pods, in their order."""
        self._families = families
        self._addresses: set[str] = set()
        self._next_address = 1

    def complete(self, service: Object, old: Object | None) -> None:
        """Fill the defaults of *service*, keep what *old* was given, allocate what is missing; a 422 ApiError."""
        spec = service.setdefault("spec", {})
        before = old["spec"] if old else {}
        _fill(spec)
        _check_node_ports(service)
        _settle_type(service, spec, before)
        if spec["type"] == "ExternalName":
            _drop(spec, before)
            return
        self._complete_address(service, spec, before)
        _fill_families(spec, self._families)

    def reserve(self, service: Object) -> None:
        """Keep others from getting what *service* has."""
        self._addresses.update(_addresses(service))

    def release(self, service: Object) -> None:
        """Let others get what *service* had."""
        self._addresses.difference_update(_addresses(service))

    def _complete_address(self, service: Object, spec: Object, before: Object) -> None:
        name = service["metadata"]["name"]
        had = before.get("clusterIP", "")
        wanted = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or ()), "") or had
        if had and wanted != had:
            cause = f'Invalid value: ["{wanted}"]: may not change once set'
            raise invalid(SERVICE, name, "spec.clusterIPs[0]", cause)
        if not had and wanted in self._addresses:
            cause = f'Invalid value: ["{wanted}"]: failed to allocate IP {wanted}: provided IP is already allocated'
            raise invalid(SERVICE, name, "spec.clusterIPs", cause)
        spec["clusterIP"] = wanted or self._free_address()
        spec["clusterIPs"] = [spec["clusterIP"]]

    def _free_address(self) -> str:
        usable = _CLUSTER_NETWORK.num_addresses - 2
        while True:
            address = str(_CLUSTER_NETWORK[self._next_address])
            self._next_address = self._next_address % usable + 1
            if address not in self._addresses:
                return address


def complete_status(service: Object) -> None:
    """Fill the defaults of a status that was written; a 422 ApiError for a load balancer that there is none of."""
    entries = (service.get("status", {}).get("loadBalancer") or {}).get("ingress") or ()
    if entries and service["spec"]["type"] != "LoadBalancer":
        cause = "Forbidden: may only be used when `spec.type` is LoadBalancer"
        raise invalid(SERVICE, service["metadata"]["name"], "status.loadBalancer.ingress", cause)
    for entry in entries:
        if entry.get("ip"):
            entry.setdefault("ipMode", "VIP")


def _addresses(service: Object) -> list[str]:
    return [address for address in service["spec"].get("clusterIPs") or () if address != "None"]


def _check_node_ports(service: Object) -> None:
    for index, port in enumerate(service["spec"].get("ports") or ()):
        if "nodePort" in port and port["nodePort"] not in _NODE_PORTS:
            valid = f"The range of valid ports is {_NODE_PORTS[0]}-{_NODE_PORTS[-1]}"
            cause = f"Invalid value: {port['nodePort']}: provided port is not in the valid range. {valid}"
            raise invalid(SERVICE, service["metadata"]["name"], f"spec.ports[{index}].nodePort", cause)


def _fill(spec: Object) -> None:
    spec["type"] = spec.get("type") or "ClusterIP"
    spec["sessionAffinity"] = spec.get("sessionAffinity") or "None"
    for port in spec.get("ports") or ():
        port["protocol"] = port.get("protocol") or "TCP"
        port["targetPort"] = port.get("targetPort") or port["port"]
    if spec["type"] != "ExternalName":
        spec["internalTrafficPolicy"] = spec.get("internalTrafficPolicy") or "Cluster"


def _settle_type(service: Object, spec: Object, before: Object) -> None:
    """Take away what another type had; a 422 ApiError for another class of a load balancer."""
    balances, balanced = (which.get("type") == "LoadBalancer" for which in (spec, before))
    class_, had = spec.get("loadBalancerClass"), before.get("loadBalancerClass")
    if balances and balanced and class_ != had:
        cause = f'Invalid value: "{class_}": may not change once set'
        raise invalid(SERVICE, service["metadata"]["name"], "spec.loadBalancerClass", cause)
    if class_ and not balances:
        del spec["loadBalancerClass"]
    if balanced and not balances:
        service["status"] = {**service.get("status", {}), "loadBalancer": {}}
    if spec["type"] != "ExternalName" and spec.get("externalName") == before.get("externalName"):
        spec.pop("externalName", None)


def _drop(spec: Object, before: Object) -> None:
    """Take away what an ExternalName Service can't have: what it had before, or an empty value."""
    for field in _CLUSTER_FIELDS:
        if not spec.get(field) or spec[field] == before.get(field):
            spec.pop(field, None)


def _fill_families(spec: Object, families: Sequence[str]) -> None:
    """Fill the families as a cluster does whose Pods have *families*; cluster IPs are IPv4 all the same."""
    selectorless = spec["clusterIP"] == "None" and not spec.get("selector")
    policy = spec.get("ipFamilyPolicy") or ("RequireDualStack" if selectorless else "SingleStack")
    spec["ipFamilyPolicy"] = policy
    if not spec.get("ipFamilies"):
        both = spec["clusterIP"] == "None" and policy != "SingleStack"
        spec["ipFamilies"] = [*families] if both else ["IPv4"]
