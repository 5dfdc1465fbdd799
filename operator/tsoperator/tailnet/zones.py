"""The zones of MagicDNS names: those that the nameserver answers for, and those that the cluster's DNS forwards.

If the user gives no zones, the zones are the tailnets' suffixes, which devices show. While the operator can't read a
tailnet, it doesn't drop the zones that this tailnet has shown: they stay until more is known. The status of the
DNSConfig remembers such zones. The status also says whether its zones come from the operator's setting in place of the
tailnets. The operator doesn't keep those zones when the setting is gone, because no tailnet has shown them.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tsoperator.api.objects import Object
from tsoperator.api.rules import fqdn_error

TS_NET: Final = "ts.net"
"""The zone of all tailnets at Tailscale."""
FROM_TAILNETS: Final = "Tailnets"
FROM_SETTING: Final = "Setting"
"""The origin in a DNSConfig's status that says that the zones are from the operator's setting.

The other origin, `FROM_TAILNETS`, means that tailnets have shown them.
"""


@dataclass(frozen=True, slots=True)
class Suffixes:
    """The known suffixes of MagicDNS names, such as ``tail1234.ts.net``.

    *known* are the suffixes, sorted. If *complete*, these are the suffixes of all tailnets. If *anywhere*, some tailnet
    can have any suffix: the operator learns it only when the first proxy in that tailnet reports it. *shared* are the
    names of those devices that other tailnets share with ours and to which Services lead, sorted. While *pending*, the
    operator possibly learns more suffixes in a moment.
    """

    known: tuple[str, ...] = ()
    complete: bool = False
    anywhere: bool = False
    shared: tuple[str, ...] = ()
    pending: bool = False


NO_SUFFIXES: Final = Suffixes()


@dataclass(frozen=True, slots=True)
class TailnetNames:
    """A tailnet, whose control server is at *url*, and the *domains* of its devices' names.

    *domains* is None until the operator has listed the devices. *shared* are the names of the devices that other
    tailnets share with this one; the domains of these names aren't in *domains*. Headscale lists names without a
    domain, so its *domains* have an empty text. While *pending*, the operator hasn't read the list of devices yet.
    """

    url: str
    domains: frozenset[str] | None = None
    shared: frozenset[str] = frozenset()
    pending: bool = False


class Reported(NamedTuple):
    """The *domain* in a device name that a proxy reports, and the *url* of its control server."""

    url: str
    domain: str


def known_suffixes(
    tailnets: Iterable[TailnetNames],
    reported: Collection[Reported],
    leads_to: Callable[[str], bool],
) -> Suffixes:
    """Return the known suffixes of *tailnets*, which have to be all tailnets that the operator knows.

    *reported* are the domains that proxies report. *leads_to* tells for a name whether a Service leads to the device
    with this name.
    """
    shared: set[str] = set()
    found, urls = {each.domain for each in reported}, {each.url for each in reported}
    complete, anywhere, pending = True, False, False
    for each in tailnets:
        pending |= each.pending
        found |= each.domains or set()
        shared |= each.shared
        if each.domains is None:
            complete = False
        elif each.domains <= {""} and not (each.domains and each.url in urls):
            complete, anywhere = False, anywhere or bool(each.domains)
    led_to = (name for name in shared if _is_suffix(name) and leads_to(name))
    return Suffixes(tuple(sorted(filter(_is_suffix, found))), complete, anywhere, tuple(sorted(led_to)), pending)


def nameserver_zones(given: Sequence[str], suffixes: Suffixes, served: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the zones that the nameserver answers for.

    *given* are the zones that the user gives, and *served* those that tailnets have shown before. Without given zones,
    the nameserver answers for all of ts.net, because a stub domain can forward all of ts.net to it. It also answers for
    the tailnets' suffixes outside of ts.net.
    """
    if given:
        return tuple(given)
    kept = () if suffixes.complete else filter(_is_suffix, served)
    return (TS_NET, *sorted(zone for zone in {*suffixes.known, *kept} if not f".{zone}".endswith(f".{TS_NET}")))


def stub_zones(given: Sequence[str], suffixes: Suffixes, served: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the zones that the cluster's DNS has to forward to the nameserver.

    *given* are the zones that the user gives, and *served* those that tailnets have shown before. Without given zones,
    the result has the tailnets' own suffixes, and the names of single devices of other tailnets. So other names in
    ts.net, such as those of other people's Funnels, resolve as on the Internet. While no suffix is known, the result is
    all of ts.net. But it is empty if *served* is empty and the operator possibly learns more suffixes in a moment.
    """
    if given:
        return tuple(given)
    if suffixes.pending and not served:
        return ()
    kept = () if suffixes.complete else (zone for zone in served if zone != TS_NET and _is_suffix(zone))
    own = {*suffixes.known, *kept}
    shared = {name for name in suffixes.shared if not any(name.endswith(f".{zone}") for zone in own)}
    return tuple(sorted(own | shared)) if own else (TS_NET,)


def forwarded_zones(dnsconfig: Object, given: Sequence[str], suffixes: Suffixes) -> tuple[str, ...]:
    """Return the `stub_zones` for *dnsconfig*, whose status has the zones that tailnets have shown before."""
    return stub_zones(given, suffixes, tailnet_zones(dnsconfig))


def zones_status(given: Sequence[str], zones: Sequence[str]) -> Object:
    """Return the fields of a DNSConfig's status that hold *zones*, the zones that the cluster's DNS has to forward.

    The fields also say whether the zones come from *given* or from tailnets.
    """
    return {"zones": [*zones], "zonesFrom": FROM_SETTING if given else FROM_TAILNETS}


def shown_zones(dnsconfig: Object) -> Sequence[str]:
    """Return the zones that the cluster's DNS has to forward, as the status of *dnsconfig* shows them."""
    zones: Sequence[str] = _cluster_dns(dnsconfig).get("zones") or ()
    return zones


def tailnet_zones(dnsconfig: Object) -> Sequence[str]:
    """Return those of the `shown_zones` that a tailnet has shown; no zones if the user gave them.

    Earlier versions did not write into the status where the zones come from, so we ignore their zones.
    """
    return shown_zones(dnsconfig) if _cluster_dns(dnsconfig).get("zonesFrom") == FROM_TAILNETS else ()


def name_error(name: str, given: Sequence[str], suffixes: Suffixes) -> str | None:
    """Return the reason why *name* can't be a device's MagicDNS name; None if it can.

    *given* are the zones that the user gives.
    """
    anywhere = suffixes.anywhere and not given
    return fqdn_error(name, nameserver_zones(given, suffixes), anywhere=anywhere)


def _cluster_dns(dnsconfig: Object) -> Object:
    return (dnsconfig.get("status") or {}).get("clusterDNS") or {}


def _is_suffix(domain: str) -> bool:
    return fqdn_error(f"x.{domain}", (), anywhere=True) is None
