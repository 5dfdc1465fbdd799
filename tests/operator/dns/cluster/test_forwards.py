"""The servers to which a Corefile or kube-dns forwards a zone."""

import pytest
from tsoperator.dns.cluster.corefile import parse, parse_plugins
from tsoperator.dns.cluster.forwards import Forward, block_forwards, nearest, plugin_forwards, stub_forwards

ROOT = ".:53 {\n forward . /etc/resolv.conf {\n  max_concurrent 1000\n }\n cache 30\n}\n"


def stanza(zones: str, to: str) -> str:
    return f"{zones} {{\n    errors\n    forward . {to}\n}}\n"


CASES = {
    "none": ("", None),
    "by port": (stanza("ts.net:53", "10.96.0.53"), ["10.96.0.53"]),
    "without a port": (stanza("ts.net", "10.96.0.53:53"), ["10.96.0.53"]),
    "with scheme and dot": (stanza("dns://TS.net.:53", "dns://10.96.0.53"), ["10.96.0.53"]),
    "IPv6": (stanza("ts.net", "[fd00:0::53]:53 fd00::54"), ["fd00::53", "fd00::54"]),
    "several zones": (stanza("example.org, ts.net", "10.0.0.1"), ["10.0.0.1"]),
    "a zone above": (stanza("net", "10.0.0.1"), ["10.0.0.1"]),
    "the nearest zone": (stanza("ts.net", "10.0.0.1") + stanza("net", "10.0.0.2"), ["10.0.0.1"]),
    "a zone below": (stanza("tail1234.ts.net", "10.0.0.1"), None),
    "a zone that ends alike": (stanza("bits.net.ts", "10.0.0.1") + stanza("s.net", "10.0.0.2"), None),
    "a comment": ("# " + stanza("ts.net", "10.0.0.1").replace("\n", "\n# "), None),
    "a comment behind": ("ts.net { # ours\nforward . 10.0.0.1 # the nameserver\n}\n", ["10.0.0.1"]),
    "in the root's block": (".:53 {\n  forward ts.net 10.0.0.1\n  forward . 8.8.8.8\n}", ["10.0.0.1"]),
    "with options": ("ts.net {\n forward . 10.0.0.1 {\n  force_tcp\n }\n}\n", ["10.0.0.1"]),
    "a name": (stanza("ts.net", "nameserver"), ["nameserver"]),
    "another plugin": ("ts.net {\n template ts.net 10.0.0.9\n}\n", None),
    "no server": ("ts.net {\n forward .\n}\n", None),
}


@pytest.mark.parametrize(("corefile", "servers"), CASES.values(), ids=CASES)
def test_the_servers_for_a_zone_are_those_of_the_most_specific_matching_block(
    corefile: str, servers: list[str] | None
) -> None:
    found = nearest(block_forwards("ts.net", parse(corefile).blocks))
    assert (found.to if found else None) == servers
    beside_the_root = nearest(block_forwards("ts.net", parse(ROOT + corefile).blocks))
    assert beside_the_root
    assert beside_the_root.to == (servers or ["/etc/resolv.conf"])


def test_the_first_matching_forward_plugin_decides_to_which_servers_a_zone_is_forwarded() -> None:
    plugins = parse_plugins("forward example.org 10.0.0.1\nforward . 10.0.0.2\nforward ts.net 10.0.0.3\n")
    assert [*plugin_forwards("ts.net", plugins)] == [Forward("", ["10.0.0.2"])]
    assert [*plugin_forwards("a.example.org", plugins, "org")] == [Forward("example.org", ["10.0.0.1"])]
    assert [*plugin_forwards("ts.net", plugins, "net")] == [Forward("net", ["10.0.0.2"])]


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ('{"ts.net": ["10.0.0.1", "10.0.0.2:53"]}', ["10.0.0.1", "10.0.0.2"]),
        ('{"TS.net.": ["[fd00::1]:53", 7]}', ["fd00::1", "7"]),
        ('{"net": ["10.0.0.1"], "example.org": ["10.0.0.2"], "ts.net": "x"}', ["10.0.0.1"]),
        ('{"s.net": ["10.0.0.1"]}', None),
        ("[]", None),
        ("{", None),
        ("[" * 99999, None),
    ],
)
def test_the_servers_for_a_zone_are_read_from_the_json_with_the_stub_domains_of_kube_dns(
    text: str, servers: list[str] | None
) -> None:
    found = nearest(stub_forwards("ts.net", text))
    assert (found.to if found else None) == servers
