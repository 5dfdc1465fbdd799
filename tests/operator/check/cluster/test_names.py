"""Findings about the resolution of the tailnet's names in Pods, as far as the cluster's objects show it."""

from dataclasses import replace

import pytest
from tsoperator.api.conditions import condition
from tsoperator.api.objects import Object
from tsoperator.check.cluster.names import NameResolution, check_names, is_dns_config, servers_for
from tsoperator.dns.cluster.corefile import CorefileError

from tests.support.objects import deleting

DNSCONFIG: Object = {"metadata": {"name": "ts-dns"}}
SERVICE: Object = {"spec": {"clusterIP": "10.96.0.53"}}
DUAL: Object = {"spec": {"clusterIP": "10.96.0.53", "clusterIPs": ["10.96.0.53", "fd00::53"]}}
UP: Object = {"status": {"readyReplicas": 1}}


def coredns(address: str) -> list[Object]:
    block = f"ts.net {{\n forward . {address}\n}}\n" if address else ""
    return [{"metadata": {"namespace": "kube-system", "name": "coredns"}, "data": {"Corefile": block}}]


def names(
    service: Object | None = SERVICE, deployment: Object | None = UP, configmaps: list[Object] | None = None
) -> NameResolution:
    found = coredns("10.96.0.53") if configmaps is None else configmaps
    return NameResolution("tailscale", [DNSCONFIG], service, deployment, found)


CASES = {
    "well": (names(), ["ok", "ok"], "the nameserver runs, with 1 ready Pod\n", ""),
    "two Pods": (names(deployment={"status": {"readyReplicas": 2}}), ["ok", "ok"], "with 2 ready Pods", ""),
    "two addresses": (names(DUAL, configmaps=coredns("fd00::53")), ["ok", "ok"], "at fd00::53 for ts.net", ""),
    "no DNSConfig": (NameResolution("tailscale", [], None, None, []), ["ok"], "there is no DNSConfig", ""),
    "a DNSConfig that goes": (replace(names(None), dnsconfigs=[deleting(DNSCONFIG)]), ["ok"], "no DNSConfig", ""),
    "no Service": (names(None), ["FAILED"], "ts-dns has no Service with an address", "describe dnsconfig ts-dns"),
    "no address": (names({"spec": {"clusterIP": "None"}}), ["FAILED"], "no Service with an address", "dnsconfig"),
    "no Deployment": (names(deployment=None), ["FAILED", "ok"], "none of its Pods is ready", "-l app=nameserver"),
    "down": (names(deployment={"status": {}}), ["FAILED", "ok"], "none of its Pods is ready", "-l app=nameserver"),
    "no stub domain": (
        names(configmaps=coredns("")),
        ["ok", "FAILED"],
        "has no stub domain for ts.net (ConfigMap coredns in kube-system)",
        "forward ts.net to 10.96.0.53: `kubectl get dnsconfig ts-dns -o jsonpath='{.status.clusterDNS.snippet}'`",
    ),
    "another address": (
        names(configmaps=coredns("10.96.0.99")),
        ["ok", "FAILED"],
        "asks 10.96.0.99 for ts.net, but the nameserver is at 10.96.0.53",
        "write 10.96.0.53 there, in ConfigMap coredns of kube-system",
    ),
    "one address of two": (
        names(configmaps=coredns("10.96.0.53 10.96.0.99")),
        ["ok", "FAILED"],
        "asks 10.96.0.99 for",
        "10.96.0.53",
    ),
    "a broken Corefile": (
        names(configmaps=coredns("10.96.0.53 {")),
        ["ok", "FAILED"],
        "for ts.net is unknown: ConfigMap coredns in kube-system can't be read: the server block that begins here "
        "has no closing brace, in line 1",
        "correct the Corefile there: add }",
    ),
    "another DNS": (names(configmaps=[]), ["ok", "can't look"], "for ts.net is unknown", "coredns/README.md#check"),
}


@pytest.mark.parametrize(("looked_at", "verdicts", "words", "cure"), CASES.values(), ids=CASES)
def test_a_check_reports_whether_the_nameserver_and_the_stub_domain_let_names_resolve(
    looked_at: NameResolution, verdicts: list[str], words: str, cure: str
) -> None:
    found = [*check_names(looked_at)]
    assert [each.verdict.value for each in found] == verdicts
    assert words in "\n".join(each.words for each in found)
    assert cure in "\n".join(each.cure for each in found)


RESTART = condition("ClusterDNSConfigured", True, "RestartNeeded", "restart it: kubectl rollout restart deployment x")


@pytest.mark.parametrize(
    ("conditions", "verdict", "words", "cure"),
    [
        ([RESTART], "FAILED", "has yet to load", RESTART["message"]),
        ([RESTART, condition("ClusterDNSReady", False, "NotForwarded", "")], "FAILED", "has yet to load", "restart it"),
        ([RESTART, condition("ClusterDNSReady", True, "ClusterDNSReady", "")], "ok", "is set up to ask", ""),
        ([condition("ClusterDNSConfigured", True, "StubDomainWritten", "")], "ok", "is set up to ask", ""),
    ],
)
def test_a_stub_domain_that_the_clusters_dns_has_yet_to_load_is_not_reported_as_good(
    conditions: list[Object], verdict: str, words: str, cure: str
) -> None:
    _, found = check_names(replace(names(), dnsconfigs=[{**DNSCONFIG, "status": {"conditions": conditions}}]))
    assert (found.verdict.value, words in found.words, cure in found.cure) == (verdict, True, True)


def test_a_check_reports_a_zone_without_a_stub_domain_in_the_clusters_dns() -> None:
    zoned = {**DNSCONFIG, "status": {"clusterDNS": {"zones": ["tail1234.ts.net", "example.org"]}}}
    found = [*check_names(replace(names(), dnsconfigs=[zoned]))]
    assert [each.verdict.value for each in found] == ["ok", "ok", "FAILED"]


def test_the_cure_for_a_missing_stub_domain_depends_on_who_manages_the_clusters_dns() -> None:
    managed = {**DNSCONFIG, "spec": {"clusterDNS": {"mode": "Managed"}}}
    _, found = check_names(replace(names(configmaps=coredns("")), dnsconfigs=[managed]))
    assert found.cure == (
        "forward ts.net to 10.96.0.53: the operator writes it: its condition ClusterDNSConfigured says why it hasn't"
    )


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


def test_the_finding_for_a_corefile_that_cannot_be_read_names_the_mistake() -> None:
    with pytest.raises(CorefileError):
        servers_for("ts.net", [configmap("coredns", Corefile="{")])


def test_a_configmap_of_the_clusters_dns_is_recognized_by_its_name_and_its_keys() -> None:
    read = [configmap(name, Corefile="") for name in ("coredns", "rke2-coredns")]
    read += [configmap("coredns-custom"), configmap("kube-dns")]
    others = [configmap(name, Corefile="") for name in ("node-local-dns", "nodelocaldns")]
    others += [configmap("kube-proxy", config=""), {"metadata": {"name": "other"}}]
    assert [found for found in (*read, *others) if is_dns_config(found)] == read
