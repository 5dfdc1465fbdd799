"""The egress Services that ask for a name in the cluster's DNS, and the object that has the name.

This module finds them in the cache.
"""

from collections.abc import Iterable, Iterator

from tsoperator.api.conditions import conditions_of
from tsoperator.api.names import CONDITION_PROXY_READY, PARENT_INGRESS, PARENT_SERVICE
from tsoperator.api.objects import INGRESS, SERVICE, Key, Object, is_deleting, key_of
from tsoperator.dns.clusternames import is_opted_out
from tsoperator.dns.nameclaims import (
    BY_DEVICE_NAME,
    Claim,
    Standing,
    asked_name,
    destination_name,
    egress_claim,
    forwarded_ports,
    holding,
    noted_claim,
    noted_name,
)
from tsoperator.reconcilers.service import grouped
from tsoperator.reconcilers.service.ask import BY_DESTINATION, ServiceMode, parse
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.ownership import BY_GROUPED_OWNER, BY_OWNER, Owner, grouped_owner_of, owner_of
from tsoperator.settings import Settings

_PARENTS = {PARENT_SERVICE: SERVICE, PARENT_INGRESS: INGRESS}


class NamesView:
    """Finds in the cache the objects that ask for a name, and the one that has it."""

    def __init__(self, cache: Cache, settings: Settings) -> None:
        self._cache = cache
        self._settings = settings

    def holder(self, service: Object) -> Claim | None:
        """Return the claim of the object that has the name for which *service* asks; None if *service* can use it."""
        if not self._is_shared(service) or not (name := self._asked(service)):
            return None
        ports = forwarded_ports(service)
        devices = [*self._devices(name)]
        if not devices and all(forwarded_ports(each) == ports for each in self._leading(name)):
            return None  # all can share the name, whoever has it
        first = holding([self._claim(service, name), *devices, *self._asking(name, key_of(service))])
        return None if first.ports == ports else first

    def concerned(self, service: Object) -> Iterable[Key]:
        """Return the Services that can get or lose their name by a change of *service*.

        *service* is the old or the new state of the Service that changes. If *service* has the name of its device in
        that state, the result is all other Services that lead to the same device; otherwise it is empty.
        """
        name = destination_name(service)
        own = key_of(service)
        others = [key for each in self._leading(name) if (key := key_of(each)) != own] if name else []
        if not others or not self._asked(service):
            return ()
        mine = egress_claim(service, Standing.HOLDS)  # its child, with the note of its claim, may be gone already
        return () if any(each.rank < mine.rank for each in self._asking(name, own)) else others

    def concerned_by_child(self, child: Object) -> Iterable[Key]:
        """Return the Services that can get or lose their name because the name noted on *child* changes."""
        name = noted_name(child)
        found = self._leading(name) if name else []
        if not found:
            return ()
        owner = owner_of(child) or grouped_owner_of(child)
        parent = next((each for each in found if owner == Owner(PARENT_SERVICE, key_of(each))), None)
        return self.concerned(parent) if parent else map(key_of, found)

    def _is_shared(self, service: Object) -> bool:
        """Tell whether it is possible that a second object asks for the name of the device to which *service* leads.

        If the result is False, no other object asks for it.
        """
        name = destination_name(service)
        return bool(name) and (
            any(key_of(each) != key_of(service) for each in self._leading(name))
            or bool(self._cache.indexed(SERVICE, BY_DEVICE_NAME, name))
        )

    def _leading(self, name: str) -> list[Object]:
        """Return the Services that lead to the device called *name*, or would if they were valid."""
        return self._cache.indexed(SERVICE, BY_DESTINATION, name)

    def _asking(self, name: str, but: Key) -> Iterator[Claim]:
        """Yield the claims of the Services that ask for *name* and can use it.

        The Service with the key *but* is left out.
        """
        for each in self._leading(name):
            if key_of(each) != but and self._asked(each) == name:
                claim = self._claim(each, name)
                if claim.standing is Standing.HOLDS or self._may_hold(each):
                    yield claim

    def _asked(self, service: Object) -> str:
        """Return the name that a valid *service* asks for; empty if it is invalid, or asks for no name."""
        ask = parse(service, self._settings)
        is_valid = ask.mode in (ServiceMode.PROXY, ServiceMode.GROUP) and not ask.is_exposed and ask.target.fqdn
        return asked_name(service) if is_valid else ""

    def _claim(self, service: Object, name: str) -> Claim:
        holds = any(noted_name(child) == name and not is_deleting(child) for child in self._children(service))
        return egress_claim(service, Standing.HOLDS if holds else Standing.ASKS)

    def _may_hold(self, service: Object) -> bool:
        """Tell whether *service* can have a name.

        It can if it has a proxy or a place, or has yet to be reconciled for the first time.
        """
        is_told = any(each["type"] in (CONDITION_PROXY_READY, *grouped.CONDITIONS) for each in conditions_of(service))
        return not is_told or any(self._children(service))

    def _children(self, service: Object) -> Iterator[Object]:
        """Yield the Services in front of the proxies of *service*."""
        owner = str(Owner(PARENT_SERVICE, key_of(service)))
        for index in (BY_OWNER, BY_GROUPED_OWNER):
            yield from self._cache.indexed(SERVICE, index, owner)

    def _devices(self, name: str) -> Iterator[Claim]:
        """Yield the claims of the objects whose own devices have the name *name*."""
        for child in self._cache.indexed(SERVICE, BY_DEVICE_NAME, name):
            owner = owner_of(child)
            parent = self._cache.get(_PARENTS[owner.type], owner.key) if owner and owner.type in _PARENTS else None
            if parent and not (is_deleting(child) or is_deleting(parent) or is_opted_out(parent)):
                yield noted_claim(child, parent, name)
