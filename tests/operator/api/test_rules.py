"""Rules for names, and for values that users write."""

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


Check = Callable[[str], str | None]


def target_error(value: str) -> str | None:
    return fqdn_error(value, ["ts.net", "VPN.example.org."])


def name_error(value: str) -> str | None:
    return fqdn_error(value, ["ts.net"], anywhere=True)


@given(PARENTS, st.uuids().map(str))
def test_a_childs_name_is_a_dns_label_that_leaves_room_for_the_suffixes_that_statefulsets_add(
    parent: str, uid: str
) -> None:
    name = child_name(parent, uid)
    assert DNS_1035_LABEL.fullmatch(name)
    assert len(name) <= 52
    assert name.startswith(f"{child_base_name(parent)}-")


def test_the_name_of_a_child_is_the_same_in_every_version_of_the_operator() -> None:
    assert child_name("db", "8f0cbb83-0e5d-4d36-a8bd-8a1c3a3d6a50") == "ts-db-7acy7"


def test_the_children_of_parents_with_the_same_name_have_different_names() -> None:
    assert len({child_name("db", f"uid-{number}") for number in range(1000)}) == 1000


BASES = {
    "db": "ts-db",
    "db.example.org": "ts-db-example-org",
    "a" * 60: "ts-" + "a" * 43,
    "a" * 42 + "-b": "ts-" + "a" * 42,
    "a" * 42 + ".b": "ts-" + "a" * 42,
}


def test_a_childs_name_starts_with_the_name_of_its_parent() -> None:
    assert {parent: child_base_name(parent) for parent in BASES} == BASES


NO_ZONE = "is not a MagicDNS name in the zone"
TWO_LABELS = "before ts.net come 2 labels"
GOOD: dict[Check, list[str]] = {
    dns_label_error: ["a", "My-Host2", "a" * 63],
    object_name_error: ["a.b-1", "a" * 253],
    namespace_error: ["team-a", "1"],
    control_url_error: ["https://headscale.example.org/a/b", "http://[2001:db8::1]:8080"],
    target_error: [
        *("db.tail1234.ts.net", "db.tail1234.ts.net.", "DB.Tail1234.TS.net"),
        *("a.b.c.vpn.example.org", "db.vpn.example.org", "a" * 63 + ".b" * 87 + ".vpn.example.org"),
    ],
    name_error: ["db.example.org.", "db.lan"],
    target_ip_error: ["100.64.0.1", "2001:db8::1", "2001:db8::1%eth0", "10.1.2.3"],
    tag_error: ["tag:k8s", "tag:A-1"],
}
BAD: list[tuple[Check, str, list[str]]] = [
    (dns_label_error, "at most 63 characters, not 64", ["a" * 64]),
    (dns_label_error, "must not be empty", [""]),
    (dns_label_error, '"-bad_" is not a valid DNS label: must start with a letter or number', ["-bad_"]),
    (dns_label_error, "must start with a letter or number", ["é"]),
    (dns_label_error, "must end with a letter or number", ["bad-", "bad_", "a\n"]),
    (dns_label_error, "may only contain letters, numbers and hyphens", ["a.b", "a_b"]),
    (dns_label_error, '; write only "db", because the tailnet adds its domain', ["db.tail1234.ts.net", "https://db/x"]),
    (dns_label_error, ', as in "my-db"', ["my_db", " my db "]),
    (object_name_error, "at most 253 characters", ["a" * 254]),
    (object_name_error, "may have lower case letters", ["Prod"]),
    (object_name_error, '"a..b" is not a valid name of an object', ["a..b"]),
    (object_name_error, "must start and end with a letter or number", ["a-.b", ""]),
    (namespace_error, '"Team" is not a valid namespace: its letters must be lower case', ["Team"]),
    (namespace_error, '"team_a" is not a valid DNS label: may only contain', ["team_a"]),
    (namespace_error, "must not be empty", [""]),
    (namespace_error, "must start with a letter or number", ["*"]),
    (namespace_error, "at most 63 characters", ["a" * 64]),
    (control_url_error, '"https://[::1" is not the URL of a control server: write one such as', ["https://[::1"]),
    (control_url_error, "such as https://headscale.example.org", ["headscale.example.org"]),
    (control_url_error, "is not the URL", ["ftp://example.org", "https:///path", "https://a:b", "https://a:0"]),
    (control_url_error, "is not the URL", ["https://a:99999", "https://user:word@a", " https://a", "https://a b"]),
    (control_url_error, "is not the URL", ["https://a/?b", "https://a/#b"]),
    (target_error, f"{TWO_LABELS}, the device's and the tailnet's", ["a.b.tail1234.ts.net"]),
    (target_error, f'"db.ts.net" is not a MagicDNS name: {TWO_LABELS}', ["db.ts.net"]),
    (target_error, TWO_LABELS, ["db.TS.net.", ".ts.net"]),
    (target_error, 'label "-db" must start with a letter or number', ["-db.tail1234.ts.net"]),
    (target_error, 'label "db_1" may only contain', ["db_1.tail1234.ts.net"]),
    (target_error, 'label "" must not be empty', ["db..ts.net", ".vpn.example.org"]),
    (target_error, f"{NO_ZONE} ts.net or VPN.example.org", ["db_bad..name"]),
    (target_error, NO_ZONE, ["ts.net", "db.evilts.net", "db.example.org"]),
    (target_error, NO_ZONE, ["db.tail1234.ts.net.."]),
    (target_error, "write db.tail1234.ts.net without blanks", ["db.tail1234.ts.net\n", " db.tail1234.ts.net"]),
    (target_error, "write the full name of one device", ["*.tail1234.ts.net"]),
    (target_error, "longer than 253 characters", ["a." * 130 + "ts.net"]),
    (name_error, f"{NO_ZONE} ts.net", ["db"]),
    (name_error, 'label "exa_mple" may only contain', ["db.exa_mple.org"]),
    (name_error, 'label "o_g" may only contain', ["db.o_g"]),
    (name_error, 'label "" must not be empty', [".example.org"]),
    (name_error, TWO_LABELS, ["db.ts.net"]),
    (target_error, "write only db.tail1234.ts.net. The ports are in spec.ports", ["https://db.tail1234.ts.net:8443/a"]),
    (target_error, "write only db.tail1234.ts.net. ", ["db.tail1234.ts.net:5432", "db.tail1234.ts.net/"]),
    (target_error, "write only 100.64.0.1. ", ["http://100.64.0.1"]),
    (target_ip_error, "write only 100.64.0.1. The ports are in spec.ports", ["100.64.0.1:5432", "http://100.64.0.1/"]),
    (target_ip_error, "write only fd7a:115c:a1e0::1. ", ["[fd7a:115c:a1e0::1]:53"]),
    (target_ip_error, "write fd7a:115c:a1e0::1 without brackets", ["[fd7a:115c:a1e0::1]", "fd7a:115c:a1e0::1\n"]),
    (target_ip_error, "write only db.tail1234.ts.net. ", ["https://db.tail1234.ts.net"]),
    (target_ip_error, '"not-an-ip" is not an IP address', ["not-an-ip"]),
    (target_ip_error, "without a prefix length", ["100.64.0.0/24"]),
    (target_ip_error, "is not an IP address", ["", "100.64.0.01"]),
    (target_ip_error, '"127.0.0.2" is a loopback address, which no device of a tailnet has', ["127.0.0.2"]),
    (target_ip_error, "is a loopback address", ["::1", "::ffff:127.0.0.1"]),
    (target_ip_error, "is a multicast address", ["224.0.0.1"]),
    (target_ip_error, "is a link-local address", ["169.254.169.254", "fe80::1%eth0"]),
    (target_ip_error, "is an unspecified address", ["0.0.0.0", "::"]),
    (tag_error, "a tag is empty: remove the comma too many", [""]),
    (tag_error, "write one such as tag:k8s", ["k8s", "tag:", "tag:1a", "tag:a_b", "tag:a\n"]),
    (tag_error, "write a comma between two tags, as in tag:a,tag:b", ["tag:a;tag:b", "tag:a tag:b"]),
]


