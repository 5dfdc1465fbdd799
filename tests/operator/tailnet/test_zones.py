"""The zones of MagicDNS names, which depend on the suffixes of the devices' names."""

from typing import NamedTuple

import pytest
from tsoperator.tailnet.zones import (
    Reported,
    Suffixes,
    TailnetNames,
    known_suffixes,
    name_error,
    nameserver_zones,
    stub_zones,
)

OURS, OTHER, HEADSCALES = "tail1234.ts.net", "tail5678.ts.net", "tail.example.org"
TAILSCALE, HEADSCALE = "https://controlplane.tailscale.com", "https://headscale.example.org"


def listed(url: str, *domains: str) -> TailnetNames:
    return TailnetNames(url, frozenset(domains))


def known(*names: str, shared: tuple[str, ...] = ()) -> Suffixes:
    return Suffixes(names, complete=True, shared=shared)


BESIDE = Suffixes((OURS,), anywhere=True)
SHARED = f"db.{OTHER}"
SHARING = TailnetNames(TAILSCALE, frozenset({OURS}), frozenset({f"web.{OTHER}", SHARED, "db.a b"}))
SEEN: dict[str, tuple[list[TailnetNames], list[Reported], Suffixes]] = {
    "nothing yet": ([TailnetNames(TAILSCALE)], [], Suffixes()),
    "no tailnet at all": ([], [], known()),
    "one": ([listed(TAILSCALE, OURS)], [], known(OURS)),
    "two": ([listed(TAILSCALE, OTHER), listed(TAILSCALE, OURS)], [], known(OURS, OTHER)),
    "while it is renamed": ([listed(TAILSCALE, OURS, OTHER)], [], known(OURS, OTHER)),
    "one of two": ([listed(TAILSCALE, OURS), TailnetNames("")], [], Suffixes((OURS,))),
    "one, and the other soon": (
        [listed(TAILSCALE, OURS), TailnetNames("", pending=True)],
        [],
        Suffixes((OURS,), pending=True),
    ),
    "no devices": ([listed(TAILSCALE)], [], Suffixes()),
    "no devices, but a proxy that was there": ([listed(TAILSCALE)], [Reported(TAILSCALE, OURS)], Suffixes((OURS,))),
    "Headscale": ([listed(HEADSCALE, "")], [], Suffixes(anywhere=True)),
    "Headscale that isn't listed yet": ([TailnetNames(HEADSCALE)], [], Suffixes()),
    "Headscale with a proxy": ([listed(HEADSCALE, "")], [Reported(HEADSCALE, HEADSCALES)], known(HEADSCALES)),
    "Headscale with a proxy that is elsewhere": ([listed(HEADSCALE, "")], [Reported(TAILSCALE, OURS)], BESIDE),
    "Headscale beside a tailnet that is known": ([listed(HEADSCALE, ""), listed(TAILSCALE, OURS)], [], BESIDE),
    "a server that is away, with a proxy": ([TailnetNames(TAILSCALE)], [Reported(TAILSCALE, OURS)], Suffixes((OURS,))),
    "devices of others, of which a Service leads to one": ([SHARING], [], known(OURS, shared=(SHARED,))),
    "no zones": ([listed(TAILSCALE, "a_b.ts.net", "x.{}", "a..b")], [Reported("", "c d")], known()),
}


@pytest.mark.parametrize(("tailnets", "reported", "wanted"), SEEN.values(), ids=SEEN)
def test_the_suffix_of_a_tailnet_is_known_from_its_devices_and_from_the_reports_of_proxies(
    tailnets: list[TailnetNames], reported: list[Reported], wanted: Suffixes
) -> None:
    assert known_suffixes(tailnets, reported, lambda name: name.startswith("db.")) == wanted


class Case(NamedTuple):
    suffixes: Suffixes
    nameserver: tuple[str, ...]
    stubs: tuple[str, ...]
    given: tuple[str, ...] = ()
    served: tuple[str, ...] = ()


ALL = known(OURS, HEADSCALES)
CASES = {
    "nothing is known": Case(Suffixes(), ("ts.net",), ("ts.net",)),
    "a tailnet at Tailscale": Case(known(OURS), ("ts.net",), (OURS,)),
    "Headscale": Case(known(HEADSCALES), ("ts.net", HEADSCALES), (HEADSCALES,)),
    "several": Case(known(HEADSCALES, OURS, OTHER), ("ts.net", HEADSCALES), (HEADSCALES, OURS, OTHER)),
    "outside, but alike": Case(known("s.net", "ts.net.a"), ("ts.net", "s.net", "ts.net.a"), ("s.net", "ts.net.a")),
    "a device of others": Case(known(OURS, shared=(SHARED,)), ("ts.net",), (SHARED, OURS)),
    "a device that a tailnet of ours shares": Case(known(OURS, OTHER, shared=(SHARED,)), ("ts.net",), (OURS, OTHER)),
    "a device of others alone": Case(Suffixes(shared=(SHARED,)), ("ts.net",), ("ts.net",)),
    "given": Case(ALL, ("b.example.org", "ts.net"), ("b.example.org", "ts.net"), given=("b.example.org", "ts.net")),
    "what was served stays while nothing is known": Case(
        Suffixes(), ("ts.net", HEADSCALES), (HEADSCALES, OURS), served=(OURS, HEADSCALES, "ts.net")
    ),
    "and beside what is known": Case(
        Suffixes((OTHER,)), ("ts.net", HEADSCALES), (HEADSCALES, OTHER), served=(HEADSCALES, "ts.net")
    ),
    "what was served goes once all is known": Case(known(OTHER), ("ts.net",), (OTHER,), served=(OURS, HEADSCALES)),
    "and when others are given": Case(Suffixes(), ("ts.net",), ("ts.net",), given=("ts.net",), served=(HEADSCALES,)),
    "nothing is forwarded before all that comes soon is known": Case(Suffixes((OURS,), pending=True), ("ts.net",), ()),
    "but what was served goes on": Case(Suffixes(pending=True), ("ts.net",), (OURS,), served=(OURS,)),
    "all of ts.net, too": Case(Suffixes(pending=True), ("ts.net",), ("ts.net",), served=("ts.net",)),
    "and what is given counts at once": Case(Suffixes(pending=True), ("ts.net",), ("ts.net",), given=("ts.net",)),
    "what was served but is no zone": Case(Suffixes(), ("ts.net",), ("ts.net",), served=("a_b", "x {", "")),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_zones_depend_on_the_setting_the_known_suffixes_and_the_zones_that_are_served(case: Case) -> None:
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
def test_a_name_must_be_in_a_given_zone_or_without_given_zones_in_a_zone_that_a_tailnet_can_have(
    name: str, right: bool, suffixes: Suffixes, given: tuple[str, ...]
) -> None:
    assert (name_error(name, given, suffixes) is None) == right
