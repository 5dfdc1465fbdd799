import json
from dataclasses import replace

import pytest
from clustersim.proxyconfig import ConfigError, ProxyConfig, check_listening, newest_file, parse


@pytest.mark.parametrize(
    ("keys", "version", "chosen"),
    [
        (["cap-95.hujson", "cap-107.hujson"], 142, "cap-107.hujson"),
        (["cap-107.hujson", "cap-142.hujson", "cap-143.hujson"], 142, "cap-142.hujson"),
        (["cap-107.hujson", "cap-142.hujson", "cap-143.hujson"], 143, "cap-143.hujson"),
        (["cap-95.hujson", "cap-9999.hujson"], 142, "cap-95.hujson"),
        (["cap-9.hujson", "cap-95.hujson", "device_id", "cap-x.hujson"], 142, "cap-95.hujson"),
    ],
)
def test_a_proxy_reads_the_newest_config_file_that_it_understands(keys: list[str], version: int, chosen: str) -> None:
    assert newest_file(dict.fromkeys(keys, ""), version) == chosen
    with pytest.raises(ConfigError):
        newest_file({"device_id": "", "cap-9999.hujson": ""})


def test_the_simulated_proxy_reads_a_config_of_the_operator() -> None:
    config = {
        "Version": "alpha0",
        "Locked": False,
        "ServerURL": "https://control.example.org",
        "AuthKey": "key",
        "Hostname": "db",
        "acceptDNS": False,
        "AdvertiseRoutes": None,
        "AppConnector": {"Advertise": False},
        "NoStatefulFiltering": True,
    }
    services = json.dumps({**config, "AdvertiseServices": ["svc:web"]})
    assert parse(services).services == ("svc:web",)
    read = ProxyConfig("key", "db", routes=None, app_connector=False, server_url="https://control.example.org")
    assert parse(json.dumps(config)) == read
    relay = {"RelayServerPort": 41641, "RelayServerStaticEndpoints": ["203.0.113.1:41641", "[2001:db8::1]:41641"]}
    endpoints = ("203.0.113.1:41641", "[2001:db8::1]:41641")
    assert parse(json.dumps(config | relay)) == replace(read, relay_port=41641, relay_endpoints=endpoints)
    for routes in ([], ["10.40.0.0/14", "2001:db8::/32"]):
        assert parse(json.dumps({**config, "AdvertiseRoutes": routes})).routes == tuple(routes)


@pytest.mark.parametrize(
    "field",
    [
        {"Version": "alpha1"},
        {"AcceptDNS": False},
        {"Hostname": 1},
        {"AdvertiseRoutes": ["10.1.0.0/8"]},
        {"RelayServerPort": True},
        {"RelayServerPort": 65536},
        {"RelayServerStaticEndpoints": ["203.0.113.1"]},
    ],
)
def test_the_simulated_proxy_refuses_a_config_with_a_wrong_field(field: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        parse(json.dumps({"Version": "alpha0", **field}))


@pytest.mark.parametrize("address", ["192.0.2.1:9002", "[2001:db8::1]:9002", "[::]:9002"])
def test_a_valid_listen_address_of_a_proxy_is_accepted(address: str) -> None:
    check_listening(address)


@pytest.mark.parametrize("address", ["2001:db8::1:9002", "[192.0.2.1]:9002", ":9002", "$(POD_IP):9002", "192.0.2.1"])
def test_the_simulated_proxy_refuses_a_wrong_listen_address(address: str) -> None:
    with pytest.raises(ConfigError, match="no address"):
        check_listening(address)
