"""The serve config of an Ingress: which paths go to which Service (standalone-proxies.md 6.3)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tsoperator.api.names import ANNOTATION_FUNNEL, ANNOTATION_HTTP_REDIRECT, CERT_DOMAIN
from tsoperator.api.objects import Object, annotations
from tsoperator.api.rules import is_true
from tsoperator.desired.plan import Note

_REDIRECT: Final = "301:https://${HOST}${REQUEST_URI}"  # tailscaled expands these


@dataclass(frozen=True, slots=True)
class Serving:
    """What an Ingress serves: its serve config, None without a usable backend; and what is wrong with the rest."""

    config: Object | None
    notes: tuple[Note, ...]


class _Unusable(Exception):
    """A backend can't be used; the message names it and says why."""


def tls_host(ingress: Object) -> str:
    """Return the first host of the first TLS entry, the only one that counts; empty if there is none."""
    entries = ingress["spec"].get("tls") or [{}]
    return next(iter(entries[0].get("hosts") or ()), "")


def redirects(ingress: Object) -> bool:
    """Tell whether plain HTTP is answered with a redirect to HTTPS."""
    return is_true(annotations(ingress).get(ANNOTATION_HTTP_REDIRECT))


def funnels(ingress: Object) -> bool:
    """Tell whether the Internet is to reach *ingress*."""
    return is_true(annotations(ingress).get(ANNOTATION_FUNNEL))


def backend_names(ingress: Object) -> Iterator[str]:
    """Yield the names of the Services that *ingress* refers to."""
    for backend in _backends(ingress["spec"]):
        name = (backend.get("service") or {}).get("name")
        if name:
            yield name


def serving(ingress: Object, services: Mapping[str, Object]) -> Serving:
    """Return what *ingress* serves, given the Services of its namespace by name."""
    notes: list[Note] = []
    handlers: dict[str, str] = {}
    spec = ingress["spec"]
    if default := spec.get("defaultBackend"):
        _add(handlers, notes, "/", default, services)
    for rule in spec.get("rules") or ():
        host = rule.get("host", "")
        if host and host != tls_host(ingress):
            notes.append(
                _invalid(
                    f"rule for host {host!r} is left out: the only host is that of spec.tls, {tls_host(ingress)!r}"
                )
            )
            continue
        for path in (rule.get("http") or {}).get("paths") or ():
            _add(handlers, notes, _mount_point(path, notes), path.get("backend"), services)
    return Serving(_config(ingress, handlers) if handlers else None, tuple(notes))


def _add(
    handlers: dict[str, str], notes: list[Note], path: str, backend: Object | None, services: Mapping[str, Object]
) -> None:
    if not backend:
        return
    try:
        handlers[path] = f"{_origin(backend, services)}{path}"
    except _Unusable as reason:
        notes.append(_invalid(f"path {path!r} is left out: {reason}"))


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
    cluster_ip = service["spec"].get("clusterIP")
    if not cluster_ip or cluster_ip == "None":
        raise _Unusable(f"Service {name!r} has no cluster IP: headless and ExternalName Services can't be backends")
    port_name = (wanted.get("port") or {}).get("name", "")
    port = _port(wanted, service)
    scheme = "https+insecure" if port == 443 or port_name == "https" else "http"
    host = f"[{cluster_ip}]" if ":" in cluster_ip else cluster_ip
    return f"{scheme}://{host}:{port}"


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


def _config(ingress: Object, handlers: Mapping[str, str]) -> Object:
    secure, plain = f"{CERT_DOMAIN}:443", f"{CERT_DOMAIN}:80"
    config: Object = {
        "TCP": {"443": {"HTTPS": True}},
        "Web": {secure: {"Handlers": {path: {"Proxy": url} for path, url in handlers.items()}}},
    }
    ports = [secure]
    if redirects(ingress):
        config["TCP"]["80"] = {"HTTP": True}
        config["Web"][plain] = {"Handlers": {path: {"Redirect": _REDIRECT} for path in handlers}}
        ports.append(plain)
    if funnels(ingress):
        config["AllowFunnel"] = dict.fromkeys(ports, True)
    return config


def _backends(spec: Object) -> Iterator[Object]:
    if spec.get("defaultBackend"):
        yield spec["defaultBackend"]
    for rule in spec.get("rules") or ():
        for path in (rule.get("http") or {}).get("paths") or ():
            if path.get("backend"):
                yield path["backend"]


def _invalid(message: str) -> Note:
    return Note("Warning", "InvalidIngressBackend", message)
