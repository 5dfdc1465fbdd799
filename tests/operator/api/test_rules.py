"""Rules for names and for what users write."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.api.rules import (
    child_base_name,
    child_name,
    control_url_error,
    dns_label_error,
    fqdn_error,
    is_true,
    namespace_error,
    needs_route,
    object_name_error,
    server_address,
    split_tags,
    tag_error,
    target_ip_error,
    unreadable,
)

DNS_1035_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
PARENTS = st.from_regex(
    r"[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?){0,3}", fullmatch=True
)


def target_error(value: str) -> str | None:
    return fqdn_error(value, ["ts.net", "VPN.example.org."])


def name_error(value: str) -> str | None:
    return fqdn_error(value, ["ts.net"], anywhere=True)


@given(PARENTS, st.uuids().map(str))
def test_a_childs_name_is_a_label_that_leaves_room_for_what_statefulsets_add(parent: str, uid: str) -> None:
    name = child_name(parent, uid)
    assert DNS_1035_LABEL.fullmatch(name)
    assert len(name) <= 52
    assert name.startswith(f"{child_base_name(parent)}-")


def test_a_childs_name_is_the_same_in_every_version() -> None:
    assert child_name("db", "8f0cbb83-0e5d-4d36-a8bd-8a1c3a3d6a50") == "ts-db-7acy7"


def test_parents_of_the_same_name_get_different_children() -> None:
    assert len({child_name("db", f"uid-{number}") for number in range(1000)}) == 1000


BASES = {
    "db": "ts-db",
    "db.example.org": "ts-db-example-org",
    "a" * 60: "ts-" + "a" * 43,
    "a" * 42 + "-b": "ts-" + "a" * 42,
    "a" * 42 + ".b": "ts-" + "a" * 42,
}


def test_a_childs_name_starts_with_its_parents() -> None:
    assert {parent: child_base_name(parent) for parent in BASES} == BASES


@pytest.mark.parametrize(
    ("check", "value", "words"),
    [
        (dns_label_error, "a", ""),
        (dns_label_error, "My-Host2", ""),
        (dns_label_error, "a" * 63, ""),
        (dns_label_error, "a" * 64, "at most 63 characters, not 64"),
        (dns_label_error, "", "must not be empty"),
        (dns_label_error, "-bad_", '"-bad_" is not a valid DNS label: must start with a letter or number'),
        (dns_label_error, "bad-", "must end with a letter or number"),
        (dns_label_error, "bad_", "must end with a letter or number"),
        (dns_label_error, "a.b", "may only contain letters, numbers and hyphens"),
        (dns_label_error, "é", "must start with a letter or number"),
        (dns_label_error, "a\n", "must end with a letter or number"),
        (object_name_error, "a.b-1", ""),
        (object_name_error, "a" * 253, ""),
        (object_name_error, "a" * 254, "at most 253 characters"),
        (object_name_error, "Prod", "may have lower case letters"),
        (object_name_error, "a..b", '"a..b" is not a valid name of an object'),
        (object_name_error, "a-.b", "must start and end with a letter or number"),
        (object_name_error, "", "must start and end with a letter or number"),
        (namespace_error, "team-a", ""),
        (namespace_error, "1", ""),
        (namespace_error, "Team", '"Team" is not a valid namespace: its letters must be lower case'),
        (namespace_error, "team_a", '"team_a" is not a valid DNS label: may only contain'),
        (namespace_error, "", "must not be empty"),
        (namespace_error, "*", "must start with a letter or number"),
        (namespace_error, "a" * 64, "at most 63 characters"),
        (control_url_error, "https://headscale.example.org/a/b", ""),
        (control_url_error, "http://[2001:db8::1]:8080", ""),
        (control_url_error, "https://[::1", '"https://[::1" is not the URL of a control server: write one such as'),
        (control_url_error, "headscale.example.org", "such as https://headscale.example.org"),
        (control_url_error, "ftp://example.org", "is not the URL"),
        (control_url_error, "https:///path", "is not the URL"),
        (control_url_error, "https://a:b", "is not the URL"),
        (control_url_error, "https://a:0", "is not the URL"),
        (control_url_error, "https://a:99999", "is not the URL"),
        (control_url_error, "https://user:word@a", "is not the URL"),
        (control_url_error, " https://a", "is not the URL"),
        (control_url_error, "https://a b", "is not the URL"),
        (control_url_error, "https://a/?b", "is not the URL"),
        (control_url_error, "https://a/#b", "is not the URL"),
        (target_error, "db.tail1234.ts.net", ""),
        (target_error, "db.tail1234.ts.net.", ""),
        (target_error, "DB.Tail1234.TS.net", ""),
        (target_error, "a.b.tail1234.ts.net", "before ts.net come 2 labels, the device's and the tailnet's"),
        (target_error, "db.ts.net", '"db.ts.net" is not a MagicDNS name: before ts.net come 2 labels'),
        (target_error, "db.TS.net.", "before ts.net come 2 labels"),
        (target_error, "a.b.c.vpn.example.org", ""),
        (target_error, "db.vpn.example.org", ""),
        (target_error, "-db.tail1234.ts.net", 'label "-db" must start with a letter or number'),
        (target_error, "db_bad..name", "is not a MagicDNS name in the zone ts.net or VPN.example.org"),
        (target_error, "db..ts.net", 'label "" must not be empty'),
        (target_error, ".ts.net", "before ts.net come 2 labels"),
        (target_error, ".vpn.example.org", 'label "" must not be empty'),
        (target_error, "db_1.tail1234.ts.net", 'label "db_1" may only contain'),
        (target_error, "ts.net", "is not a MagicDNS name in the zone"),
        (target_error, "db.evilts.net", "is not a MagicDNS name in the zone"),
        (target_error, "db.example.org", "is not a MagicDNS name in the zone"),
        (target_error, "db.tail1234.ts.net..", "is not a MagicDNS name in the zone"),
        (target_error, "db.tail1234.ts.net\n", "is not a MagicDNS name in the zone"),
        (target_error, "a." * 130 + "ts.net", "longer than 253 characters"),
        (name_error, "db.example.org.", ""),
        (name_error, "db.lan", ""),
        (name_error, "db", "is not a MagicDNS name in the zone ts.net"),
        (name_error, "db.exa_mple.org", 'label "exa_mple" may only contain'),
        (name_error, "db.o_g", 'label "o_g" may only contain'),
        (name_error, ".example.org", 'label "" must not be empty'),
        (name_error, "db.ts.net", "before ts.net come 2 labels"),
        (target_ip_error, "100.64.0.1", ""),
        (target_ip_error, "2001:db8::1", ""),
        (target_ip_error, "2001:db8::1%eth0", ""),
        (target_ip_error, "not-an-ip", '"not-an-ip" is not an IP address'),
        (target_ip_error, "100.64.0.0/24", "without a prefix length"),
        (target_ip_error, "", "is not an IP address"),
        (target_ip_error, "100.64.0.01", "is not an IP address"),
        (target_ip_error, "10.1.2.3", ""),
        (target_ip_error, "127.0.0.2", '"127.0.0.2" is a loopback address, which no device of a tailnet has'),
        (target_ip_error, "224.0.0.1", "is a multicast address"),
        (target_ip_error, "::1", "is a loopback address"),
        (target_ip_error, "::ffff:127.0.0.1", "is a loopback address"),
        (target_ip_error, "169.254.169.254", "is a link-local address"),
        (target_ip_error, "fe80::1%eth0", "is a link-local address"),
        (target_ip_error, "0.0.0.0", "is an unspecified address"),
        (target_ip_error, "::", "is an unspecified address"),
        (tag_error, "tag:k8s", ""),
        (tag_error, "tag:A-1", ""),
        (tag_error, "", "a tag is empty: remove the comma too many"),
        (tag_error, "k8s", "write one such as tag:k8s"),
        (tag_error, "tag:", "write one such as tag:k8s"),
        (tag_error, "tag:1a", "write one such as tag:k8s"),
        (tag_error, "tag:a_b", "write one such as tag:k8s"),
        (tag_error, "tag:a\n", "write one such as tag:k8s"),
    ],
)
def test_a_hostname_namespace_target_address_or_tag_is_good_or_told_why_not(
    check: Callable[[str], str | None], value: str, words: str
) -> None:
    error = check(value)
    assert (error is None) is (not words)
    assert words in (error or "")
    assert "\n" not in (error or "")


@pytest.mark.parametrize("address", ["100.64.0.0", "100.127.255.255", "fd7a:115c:a1e0::9"])
def test_an_address_of_a_device_needs_no_route(address: str) -> None:
    assert not needs_route(address)


@pytest.mark.parametrize("address", ["100.128.0.0", "10.1.2.3", "fd7a:115c:a1e0:b1a:0:7:a01:203", "fd7a:115c:a1e1::1"])
def test_what_is_no_address_of_a_device_is_reached_by_a_route(address: str) -> None:
    assert needs_route(address)


def test_tags_are_split_and_trimmed() -> None:
    tags = {"tag:a": ("tag:a",), " tag:a ,tag:b ": ("tag:a", "tag:b"), "": ("",), "tag:a,": ("tag:a", "")}
    assert {value: split_tags(value) for value in tags} == tags


def test_only_true_turns_a_thing_on() -> None:
    assert [is_true(value) for value in ("true", "True", "1", "", None)] == [True, False, False, False, False]


@pytest.mark.parametrize(
    ("server", "address"),
    [
        ("192.0.2.1", ("192.0.2.1", 53)),
        ("192.0.2.1:5353", ("192.0.2.1", 5353)),
        ("192.0.2.1:", ("192.0.2.1", 53)),
        ("2001:DB8::1", ("2001:db8::1", 53)),
        ("[2001:db8::1]", ("2001:db8::1", 53)),
        ("[2001:db8::1]:5353", ("2001:db8::1", 5353)),
    ],
)
def test_a_dns_server_is_an_address_with_or_without_a_port(server: str, address: tuple[str, int]) -> None:
    assert server_address(server) == address


@pytest.mark.parametrize("server", ["kube-dns", "192.0.2.1:70000", "192.0.2.1/24", ""])
def test_a_dns_server_is_no_name_and_no_network(server: str) -> None:
    with pytest.raises(ValueError, match=r"IPv4 or IPv6 address|out of range"):
        server_address(server)


def test_a_file_that_cannot_be_read_is_named_once() -> None:
    binary = UnicodeDecodeError("utf-8", b"", 0, 1, "invalid")
    assert unreadable(Path("/a b"), FileNotFoundError(2, "No such file", "/a b")) == 'cannot read "/a b": No such file'
    assert unreadable(Path("/a b"), binary) == 'cannot read "/a b": it holds no text'
