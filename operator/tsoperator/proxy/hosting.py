"""The rules by which the proxies of an ingress ProxyGroup lead packets for Tailscale Services to cluster IPs.

The operator writes them into the group's ConfigMap, and each proxy reports the rules that it has put into effect.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tsoperator.api.objects import Object
from tsoperator.api.tailscaleservice import TailscaleService

_FAMILIES: Final = {4: "IPv4Mapping", 6: "IPv6Mapping"}
_FROM: Final = "TailscaleServiceIP"
_TO: Final = "ClusterIP"


class Mapped(NamedTuple):
    """The address of a Tailscale Service, and the cluster IP to which packets for it go."""

    address: str
    cluster_ip: str


Rule = Mapping[int, Mapped]
"""The rule for one Tailscale Service, by IP version."""


@dataclass(frozen=True, slots=True)
class HostReport:
    """The report of one proxy: the addresses of its Pod, and the rules that it has put into effect, by Service."""

    ip4: str = ""
    ip6: str = ""
    rules: Mapping[str, Rule] = field(default_factory=dict)


def rule_for(service: TailscaleService, cluster_ips: Iterable[str]) -> Rule:
    """Return the rule that leads packets for *service* to *cluster_ips*; empty if they share no IP version."""
    pairs = {6 if ":" in ip else 4: ip for ip in cluster_ips if ip not in ("", "None")}
    return {
        version: Mapped(address, ip) for version, ip in sorted(pairs.items()) if (address := service.address(version))
    }


def rules_document(rules: Mapping[str, Rule]) -> str:
    """Return the JSON document with *rules*, by the name of the Tailscale Service, that the proxies read."""
    document = {name: _wire(rule) for name, rule in sorted(rules.items())}
    return json.dumps(document, separators=(",", ":"))


def read_rules(text: str) -> dict[str, Rule]:
    """Return the rules in a document by the name of the Tailscale Service; those that can't be read are left out."""
    return _rules(_mapping(text))


def read_host_report(text: str) -> HostReport | None:
    """Return the report of a proxy in its state Secret; None if there is none that can be read."""
    found = _mapping(text)
    if not found:
        return None
    rules = found.get("configs")
    return HostReport(
        str(found.get("podIPv4") or ""),
        str(found.get("podIPv6") or ""),
        _rules(rules if isinstance(rules, dict) else {}),
    )


def _wire(rule: Rule) -> Object:
    return {_FAMILIES[version]: {_FROM: each.address, _TO: each.cluster_ip} for version, each in sorted(rule.items())}


def _rules(document: Mapping[str, Any]) -> dict[str, Rule]:
    return {name: rule for name, given in document.items() if (rule := _rule(given)) is not None}


def _rule(given: Any) -> Rule | None:
    if not isinstance(given, dict):
        return None
    found = {version: given[name] for version, name in _FAMILIES.items() if isinstance(given.get(name), dict)}
    return {version: Mapped(str(each.get(_FROM, "")), str(each.get(_TO, ""))) for version, each in found.items()}


def _mapping(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
