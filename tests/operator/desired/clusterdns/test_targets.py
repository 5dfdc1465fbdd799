"""Where questions for a zone go."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pytest
from tsoperator.api.objects import CONFIGMAP, Key, Object
from tsoperator.desired.clusterdns.platforms import OPENSHIFT_DNS
from tsoperator.desired.clusterdns.results import DNSObjects
from tsoperator.desired.clusterdns.targets import targets

from tests.support.objects import obj

ZONE = "tail1234.ts.net"
ROOT = ".:53 {\n  forward . /etc/resolv.conf\n}\n"
BLOCK = "ts.net:53 {\n  forward . 10.96.0.53\n}\n"
NEARER = "tail1234.ts.net {\n  forward . 10.96.0.54:1053 192.0.2.1\n}\n"
STUBS = '{"ts.net": ["10.96.0.10"], "example.org": ["192.0.2.2"]}'


class Case(NamedTuple):
    name: str
    data: Mapping[str, Mapping[str, str]]
    to: Sequence[str] | None


@pytest.mark.parametrize(
    "case",
    [
        Case("nothing", {}, None),
        Case("all names", {"coredns": {"Corefile": ROOT}}, ()),
        Case("a block", {"coredns": {"Corefile": ROOT + BLOCK}}, ["10.96.0.53"]),
        Case("the nearest block", {"coredns": {"Corefile": BLOCK + NEARER}}, ["10.96.0.54", "192.0.2.1"]),
        Case(
            "an imported block",
            {
                "coredns": {"Corefile": f"import /etc/coredns/custom/*.server\n{ROOT}"},
                "coredns-custom": {"tailnet.server": BLOCK},
            },
            ["10.96.0.53"],
        ),
        Case("a broken file", {"coredns": {"Corefile": f"{BLOCK}}}"}}, None),
        Case("stub domains", {"kube-dns": {"stubDomains": STUBS}}, ["10.96.0.10"]),
        Case("no stub domains", {"kube-dns": {}}, ()),
        Case("stub domains beside CoreDNS", {"coredns": {"Corefile": ROOT}, "kube-dns": {"stubDomains": STUBS}}, ()),
    ],
    ids=lambda case: case.name,
)
def test_the_servers_for_a_zone_are_found(case: Case) -> None:
    found = [obj(CONFIGMAP, Key("kube-system", name), {"data": data}) for name, data in case.data.items()]
    assert targets(DNSObjects(found), ZONE) == case.to


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
def test_openshifts_servers_for_a_zone_are_found(
    servers: Sequence[Object] | None, zone: str, to: Sequence[str]
) -> None:
    openshift = obj(OPENSHIFT_DNS, Key("", "default"), {"spec": {"servers": servers}})
    beside = obj(CONFIGMAP, Key("kube-system", "coredns"), {"data": {"Corefile": BLOCK}})
    assert targets(DNSObjects([], openshift), zone) == targets(DNSObjects([beside], openshift), zone) == to
