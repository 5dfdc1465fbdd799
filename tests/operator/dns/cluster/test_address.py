"""The choice of an address for a new Service of the nameserver."""

import pytest
from tsoperator.api.objects import CONFIGMAP, SERVICE, Key, Object
from tsoperator.dns.cluster.address import NO_ADDRESSES, Addresses, address_of, asked_address
from tsoperator.dns.cluster.results import DNSObjects

from tests.support.objects import obj


def service(name: str, address: str | None) -> Object:
    return obj(SERVICE, Key("default", name), {"spec": {"clusterIP": address} if address is not None else {}})


def forwarding(**zones: str) -> DNSObjects:
    """Return a Corefile that forwards the given zones to addresses.

    In the names of zones, a dot is written as an underscore.
    """
    blocks = [f"{zone.replace('_', '.')} {{\n    forward . {to}\n}}\n" for zone, to in zones.items()]
    return DNSObjects([obj(CONFIGMAP, Key("kube-system", "coredns"), {"data": {"Corefile": "".join(blocks)}})])


@pytest.mark.parametrize(
    ("dns", "zones", "address"),
    [
        (forwarding(ts_net="10.96.4.3"), ["ts.net"], "10.96.4.3"),
        (forwarding(ts_net="10.96.4.3"), ["a.ts.net", "b.ts.net"], "10.96.4.3"),
        (forwarding(a_ts_net="10.96.4.3", b_ts_net="10.96.4.4"), ["a.ts.net", "b.ts.net"], ""),
        (forwarding(ts_net="/etc/resolv.conf"), ["ts.net"], ""),
        (forwarding(example_org="10.96.4.3"), ["ts.net"], ""),
        (DNSObjects(), ["ts.net"], ""),
    ],
)
def test_a_new_nameserver_gets_the_address_to_which_the_corefile_forwards_all_zones(
    dns: DNSObjects, zones: list[str], address: str
) -> None:
    assert asked_address(dns, zones) == address


@pytest.mark.parametrize(("given", "address"), [("10.96.4.3", "10.96.4.3"), ("None", ""), (None, "")])
def test_a_headless_service_of_the_nameserver_has_no_address(given: str | None, address: str) -> None:
    assert address_of(service("web", given)) == address


def test_a_new_nameserver_gets_its_previous_address_if_the_forwarded_address_is_missing_or_in_use() -> None:
    dns, known = forwarding(ts_net="10.96.4.3"), NO_ADDRESSES.with_last(service("nameserver", "10.96.4.9"))

    def chosen(addresses: Addresses, dns: DNSObjects | None, *taken: str) -> str:
        return addresses.choice(dns, ["ts.net"], [service("other", each) for each in taken])

    assert chosen(NO_ADDRESSES, None) == ""
    assert (chosen(known, None), chosen(known, dns), chosen(known, dns, "10.96.4.3")) == (
        "10.96.4.9", "10.96.4.3", "10.96.4.9",
    )  # fmt: skip
    refused = known.without("10.96.4.9")
    assert chosen(refused, dns, "10.96.4.3") == ""
    given = refused.with_last(service("nameserver", "10.96.4.9"))
    assert chosen(given, dns, "10.96.4.3") == "10.96.4.9"
