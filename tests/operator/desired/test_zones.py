"""The zones of MagicDNS names, which follow from the suffixes that devices show."""

from typing import NamedTuple

import pytest
from tsoperator.desired.zones import (
    Listed,
    Reported,
    Suffixes,
    known_suffixes,
    name_error,
    nameserver_zones,
    stub_zones,
)

OURS, OTHER, HEADSCALES = "tail1234.ts.net", "tail5678.ts.net", "tail.example.org"
TAILSCALE, HEADSCALE = "https://controlplane.tailscale.com", "https://headscale.example.org"


def listed(url: str, *domains: str) -> Listed:
    return Listed(url, frozenset(domains))


BESIDE = Suffixes((OURS,), anywhere=True)
SEEN = {
    "nothing yet": ([Listed(TAILSCALE)], [], Suffixes()),
    "no tailnet at all": ([], [], Suffixes(complete=True)),
    "one": ([listed(TAILSCALE, OURS)], [], Suffixes((OURS,), complete=True)),
    "two": ([listed(TAILSCALE, OTHER), listed(TAILSCALE, OURS)], [], Suffixes((OURS, OTHER), complete=True)),
    "while it is renamed": ([listed(TAILSCALE, OURS, OTHER)], [], Suffixes((OURS, OTHER), complete=True)),
    "one of two": ([listed(TAILSCALE, OURS), Listed("")], [], Suffixes((OURS,))),
    "no devices": ([listed(TAILSCALE)], [], Suffixes()),
    "no devices, but a proxy that was there": ([listed(TAILSCALE)], [Reported(TAILSCALE, OURS)], Suffixes((OURS,))),
    "Headscale": ([listed(HEADSCALE, "")], [], Suffixes(anywhere=True)),
    "Headscale that isn't listed yet": ([Listed(HEADSCALE)], [], Suffixes()),
    "Headscale with a proxy": (
        [listed(HEADSCALE, "")],
        [Reported(HEADSCALE, HEADSCALES)],
        Suffixes((HEADSCALES,), complete=True),
    ),
    "Headscale with a proxy that is elsewhere": ([listed(HEADSCALE, "")], [Reported(TAILSCALE, OURS)], BESIDE),
    "Headscale beside a tailnet that is known": ([listed(HEADSCALE, ""), listed(TAILSCALE, OURS)], [], BESIDE),
    "a server that is away, with a proxy": ([Listed(TAILSCALE)], [Reported(TAILSCALE, OURS)], Suffixes((OURS,))),
    "devices of others, of which a Service leads to one": (
        [Listed(TAILSCALE, frozenset({OURS}), frozenset({f"web.{OTHER}", f"db.{OTHER}", "db.a b"}))],
        [],
        Suffixes((OURS,), complete=True, shared=(f"db.{OTHER}",)),
    ),
    "one, and the other soon": (
        [listed(TAILSCALE, OURS), Listed("", pending=True)],
        [],
        Suffixes((OURS,), pending=True),
    ),
    "a domain that is no zone": (
        [listed(TAILSCALE, "a_b.ts.net", "x.{}", "a..b")],
        [Reported("", "c d")],
        Suffixes(complete=True),
    ),
}


@pytest.mark.parametrize(("tailnets", "reported", "wanted"), SEEN.values(), ids=SEEN)
def test_a_suffix_is_known_from_devices_and_from_proxies(
    tailnets: list[Listed], reported: list[Reported], wanted: Suffixes
) -> None:
    assert known_suffixes(tailnets, reported, lambda name: name.startswith("db.")) == wanted


class Case(NamedTuple):
    suffixes: Suffixes
    nameserver: tuple[str, ...]
    stubs: tuple[str, ...]
    given: tuple[str, ...] = ()
    served: tuple[str, ...] = ()


ALL = Suffixes((OURS, HEADSCALES), complete=True)
CASES = {
    "nothing is known": Case(Suffixes(), ("ts.net",), ("ts.net",)),
    "a tailnet at Tailscale": Case(Suffixes((OURS,), complete=True), ("ts.net",), (OURS,)),
    "Headscale": Case(Suffixes((HEADSCALES,), complete=True), ("ts.net", HEADSCALES), (HEADSCALES,)),
    "several": Case(
        Suffixes((HEADSCALES, OURS, OTHER), complete=True), ("ts.net", HEADSCALES), (HEADSCALES, OURS, OTHER)
    ),
    "outside, but alike": Case(
        Suffixes(("lists.net", "ts.net.org"), complete=True),
        ("ts.net", "lists.net", "ts.net.org"),
        ("lists.net", "ts.net.org"),
    ),
    "a device of others": Case(
        Suffixes((OURS,), complete=True, shared=(f"db.{OTHER}",)), ("ts.net",), (f"db.{OTHER}", OURS)
    ),
    "a device that one tailnet of ours shares with another": Case(
        Suffixes((OURS, OTHER), complete=True, shared=(f"db.{OTHER}",)), ("ts.net",), (OURS, OTHER)
    ),
    "a device of others alone": Case(Suffixes(shared=(f"db.{OTHER}",)), ("ts.net",), ("ts.net",)),
    "given": Case(ALL, ("b.example.org", "ts.net"), ("b.example.org", "ts.net"), given=("b.example.org", "ts.net")),
    "what was served stays while nothing is known": Case(
        Suffixes(), ("ts.net", HEADSCALES), (HEADSCALES, OURS), served=(OURS, HEADSCALES, "ts.net")
    ),
    "and beside what is known": Case(
        Suffixes((OTHER,)), ("ts.net", HEADSCALES), (HEADSCALES, OTHER), served=(HEADSCALES, "ts.net")
    ),
    "what was served goes once all is known": Case(
        Suffixes((OTHER,), complete=True), ("ts.net",), (OTHER,), served=(OURS, HEADSCALES)
    ),
    "and when others are given": Case(Suffixes(), ("ts.net",), ("ts.net",), given=("ts.net",), served=(HEADSCALES,)),
    "nothing is forwarded before all that comes in a moment is known": Case(
        Suffixes((OURS,), pending=True), ("ts.net",), ()
    ),
    "but what was served goes on": Case(Suffixes(pending=True), ("ts.net",), (OURS,), served=(OURS,)),
    "all of ts.net, too": Case(Suffixes(pending=True), ("ts.net",), ("ts.net",), served=("ts.net",)),
    "and what is given counts at once": Case(Suffixes(pending=True), ("ts.net",), ("ts.net",), given=("ts.net",)),
    "what was served but is no zone": Case(Suffixes(), ("ts.net",), ("ts.net",), served=("a_b", "x {", "")),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_zones_follow_from_what_is_known(case: Case) -> None:
    assert nameserver_zones(case.given, case.suffixes, case.served) == case.nameserver
    assert stub_zones(case.given, case.suffixes, case.served) == case.stubs


@pytest.mark.parametrize(
    ("name", "right", "suffixes", "given"),
    [
        ("db.tail9.ts.net", True, Suffixes(), ()),
        ("db.tail.example.org", False, Suffixes(), ()),
        ("db.tail.example.org", True, ALL, ()),
        ("db.tail.example.org", False, ALL, ("ts.net",)),
        ("db.tail.example.org", True, Suffixes(anywhere=True), ()),
        ("db.tail.example.org", False, Suffixes(anywhere=True), ("ts.net",)),
    ],
)
def test_a_name_must_be_in_a_known_zone_or_a_tailnet_may_have_any(
    name: str, right: bool, suffixes: Suffixes, given: tuple[str, ...]
) -> None:
    assert (name_error(name, given, suffixes) is None) == right
