"""Rules for names and for what users write."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

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


class Case(NamedTuple):
    check: Callable[[str], str | None]
    value: str
    words: str
    """In the error, or empty where the value is good."""


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


@pytest.mark.parametrize(
    ("parent", "base"),
    [
        ("db", "ts-db"),
        ("db.example.org", "ts-db-example-org"),
        ("a" * 60, "ts-" + "a" * 43),
        ("a" * 42 + "-b", "ts-" + "a" * 42),
        ("a" * 42 + ".b", "ts-" + "a" * 42),
    ],
)
def test_a_childs_name_starts_with_its_parents(parent: str, base: str) -> None:
    assert child_base_name(parent) == base


@pytest.mark.parametrize(
    "case",
    [
        Case(dns_label_error, "a", ""),
        Case(dns_label_error, "My-Host2", ""),
        Case(dns_label_error, "a" * 63, ""),
        Case(dns_label_error, "a" * 64, "at most 63 characters, not 64"),
        Case(dns_label_error, "", "must not be empty"),
        Case(
            dns_label_error, "-bad.host_", '"-bad.host_" is not a valid DNS label: must start with a letter or number'
        ),
        Case(dns_label_error, "bad-", "must end with a letter or number"),
        Case(dns_label_error, "bad_", "must end with a letter or number"),
        Case(dns_label_error, "a.b", "may only contain letters, numbers and hyphens"),
        Case(dns_label_error, "é", "must start with a letter or number"),
        Case(dns_label_error, "a\n", "must end with a letter or number"),
        Case(object_name_error, "a.b-1", ""),
        Case(object_name_error, "a" * 253, ""),
        Case(object_name_error, "a" * 254, "at most 253 characters"),
        Case(object_name_error, "Prod", "may have lower case letters"),
        Case(object_name_error, "a..b", '"a..b" is not a valid name of an object'),
        Case(object_name_error, "a-.b", "must start and end with a letter or number"),
        Case(object_name_error, "", "must start and end with a letter or number"),
        Case(namespace_error, "team-a", ""),
        Case(namespace_error, "1", ""),
        Case(namespace_error, "Team", '"Team" is not a valid namespace: its letters must be lower case'),
        Case(namespace_error, "team_a", '"team_a" is not a valid DNS label: may only contain'),
        Case(namespace_error, "", "must not be empty"),
        Case(namespace_error, "*", "must start with a letter or number"),
        Case(namespace_error, "a" * 64, "at most 63 characters"),
        Case(control_url_error, "https://headscale.example.org/a/b", ""),
        Case(control_url_error, "http://[2001:db8::1]:8080", ""),
        Case(control_url_error, "https://[::1", '"https://[::1" is not the URL of a control server: write one such as'),
        Case(control_url_error, "headscale.example.org", "such as https://headscale.example.org"),
        Case(control_url_error, "ftp://example.org", "is not the URL"),
        Case(control_url_error, "https:///path", "is not the URL"),
        Case(control_url_error, "https://a:b", "is not the URL"),
        Case(control_url_error, "https://a:0", "is not the URL"),
        Case(control_url_error, "https://a:99999", "is not the URL"),
        Case(control_url_error, "https://user:word@a", "is not the URL"),
        Case(control_url_error, " https://a", "is not the URL"),
        Case(control_url_error, "https://a b", "is not the URL"),
        Case(control_url_error, "https://a/?b", "is not the URL"),
        Case(control_url_error, "https://a/#b", "is not the URL"),
        Case(target_error, "db.tail1234.ts.net", ""),
        Case(target_error, "db.tail1234.ts.net.", ""),
        Case(target_error, "DB.Tail1234.TS.net", ""),
        Case(target_error, "a.b.tail1234.ts.net", "before ts.net come 2 labels, the device's and the tailnet's"),
        Case(target_error, "db.ts.net", '"db.ts.net" is not a MagicDNS name: before ts.net come 2 labels'),
        Case(target_error, "db.TS.net.", "before ts.net come 2 labels"),
        Case(target_error, "a.b.c.vpn.example.org", ""),
        Case(target_error, "db.vpn.example.org", ""),
        Case(target_error, "-db.tail1234.ts.net", 'label "-db" must start with a letter or number'),
        Case(target_error, "db_bad..name", "is not a MagicDNS name in the zone ts.net or VPN.example.org"),
        Case(target_error, "db..ts.net", 'label "" must not be empty'),
        Case(target_error, ".ts.net", "before ts.net come 2 labels"),
        Case(target_error, ".vpn.example.org", 'label "" must not be empty'),
        Case(target_error, "db_1.tail1234.ts.net", 'label "db_1" may only contain'),
        Case(target_error, "ts.net", "is not a MagicDNS name in the zone"),
        Case(target_error, "db.evilts.net", "is not a MagicDNS name in the zone"),
        Case(target_error, "db.example.org", "is not a MagicDNS name in the zone"),
        Case(target_error, "db.tail1234.ts.net..", "is not a MagicDNS name in the zone"),
        Case(target_error, "db.tail1234.ts.net\n", "is not a MagicDNS name in the zone"),
        Case(target_error, "a." * 130 + "ts.net", "longer than 253 characters"),
        Case(name_error, "db.example.org.", ""),
        Case(name_error, "db.lan", ""),
        Case(name_error, "db", "is not a MagicDNS name in the zone ts.net"),
        Case(name_error, "db.exa_mple.org", 'label "exa_mple" may only contain'),
        Case(name_error, "db.o_g", 'label "o_g" may only contain'),
        Case(name_error, ".example.org", 'label "" must not be empty'),
        Case(name_error, "db.ts.net", "before ts.net come 2 labels"),
        Case(target_ip_error, "100.64.0.1", ""),
        Case(target_ip_error, "2001:db8::1", ""),
        Case(target_ip_error, "2001:db8::1%eth0", ""),
        Case(target_ip_error, "not-an-ip", '"not-an-ip" is not an IP address'),
        Case(target_ip_error, "100.64.0.0/24", "without a prefix length"),
        Case(target_ip_error, "", "is not an IP address"),
        Case(target_ip_error, "100.64.0.01", "is not an IP address"),
        Case(target_ip_error, "10.1.2.3", ""),
        Case(target_ip_error, "127.0.0.2", '"127.0.0.2" is a loopback address, which no device of a tailnet has'),
        Case(target_ip_error, "224.0.0.1", "is a multicast address"),
        Case(target_ip_error, "::1", "is a loopback address"),
        Case(target_ip_error, "::ffff:127.0.0.1", "is a loopback address"),
        Case(target_ip_error, "169.254.169.254", "is a link-local address"),
        Case(target_ip_error, "fe80::1%eth0", "is a link-local address"),
        Case(target_ip_error, "0.0.0.0", "is an unspecified address"),
        Case(target_ip_error, "::", "is an unspecified address"),
        Case(tag_error, "tag:k8s", ""),
        Case(tag_error, "tag:A-1", ""),
        Case(tag_error, "", "a tag is empty: remove the comma too many"),
        Case(tag_error, "k8s", "write one such as tag:k8s"),
        Case(tag_error, "tag:", "write one such as tag:k8s"),
        Case(tag_error, "tag:1a", "write one such as tag:k8s"),
        Case(tag_error, "tag:a_b", "write one such as tag:k8s"),
        Case(tag_error, "tag:a\n", "write one such as tag:k8s"),
    ],
)
def test_a_hostname_namespace_target_address_or_tag_is_good_or_told_why_not(case: Case) -> None:
    error = case.check(case.value)
    assert (error is None) is (not case.words)
    assert case.words in (error or "")
    assert "\n" not in (error or "")


@pytest.mark.parametrize(
    ("address", "by_route"),
    [
        ("100.64.0.0", False),
        ("100.127.255.255", False),
        ("100.128.0.0", True),
        ("10.1.2.3", True),
        ("fd7a:115c:a1e0::9", False),
        ("fd7a:115c:a1e0:b1a:0:7:a01:203", True),
        ("fd7a:115c:a1e1::1", True),
    ],
)
def test_what_is_no_address_of_a_device_is_reached_by_a_route(address: str, by_route: bool) -> None:
    assert needs_route(address) is by_route


@pytest.mark.parametrize(
    ("value", "tags"),
    [
        ("tag:a", ("tag:a",)),
        (" tag:a ,tag:b ", ("tag:a", "tag:b")),
        ("", ("",)),
        ("tag:a,", ("tag:a", "")),
    ],
)
def test_tags_are_split_and_trimmed(value: str, tags: tuple[str, ...]) -> None:
    assert split_tags(value) == tags


@pytest.mark.parametrize(("value", "on"), [("true", True), ("True", False), ("1", False), ("", False), (None, False)])
def test_only_true_turns_a_thing_on(value: str | None, on: bool) -> None:
    assert is_true(value) is on


@pytest.mark.parametrize(
    ("server", "address"),
    [
        ("192.0.2.1", ("192.0.2.1", 53)),
        ("192.0.2.1:5353", ("192.0.2.1", 5353)),
        ("192.0.2.1:", ("192.0.2.1", 53)),
        ("2001:DB8::1", ("2001:db8::1", 53)),
        ("[2001:db8::1]", ("2001:db8::1", 53)),
        ("[2001:db8::1]:5353", ("2001:db8::1", 5353)),
        ("kube-dns", None),
        ("192.0.2.1:70000", None),
        ("192.0.2.1/24", None),
        ("", None),
    ],
)
def test_a_dns_server_is_an_address_with_or_without_a_port(server: str, address: tuple[str, int] | None) -> None:
    try:
        assert server_address(server) == address
    except ValueError:
        assert address is None


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FileNotFoundError(2, "No such file or directory", "/a b"), 'cannot read "/a b": No such file or directory'),
        (UnicodeDecodeError("utf-8", b"", 0, 1, "invalid"), 'cannot read "/a b": it holds no text'),
    ],
    ids=["missing", "binary"],
)
def test_a_file_that_cannot_be_read_is_named_once(error: OSError | UnicodeDecodeError, words: str) -> None:
    assert unreadable(Path("/a b"), error) == words
