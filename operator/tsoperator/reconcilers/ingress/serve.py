"""The serve config of an Ingress: which paths go to which Service (docs/development/proxies.md)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tsoperator.api.names import ANNOTATION_EXPOSE, CERT_DOMAIN
from tsoperator.api.objects import Object, key_of
from tsoperator.reconcilers.ingress.ask import Ask
from tsoperator.runtime.plan import Note

_REDIRECT: Final = "301:https://${HOST}${REQUEST_URI}"  # tailscaled expands these


@dataclass(frozen=True, slots=True)
class Serving:
    """The serve config of an Ingress (None without a usable backend), and Events about its unusable parts."""

    config: Object | None
    notes: tuple[Note, ...]


class _Unusable(Exception):
    """A backend can't be used; the message names it and says why."""


def serving(ask: Ask, services: Mapping[str, Object]) -> Serving:
    """Return the serve config of an Ingress, given the *services* of its namespace by name."""
    notes = [*_ignored_tls_notes(ask)]
    handlers: dict[str, str] = {}
    spec = ask.ingress["spec"]
    if default := spec.get("defaultBackend"):
        _add(handlers, notes, "/", default, services)
    for rule in spec.get("rules") or ():
        host = rule.get("host", "")
        if host and host != ask.host:
            notes.append(_invalid(f"rule for host {host!r} is left out{_other_host(ask, host)}"))
            continue
        for path in (rule.get("http") or {}).get("paths") or ():
            _add(handlers, notes, _mount_point(path, notes), path.get("backend"), services)
    return Serving(_config(ask, handlers) if handlers else None, tuple(notes))


def _other_host(ask: Ask, host: str) -> str:
    """Say why the proxy of an Ingress doesn't serve a rule for *host*."""
    if name := ask.host:
        return (
            f": a proxy has one name, that of spec.tls[0].hosts[0], {name!r}; make an Ingress of its own for each "
            "further host, or remove rules[].host"
        )
    return f", because spec.tls names no host: write {host} in spec.tls[0].hosts[0], or remove rules[].host"


def _add(
    handlers: dict[str, str], notes: list[Note], path: str, backend: Object | None, services: Mapping[str, Object]
) -> None:
    if not backend:
        return
    try:
        handlers[path] = f"{_origin(backend, services)}{path}"
    except _Unusable as reason:
        notes.append(_invalid(f"path {path!r} is left out: {reason}"))
        return
    if doubt := _missing_port(backend["service"], services[backend["service"]["name"]]):
        notes.append(_invalid(f"path {path!r} leads to no open port: {doubt}"))


def _mount_point(path: Object, notes: list[Note]) -> str:
    if path.get("pathType") == "Exact":
        where = path.get("path") or "/"
        notes.append(Note("Warning", "UnsupportedPathTypeExact", f"path {where!r}: Exact is served as Prefix"))
    if not path.get("path"):
        notes.append(Note("Normal", "PathUndefined", "a rule has no path: it serves /"))
        return "/"
    return str(path["path"])


def _origin(backend: Object, services: Mapping[str, Object]) -> str:
    """Return the URL of *backend* without a path. Raises _Unusable."""
    wanted = backend.get("service")
    if not wanted:
        raise _Unusable("its backend is not a Service")
    name = wanted.get("name", "")
    service = services.get(name)
    if service is None:
        raise _Unusable(f"Service {name!r} does not exist in the Ingress's namespace")
    cluster_ip = _cluster_ip(service)
    port_name = (wanted.get("port") or {}).get("name", "")
    port = _port(wanted, service)
    scheme = "https+insecure" if port == 443 or port_name == "https" else "http"
    host = f"[{cluster_ip}]" if ":" in cluster_ip else cluster_ip
    return f"{scheme}://{host}:{port}"


def _cluster_ip(service: Object) -> str:
    """Return the address that the proxy sends requests to. Raises _Unusable."""
    name, spec = key_of(service).name, service["spec"]
    if spec.get("type") == "ExternalName":
        raise _Unusable(
            f"Service {name!r} is of type ExternalName and has no cluster IP to send requests to: name one of type "
            f"ClusterIP, or expose it without an Ingress by its annotation {ANNOTATION_EXPOSE}"
        )
    if spec.get("clusterIP") == "None":
        raise _Unusable(
            f"Service {name!r} is headless and has no cluster IP to send requests to: name a Service with the same "
            "selector and without clusterIP: None"
        )
    if not spec.get("clusterIP"):
        raise _Unusable(f"Service {name!r} has no cluster IP yet")
    return str(spec["clusterIP"])


def _port(wanted: Object, service: Object) -> int:
    given = wanted.get("port") or {}
    if name := given.get("name"):
        for port in service["spec"].get("ports") or ():
            if port.get("name") == name:
                return int(port["port"])
        raise _Unusable(f"Service {wanted['name']!r} has no port named {name!r}")
    if number := given.get("number"):
        return int(number)
    raise _Unusable(f"the backend {wanted['name']!r} has no port")


def _missing_port(wanted: Object, service: Object) -> str | None:
    """Return a message if *service* doesn't have the port with the given number. The proxy uses the port anyway."""
    number = (wanted.get("port") or {}).get("number")
    there = [each["port"] for each in service["spec"].get("ports") or () if each.get("protocol", "TCP") == "TCP"]
    if (wanted.get("port") or {}).get("name") or number in there:
        return None
    has = f"has TCP port {', '.join(map(str, there))}, not {number}" if there else "has no TCP port"
    return f"Service {wanted['name']!r} {has}: correct one of the two"


def _config(ask: Ask, handlers: Mapping[str, str]) -> Object:
    secure, plain = f"{CERT_DOMAIN}:443", f"{CERT_DOMAIN}:80"
    config: Object = {
        "TCP": {"443": {"HTTPS": True}},
        "Web": {secure: {"Handlers": {path: {"Proxy": url} for path, url in handlers.items()}}},
    }
    ports = [secure]
    if ask.redirects:
        config["TCP"]["80"] = {"HTTP": True}
        config["Web"][plain] = {"Handlers": {path: {"Redirect": _REDIRECT} for path in handlers}}
        ports.append(plain)
    if ask.funnels:
        config["AllowFunnel"] = dict.fromkeys(ports, True)
    return config


def _ignored_tls_notes(ask: Ask) -> Iterator[Note]:
    """Yield an Event for each part of spec.tls that has no effect."""
    entries = ask.ingress["spec"].get("tls") or ()
    hosts = [host for entry in entries for host in entry.get("hosts") or ()]
    if unused := list(dict.fromkeys(host for host in hosts if host != ask.host)):
        cure = "make an Ingress of its own for each further host" if ask.host else "write the host there"
        message = (
            f"hosts {', '.join(unused)} of spec.tls are ignored: a proxy has one name, that of spec.tls[0].hosts[0]; "
            f"{cure}"
        )
        yield Note("Warning", "IgnoredTLSHosts", message)
    if secrets := list(dict.fromkeys(entry["secretName"] for entry in entries if entry.get("secretName"))):
        message = (
            f"secretName {', '.join(secrets)} of spec.tls is ignored: the proxy has the certificate of its MagicDNS "
            "name, which it gets by itself; remove secretName"
        )
        yield Note("Warning", "IgnoredTLSSecret", message)


def _invalid(message: str) -> Note:
    return Note("Warning", "InvalidIngressBackend", message)
