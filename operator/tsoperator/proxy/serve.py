"""The serve config of a proxy: which paths lead to which Service (docs/development/proxies.md)."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from tsoperator.api.names import ANNOTATION_EXPOSE, CERT_DOMAIN
from tsoperator.api.objects import Object, key_of

_REDIRECT: Final = "301:https://${HOST}${REQUEST_URI}"  # tailscaled puts values in place of HOST and REQUEST_URI


class Unusable(Exception):
    """An error: a backend can't be used. The message names the backend and says why."""


class Backend(NamedTuple):
    """A port of a *service* that an Ingress leads to.

    The Ingress names the port by *port_name*, or else by *number*. The Service possibly has no such port.
    """

    service: Object
    port_name: str = ""
    number: int = 0

    def origin(self) -> str:
        """Return the URL of the backend without a path. Raises Unusable."""
        cluster_ip, port = _cluster_ip(self.service), self._port()
        scheme = "https+insecure" if port == 443 or self.port_name == "https" else "http"
        host = f"[{cluster_ip}]" if ":" in cluster_ip else cluster_ip
        return f"{scheme}://{host}:{port}"

    def doubt(self) -> str:
        """Return a message if the Service has no port *number*, which the proxy uses anyway; otherwise empty."""
        ports = self.service["spec"].get("ports") or ()
        there = [each["port"] for each in ports if each.get("protocol", "TCP") == "TCP"]
        if self.port_name or self.number in there:
            return ""
        has = f"has TCP port {', '.join(map(str, there))}, not {self.number}" if there else "has no TCP port"
        return f"Service {key_of(self.service).name!r} {has}: correct one of the two"

    def _port(self) -> int:
        name, ports = key_of(self.service).name, self.service["spec"].get("ports") or ()
        if self.port_name:
            for port in ports:
                if port.get("name") == self.port_name:
                    return int(port["port"])
            there = ", ".join(f"{each['port']} ({each.get('name') or 'without a name'})" for each in ports)
            words = f"Service {name!r} has no port named {self.port_name!r}, but {there or 'none at all'}"
            raise Unusable(f"{words}: correct one of the two")
        if self.number:
            return self.number
        raise Unusable(f"the backend {name!r} has no port: give its number or its name")


def web_config(origins: Mapping[str, str], *, redirects: bool, funnels: bool) -> Object:
    """Return the serve config of a proxy that serves HTTPS.

    *origins* has the URL of the backend for each path. With *redirects*, the proxy answers plain HTTP with a redirect
    to HTTPS. With *funnels*, the proxy can be reached from the Internet.
    """
    secure, plain = f"{CERT_DOMAIN}:443", f"{CERT_DOMAIN}:80"
    config: Object = {
        "TCP": {"443": {"HTTPS": True}},
        "Web": {secure: {"Handlers": {path: {"Proxy": f"{url}{path}"} for path, url in origins.items()}}},
    }
    ports = [secure]
    if redirects:
        config["TCP"]["80"] = {"HTTP": True}
        config["Web"][plain] = {"Handlers": {path: {"Redirect": _REDIRECT} for path in origins}}
        ports.append(plain)
    if funnels:
        config["AllowFunnel"] = dict.fromkeys(ports, True)
    return config


def hosted_config(name: str, origins: Mapping[str, str], *, serves_http: bool, redirects: bool) -> Object:
    """Return the serve config for HTTPS of the Tailscale Service with the MagicDNS *name*.

    *origins* has the URL of the backend for each path. With *serves_http*, the proxy also serves the paths by plain
    HTTP. With *redirects*, it answers plain HTTP with a redirect to HTTPS.
    """
    handlers = {path: {"Proxy": f"{url}{path}"} for path, url in origins.items()}
    config: Object = {
        "TCP": {"443": {"HTTPS": True}},
        "Web": {f"{name}:443": {"Handlers": handlers or None}},
    }
    if serves_http or redirects:
        config["TCP"]["80"] = {"HTTP": True}
        redirected = {path: {"Redirect": _REDIRECT} for path in origins}
        config["Web"][f"{name}:80"] = {"Handlers": (handlers if serves_http else redirected) or None}
    return config


def _cluster_ip(service: Object) -> str:
    """Return the cluster IP of *service*, to which the proxy sends requests. Raises Unusable."""
    name, spec = key_of(service).name, service["spec"]
    if spec.get("type") == "ExternalName":
        raise Unusable(
            f"Service {name!r} is of type ExternalName and has no cluster IP to send requests to: name one of type "
            f"ClusterIP, or expose it without an Ingress by its annotation {ANNOTATION_EXPOSE}"
        )
    if spec.get("clusterIP") == "None":
        raise Unusable(
            f"Service {name!r} is headless and has no cluster IP to send requests to: name a Service with the same "
            "selector and without clusterIP: None"
        )
    if not spec.get("clusterIP"):
        raise Unusable(f"Service {name!r} has no cluster IP yet")
    return str(spec["clusterIP"])
