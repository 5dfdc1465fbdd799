"""The files that a proxy's tailscaled reads, byte for byte as the Go operator emits them."""

import json
from dataclasses import replace

import pytest
from tsoperator.proxy.tailscaled import ProxyConfig, config_files

URL = "https://controlplane.tailscale.com"
CONFIG = ProxyConfig("default-test", URL)


@pytest.mark.parametrize(("auth_key", "field"), [("new-authkey", '"AuthKey":"new-authkey",'), ("", "")])
def test_a_proxy_gets_its_key_before_it_has_logged_in(auth_key: str, field: str) -> None:
    head = f'{{"Version":"alpha0","Locked":false,"ServerURL":"{URL}",{field}"Hostname":"default-test",'
    rest = '"acceptDNS":false,"acceptRoutes":false,'
    assert config_files(CONFIG, auth_key) == {
        "cap-107.hujson": f'{head}{rest}"AppConnector":{{"Advertise":false}},"NoStatefulFiltering":true}}',
        "cap-95.hujson": f'{head}{rest}"NoStatefulFiltering":true}}',
    }


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
    files = config_files(replace(CONFIG, accept_routes=True)).values()
    assert [json.loads(text)["acceptRoutes"] for text in files] == [True, True]


@pytest.mark.parametrize("auth_key", ["tskey-auth-x", ""])
def test_a_recorder_has_a_file_with_nothing_but_its_key(auth_key: str) -> None:
    assert config_files(ProxyConfig("rec-0", URL, only_key=True), auth_key) == {"authkey": auth_key}


@pytest.mark.parametrize(("auth_key", "field"), [("tskey-auth-x", '"AuthKey":"tskey-auth-x",'), ("", "")])
def test_a_proxy_of_a_group_has_one_file(auth_key: str, field: str) -> None:
    files = config_files(ProxyConfig("foo-0", URL, in_group=True), auth_key)
    head = f'{{"Version":"alpha0","Locked":false,"ServerURL":"{URL}",{field}"Hostname":"foo-0",'
    assert files == {"cap-106.hujson": f'{head}"acceptDNS":false,"acceptRoutes":false}}'}
