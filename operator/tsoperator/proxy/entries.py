"""The entries that say what the proxies of an egress ProxyGroup forward (docs/development/groups.md).

The operator writes entries for the proxies. Each proxy reports the entries that it has put into effect.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tsoperator.api.names import EGRESS_SERVICES
from tsoperator.api.objects import Object

_ENTRIES = "egressEntries"
_BROKEN = "egressBroken"


class Port(NamedTuple):
    """A port in an entry: the proxies listen at *match_port*, and forward to the port *target_port* of the device."""

    protocol: str
    match_port: int
    target_port: int


@dataclass(frozen=True, slots=True)
class Entry:
    """The connections that the proxies of a ProxyGroup should forward for one Service.

    They forward the *ports* to the device with this MagicDNS name (*fqdn*) or address (*ip*). A proxy that is about to
    end requests the URL *health_check* until the answers no longer come from the proxy itself. An entry that a proxy
    reports has no *health_check*. A reported entry *is_lost* if the proxy doesn't find the device, and so forwards
    nothing.
    """

    fqdn: str
    ip: str
    ports: frozenset[Port]
    health_check: str = ""
    is_lost: bool = False

    def forwarded(self, reported: "Entry | None") -> frozenset[Port]:
        """Return those ports of this entry that a proxy forwards to the right device, by the entry that it *reported*.

        A proxy that hasn't read a change yet reports the earlier entry. *reported* is None if it has reported none.
        """
        if reported is None or (self.fqdn, self.ip) != (reported.fqdn, reported.ip):
            return frozenset()
        return self.ports & reported.ports


@dataclass(frozen=True, slots=True)
class ProxyReport:
    """The report of one proxy: the addresses of its Pod, and the entries that it has put into effect, by name."""

    ip4: str = ""
    ip6: str = ""
    entries: Mapping[str, Entry] = field(default_factory=dict)


def render_entries(entries: Mapping[str, Entry]) -> str:
    """Return the document from which the proxies read these *entries*, base64-encoded for ``binaryData``."""
    document = {name: _wire(entry) for name, entry in sorted(entries.items())}
    return base64.b64encode(json.dumps(document, separators=(",", ":")).encode()).decode()


def slim_configmap(configmap: Object) -> Object:
    """Return the slim form of a ConfigMap for the cache, in which the entries of an egress ConfigMap are parsed."""
    metadata = {name: value for name, value in configmap["metadata"].items() if name != "managedFields"}
    kept = {**configmap, "metadata": metadata}
    encoded = (configmap.get("binaryData") or {}).get(EGRESS_SERVICES)
    if encoded is None:
        return kept
    others = {name: value for name, value in configmap["binaryData"].items() if name != EGRESS_SERVICES}
    text = _decoded(encoded)
    document = _mapping(text)
    entries = _readable(document)
    is_broken = len(entries) < len(document) or not (document or text == "{}")
    return {**kept, "binaryData": others, _ENTRIES: entries, _BROKEN: is_broken}


def entries_of(configmap: Object | None) -> Mapping[str, Entry]:
    """Return the entries in a *slim* egress ConfigMap by name; empty if there is no ConfigMap."""
    found: Mapping[str, Entry] = configmap.get(_ENTRIES) or {} if configmap else {}
    return found


def is_broken(configmap: Object | None) -> bool:
    """Tell whether a *slim* egress ConfigMap has a part that can't be read as entries."""
    return configmap is not None and bool(configmap.get(_BROKEN))


def read_report(text: str) -> ProxyReport | None:
    """Return the report of a proxy from its text in the state Secret; None if the text can't be read."""
    found = _mapping(text)
    services = found.get("services")
    if not found or not isinstance(services, dict | None):
        return None
    return ProxyReport(str(found.get("podIPv4") or ""), str(found.get("podIPv6") or ""), _readable(services or {}))


def _wire(entry: Entry) -> Object:
    return {
        "healthCheckEndpoint": entry.health_check,
        "tailnetTarget": {"ip": entry.ip, "fqdn": entry.fqdn},
        "ports": [
            {"protocol": each.protocol, "matchPort": each.match_port, "targetPort": each.target_port}
            for each in sorted(entry.ports)
        ],
    }


def _entry(given: Any) -> Entry | None:
    try:
        target = given["tailnetTarget"]
        ports = frozenset(
            Port(str(each["protocol"]), int(each["matchPort"]), int(each["targetPort"]))
            for each in given["ports"] or ()
        )
        return Entry(
            str(target.get("fqdn") or ""),
            str(target.get("ip") or ""),
            ports,
            str(given.get("healthCheckEndpoint") or ""),
            is_lost="tailnetTargetIPs" in given and not given["tailnetTargetIPs"],
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None


def _readable(document: Mapping[str, Any]) -> dict[str, Entry]:
    return {name: entry for name, given in document.items() if (entry := _entry(given)) is not None}


def _mapping(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _decoded(encoded: str) -> str:
    try:
        return base64.b64decode(encoded).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
