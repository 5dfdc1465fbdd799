"""The files for a proxy's tailscaled, byte for byte as the Go operator writes them."""

import json
from dataclasses import replace

import pytest
from tsoperator.proxy.tailscaled import ProxyConfig, config_files

URL = "https://controlplane.tailscale.com"
CONFIG = ProxyConfig("default-test", URL)


@pytest.mark.parametrize(("auth_key", "field"), [("new-authkey", '"AuthKey":"new-authkey",'), ("", "")])
def test_the_config_has_the_auth_key_until_the_proxy_has_logged_in(auth_key: str, field: str) -> None:
    head = f'{{"Version":"alpha0","Locked":false,"ServerURL":"{URL}",{field}"Hostname":"default-test",'
    rest = '"acceptDNS":false,"acceptRoutes":false,'
    assert config_files(CONFIG, auth_key) == {
        "cap-107.hujson": f'{head}{rest}"AppConnector":{{"Advertise":false}},"NoStatefulFiltering":true}}',
        "cap-95.hujson": f'{head}{rest}"NoStatefulFiltering":true}}',
    }


def test_the_config_of_a_connector_lists_its_routes_even_if_there_are_none() -> None:
    routes = ("0.0.0.0/0", "::/0", "10.40.0.0/14")
    files = config_files(ProxyConfig("router", "https://headscale.example.org", routes=routes, app_connector=True))
    for name, app_connector in (("cap-107.hujson", '"AppConnector":{"Advertise":true},'), ("cap-95.hujson", "")):
        assert files[name].endswith(
            '"acceptRoutes":false,"AdvertiseRoutes":["0.0.0.0/0","::/0","10.40.0.0/14"],'
            f'{app_connector}"NoStatefulFiltering":true}}'
        )
    silent = config_files(ProxyConfig("router", "https://headscale.example.org", routes=()))
    assert json.loads(silent["cap-107.hujson"])["AdvertiseRoutes"] == []


def test_the_serve_config_of_a_proxy_is_a_separate_file() -> None:
    serve = {"TCP": {"443": {"HTTPS": True}}}
    files = config_files(ProxyConfig("web", "https://headscale.example.org", serve), "key")
    assert files["serve-config"] == '{"TCP":{"443":{"HTTPS":true}}}'
    assert json.loads(files["cap-107.hujson"])["ServerURL"] == "https://headscale.example.org"


def test_a_proxy_accepts_the_routes_of_other_devices_if_its_class_says_so() -> None:
    files = config_files(replace(CONFIG, accept_routes=True)).values()
    assert [json.loads(text)["acceptRoutes"] for text in files] == [True, True]


@pytest.mark.parametrize("auth_key", ["tskey-auth-x", ""])
def test_a_recorder_has_a_single_file_with_its_auth_key_and_no_config(auth_key: str) -> None:
    assert config_files(ProxyConfig("rec-0", URL, only_key=True), auth_key) == {"authkey": auth_key}


@pytest.mark.parametrize(("auth_key", "field"), [("tskey-auth-x", '"AuthKey":"tskey-auth-x",'), ("", "")])
def test_a_proxy_of_a_group_has_one_config_file(auth_key: str, field: str) -> None:
    files = config_files(ProxyConfig("foo-0", URL, in_group=True), auth_key)
    head = f'{{"Version":"alpha0","Locked":false,"ServerURL":"{URL}",{field}"Hostname":"foo-0",'
    assert files == {"cap-106.hujson": f'{head}"acceptDNS":false,"acceptRoutes":false}}'}
