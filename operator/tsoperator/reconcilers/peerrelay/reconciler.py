"""Gathers the facts about PeerRelays that `plan` needs."""

from collections.abc import Iterable
from dataclasses import replace

from tsoperator.api.names import PARENT_PEERRELAY
from tsoperator.api.objects import (
    DEVICE,
    PEERRELAY,
    POD,
    PROXYCLASS,
    SECRET,
    SERVICE,
    STATEFULSET,
    TAILNET,
    Key,
    Object,
    key_of,
)
from tsoperator.proxy.orphan import plan_orphan
from tsoperator.reconcilers.peerrelay import plan as plans
from tsoperator.reconcilers.peerrelay.addresses import ADDRESSES, HostAddresses
from tsoperator.reconcilers.peerrelay.ask import Ask, class_name, parse, replica_count, tailnet_name
from tsoperator.reconcilers.peerrelay.children import named_children
from tsoperator.reconcilers.peerrelay.endpoints import BY_RELAY_ADDRESS, Balancers, by_relay_address, hostnames
from tsoperator.reconcilers.proxies import Proxies, Seen
from tsoperator.runtime.kind import Kind
from tsoperator.runtime.manager import Watches
from tsoperator.runtime.ownership import Owner, owned_keys
from tsoperator.runtime.plan import Plan


def peerrelays(proxies: Proxies, addresses: HostAddresses) -> Kind[Seen[Ask, plans.Observed] | Plan]:
    """Return the `Kind` of PeerRelays, which makes their relays.

    *addresses* looks up the hostnames of their load balancers.
    """
    view = _View(proxies, addresses)
    watches: Watches = {
        PEERRELAY: lambda relay: (key_of(relay),),
        **dict.fromkeys((POD, SECRET, STATEFULSET), view.parent_keys),
        SERVICE: view.keys_of_service,
        PROXYCLASS: view.keys_of_class,
        TAILNET: view.keys_of_tailnet,
        DEVICE: lambda device: proxies.parents_of_device(device, PARENT_PEERRELAY),
        ADDRESSES: lambda change: (Key("", key_of(change).name),),
    }
    kind = proxies.kind(PEERRELAY, watches, parse, view.look, plans, left=view.left)
    return replace(kind, indexes={SERVICE: {BY_RELAY_ADDRESS: by_relay_address}})


class _View:
    """Gathers the facts about PeerRelays, and finds the PeerRelays that a change concerns."""

    def __init__(self, proxies: Proxies, addresses: HostAddresses) -> None:
        self._proxies = proxies
        self._cache = proxies.cache
        self._addresses = addresses
        self._namespace = proxies.settings.namespace

    def look(self, ask: Ask) -> plans.Observed:
        """Gather the facts about a PeerRelay."""
        relay, key = ask.obj, key_of(ask.obj)
        owner = plans.owner(key)
        children = self._proxies.children(owner)
        return plans.Observed(
            children,
            self._named(key.name, replica_count(relay)),
            self._balancers(key, children.services),
            self._proxies.proxy_class(class_name(relay)),
            self._proxies.tailnet(tailnet_name(relay), owner, children),
        )

    def _named(self, name: str, replicas: int) -> list[Object]:
        """Return the objects that have the names of children of the PeerRelay called *name*, whoever made them."""
        keys = named_children(name, replicas, self._namespace)
        found = (self._cache.get(resource, key) for resource, key in keys)
        return [each for each in found if each is not None]

    def _balancers(self, relay: Key, services: Iterable[Object]) -> Balancers:
        hosts = {host for each in services for host in hostnames(each)}
        sharing = {key_of(each): each for service in services for each in self._sharing(service)}
        return Balancers([*sharing.values()], self._addresses.follow(relay, hosts))

    def _sharing(self, service: Object) -> list[Object]:
        """Return the Services that have the port of a relay, and an address in common with *service*."""
        addresses = by_relay_address(service)
        return [each for address in addresses for each in self._cache.indexed(SERVICE, BY_RELAY_ADDRESS, address)]

    def left(self, owner: Owner) -> Plan:
        """Return the plan that removes the proxy of a PeerRelay that is gone, and end the look-ups of its hostnames."""
        self._addresses.follow(owner.key, ())
        return plan_orphan(self._proxies.orphan(PEERRELAY, owner))

    def parent_keys(self, child: Object) -> Iterable[Key]:
        return owned_keys(child, PARENT_PEERRELAY, self._namespace)

    def keys_of_service(self, service: Object) -> Iterable[Key]:
        """Return the PeerRelay of *service*, and those whose load balancers have an address in common with it."""
        return [key for each in (service, *self._sharing(service)) for key in self.parent_keys(each)]

    def keys_of_class(self, proxy_class: Object) -> Iterable[Key]:
        name = key_of(proxy_class).name
        return [key_of(each) for each in self._cache.all(PEERRELAY) if class_name(each) == name]

    def keys_of_tailnet(self, tailnet: Object) -> Iterable[Key]:
        name = key_of(tailnet).name
        return [key_of(each) for each in self._cache.all(PEERRELAY) if tailnet_name(each) == name]
