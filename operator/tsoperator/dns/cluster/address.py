"""The choice of an address for a nameserver's new Service.

The operator chooses the address to which the cluster's DNS already forwards queries, if that address is free. The API
server decides in the end, because only the API server knows which addresses a Service is allowed to have.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tsoperator.api.objects import Object
from tsoperator.dns.cluster.results import DNSObjects
from tsoperator.dns.cluster.targets import targets


@dataclass(frozen=True, slots=True)
class Addresses:
    """The facts about addresses from which the operator chooses one for a nameserver's new Service.

    *last* is the nameserver's most recent cluster IP; it is empty if the operator doesn't know one. *refused* are the
    addresses that the API server has refused to give to the nameserver's Service.
    """

    last: str = ""
    refused: frozenset[str] = frozenset()

    def with_last(self, service: Object) -> "Addresses":
        """Return a copy in which *last* is the cluster IP of the nameserver's *service*."""
        last = address_of(service)
        return Addresses(last, self.refused - {last})

    def without(self, address: str) -> "Addresses":
        """Return a copy with *address* added to the addresses that the API server has refused."""
        return replace(self, refused=self.refused | {address})

    def choice(self, dns: DNSObjects | None, zones: Sequence[str], services: Iterable[Object]) -> str:
        """Return the address that the nameserver's new Service should ask for; empty if no address is suitable.

        The first choice is the address to which the cluster's DNS forwards *zones*, and the second is *last*. An
        address is suitable if the API server hasn't refused it and none of *services* has it. *dns* is the
        configuration of the cluster's DNS, and *zones* are the zones that the cluster's DNS has to forward to the
        nameserver.
        """
        taken = self.refused.union(map(address_of, services))
        wanted = (asked_address(dns, zones) if dns else "", self.last)
        return next((each for each in wanted if each and each not in taken), "")


NO_ADDRESSES = Addresses()
"""The value with which the operator starts: no address of the nameserver is known yet."""


def address_of(service: Object) -> str:
    """Return the cluster IP of *service*; empty if it has none."""
    cluster_ip = service["spec"].get("clusterIP") or ""
    return "" if cluster_ip == "None" else str(cluster_ip)


def asked_address(dns: DNSObjects, zones: Iterable[str]) -> str:
    """Return the address to which the cluster's DNS forwards queries for *zones*, if there is exactly one.

    Zones that the cluster's DNS doesn't forward are ignored. Return an empty text if the other zones have no server,
    if they have several, or if their only server isn't an IP address.
    """
    found = {address for zone in zones for address in targets(dns, zone) or ()}
    try:
        (only,) = map(ipaddress.ip_address, found)
    except ValueError:
        return ""
    return str(only)
