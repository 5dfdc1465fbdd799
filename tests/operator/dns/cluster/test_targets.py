"""The servers to which the cluster's DNS forwards queries for a zone."""

from collections.abc import Mapping, Sequence

import pytest
from tsoperator.api.objects import Object
from tsoperator.dns.cluster.results import DNSObjects
from tsoperator.dns.cluster.targets import targets

from tests.operator.dns.cluster.objects import OPENSHIFT, configmap

ZONE = "tail1234.ts.net"
ROOT = ".:53 {\n  forward . /etc/resolv.conf\n}\n"
BLOCK = "ts.net:53 {\n  forward . 10.96.0.53\n}\n"
NEARER = "tail1234.ts.net {\n  forward . 10.96.0.54:1053 192.0.2.1\n}\n"
STUBS = '{"ts.net": ["10.96.0.10"], "example.org": ["192.0.2.2"]}'


IMPORTING = {"Corefile": f"import /etc/coredns/custom/*.server\n{ROOT}"}
CASES: dict[str, tuple[Mapping[str, Mapping[str, str]], Sequence[str] | None]] = {
    "nothing": ({}, None),
    "all names": ({"coredns": {"Corefile": ROOT}}, ()),
    "a block": ({"coredns": {"Corefile": ROOT + BLOCK}}, ["10.96.0.53"]),
    "the nearest block": ({"coredns": {"Corefile": BLOCK + NEARER}}, ["10.96.0.54", "192.0.2.1"]),
    "an imported block": ({"coredns": IMPORTING, "coredns-custom": {"tailnet.server": BLOCK}}, ["10.96.0.53"]),
    "a broken file": ({"coredns": {"Corefile": f"{BLOCK}}}"}}, None),
    "stub domains": ({"kube-dns": {"stubDomains": STUBS}}, ["10.96.0.10"]),
    "no stub domains": ({"kube-dns": {}}, ()),
    "stub domains beside CoreDNS": ({"coredns": {"Corefile": ROOT}, "kube-dns": {"stubDomains": STUBS}}, ()),
}


@pytest.mark.parametrize(("found", "to"), CASES.values(), ids=CASES)
def test_the_servers_for_a_zone_are_found_in_a_corefile_and_in_kube_dns(
    found: Mapping[str, Mapping[str, str]], to: Sequence[str] | None
) -> None:
    assert targets(DNSObjects([configmap(name, **data) for name, data in found.items()]), ZONE) == to


SERVERS = [
    {"name": "a", "zones": ["example.org", "TS.net."], "forwardPlugin": {"upstreams": ["10.96.0.53:5353"]}},
    {"name": "b", "zones": ["other.ts.net"], "forwardPlugin": {"upstreams": ["192.0.2.1"]}},
    {"name": "c", "zones": ["tail5678.ts.net"], "forwardPlugin": None},
    {"name": "d"},
]


@pytest.mark.parametrize(
    ("servers", "zone", "to"),
    [
        (SERVERS, ZONE, ["10.96.0.53"]),
        (SERVERS, "other.ts.net", ["192.0.2.1"]),
        (SERVERS, "tail5678.ts.net", []),
        (SERVERS, "s.net", ()),
        (None, ZONE, ()),
    ],
)
def test_the_servers_for_a_zone_are_found_on_openshift(
    servers: Sequence[Object] | None, zone: str, to: Sequence[str]
) -> None:
    openshift = {**OPENSHIFT, "spec": {"servers": servers}}
    beside = configmap("coredns", Corefile=BLOCK)
    assert targets(DNSObjects([], openshift), zone) == targets(DNSObjects([beside], openshift), zone) == to