@pytest.mark.parametrize("address", ["100.64.0.1", "100.64.0.1:80", "[2001:db8::1]:80"])
def test_the_error_for_an_ip_address_in_place_of_a_dns_label_does_not_suggest_a_part_of_the_address(
    address: str,
) -> None:
    assert "write only" not in (dns_label_error(address) or "write only")


@pytest.mark.parametrize(("check", "values"), GOOD.items())
def test_a_valid_name_target_address_or_tag_has_no_error(check: Check, values: list[str]) -> None:
    assert [error for value in values if (error := check(value))] == []


@pytest.mark.parametrize(("check", "words", "values"), BAD)
def test_the_error_for_an_invalid_name_target_address_or_tag_says_why(
    check: Check, words: str, values: list[str]
) -> None:
    errors = [check(value) or "" for value in values]
    assert [error for error in errors if words not in error or "\n" in error] == []


@pytest.mark.parametrize("address", ["100.64.0.0", "100.127.255.255", "fd7a:115c:a1e0::9"])
def test_a_target_address_in_tailscales_range_for_devices_needs_no_accepted_route(address: str) -> None:
    assert not needs_route(address)


@pytest.mark.parametrize("address", ["100.128.0.0", "10.1.2.3", "fd7a:115c:a1e0:b1a:0:7:a01:203", "fd7a:115c:a1e1::1"])
def test_a_target_address_outside_tailscales_range_for_devices_needs_an_accepted_route(address: str) -> None:
    assert needs_route(address)


def test_a_list_of_tags_is_split_at_commas_and_each_tag_is_trimmed() -> None:
    tags = {"tag:a": ("tag:a",), " tag:a ,tag:b ": ("tag:a", "tag:b"), "": ("",), "tag:a,": ("tag:a", "")}
    assert {value: split_tags(value) for value in tags} == tags


def test_only_the_word_true_in_lower_case_is_read_as_true() -> None:
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


@pytest.mark.parametrize(
    "server", ["kube-dns", "192.0.2.1:70000", "192.0.2.1:0", "me@192.0.2.1:53", "192.0.2.1/24", ""]
)
def test_the_address_of_a_dns_server_is_no_name_and_no_network_and_has_a_port_from_1_to_65535(server: str) -> None:
    with pytest.raises(ValueError, match=r"IPv4 or IPv6 address|out of range"):
        server_address(server)


def test_the_error_for_a_file_that_cannot_be_read_names_the_file_once() -> None:
    binary = UnicodeDecodeError("utf-8", b"", 0, 1, "invalid")
    assert unreadable(Path("/a b"), FileNotFoundError(2, "No such file", "/a b")) == 'cannot read "/a b": No such file'
    assert unreadable(Path("/a b"), binary) == 'cannot read "/a b": it holds no text'
