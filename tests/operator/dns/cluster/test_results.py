"""The stub domain that the operator wants: its zones and the addresses of the nameserver."""

import pytest
from tsoperator.dns.cluster.results import StubDomain
from tsoperator.runtime.plan import Refusal

LONGEST = f"{'a.' * 95}{'b' * 63}"


def test_the_zones_and_addresses_of_a_stub_domain_are_normalized() -> None:
    stub = StubDomain.of(["TS.net.", "ts.net", "_a.b-c.org", LONGEST], ["fd00:0::53", "10.0.0.1", "10.0.0.1"])
    assert stub == StubDomain(("_a.b-c.org", LONGEST, "ts.net"), ("fd00::53", "10.0.0.1"))


@pytest.mark.parametrize(
    ("zones", "addresses", "reason", "words"),
    [
        ([], ["10.0.0.1"], "NoZone", "no zone of the tailnet is known yet: wait until a device of it is there"),
        (["ts.net"], [], "NoAddress", "the nameserver has no address yet: wait until its Service has a cluster IP"),
        (["ts.net"], ["None"], "InvalidAddress", "'None' does not appear to be an IPv4 or IPv6 address"),
    ],
)
def test_a_stub_domain_needs_a_zone_and_an_address(
    zones: list[str], addresses: list[str], reason: str, words: str
) -> None:
    refusal = StubDomain.of(zones, addresses)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == reason
    assert words in refusal.message


@pytest.mark.parametrize(
    "zone",
    ["", ".", "a..b", "a b", "a{", "a\n}", "a#b", 'a"', "a:53", "-a", "a-", "*.a", "ä.org", f"{'a' * 64}.b",
     "a." * 126 + "bb"],
)  # fmt: skip
def test_the_operator_refuses_a_stub_domain_with_a_zone_that_is_no_domain_name(zone: str) -> None:
    message = f"{zone.strip('.').lower()!r} isn't a domain name: correct operatorConfig.zones"
    assert StubDomain.of(["ts.net", zone], ["10.0.0.1"]) == Refusal(message, "InvalidZone")


@pytest.mark.parametrize("zone", ["cluster.local", "Local.", "svc.cluster.local"])
def test_a_stub_domain_must_not_contain_names_of_the_cluster(zone: str) -> None:
    found = StubDomain.of(["ts.net", zone], ["10.0.0.1"], "Cluster.local.")
    assert isinstance(found, Refusal)
    told = f"a stub domain for {zone.strip('.').lower()} would take names from the cluster"
    assert (found.reason, found.message.partition(",")[0]) == ("InvalidZone", told)
    assert isinstance(StubDomain.of(["mycluster.local", "cluster.locals"], ["10.0.0.1"], "cluster.local"), StubDomain)
