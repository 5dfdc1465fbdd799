"""Chooses the address for a nameserver's new Service: the address that the cluster's DNS already asks, if it is free.

The API server has the last word, because it alone knows which addresses a Service may have.
"""

import ipaddress
from collections.abc import Iterable, Sequence

from tsoperator.api.objects import Object
from tsoperator.dns.cluster.results import DNSObjects
from tsoperator.dns.cluster.targets import targets


class Addresses:
    """The address that the nameserver had last, and the addresses that the API server has refused."""

    def __init__(self) -> None:
        self._last = ""
        self._refused: set[str] = set()

    def note(self, service: Object) -> None:
        """Remember the address of the nameserver's *service*, which the API server gave."""
        self._last = address_of(service)
        self._refused.discard(self._last)

    def choose(self, dns: DNSObjects | None, zones: Sequence[str], services: Iterable[Object]) -> str:
        """Return the address to ask for: a known one that is neither refused nor that of one of *services*; else empty.

        *dns* is the configuration of the cluster's DNS, and *zones* are those that it has to forward to the nameserver.
        """
        taken = self._refused.union(map(address_of, services))
        wanted = (asked_address(dns, zones) if dns else "", self._last)
        return next((each for each in wanted if each and each not in taken), "")

    def refuse(self, address: str) -> None:
        """Remember that the API server doesn't give *address*."""
        self._refused.add(address)


def address_of(service: Object) -> str:
    """Return the cluster IP of *service*; empty if it has none."""
    cluster_ip = service["spec"].get("clusterIP") or ""
    return "" if cluster_ip == "None" else str(cluster_ip)


def asked_address(dns: DNSObjects, zones: Iterable[str]) -> str:
    """Return the one address that the cluster's DNS asks for all of *zones*; empty if there is no such address."""
    found = {address for zone in zones for address in targets(dns, zone) or ()}
    try:
        (only,) = map(ipaddress.ip_address, found)
    except ValueError:
        return ""
    return str(only)
