"""Services as the API server stores them: it fills in defaults, and assigns cluster IPs and load balancer addresses."""

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network
from itertools import cycle

from clustersim.errors import invalid
from clustersim.objects import SERVICE, Object

FAMILIES = ("IPv4", "IPv6")
SERVICE_FAMILIES = ("IPv4",)
NETWORKS: Mapping[str, IPv4Network | IPv6Network] = {
    "IPv4": IPv4Network("10.96.0.0/16"),
    "IPv6": IPv6Network("2001:db8:96::/112"),
}
_NODE_PORTS = range(30000, 32768)
"""The range of node ports. The simulated API server assigns node ports only if a Service asks for them."""
_CLUSTER_FIELDS = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")


class Allocator:
    """Gives each cluster IP, and each node port for which a Service asks, to one Service only."""

    def __init__(self, families: Sequence[str] = FAMILIES, service_families: Sequence[str] = SERVICE_FAMILIES) -> None:
        """Take the IP *families* of the Pods and the *service_families* of cluster IPs, the default family first."""
        self._families = families
        self._service_families = service_families
        self._addresses: set[str] = set()
        self._node_ports: set[int] = set()
        self._numbers = {family: cycle(range(1, network.num_addresses - 1)) for family, network in NETWORKS.items()}

    def complete(self, service: Object, old: Object | None) -> None:
        """Fill in the defaults of *service*, keep the cluster IPs of *old*, and allocate missing ones.

        Raises ApiError 422.
        """
        spec = service.setdefault("spec", {})
        before = old["spec"] if old else {}
        _fill(spec)
        self._check_node_ports(service, before)
        _settle_type(service, spec, before)
        if spec["type"] == "ExternalName":
            _drop(spec, before)
            return
        self._fill_families(spec, before)
        self._complete_address(service, spec, before)

    def reserve(self, service: Object) -> None:
        """Reserve the cluster IPs and node ports of *service*, so that no other Service gets them."""
        self._addresses.update(_addresses(service))
        self._node_ports.update(_node_ports(service["spec"]))

    def release(self, service: Object) -> None:
        """Free the cluster IPs and node ports of *service* for other Services."""
        self._addresses.difference_update(_addresses(service))
        self._node_ports.difference_update(_node_ports(service["spec"]))

    def _check_node_ports(self, service: Object, before: Object) -> None:
        others = self._node_ports.difference(_node_ports(before))
        for index, port in enumerate(service["spec"].get("ports") or ()):
            number = port.get("nodePort")
            valid = f"The range of valid ports is {_NODE_PORTS[0]}-{_NODE_PORTS[-1]}"
            cause = ""
            if number is not None and number not in _NODE_PORTS:
                cause = f"provided port is not in the valid range. {valid}"
            elif number in others:
                cause = "provided port is already allocated"
            if cause:
                field = f"spec.ports[{index}].nodePort"
                raise invalid(SERVICE, service["metadata"]["name"], field, f"Invalid value: {number}: {cause}")

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
        first, *others = spec["ipFamilies"]
        spec["clusterIP"] = wanted or self._free_address(first)
        spec["clusterIPs"] = [spec["clusterIP"]]
        if spec["clusterIP"] != "None":
            kept = before.get("clusterIPs", ())[1:]
            spec["clusterIPs"] += kept[: len(others)] or [self._free_address(family) for family in others]

    def _fill_families(self, spec: Object, before: Object) -> None:
        """Fill the policy and the IP families of a Service as a cluster does.

        With the policy SingleStack, the Service gets the first family of cluster IPs. With any other policy, a headless
        Service gets all families of Pods, and another Service all families of cluster IPs.
        """
        is_headless = (spec.get("clusterIP") or before.get("clusterIP")) == "None"
        selectorless = is_headless and not spec.get("selector")
        policy = spec.get("ipFamilyPolicy") or ("RequireDualStack" if selectorless else "SingleStack")
        spec["ipFamilyPolicy"] = policy
        if not spec.get("ipFamilies"):
            both = self._families if is_headless else self._service_families
            spec["ipFamilies"] = [*both] if policy != "SingleStack" else [self._service_families[0]]

    def _free_address(self, family: str) -> str:
        addresses = (str(NETWORKS[family][number]) for number in self._numbers[family])
        return next(address for address in addresses if address not in self._addresses)


def complete_status(service: Object) -> None:
    """Fill the defaults of the status of *service*.

    Raises ApiError 422 if the status has a load balancer but the Service isn't of type LoadBalancer.
    """
    entries = (service.get("status", {}).get("loadBalancer") or {}).get("ingress") or ()
    if entries and service["spec"]["type"] != "LoadBalancer":
        cause = "Forbidden: may only be used when `spec.type` is LoadBalancer"
        raise invalid(SERVICE, service["metadata"]["name"], "status.loadBalancer.ingress", cause)
    for entry in entries:
        if entry.get("ip"):
            entry.setdefault("ipMode", "VIP")


def _addresses(service: Object) -> list[str]:
    return [address for address in service["spec"].get("clusterIPs") or () if address != "None"]


def _node_ports(spec: Object) -> list[int]:
    return [port["nodePort"] for port in spec.get("ports") or () if "nodePort" in port]


def _fill(spec: Object) -> None:
    spec["type"] = spec.get("type") or "ClusterIP"
    spec["sessionAffinity"] = spec.get("sessionAffinity") or "None"
    for port in spec.get("ports") or ():
        port["protocol"] = port.get("protocol") or "TCP"
        port["targetPort"] = port.get("targetPort") or port["port"]
    if spec["type"] != "ExternalName":
        spec["internalTrafficPolicy"] = spec.get("internalTrafficPolicy") or "Cluster"


def _settle_type(service: Object, spec: Object, before: Object) -> None:
    """Remove the fields of the old type if the type changes. Raises ApiError 422 if the load balancer class changes."""
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
    """Remove the fields that an ExternalName Service can't have, if they are empty or unchanged."""
    for field in _CLUSTER_FIELDS:
        if not spec.get(field) or spec[field] == before.get(field):
            spec.pop(field, None)
