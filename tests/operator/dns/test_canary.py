"""The canary: the name by which the operator recognizes its nameserver."""

from tsoperator.api.objects import Object
from tsoperator.dns.canary import canary_name, service_addresses


def test_every_dnsconfig_has_its_own_canary_in_each_zone() -> None:
    assert canary_name("uid-1", "ts.net") == "_nameserver-4a49acf8a6.ts.net"
    assert len({canary_name(uid, zone) for uid in ("uid-1", "uid-2") for zone in ("ts.net", "example.org")}) == 4


NOT_YET: list[Object | None] = [
    None,
    {"spec": {}},
    {"spec": {"clusterIP": ""}},
    {"spec": {"clusterIP": "None", "clusterIPs": ["None"]}},
]


def test_the_addresses_of_a_canary_are_the_cluster_ips_of_the_nameserver() -> None:
    assert [service_addresses(service) for service in NOT_YET] == [[]] * 4
    assert service_addresses({"spec": {"clusterIP": "FD00:0::05"}}) == ["fd00::5"]
    dual = {"spec": {"clusterIP": "10.96.0.5", "clusterIPs": ["10.96.0.5", "fd00::5"]}}
    assert service_addresses(dual) == ["10.96.0.5", "fd00::5"]
