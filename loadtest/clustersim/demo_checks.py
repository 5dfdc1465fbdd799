"""Checks that the nameserver answers with the addresses in the cluster's objects, and measures how soon it does."""

import asyncio
import time
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass
from ipaddress import ip_address

from clustersim.apiclient import ApiClient
from clustersim.demo_stage import OPERATOR_NAMESPACE
from clustersim.dnsclient import Answer, ask_tcp, ask_udp
from clustersim.objects import ENDPOINTSLICE, INGRESS, POD, PROXYGROUP, SERVICE, Object, Resource, name_of, namespace_of

CLASS = "tailscale"
FUNNEL = "tailscale.com/funnel"
TAILNET_FQDN = "tailscale.com/tailnet-fqdn"
TAILNET_IP = "tailscale.com/tailnet-ip"
PROXY_GROUP = "tailscale.com/proxy-group"
PARENT_TYPES = {SERVICE: "svc", INGRESS: "ingress"}
FAMILIES = {"A": 4, "AAAA": 6}
PROBE_SECONDS = 0.001
QUIET_SECONDS = 0.5
"""The pause before the proxy gets another address. The operator gathers the changes of a burst for up to 0.4 s."""


class NotYet(Exception):
    """An object doesn't work yet; the message says why."""


@dataclass(frozen=True, slots=True)
class Reached:
    """The name and the addresses by which an object can be reached.

    *offers* says what the object provides to the tailnet, such as ports. *by* says whether the name is that of a device
    or of a Tailscale Service.
    """

    name: str
    addresses: tuple[str, ...]
    offers: str = ""
    by: str = "device"

    def __str__(self) -> str:
        addresses = ", ".join(self.addresses)
        return (
            f"{self.by} {self.name}, {self.offers}: {addresses}" if self.offers else f"{self.name} leads to {addresses}"
        )


@dataclass(frozen=True, slots=True)
class Exposed:
    """An object that connects Pods and the tailnet, by its own proxies or by a ProxyGroup's.

    *direct* is True for a Service of type LoadBalancer: its name leads Pods to the Service itself, not to a proxy.
    *has_proxy* is True if the object has an own proxy, and False if only the proxies of a ProxyGroup expose it.
    """

    resource: Resource
    namespace: str
    name: str
    group: str = ""
    direct: bool = False
    has_proxy: bool = True

    @property
    def labels(self) -> dict[str, str]:
        """The labels that the operator gives all children of this object."""
        return {
            "tailscale.com/parent-resource": self.name,
            "tailscale.com/parent-resource-ns": self.namespace,
            "tailscale.com/parent-resource-type": PARENT_TYPES[self.resource],
        }

    def __str__(self) -> str:
        own = f"{self.resource.singular}/{self.name}"
        return f"{own} by proxygroup/{self.group}" if self.group else own


def exposed(objects: Iterable[Object]) -> list[Exposed]:
    """Return the *objects* that Pods reach through a proxy or by a name of the tailnet."""
    found = []
    for obj in objects:
        if obj["kind"] == INGRESS.kind and PROXY_GROUP not in _annotations(obj):
            found.append(Exposed(INGRESS, namespace_of(obj), name_of(obj)))
        elif obj["kind"] == SERVICE.kind and {TAILNET_FQDN, TAILNET_IP} & (given := _annotations(obj)).keys():
            found.append(Exposed(SERVICE, namespace_of(obj), name_of(obj), given.get(PROXY_GROUP, "")))
        elif obj["kind"] == SERVICE.kind and obj["spec"].get("loadBalancerClass") == CLASS and FUNNEL not in given:
            has_proxy = PROXY_GROUP not in given
            found.append(Exposed(SERVICE, namespace_of(obj), name_of(obj), direct=True, has_proxy=has_proxy))
    return found


