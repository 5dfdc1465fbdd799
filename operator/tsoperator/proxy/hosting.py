"""The content of an ingress ProxyGroup's ConfigMap: rules and a serve config for each Tailscale Service.

The rules lead packets for a Tailscale Service to cluster IPs. Each proxy reports the rules that it has put into effect.
The serve config is for those Tailscale Services for which the proxies end TLS.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tsoperator.api.names import INGRESS_RULES, INGRESS_SERVE_CONFIG
from tsoperator.api.objects import Object
from tsoperator.api.tailscaleservice import TailscaleService
from tsoperator.proxy.stored import json_or_empty, text

_FAMILIES: Final = {4: "IPv4Mapping", 6: "IPv6Mapping"}
_FROM: Final = "TailscaleServiceIP"
_TO: Final = "ClusterIP"


class Mapped(NamedTuple):
    """The address of a Tailscale Service, and the cluster IP to which packets for it go."""

    address: str
    cluster_ip: str


Rule = Mapping[int, Mapped]
"""The rule for one Tailscale Service, by IP version."""

_RULES: Final = "hostingRules"
_SERVED: Final = "hostingServed"
_SOUND: Final = "hostingSound"
_SERVICES: Final = "Services"
_EMPTY: Final = "{}"


@dataclass(frozen=True, slots=True)
class Hosted:
    """The content of an ingress ConfigMap, by Tailscale Service: *rules*, and parts of the serve config (*served*)."""

    rules: Mapping[str, Rule] = field(default_factory=dict)
    served: Mapping[str, Object] = field(default_factory=dict)

    @property
    def names(self) -> set[str]:
        """The names of the Tailscale Services."""
        return {*self.rules, *self.served}


@dataclass(frozen=True, slots=True)
class HostReport:
    """The report of one proxy: the addresses of its Pod, and its rules in effect, by Tailscale Service."""

    ip4: str
    ip6: str = ""
    rules: Mapping[str, Rule] = field(default_factory=dict)


def rule_for(service: TailscaleService, cluster_ips: Iterable[str]) -> Rule:
    """Return the rule that leads packets for *service* to *cluster_ips*; empty if both have no IP version in common."""
    pairs = {6 if ":" in ip else 4: ip for ip in cluster_ips if ip not in ("", "None")}
    return {
        version: Mapped(address, ip) for version, ip in sorted(pairs.items()) if (address := service.address(version))
    }


def rules_document(rules: Mapping[str, Rule]) -> str:
    """Return the JSON document from which the proxies read the *rules*, by the name of the Tailscale Service."""
    document = {name: _wire(rule) for name, rule in sorted(rules.items())}
    return json.dumps(document, separators=(",", ":"))


def serve_document(served: Mapping[str, Object]) -> str:
    """Return the JSON document from which the proxies read the serve config of Tailscale Services, by name."""
    return json.dumps({"Services": dict(sorted(served.items()))} if served else {}, separators=(",", ":"))


def slim_hosting(configmap: Object) -> Object:
    """Return the slim form of a ConfigMap for the cache, in which the contents of an ingress ConfigMap are parsed."""
    data = configmap.get("binaryData") or {}
    if INGRESS_RULES not in data and INGRESS_SERVE_CONFIG not in data:
        return configmap
    contents = {name: text(data, name) for name in (INGRESS_RULES, INGRESS_SERVE_CONFIG)}
    documents = {name: json_or_empty(content) for name, content in contents.items()}
    rules, given = _rules(documents[INGRESS_RULES]), documents[INGRESS_SERVE_CONFIG].get(_SERVICES)
    served = {name: each for name, each in given.items() if isinstance(each, dict)} if isinstance(given, dict) else {}
    understood = {
        INGRESS_RULES: rules.keys() == documents[INGRESS_RULES].keys(),
        INGRESS_SERVE_CONFIG: isinstance(given, dict)
        and served.keys() == given.keys()
        and documents[INGRESS_SERVE_CONFIG].keys() == {_SERVICES},
    }
    return {
        **configmap,
        "binaryData": {name: value for name, value in data.items() if name not in contents},
        _RULES: rules,
        _SERVED: served,
        _SOUND: [
            name for name, content in contents.items() if content == _EMPTY or (documents[name] and understood[name])
        ],
    }


def is_sound(configmap: Object, name: str) -> bool:
    """Tell whether the document under the key *name* of a slim ingress ConfigMap exists and can be read completely."""
    return name in (configmap.get(_SOUND) or ())


def hosted(configmap: Object | None) -> Hosted:
    """Return the content of a *slim* ingress ConfigMap; empty content if there is no ConfigMap."""
    return Hosted(configmap.get(_RULES) or {}, configmap.get(_SERVED) or {}) if configmap else Hosted()


def read_host_report(document: str) -> HostReport | None:
    """Return the report of a proxy from its *document* in the state Secret; None if it can't be read."""
    found = json_or_empty(document)
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
