"""Checks whether Pods can resolve MagicDNS names: the nameserver, and the stub domain in the cluster's DNS."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tsoperator.api.conditions import TRUE, conditions_of
from tsoperator.api.names import CONDITION_CLUSTER_DNS_CONFIGURED, CONDITION_CLUSTER_DNS_READY, NAMESERVER
from tsoperator.api.objects import Object, key_of
from tsoperator.check.findings import Finding, failed, ok, unseen
from tsoperator.dns.cluster.corefile import CorefileError, parse, parse_plugins
from tsoperator.dns.cluster.forwards import Forward, block_forwards, nearest, plugin_forwards, stub_forwards
from tsoperator.dns.cluster.platforms import COREFILE, CUSTOM, KUBE_DNS, NODE_CACHES, OVERRIDES, STUB_DOMAINS
from tsoperator.dns.nameserver import elected
from tsoperator.status.parts import NO_DNSCONFIG
from tsoperator.tailnet.zones import TS_NET, shown_zones

_PAGE: Final = "coredns/README.md has it for each platform"


@dataclass(frozen=True, slots=True)
class NameResolution:
    """The objects that decide whether Pods can resolve MagicDNS names.

    These are the DNSConfigs; the nameserver's Service and Deployment, if they exist; and ConfigMaps of kube-system.
    """

    namespace: str
    dnsconfigs: Sequence[Object]
    service: Object | None
    deployment: Object | None
    configmaps: Sequence[Object]


def check_names(names: NameResolution) -> Iterator[Finding]:
    """Check the nameserver, and that the cluster's DNS asks it for the zones that the DNSConfig's status names."""
    dnsconfig = elected(names.dnsconfigs)
    if dnsconfig is None:
        yield ok("nameserver", NO_DNSCONFIG)
        return
    yield _nameserver(names, key_of(dnsconfig).name)
    addresses = _addresses(names.service)
    if addresses:
        for zone in shown_zones(dnsconfig) or (TS_NET,):
            yield _stub_domain(names, zone, addresses, dnsconfig)


def _nameserver(names: NameResolution, dnsconfig: str) -> Finding:
    kubectl = f"kubectl -n {names.namespace}"
    if not _addresses(names.service):
        cure = f"see the operator's log, and `kubectl describe dnsconfig {dnsconfig}`"
        return failed("nameserver", f"the nameserver of DNSConfig {dnsconfig} has no Service with an address", cure)
    ready = ((names.deployment or {}).get("status") or {}).get("readyReplicas") or 0
    if not ready:
        cure = f"see why with `{kubectl} describe pods --show-events -l app={NAMESERVER}`"
        return failed("nameserver", "the nameserver is down: none of its Pods is ready, so no name resolves", cure)
    return ok("nameserver", f"the nameserver runs, with {ready} ready Pod{'s' if ready > 1 else ''}")


def _cure(dnsconfig: Object) -> str:
    """Say how to correct the stub domain.

    If the operator has to write the stub domain, name the condition that says why the operator hasn't written it.
    """
    name = key_of(dnsconfig).name
    if ((dnsconfig.get("spec") or {}).get("clusterDNS") or {}).get("mode") == "Managed":
        return f"the operator writes it: its condition {CONDITION_CLUSTER_DNS_CONFIGURED} says why it hasn't"
    show = f"kubectl get dnsconfig {name} -o jsonpath='{{.status.clusterDNS.snippet}}'"
    return f"`{show}` prints what to write, and its first line says where: {_PAGE}"


def _restart(dnsconfig: Object) -> str:
    """Say how the user makes the cluster's DNS load the stub domain.

    Return an empty text if the cluster's DNS has loaded the stub domain already, or loads it by itself.
    """
    found = {each["type"]: each for each in conditions_of(dnsconfig)}
    written, asks = (found.get(type_, {}) for type_ in (CONDITION_CLUSTER_DNS_CONFIGURED, CONDITION_CLUSTER_DNS_READY))
    is_due = written.get("reason") == "RestartNeeded" and asks.get("status") != TRUE
    return str(written["message"]) if is_due else ""


def _stub_domain(names: NameResolution, zone: str, addresses: Sequence[str], dnsconfig: Object) -> Finding:
    configs = [each for each in names.configmaps if is_dns_config(each)]
    if not configs:
        return unseen(
            "cluster-dns",
            f"no ConfigMap in kube-system says how the cluster's DNS is set up: whether it asks for {zone} is unknown",
            f"try a name in a Pod: coredns/README.md#check; the nameserver is at {addresses[0]}",
        )
    where, cure = ", ".join(key_of(each).name for each in configs), _cure(dnsconfig)
    try:
        servers = servers_for(zone, configs)
    except CorefileError as error:
        return failed(
            "cluster-dns",
            f"whether the cluster's DNS asks for {zone} is unknown: ConfigMap {where} in kube-system can't be read: "
            f"{error.problem}, in line {error.line}",
            f"correct the Corefile there: {error.cure}",
        )
    if not servers:
        return failed(
            "cluster-dns",
            f"the cluster's DNS has no stub domain for {zone} (ConfigMap {where} in kube-system), so Pods can't "
            "resolve names of the tailnet",
            f"forward {zone} to {addresses[0]}: {cure}",
        )
    wrong = [server for server in servers if server not in addresses]
    if wrong:
        return failed(
            "cluster-dns",
            f"the cluster's DNS asks {', '.join(wrong)} for {zone}, but the nameserver is at {', '.join(addresses)}",
            f"write {addresses[0]} there, in ConfigMap {where} of kube-system: {cure}",
        )
    if restart := _restart(dnsconfig):
        words = (
            f"ConfigMap {where} in kube-system has the stub domain for {zone}, but the cluster's DNS has yet to load it"
        )
        return failed("cluster-dns", words, restart)
    return ok("cluster-dns", f"the cluster's DNS is set up to ask the nameserver at {servers[0]} for {zone}")


def is_dns_config(configmap: Object) -> bool:
    """Tell whether *configmap* is for the cluster's DNS itself, not for NodeLocal DNSCache, a cache on each node."""
    name = key_of(configmap).name
    if name.startswith(NODE_CACHES):
        return False
    return COREFILE in (configmap.get("data") or {}) or name in (CUSTOM, KUBE_DNS)


def servers_for(zone: str, configmaps: Iterable[Object]) -> Sequence[str]:
    """Return the servers to which the cluster's DNS forwards queries for *zone*.

    Servers to which it forwards queries for all names are left out. Raises CorefileError if a Corefile, or a file that
    it imports, can't be read.
    """
    wanted = zone.strip(".").lower()
    found = nearest(each for configmap in configmaps for each in _forwards(wanted, configmap) if each.zone)
    return found.to if found else ()


def _forwards(zone: str, configmap: Object) -> Iterator[Forward]:
    for key, text in (configmap.get("data") or {}).items():
        if key == STUB_DOMAINS:
            yield from stub_forwards(zone, text)
        elif key == COREFILE or key.endswith(".server"):
            yield from block_forwards(zone, parse(text).blocks)
        elif key.endswith(OVERRIDES):
            yield from plugin_forwards(zone, parse_plugins(text))


def _addresses(service: Object | None) -> list[str]:
    spec = (service or {}).get("spec") or {}
    found = spec.get("clusterIPs") or [spec.get("clusterIP", "")]
    return [each for each in found if each and each != "None"]
