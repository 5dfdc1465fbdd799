"""A simulation of the proxy image in an egress ProxyGroup.

The image reads its group's egress ConfigMap, and reports that it forwards connections for the Services in it.
"""

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from clustersim.controller import Key
from clustersim.mounts import Volumes, files
from clustersim.objects import CONFIGMAP, Object
from clustersim.proxyconfig import ConfigError
from clustersim.routing import services_leading_to
from clustersim.store import Store
from clustersim.tailnet import Tailnet

CONFIG_DIR = "TS_EGRESS_PROXIES_CONFIG_PATH"
SERVICES = "egress-services"
PINGS = "hep-pings"
_HEALTH_CHECK = "TS_ENABLE_HEALTH_CHECK"
_LISTENING = "TS_LOCAL_ADDR_PORT"
_LISTENING_DEFAULT = "[::]:9002"
_TAG = re.compile(r":v?1\.(\d+)")
_FIRST_MINOR_WITH_HEADERS = 80


class Health:
    """The answer of the proxy at its health port."""

    def __init__(self, container: Object, env: Mapping[str, str], addresses: Mapping[str, str]) -> None:
        """Take the proxy's *container*, its variables *env*, and the Pod's *addresses*.

        The keys of *addresses* are names of HTTP headers. An answer with status 200 has these headers.
        """
        listening = env.get(_LISTENING, _LISTENING_DEFAULT).rpartition(":")[2]
        self._port = listening if env.get(_HEALTH_CHECK) == "true" else ""
        tag = _TAG.search(container.get("image", ""))
        is_old = tag is not None and int(tag[1]) < _FIRST_MINOR_WITH_HEADERS
        self._headers = {} if is_old else {header: address for header, address in addresses.items() if address}

    def answer(self, port: int, has_joined: bool) -> tuple[int, Mapping[str, str]] | None:
        """Return the HTTP status and the headers of the answer at *port*, or None if nothing listens there.

        The status is 200 if the proxy *has_joined* the tailnet, and otherwise 503, without headers. Images before 1.80
        send headers with neither status.
        """
        if str(port) != self._port:
            return None
        return (200, self._headers) if has_joined else (503, {})


class Egress:
    """The part of a proxy that forwards connections to the tailnet."""

    def __init__(self, store: Store, volumes: Volumes, configmap: str, addresses: Mapping[str, str]) -> None:
        """Take the name *configmap* of the egress ConfigMap, which the Pod mounts, and the Pod's *addresses*.

        The *addresses* are by ``podIPv4`` and ``podIPv6``; an address that the Pod lacks is empty.
        """
        self._store = store
        self._volumes = volumes
        self._configmap = configmap
        self._addresses = {name: address for name, address in addresses.items() if address}

    def is_configured(self) -> bool:
        """Tell whether the ConfigMap has the file that lists the Services to forward."""
        return SERVICES in self._files()

    def report(self, tailnet: Tailnet) -> str:
        """Return the JSON that lists the forwarded Services; raises ConfigError if the ConfigMap is malformed."""
        try:
            services = {name: _in_effect(entry, tailnet) for name, entry in self._services().items()}
        except (AttributeError, KeyError, TypeError) as error:
            raise ConfigError(f"{SERVICES} has an entry that can't be read: {error!r}") from error
        return json.dumps({**self._addresses, "services": services or None}, separators=(",", ":"))

    def is_routed(self) -> bool:
        """Tell whether the Pod's preStop hook still reaches this Pod through a Service for health checks.

        The hook reads the URLs of these Services, and the number of requests to make, in the egress ConfigMap.
        """
        try:
            pings = int(self._files().get(PINGS) or 0)
            checks = [entry.get("healthCheckEndpoint") or "" for entry in self._services().values()]
        except (ConfigError, ValueError):
            return False
        hosts = (urlsplit(url).hostname for url in checks if url)
        asked = {Key(namespace, name) for name, namespace, *_ in (host.split(".") for host in hosts if host)}
        found = (services_leading_to(self._store, address) for address in self._addresses.values())
        return pings > 0 and any(asked & services for services in found)

    def _services(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self._files().get(SERVICES) or "{}")
        except ValueError as error:
            raise ConfigError(f"{SERVICES} is not JSON: {error}") from error
        return found

    def _files(self) -> dict[str, str]:
        """Return the texts of the files that the kubelet makes from the ConfigMap, by name."""
        return files(CONFIGMAP, self._volumes.find(CONFIGMAP, self._configmap))


def _in_effect(entry: Object, tailnet: Tailnet) -> Object:
    target = entry["tailnetTarget"]
    return {"ports": entry["ports"], "tailnetTargetIPs": _resolve(target, tailnet), "tailnetTarget": target}


def _resolve(target: Object, tailnet: Tailnet) -> list[str] | None:
    """Return the addresses to which *target* leads, or None for a name that the tailnet doesn't know."""
    if target["ip"]:
        return [target["ip"]]
    return list(tailnet.addresses(target["fqdn"].rstrip(".").lower())) or None
