"""The rules by which one of several objects gets the name in the cluster's DNS for which all of them ask (pure).

An egress Service asks for the name of the device that it leads to, and any namespace can have such a Service. If
several Services forward the same ports, they share the name, and the name leads to the addresses of all of them. With
different ports they can't share it: a client chooses any of the addresses, and some of them wouldn't accept its
connection. Then only one object gets the name:

1. an object whose own device has that name in the tailnet,
2. if there is none, a Service that has the name already (the operator notes it on the Service in front of the proxies),
3. if there is none, a Service that asks for the name.

Among objects of the same rank, the oldest gets the name. So nobody can take a name away from a Service by asking for
it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from tsoperator.api.conditions import FALSE, conditions_of
from tsoperator.api.device import lookup_name
from tsoperator.api.names import (
    ANNOTATION_CLUSTER_DNS,
    ANNOTATION_MAGIC_DNSNAME,
    ANNOTATION_TAILNET_FQDN,
    CONDITION_EGRESS_VALID,
    CONDITION_PROXY_READY,
    HEALTH_PORT_NAME,
    PARENT_INGRESS,
    PARENT_SERVICE,
    PROXY_GROUP,
)
from tsoperator.api.objects import INGRESS, SERVICE, Key, Object, annotations, is_deleting, key_of
from tsoperator.dns.clusternames import Way, is_opted_out, way_of
from tsoperator.runtime.ownership import Owner, grouped_owner_of, owner_of
from tsoperator.runtime.plan import Note

BY_DEVICE_NAME = "device-name"
"""The name of the index that finds the Service in front of a proxy by the name of the proxy's own device."""

Ports = frozenset[tuple[str, int]]
"""Ports, each with its protocol."""

_OWN_DEVICES = (Way.FORWARDED, Way.INGRESS)
_NOBODY = Owner("", Key("", ""))
_KINDS = {PARENT_SERVICE: SERVICE.kind, PARENT_INGRESS: INGRESS.kind}


class Standing(IntEnum):
    """The rank of an object's claim to a name; a lower number comes first."""

    DEVICE = 0
    """The name is that of the object's own device."""
    HOLDS = 1
    """The Service asks for the name, and has the name now."""
    ASKS = 2
    """The Service asks for the name."""
    LEFT = 3
    """The Service doesn't ask for the name any more, or is invalid. Its proxy keeps the name if no Service asks."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim of an object to a name. *ports* are the ports of the object's addresses; None means all ports."""

    standing: Standing = Standing.DEVICE
    created: str = ""
    owner: Owner = _NOBODY
    ports: Ports | None = None

    @property
    def rank(self) -> tuple[Standing, str, Key, str]:
        """The rank of the claim. The object whose claim has the lowest rank has the name."""
        return self.standing, self.created, self.owner.key, self.owner.type


UNCONTESTED: Final = Claim()
"""The claim of an object to a name for which no other object can ask."""


def holding(claims: Iterable[Claim]) -> Claim:
    """Return the claim in *claims* that wins the name. *claims* must not be empty.

    The winner shares the name with the other claims that have the same ports.
    """
    return min(claims, key=lambda claim: claim.rank)


def egress_claim(service: Object, standing: Standing) -> Claim:
    """Return the claim of an egress *service* to the name for which it asks."""
    owner = Owner(PARENT_SERVICE, key_of(service))
    return Claim(standing, _creation_time(service), owner, forwarded_ports(service))


def noted_claim(child: Object, parent: Object | None, name: str) -> Claim:
    """Return the claim of *parent* to *name*.

    The name is noted on *child*, the Service in front of the parent's proxies. *parent* is None if its namespace isn't
    watched.
    """
    way, owner = way_of(child), owner_of(child) or grouped_owner_of(child)
    if way in _OWN_DEVICES:
        standing = Standing.DEVICE
    else:
        standing = Standing.HOLDS if parent is None or asked_name(parent) == name else Standing.LEFT
    source = parent or child
    ports = _ports(source) if way is Way.EGRESS_GROUP else None
    return Claim(standing, _creation_time(source), owner or _NOBODY, ports)


def destination_name(service: Object) -> str:
    """Return the MagicDNS name of the device to which an egress *service* leads.

    Return an empty text if the Service doesn't name the device, but gives its address.
    """
    return lookup_name(annotations(service).get(ANNOTATION_TAILNET_FQDN, ""))


def asked_name(service: Object) -> str:
    """Return the name that an egress *service* asks for; empty if it asks for none, is invalid, or is being deleted."""
    name = destination_name(service)
    return "" if not name or is_deleting(service) or is_opted_out(service) or _is_invalid(service) else name


def noted_name(child: Object) -> str:
    """Return the name that is noted on *child*, the Service in front of proxies; empty if no name is noted."""
    return lookup_name(annotations(child).get(ANNOTATION_MAGIC_DNSNAME, ""))


def by_device_name(child: Object) -> Iterable[str]:
    """Return the values for the index `BY_DEVICE_NAME`: the name of a proxy's own device, or nothing.

    *child* is the Service in front of the proxy. The result is empty if no name is noted on *child*, or if that name
    isn't the one of the proxy's own device.
    """
    name = noted_name(child)
    return (name,) if name and way_of(child) in _OWN_DEVICES else ()


def forwarded_ports(service: Object) -> Ports | None:
    """Return the ports that the proxies of an egress *service* forward; None if they forward all ports."""
    return _ports(service) if annotations(service).get(PROXY_GROUP) else None


def taken_notes(service: Object, holder: Claim | None) -> list[Note]:
    """Return a list with an Event on *service*, which says that *holder* has the name for which *service* asks.

    The list is empty if *holder* is None: no other object has the name, or *service* shares it.
    """
    if holder is None:
        return []
    key, kind = key_of(service), _KINDS.get(holder.owner.type, SERVICE.kind)
    is_device = holder.standing is Standing.DEVICE
    why = "whose own device has that name" if is_device else "which had the name first and forwards other ports"
    words = (
        f"Pods that use the name {asked_name(service)} get to {kind} {holder.owner.key}, {why}: let them use "
        f"{key.name}.{key.namespace}.svc to get to this Service, or set annotation {ANNOTATION_CLUSTER_DNS} to "
        '"false" if none needs the name'
    )
    if not is_device:
        words += (
            ". Services share a name if each of them has a proxy of its own, or if ProxyGroups serve them and they "
            "have the same ports"
        )
    return [Note("Warning", "ClusterNameTaken", words, once=True)]


def _is_invalid(service: Object) -> bool:
    """Tell whether *service* is invalid, according to its condition. Its mode decides which condition that is."""
    grouped = bool(annotations(service).get(PROXY_GROUP))
    for each in conditions_of(service):
        if grouped and each["type"] == CONDITION_EGRESS_VALID:
            return bool(each["status"] == FALSE)
        if not grouped and each["type"] == CONDITION_PROXY_READY:
            return bool(each["reason"] == "ProxyInvalid")
    return False


def _ports(service: Object) -> Ports:
    ports = service["spec"].get("ports") or ()
    return frozenset(
        (each.get("protocol", "TCP"), each["port"]) for each in ports if each.get("name") != HEALTH_PORT_NAME
    )


def _creation_time(obj: Object) -> str:
    created: str = obj["metadata"].get("creationTimestamp", "")
    return created
