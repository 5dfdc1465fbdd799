"""A simulation of the proxy image in an ingress ProxyGroup.

The image hosts Tailscale Services, and reports the rules by which it leads their packets to cluster IPs.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from clustersim.mounts import Mount, Volumes
from clustersim.objects import Object
from clustersim.proxyconfig import ConfigError
from clustersim.tailnetservices import Host

RULES = "ingress-config.json"


class Ingress:
    """The part of a proxy that leads the packets for Tailscale Services to cluster IPs."""

    def __init__(self, volumes: Volumes, mount: Mount, addresses: Mapping[str, str]) -> None:
        """Take the *mount* of the file with the rules, and the Pod's *addresses*, by ``podIPv4`` and ``podIPv6``."""
        self._volumes = volumes
        self._mount = mount
        self._addresses = {name: address for name, address in addresses.items() if address}

    def rules(self) -> dict[str, Any] | None:
        """Return the rules in the mounted file, by the name of the Tailscale Service, or None if there is no file.

        Raises ConfigError.
        """
        text = self._volumes.text(self._mount)
        return document(RULES, text) if text else None

    def report(self) -> str:
        """Return the JSON in which the Pod reports its rules and its addresses; raises ConfigError."""
        rules = self.rules() or {}
        configs = {"configs": dict(sorted(rules.items()))} if rules else {}
        return json.dumps({**configs, **self._addresses}, separators=(",", ":"))


def document(name: str, text: str) -> dict[str, Any]:
    """Return the JSON object in *text*, which is the content of the file *name*. Raises ConfigError."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{name} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{name} is no JSON object")
    return found


def hosted(advertised: Iterable[str], serve_config: Object, rules: Object) -> dict[str, Host]:
    """Return the report of a device to the control server: its ports and backends for each Tailscale Service.

    The report has each Service that the device advertises or has a serve config for.
    """
    served, advertising = serve_config.get("Services") or {}, set(advertised)
    return {
        name: Host(
            advertises=name in advertising,
            ports=frozenset(f"tcp:{port}" for port in served[name].get("TCP") or ()) if name in served else None,
            backends=tuple(dict.fromkeys([*_handlers(served.get(name, {})), *_cluster_ips(rules.get(name, {}))])),
        )
        for name in sorted({*served, *advertising})
    }


def _handlers(service: Object) -> Iterator[str]:
    """Yield the URL to which each handler in a *service* of a serve config proxies or redirects.

    The URL is empty if the handler does neither.
    """
    for site in (service.get("Web") or {}).values():
        for handler in (site.get("Handlers") or {}).values():
            yield handler.get("Proxy") or handler.get("Redirect") or ""


def _cluster_ips(rule: Object) -> Iterator[str]:
    for family in ("IPv4Mapping", "IPv6Mapping"):
        if (mapping := rule.get(family)) is not None:
            yield mapping["ClusterIP"]
