"""The endpoints of relays: the addresses of their load balancers, at which devices reach the relays."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tsoperator.api.names import RELAY_PORT
from tsoperator.api.objects import Key, Object, by_age, is_deleting, key_of
from tsoperator.api.rules import is_address
from tsoperator.proxy.workload import LOAD_BALANCER

BY_RELAY_ADDRESS: Final = "relay-address"
"""The index that finds Services with the port of a relay. Its values are the addresses of their load balancers."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The answer to a question for the IPv4 addresses of a host: sorted *addresses*, or a *failure* in words."""

    addresses: tuple[str, ...] = ()
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Balancers:
    """The facts about the load balancers of a PeerRelay.

    *sharing* are all Services that have an address in common with a load balancer of the PeerRelay. *resolved* has
    the answers for the hostnames of load balancers. A hostname that is missing there has not been looked up yet.
    """

    sharing: Sequence[Object] = ()
    resolved: Mapping[str, Resolved] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The *addresses* of one relay.

    *problem* says what is wrong with the load balancer of the relay, and what the user can do. *awaits* is true if
    nothing is wrong, and the load balancer just has no address yet.
    """

    addresses: tuple[str, ...] = ()
    problem: str = ""
    awaits: bool = False

    @property
    def static(self) -> tuple[str, ...]:
        """The endpoints as the configuration of the relay lists them."""
        return tuple(f"[{each}]:{RELAY_PORT}" if ":" in each else f"{each}:{RELAY_PORT}" for each in self.addresses)


def by_relay_address(service: Object) -> Iterable[str]:
    """Return the values for the index `BY_RELAY_ADDRESS`: the load balancer's addresses if *service* is for a relay."""
    spec = service["spec"]
    if spec.get("type") != LOAD_BALANCER or not any(map(_is_relays, spec.get("ports") or ())):
        return ()
    return [entry["ip"] for entry in _entries(service) if entry.get("ip")]


def hostnames(service: Object) -> list[str]:
    """Return the hostnames of the load balancer of *service* that have to be looked up; none if it has an address."""
    entries = _entries(service)
    return (
        []
        if any(entry.get("ip") for entry in entries)
        else [each["hostname"] for each in entries if each.get("hostname")]
    )


def endpoints(service: Object | None, key: Key, balancers: Balancers, published: Sequence[str]) -> Endpoints:
    """Return the endpoints of the relay whose Service is named *key*.

    *service* is that Service, if it exists. While a hostname can't be looked up, the endpoints in *published*,
    which devices know already, stay.
    """
    if service is None or is_deleting(service):
        return Endpoints(awaits=True)
    entries = _entries(service)
    if not entries:
        return Endpoints(awaits=True)
    if refused := next(filter(None, map(_refused, entries)), ""):
        words = f"the load balancer of Service {key} can't open UDP port {RELAY_PORT} ({refused}): free that port there"
        return Endpoints(problem=words)
    ips = [entry["ip"] for entry in entries if entry.get("ip") and is_address(entry["ip"])]
    if ips:
        return _unshared(service, ips, balancers.sharing)
    return _looked_up(key, hostnames(service), balancers.resolved, published)


def _unshared(service: Object, ips: Sequence[str], sharing: Sequence[Object]) -> Endpoints:
    """Return the endpoints with those addresses in *ips* that no older Service in *sharing* has.

    Two relays can't have one address, because all relays listen at the same port.
    """
    holders = {ip: _holder(ip, service, sharing) for ip in sorted({*ips})}
    free = tuple(ip for ip, holder in holders.items() if holder == key_of(service))
    taken = next((ip for ip in holders if ip not in free), "")
    if not taken:
        return Endpoints(free)
    return Endpoints(
        free,
        f"UDP port {RELAY_PORT} of {taken}, the address of Service {key_of(service)}, is taken by Service "
        f"{holders[taken]}: see that the load balancer gives each Service an address of its own",
    )


def _holder(ip: str, service: Object, sharing: Sequence[Object]) -> Key:
    others = [each for each in sharing if ip in by_relay_address(each) and not is_deleting(each)]
    return key_of(min([service, *others], key=by_age))


def _looked_up(key: Key, hosts: Sequence[str], resolved: Mapping[str, Resolved], published: Sequence[str]) -> Endpoints:
    failures = []
    for host in hosts:
        answer = resolved.get(host)
        if answer is None:
            return Endpoints(tuple(_hosts(published)), awaits=True)
        if answer.addresses:
            return Endpoints(tuple(sorted(answer.addresses)))
        failures.append(f"{host} ({answer.failure})")
    if not failures:
        return Endpoints(problem=f"the load balancer of Service {key} has neither an IP address nor a hostname")
    return Endpoints(
        tuple(_hosts(published)),
        f"the load balancer of Service {key} has a hostname that has no IPv4 address: {', '.join(failures)}: see that "
        "the operator's Pod can look it up, and that the load balancer has IPv4 addresses",
    )


def _hosts(published: Sequence[str]) -> Iterator[str]:
    """Yield the addresses in the static endpoints *published*, without their ports."""
    for each in published:
        host = each.rpartition(":")[0].removeprefix("[").removesuffix("]")
        if is_address(host):
            yield host


def _refused(entry: Object) -> str:
    """Return why a load balancer refused the relay's port, by an *entry* in its status; empty if it didn't."""
    ports = entry.get("ports") or ()
    return next((str(each["error"]) for each in ports if _is_relays(each) and each.get("error")), "")


def _is_relays(port: Object) -> bool:
    return port.get("port") == RELAY_PORT and port.get("protocol") == "UDP"


def _entries(service: Object) -> list[Object]:
    return [*(((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ())]