@dataclass(frozen=True, slots=True)
class Checks:
    """Compares the answers of the nameserver with the objects in the cluster."""

    api: ApiClient
    dns_port: int
    round_seconds: float = 5
    """The seconds after a change within which the nameserver has to answer with the new addresses."""

    async def leads(self, target: Exposed) -> tuple[str, tuple[str, ...]]:
        """Return the name of *target*, and the addresses to which the name leads.

        Raises NotYet unless the nameserver answers with the addresses in the cluster, over UDP and over TCP.
        """
        qname = await self.qname(target)
        slices = await self.api.list(ENDPOINTSLICE, OPERATOR_NAMESPACE, target.labels)
        addresses = _ready_addresses(slices)
        if target.has_proxy and not addresses:
            raise NotYet("has no ready proxy")
        if target.direct:
            spec = (await self.api.get(target.resource, target.namespace, target.name))["spec"]
            addresses = _ordered(spec["clusterIPs"])
        if target.group:
            addresses = await self._cluster_ips(target, slices)
        if not qname:
            return await self._external_name(target), addresses
        for qtype, version in FAMILIES.items():
            wanted = frozenset(address for address in addresses if ip_address(address).version == version)
            for protocol, ask in {"UDP": ask_udp, "TCP": ask_tcp}.items():
                _compare(f"{qname} {qtype} over {protocol}", await ask(self.dns_port, qname, qtype), wanted)
        return qname, addresses

    async def qname(self, target: Exposed) -> str:
        """Return the name of *target* in the tailnet, or "" for an egress Service without one.

        Raises NotYet if the object doesn't show its name yet.
        """
        obj = await self.api.get(target.resource, target.namespace, target.name)
        if target.resource == SERVICE and not target.direct:
            fqdn: str = obj["metadata"]["annotations"].get(TAILNET_FQDN, "")
            return fqdn
        entries = obj.get("status", {}).get("loadBalancer", {}).get("ingress") or [{}]
        if not entries[0].get("hostname"):
            raise NotYet("has no hostname in its status")
        hostname: str = entries[0]["hostname"]
        return hostname

    async def delays(self, target: Exposed, rounds: int) -> list[float]:
        """Replace the address of *target*'s proxy *rounds* times, and measure how soon the nameserver answers with it.

        Return, for each new address, the seconds from its EndpointSlice to the answer. Raises NotYet if an answer with
        a new address takes more than *round_seconds*.
        """
        qname = await self.qname(target)
        seen: set[str] = set()
        measured = []
        async with aclosing(self.api.watch(ENDPOINTSLICE, OPERATOR_NAMESPACE, target.labels)) as slices:
            async for item in slices:
                new = {address for address in _ready_addresses([item]) if ip_address(address).version == 4} - seen
                if not new:
                    continue
                if seen:
                    measured.append(await self._time_until(qname, frozenset(new)))
                if len(measured) == rounds:
                    break
                seen |= new
                await asyncio.sleep(QUIET_SECONDS)
                await self._delete_pods(target)
        return measured

    async def _time_until(self, qname: str, addresses: frozenset[str]) -> float:
        began = time.perf_counter()
        while not (answer := await ask_udp(self.dns_port, qname, "A")).gives(addresses):
            if time.perf_counter() - began > self.round_seconds:
                _compare(f"{qname} A, {self.round_seconds} s after the change", answer, addresses)
            await asyncio.sleep(PROBE_SECONDS)
        return time.perf_counter() - began

    async def _delete_pods(self, target: Exposed) -> None:
        for pod in await self.api.list(POD, OPERATOR_NAMESPACE, target.labels):
            await self.api.delete(POD, OPERATOR_NAMESPACE, name_of(pod))

    async def _cluster_ips(self, target: Exposed, slices: Iterable[Object]) -> tuple[str, ...]:
        """Return the cluster IPs of the Service in front of *target*'s proxies at its group.

        Raises NotYet unless all proxies of the group are ready in each of *slices*.
        """
        replicas = (await self.api.get(PROXYGROUP, "", target.group))["spec"]["replicas"]
        if any(len(_ready_addresses([each])) < replicas for each in slices):
            raise NotYet(f"not all of the {replicas} proxies of its group are ready")
        (service,) = await self.api.list(SERVICE, OPERATOR_NAMESPACE, target.labels)
        return _ordered(service["spec"]["clusterIPs"])

    async def _external_name(self, target: Exposed) -> str:
        """Return the ``externalName`` of *target*, an egress Service that leads to an IP address of the tailnet.

        Raises NotYet unless the ``externalName`` is the name of the Service in front of the target's proxies.
        """
        services = await self.api.list(SERVICE, OPERATOR_NAMESPACE, target.labels)
        spec = (await self.api.get(SERVICE, target.namespace, target.name))["spec"]
        external: str = spec.get("externalName", "")
        if not any(external.startswith(f"{name_of(service)}.{OPERATOR_NAMESPACE}.svc.") for service in services):
            raise NotYet(f"its externalName is {external!r}, not its proxy's Service")
        return external


def _compare(question: str, answer: Answer, wanted: frozenset[str]) -> None:
    if not answer.gives(wanted):
        said = ", ".join(sorted(answer.addresses)) or "no address"
        raise NotYet(f"{question}: {answer.rcode}, {said}; the cluster has {', '.join(sorted(wanted)) or 'none'}")


def _ready_addresses(slices: Iterable[Object]) -> tuple[str, ...]:
    """Return the addresses of the ready endpoints, IPv4 first."""
    found = {
        address
        for item in slices
        for endpoint in item["endpoints"] or ()
        for address in endpoint["addresses"]
        if endpoint["conditions"]["ready"]
    }
    return _ordered(found)


def _ordered(addresses: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(addresses, key=lambda address: (ip_address(address).version, int(ip_address(address)))))


def _annotations(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}
