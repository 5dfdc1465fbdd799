"""The routes of a Connector."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.reconcilers.connector.routes import advertised_routes, default_route_error, route_error

SITE = "fd7a:115c:a1e0:b1a"


@pytest.mark.parametrize(
    ("route", "words"),
    [
        ("10.40.0.0/14", ""),
        ("0.0.0.0/0", ""),
        ("2001:db8::/32", ""),
        ("192.0.2.1/32", ""),
        ("1.2.3.4/5", "write 0.0.0.0/5"),
        ("2001:db8::1/32", "write 2001:db8::/32"),
        ("192.0.2.1", "CIDR"),
        ("192.0.2.0/255.255.255.0", "CIDR"),
        ("192.0.2.0/33", "CIDR"),
        ("192.0.2.0/08", "CIDR"),
        ("192.0.02.0/24", "CIDR"),
        ("2001:db8::%eth0/32", "CIDR"),
        ("2001:db8::/129", "CIDR"),
        ("router", "CIDR"),
        ("", "CIDR"),
        (f"{SITE}:0:1:a2c:0/116", ""),
        (f"{SITE}:0:ffff::/96", ""),
        (f"{SITE}:1:0:a2c:0/116", "site 65536"),
        (f"{SITE}::/64", "prefix of 96"),
        (f"{SITE}:0:1::/95", "prefix"),
        ("fd7a:115c:a1e0::/48", ""),
    ],
)
def test_a_route_is_valid_or_its_error_says_what_is_wrong_with_the_route(route: str, words: str) -> None:
    error = route_error(route)
    assert (error is None) == (not words)
    assert error is None or (words in error and route in error)


@given(st.text(max_size=50))
def test_every_text_without_a_route_error_is_a_route_that_can_be_advertised(route: str) -> None:
    if route_error(route) is None:
        assert advertised_routes([route], exit_node=False)


def test_a_default_route_for_only_one_ip_version_is_refused() -> None:
    assert '"0.0.0.0/0"' in (default_route_error(["0.0.0.0/0"]) or "")
    assert '"::/0"' in (default_route_error(["10.0.0.0/8", "::/0"]) or "")
    assert [default_route_error(routes) for routes in (["0.0.0.0/0", "::/0"], ["10.0.0.0/8"], [])] == [None] * 3


def test_each_route_is_advertised_once_and_larger_networks_come_first() -> None:
    given = ["192.168.0.0/24", "10.40.0.0/14", "2001:DB8:0::/32", "10.8.0.0/14", "192.168.0.0/24"]
    ranked = ("10.8.0.0/14", "10.40.0.0/14", "192.168.0.0/24", "2001:db8::/32")
    assert advertised_routes(given, exit_node=False) == ranked
    assert advertised_routes([*given, "::/0"], exit_node=True) == ("0.0.0.0/0", "::/0", *ranked)
    assert advertised_routes([], exit_node=False) == ()
