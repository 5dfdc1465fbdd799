"""The files that a proxy's tailscaled reads, byte for byte as the Go operator emits them."""

import json
from dataclasses import replace

import pytest
from tsoperator.desired.tailscaled import ProxyConfig, config_files

CONFIG = ProxyConfig("default-test", "https://controlplane.tailscale.com")


def test_before_it_has_logged_in_a_proxy_gets_its_key() -> None:
    assert config_files(CONFIG, "new-authkey") == {
        "cap-107.hujson": (
            '{"Version":"alpha0","Locked":false,"ServerURL":"https://controlplane.tailscale.com",'
            '"AuthKey":"new-authkey","Hostname":"default-test","acceptDNS":false,"acceptRoutes":false,'
            '"AppConnector":{"Advertise":false},"NoStatefulFiltering":true}'
        ),
        "cap-95.hujson": (
            '{"Version":"alpha0","Locked":false,"ServerURL":"https://controlplane.tailscale.com",'
            '"AuthKey":"new-authkey","Hostname":"default-test","acceptDNS":false,"acceptRoutes":false,'
            '"NoStatefulFiltering":true}'
        ),
    }


def test_without_a_key_the_field_is_left_out() -> None:
    for text in config_files(CONFIG).values():
        assert text.startswith(
            '{"Version":"alpha0","Locked":false,"ServerURL":"https://controlplane.tailscale.com",'
            '"Hostname":"default-test",'
        )


def test_a_connector_says_what_it_offers_even_if_that_is_nothing() -> None:
    routes = ("0.0.0.0/0", "::/0", "10.40.0.0/14")
    files = config_files(ProxyConfig("router", "https://headscale.example.org", routes=routes, app_connector=True))
    for name, app_connector in (("cap-107.hujson", '"AppConnector":{"Advertise":true},'), ("cap-95.hujson", "")):
        assert files[name].endswith(
            '"acceptRoutes":false,"AdvertiseRoutes":["0.0.0.0/0","::/0","10.40.0.0/14"],'
            f'{app_connector}"NoStatefulFiltering":true}}'
        )
    silent = config_files(ProxyConfig("router", "https://headscale.example.org", routes=()))
    assert json.loads(silent["cap-107.hujson"])["AdvertiseRoutes"] == []


def test_a_serve_config_is_a_file_of_its_own() -> None:
    serve = {"TCP": {"443": {"HTTPS": True}}}
    files = config_files(ProxyConfig("web", "https://headscale.example.org", serve), "key")
    assert files["serve-config"] == '{"TCP":{"443":{"HTTPS":true}}}'
    assert json.loads(files["cap-107.hujson"])["ServerURL"] == "https://headscale.example.org"


def test_the_routes_of_others_are_accepted_where_that_is_asked_for() -> None:
    files = config_files(replace(CONFIG, accept_routes=True))
    assert [json.loads(text)["acceptRoutes"] for text in files.values()] == [True, True]


@pytest.mark.parametrize("auth_key", ["", "tskey-auth-x"])
def test_a_proxy_of_a_group_has_one_file(auth_key: str) -> None:
    files = config_files(ProxyConfig("foo-0", "https://controlplane.tailscale.com", in_group=True), auth_key)
    key = f'"AuthKey":"{auth_key}",' if auth_key else ""
    text = (
        '{"Version":"alpha0","Locked":false,"ServerURL":"https://controlplane.tailscale.com",'
        f'{key}"Hostname":"foo-0","acceptDNS":false,"acceptRoutes":false}}'
    )
    assert files == {"cap-106.hujson": text}
