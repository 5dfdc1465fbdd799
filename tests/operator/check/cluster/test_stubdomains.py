"""What the cluster's DNS forwards, by its ConfigMaps."""

import pytest
from tsoperator.api.objects import Object
from tsoperator.check.cluster.stubdomains import is_dns_config, servers_for
from tsoperator.dns.cluster.corefile import CorefileError


def configmap(name: str, **data: str) -> Object:
    return {"metadata": {"namespace": "kube-system", "name": name}, "data": data}


ROOT = configmap("coredns", Corefile=".:53 {\n forward . 9.9.9.9\n}\n", NodeHosts="192.0.2.1 node-1 {\n")
BLOCK = "ts.net {\n forward . 10.0.0.1\n}\n"
STUB = '{"ts.net": ["10.0.0.1"]}'
FOUND = {
    "nowhere": ([ROOT], []),
    "in the Corefile": ([configmap("x", Corefile=BLOCK)], ["10.0.0.1"]),
    "in a file with blocks": ([ROOT, configmap("x", **{"a.server": BLOCK})], ["10.0.0.1"]),
    "in a file without": ([ROOT, configmap("x", **{"a.override": "log\nforward ts.net 10.0.0.1\n"})], ["10.0.0.1"]),
    "in stub domains": ([configmap("x", stubDomains=STUB)], ["10.0.0.1"]),
    "in another key": ([configmap("x", other=STUB)], []),
    "without data": ([{"metadata": {"name": "x"}}], []),
    "in two": ([configmap("x", stubDomains=STUB), configmap("y", stubDomains='{"net": ["192.0.2.2"]}')], ["10.0.0.1"]),
}


@pytest.mark.parametrize(("configmaps", "expected"), FOUND.values(), ids=FOUND)
def test_the_servers_for_a_zone_are_found_in_all_configmaps(configmaps: list[Object], expected: list[str]) -> None:
    assert [*servers_for("TS.net.", configmaps)] == expected


def test_a_corefile_that_cant_be_read_says_so() -> None:
    with pytest.raises(CorefileError):
        servers_for("ts.net", [configmap("coredns", Corefile="{")])


def test_the_clusters_dns_reads_some_configmaps() -> None:
    read = [configmap(name, Corefile="") for name in ("coredns", "rke2-coredns")]
    read += [configmap("coredns-custom"), configmap("kube-dns")]
    others = [configmap(name, Corefile="") for name in ("node-local-dns", "nodelocaldns")]
    others += [configmap("kube-proxy", config=""), {"metadata": {"name": "other"}}]
    assert [found for found in (*read, *others) if is_dns_config(found)] == read
