"""Rules for names and for what users write."""

import re
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.api.rules import (
    child_base_name,
    child_name,
    dns_label_error,
    fqdn_error,
    ip_error,
    is_true,
    namespace_error,
    split_tags,
    tag_error,
)

DNS_1035_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
PARENTS = st.from_regex(
    r"[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?){0,3}", fullmatch=True
)
ZONES = ("ts.net", "vpn.example.org")


class Case(NamedTuple):
    value: str
    words: str
    """In the error, or empty where the value is good."""


def says(error: str | None, case: Case) -> bool:
    return error is None if not case.words else error is not None and case.words in error and "\n" not in error


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
        Case("a", ""),
        Case("My-Host2", ""),
        Case("a" * 63, ""),
        Case("a" * 64, "at most 63 characters, not 64"),
        Case("", "must not be empty"),
        Case("-bad.host_", '"-bad.host_" is not a valid DNS label: must start with a letter or number'),
        Case("bad-", "must end with a letter or number"),
        Case("bad_", "must end with a letter or number"),
        Case("a.b", "may only contain letters, numbers and hyphens"),
        Case("é", "must start with a letter or number"),
        Case("a\n", "must end with a letter or number"),
    ],
)
def test_a_hostname_is_one_dns_label(case: Case) -> None:
    assert says(dns_label_error(case.value), case)


@pytest.mark.parametrize(
    "case",
    [
        Case("team-a", ""),
        Case("1", ""),
        Case("Team", '"Team" is not a valid namespace: its letters must be lower case'),
        Case("team_a", '"team_a" is not a valid DNS label: may only contain'),
        Case("", "must not be empty"),
        Case("*", "must start with a letter or number"),
        Case("a" * 64, "at most 63 characters"),
    ],
)
def test_a_namespace_is_a_label_in_lower_case(case: Case) -> None:
    assert says(namespace_error(case.value), case)


@pytest.mark.parametrize(
    "case",
    [
        Case("db.tail1234.ts.net", ""),
        Case("db.tail1234.ts.net.", ""),
        Case("DB.Tail1234.TS.net", ""),
        Case("a.b.c.tail1234.ts.net", ""),
        Case("db.vpn.example.org", ""),
        Case("-db.tail1234.ts.net", 'label "-db" must start with a letter or number'),
        Case("db_bad..name", "is not a MagicDNS name in the zone ts.net or vpn.example.org"),
        Case("db..ts.net", 'label "" must not be empty'),
        Case(".ts.net", 'label "" must not be empty'),
        Case("db_1.tail1234.ts.net", 'label "db_1" may only contain'),
        Case("ts.net", "is not a MagicDNS name in the zone"),
        Case("db.evilts.net", "is not a MagicDNS name in the zone"),
        Case("db.example.org", "is not a MagicDNS name in the zone"),
        Case("db.tail1234.ts.net..", "is not a MagicDNS name in the zone"),
        Case("db.tail1234.ts.net\n", "is not a MagicDNS name in the zone"),
        Case("a." * 130 + "ts.net", "longer than 253 characters"),
    ],
)
def test_an_egress_target_is_a_name_below_a_zone(case: Case) -> None:
    assert says(fqdn_error(case.value, ZONES), case)


def test_a_zone_may_be_written_in_upper_case_and_with_a_dot() -> None:
    assert fqdn_error("db.vpn.example.org", ["VPN.example.org."]) is None


@pytest.mark.parametrize(
    "case",
    [
        Case("100.64.0.1", ""),
        Case("2001:db8::1", ""),
        Case("2001:db8::1%eth0", ""),
        Case("not-an-ip", '"not-an-ip" is not an IP address'),
        Case("100.64.0.0/24", "without a prefix length"),
        Case("", "is not an IP address"),
        Case("100.64.0.01", "is not an IP address"),
    ],
)
def test_a_tailnet_ip_is_one_address(case: Case) -> None:
    assert says(ip_error(case.value), case)


@pytest.mark.parametrize(
    "case",
    [
        Case("tag:k8s", ""),
        Case("tag:A-1", ""),
        Case("k8s", "write tag:NAME"),
        Case("tag:", "write tag:NAME"),
        Case("tag:1a", "write tag:NAME"),
        Case("tag:a_b", "write tag:NAME"),
        Case("tag:a\n", "write tag:NAME"),
        Case("", '"" is not a valid tag'),
    ],
)
def test_a_tag_is_named_as_in_the_policy(case: Case) -> None:
    assert says(tag_error(case.value), case)


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
