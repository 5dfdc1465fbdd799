"""The routes of a Connector."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.reconcilers.connector.routes import advertised, default_route_error, route_error

SITE = "fd7a:115c:a1e0:b1a"


class Case(NamedTuple):
    route: str
    words: str
    """In the error, or empty where the route is good."""


@pytest.mark.parametrize(
    "case",
    [
        Case("10.40.0.0/14", ""),
        Case("0.0.0.0/0", ""),
        Case("2001:db8::/32", ""),
        Case("192.0.2.1/32", ""),
        Case("1.2.3.4/5", "write 0.0.0.0/5"),
        Case("2001:db8::1/32", "write 2001:db8::/32"),
        Case("192.0.2.1", "CIDR"),
        Case("192.0.2.0/255.255.255.0", "CIDR"),
        Case("192.0.2.0/33", "CIDR"),
        Case("192.0.2.0/08", "CIDR"),
        Case("192.0.02.0/24", "CIDR"),
        Case("2001:db8::%eth0/32", "CIDR"),
        Case("2001:db8::/129", "CIDR"),
        Case("router", "CIDR"),
        Case("", "CIDR"),
        Case(f"{SITE}:0:1:a2c:0/116", ""),
        Case(f"{SITE}:0:ffff::/96", ""),
        Case(f"{SITE}:1:0:a2c:0/116", "site 65536"),
        Case(f"{SITE}::/64", "prefix of 96"),
        Case(f"{SITE}:0:1::/95", "prefix"),
        Case("fd7a:115c:a1e0::/48", ""),
    ],
    ids=str,
)
def test_a_route_is_a_network_or_told_what_it_lacks(case: Case) -> None:
    error = route_error(case.route)
    assert (error is None) == (not case.words)
    assert case.words in (error or "")
    assert case.route in (error or case.route)


@given(st.text(max_size=50))
def test_every_text_is_a_route_or_is_told_why_not(route: str) -> None:
    if route_error(route) is None:
        assert advertised([route], exit_node=False)


@pytest.mark.parametrize(
    ("routes", "alone"),
    [
        (["0.0.0.0/0"], '"0.0.0.0/0"'),
        (["10.0.0.0/8", "::/0"], '"::/0"'),
        (["0.0.0.0/0", "::/0"], ""),
        (["10.0.0.0/8"], ""),
        ([], ""),
    ],
)
def test_a_default_route_of_one_family_is_refused(routes: list[str], alone: str) -> None:
    error = default_route_error(routes)
    assert (error is None) == (not alone)
    assert alone in (error or "")


def test_routes_are_advertised_once_each_the_larger_networks_first() -> None:
    given = ["192.168.0.0/24", "10.40.0.0/14", "2001:DB8:0::/32", "10.8.0.0/14", "192.168.0.0/24"]
    ranked = ("10.8.0.0/14", "10.40.0.0/14", "192.168.0.0/24", "2001:db8::/32")
    assert advertised(given, exit_node=False) == ranked
    assert advertised([*given, "::/0"], exit_node=True) == ("0.0.0.0/0", "::/0", *ranked)
    assert advertised([], exit_node=False) == ()
