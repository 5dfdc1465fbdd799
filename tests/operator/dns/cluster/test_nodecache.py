"""NodeLocal DNSCache in front of the cluster's DNS: whether queries for our zones get past the cache."""

import pytest
from tsoperator.dns.cluster.nodecache import bypass

CLUSTER = "__PILLAR__CLUSTER__DNS__"
INSIDE = f"c.example:53 in-addr.arpa:53 {{\n    forward . {CLUSTER} {{\n        force_tcp\n    }}\n}}\n"
STUB_DOMAINS = '"ts.net": ["10.96.0.53"] to the JSON object stubDomains in ConfigMap kube-system/kube-dns'
BLOCKS = '{"zones": ["ts.net"], "nameservers": ["10.96.0.53"], "cache": 5} to the list nodelocaldns_external_zones of '
ADDRESSES, DOMAIN = ["10.96.0.53"], "c.example"
UNREADABLE = (
    "the Corefile of NodeLocal DNSCache can't be read, so whether it forwards the zone is unknown: line 1: "
    "the server block that begins here has no closing brace; add }"
)


def way_out(cache: str, entry: str = STUB_DOMAINS) -> str:
    return (
        f"Pods that use NodeLocal DNSCache don't get to the cluster's DNS for names in ts.net: the cache {cache}. "
        f"Add {entry}"
    )


def root(to: str) -> str:
    return f"{INSIDE}.:53 {{\n    forward . {to}\n}}\n"


CASES: dict[str, tuple[str, str, str | None]] = {
    "all goes to the cluster's DNS": (root(CLUSTER), "", "{}"),
    "by address": (root("10.96.0.11").replace(CLUSTER, "10.96.0.11:53"), "", "{}"),
    "by its domain": (".:53 c.example:53 {\n forward . 10.96.0.11\n}\n", "", "{}"),
    "by another domain": (".:53 cluster.local:53 {\n forward . 10.96.0.11\n}\n", way_out("asks 10.96.0.11"), "{}"),
    "by its reverse zone": (".:53 in-addr.arpa:53 {\n forward . 10.96.0.11\n}\n", "", "{}"),
    "all else goes upstream": (root("/etc/resolv.conf"), way_out("asks /etc/resolv.conf"), "{}"),
    "some goes upstream": (root(f"{CLUSTER} 9.9.9.9"), way_out(f"asks {CLUSTER}, 9.9.9.9"), "{}"),
    "all else is refused": (INSIDE, way_out("asks nobody"), "{}"),
    "the root only": (".:53 {\n forward . 10.96.0.11\n}\n", way_out("asks 10.96.0.11"), "{}"),
    "a block of its own": (root("9.9.9.9") + "ts.net:53 {\n forward . 10.96.0.53\n}\n", "", "{}"),
    "a stub domain": (root("9.9.9.9"), "", '{"ts.net": ["10.96.0.53"]}'),
    "a stub domain above": (root("9.9.9.9"), "", '{"net": ["10.96.0.53"]}'),
    "a stub domain below": (root("9.9.9.9"), way_out("asks 9.9.9.9"), '{"a.ts.net": ["10.96.0.53"]}'),
    "no stub domains": (root("9.9.9.9"), way_out("asks 9.9.9.9"), "{"),
    "Kubespray's": (root("9.9.9.9"), way_out("asks 9.9.9.9", BLOCKS), None),
    "Kubespray's with a zone": (root("9.9.9.9") + "ts.net {\n forward . 10.96.0.53\n}\n", "", None),
    "broken": ("{", UNREADABLE, "{}"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "says", "stub_domains"), CASES.values(), ids=CASES)
def test_the_configuration_of_nodelocal_dnscache_shows_whether_queries_for_our_zone_reach_the_clusters_dns(
    text: str, says: str, stub_domains: str | None
) -> None:
    found = bypass(text, stub_domains, ["ts.net"], ADDRESSES, DOMAIN)
    assert (bool(found), found.startswith(says)) == (bool(says), True)


def test_a_zone_that_nodelocal_dnscache_does_not_forward_is_reported_even_if_it_forwards_another_zone() -> None:
    stub_domains = '{"a.ts.net": ["10.96.0.53"]}'
    assert bypass(root("9.9.9.9"), stub_domains, [], ADDRESSES, DOMAIN) == ""
    assert bypass(root("9.9.9.9"), stub_domains, ["a.ts.net"], ADDRESSES, DOMAIN) == ""
    assert "names in b.ts.net" in bypass(root("9.9.9.9"), stub_domains, ["a.ts.net", "b.ts.net"], ADDRESSES, DOMAIN)


def test_the_snippet_for_nodelocal_dnscache_has_each_zone_that_the_cache_does_not_forward_yet() -> None:
    found = bypass(root("9.9.9.9"), '{"a.org": ["10.96.0.53"]}', ["a.org", "b.org", "c.org"], ADDRESSES, DOMAIN)
    assert 'Add "b.org": ["10.96.0.53"], "c.org": ["10.96.0.53"] to the JSON object' in found
