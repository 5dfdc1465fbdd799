"""What the cluster's DNS forwards, by its ConfigMaps."""

from typing import NamedTuple

import pytest
from tsoperator.api.objects import Object
from tsoperator.cli.cluster.stubdomains import forwards_of, is_dns_config, servers_for

ROOT = """\
.:53 {
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
    }
    forward . /etc/resolv.conf {
        max_concurrent 1000
    }
    cache 30
}
"""


def configmap(name: str, **data: str) -> Object:
    return {"metadata": {"namespace": "kube-system", "name": name}, "data": data}


def stanza(zones: str, to: str) -> str:
    return f"{zones} {{\n    errors\n    forward . {to}\n}}\n"


class Case(NamedTuple):
    corefile: str
    servers: list[str]


CASES = {
    "none": Case("", []),
    "by port": Case(stanza("ts.net:53", "10.96.0.53"), ["10.96.0.53"]),
    "without a port": Case(stanza("ts.net", "10.96.0.53:53"), ["10.96.0.53"]),
    "with scheme and dot": Case(stanza("dns://TS.net.:53", "dns://10.96.0.53"), ["10.96.0.53"]),
    "IPv6": Case(stanza("ts.net", "[fd00:0::53]:53 fd00::54"), ["fd00::53", "fd00::54"]),
    "several zones": Case(stanza("example.org, ts.net", "10.0.0.1"), ["10.0.0.1"]),
    "a zone above": Case(stanza("net", "10.0.0.1"), ["10.0.0.1"]),
    "the nearest zone": Case(stanza("ts.net", "10.0.0.1") + stanza("net", "10.0.0.2"), ["10.0.0.1"]),
    "a zone below": Case(stanza("tail1234.ts.net", "10.0.0.1"), []),
    "a zone that ends alike": Case(stanza("bits.net.ts", "10.0.0.1") + stanza("s.net", "10.0.0.2"), []),
    "a comment": Case("# " + stanza("ts.net", "10.0.0.1").replace("\n", "\n# "), []),
    "a comment behind": Case("ts.net { # ours\nforward . 10.0.0.1 # the nameserver\n}\n", ["10.0.0.1"]),
    "in the root's block": Case(".:53 {\n  forward ts.net 10.0.0.1\n  forward . 8.8.8.8\n}", ["10.0.0.1"]),
    "with options": Case("ts.net {\n forward . 10.0.0.1 {\n  force_tcp\n }\n}\n", ["10.0.0.1"]),
    "a name": Case(stanza("ts.net", "nameserver"), ["nameserver"]),
    "another plugin": Case("ts.net {\n template ts.net 10.0.0.9\n}\n", []),
    "no server": Case("ts.net {\n forward .\n}\n", []),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("before", ["", ROOT])
def test_the_servers_for_a_zone_are_found_in_a_corefile(case: Case, before: str) -> None:
    found = forwards_of(configmap("coredns", Corefile=before + case.corefile))
    assert servers_for("ts.net", found) == case.servers


def test_an_imported_file_may_forward_without_a_block() -> None:
    custom = configmap("coredns-custom", **{"ts.override": "forward ts.net 10.0.0.1", "log.override": "log"})
    assert servers_for("TS.net.", forwards_of(custom)) == ["10.0.0.1"]


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ('{"ts.net": ["10.0.0.1", "10.0.0.2:53"]}', ["10.0.0.1", "10.0.0.2"]),
        ('{"example.org": ["10.0.0.1"], "ts.net": "x"}', []),
        ("[]", []),
        ("{", []),
    ],
)
def test_kube_dns_has_stub_domains_as_json(text: str, servers: list[str]) -> None:
    assert servers_for("ts.net", forwards_of(configmap("kube-dns", stubDomains=text))) == servers


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (configmap("coredns", Corefile=""), True),
        (configmap("rke2-coredns", Corefile=""), True),
        (configmap("coredns-custom"), True),
        (configmap("kube-dns"), True),
        (configmap("node-local-dns", Corefile=""), False),
        (configmap("kube-proxy", config=""), False),
        ({"metadata": {"name": "other"}}, False),
    ],
)
def test_the_clusters_dns_reads_some_configmaps(found: Object, expected: bool) -> None:
    assert is_dns_config(found) is expected
