"""The load balancers of a cloud: Services of type LoadBalancer get a public address or hostname in their status."""

from collections.abc import Iterable
from enum import Enum
from ipaddress import IPv4Network

from clustersim.controller import Key, follow, key_of
from clustersim.objects import SERVICE, Object, Resource
from clustersim.pods import is_deleting
from clustersim.store import Store

PUBLIC = IPv4Network("203.0.113.0/24")
"""The public addresses of load balancers."""
_DOMAIN = "lb.example.org"


class Shown(Enum):
    """The part of a load balancer that the status of its Service shows."""

    ADDRESS = "ip"
    HOSTNAME = "hostname"
    NOTHING = ""


class LoadBalancers:
    """Gives each Service of type LoadBalancer without a class a load balancer with an address of its own.

    The Service's status shows the address, or what a test chooses by `show`: a hostname or nothing. If the status
    already shows a load balancer, it stays as it is.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._shown = Shown.ADDRESS
        self._addresses: dict[Key, str] = {}

    async def run(self) -> None:
        """Reconcile the Services until cancelled."""
        await follow(self._store, (SERVICE,), _keys, self.reconcile)

    def show(self, shown: Shown) -> None:
        """From now on, write *shown* into the status of each Service that has a load balancer and an empty status."""
        self._shown = shown
        for service in self._store.list(SERVICE):
            self.reconcile(key_of(service))

    def addresses(self, hostname: str) -> list[str]:
        """Return the addresses that the cloud's DNS has for *hostname*; none if no load balancer has this hostname."""
        return [address for key, address in self._addresses.items() if _hostname(key) == hostname]

    def reconcile(self, key: Key) -> None:
        """Create the load balancer of the Service named *key*, or remove it."""
        service = self._store.find(SERVICE, *key)
        if service is None or not _wants_one(service):
            self._addresses.pop(key, None)
            return
        address = self._addresses.get(key) or self._free_address()
        if not address:
            return
        self._addresses[key] = address
        shown = (service.get("status") or {}).get("loadBalancer", {}).get("ingress")
        if not shown and self._shown is not Shown.NOTHING and not is_deleting(service):
            entry = {self._shown.value: address if self._shown is Shown.ADDRESS else _hostname(key)}
            self._store.merge(SERVICE, *key, {"status": {"loadBalancer": {"ingress": [entry]}}}, "status")

    def _free_address(self) -> str:
        """Return an address that no other load balancer has, or "" if the cloud has none left."""
        taken = {*self._addresses.values()}
        return next((str(address) for address in PUBLIC.hosts() if str(address) not in taken), "")


def _keys(_: Resource, service: Object) -> Iterable[Key]:
    return (key_of(service),)


def _wants_one(service: Object) -> bool:
    spec = service["spec"]
    return spec.get("type") == "LoadBalancer" and "loadBalancerClass" not in spec


def _hostname(key: Key) -> str:
    return f"{key.name}.{key.namespace}.{_DOMAIN}"
