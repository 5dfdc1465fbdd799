"""Reads the rules of an Ingress: which paths lead to which Service, and which parts of the rules have no effect."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tsoperator.api.objects import Object
from tsoperator.proxy.serve import Backend, Unusable
from tsoperator.runtime.plan import Note

BY_BACKEND: Final = "backend"
"""The index of Ingresses by the Services to which they lead. Its values are `str(Key)`."""

_PATTERN: Final = re.compile(r"[*()\[\]^|\\]")
"""The characters that show that a path is a pattern for another Ingress controller."""


@dataclass(frozen=True, slots=True)
class Paths:
    """The URL of the backend for each path, and Events about parts of the rules that have no effect."""

    origins: Mapping[str, str]
    notes: tuple[Note, ...]


def ingress_paths(ingress: Object, services: Mapping[str, Object], not_served: Callable[[str], str]) -> Paths:
    """Return the paths of *ingress*. *services* are the Services of its namespace by name.

    *not_served* returns the reason why the rules for a host are left out, or an empty text if the host is served.
    """
    notes: list[Note] = []
    by_default: dict[str, str] = {}
    by_rules: dict[str, str] = {}
    spec = ingress["spec"]
    if default := spec.get("defaultBackend"):
        _add(by_default, notes, "/", default, services)
    for rule in spec.get("rules") or ():
        host = rule.get("host", "")
        if host and (why := not_served(host)):
            notes.append(_invalid(f"rule for host {host!r} is left out{why}"))
            continue
        for path in (rule.get("http") or {}).get("paths") or ():
            _add(by_rules, notes, _mount_point(path, notes), path.get("backend"), services)
    return Paths({**by_default, **by_rules}, tuple(notes))


def hosted_paths(ingress: Object, services: Mapping[str, Object], name: str) -> Paths:
    """Return the paths of *ingress*, which a ProxyGroup serves under the MagicDNS *name*.

    *services* are the Services of its namespace by name. If *name* is empty, it isn't known yet, and no rule is left
    out because of its host.
    """
    entries = ingress["spec"].get("tls") or [{}]
    served = {name, *(entries[0].get("hosts") or ())[:1]}

    def not_served(host: str) -> str:
        if not name or host in served:
            return ""
        return (
            f": the Ingress has one name, {name}; make an Ingress of its own for each further host, or remove the host"
        )

    return ingress_paths(ingress, services, not_served)


def backend_names(ingress: Object) -> list[str]:
    """Return the names of the Services that *ingress* refers to."""
    return [name for each in _backends(ingress["spec"]) if (name := (each.get("service") or {}).get("name"))]


def by_backend(ingress: Object) -> Iterable[str]:
    """Return the values for the index `BY_BACKEND`: the keys of the Services to which *ingress* leads."""
    namespace = ingress["metadata"]["namespace"]
    return {f"{namespace}/{name}" for name in backend_names(ingress)}


def _backends(spec: Object) -> Iterator[Object]:
    if spec.get("defaultBackend"):
        yield spec["defaultBackend"]
    for rule in spec.get("rules") or ():
        for path in (rule.get("http") or {}).get("paths") or ():
            if path.get("backend"):
                yield path["backend"]


def _add(
    origins: dict[str, str], notes: list[Note], path: str, wanted: Object | None, services: Mapping[str, Object]
) -> None:
    if not wanted:
        return
    try:
        backend = _backend(wanted, services)
        origin = backend.origin()
    except Unusable as reason:
        notes.append(_invalid(f"path {path!r} is left out: {reason}"))
        return
    if origins.get(path, origin) != origin:
        notes.append(_invalid(f"path {path!r} stands in several rules: only the last one counts, so remove the others"))
    origins[path] = origin
    if doubt := backend.doubt():
        notes.append(_invalid(f"path {path!r} leads to no open port: {doubt}"))


def _mount_point(path: Object, notes: list[Note]) -> str:
    where = path.get("path") or "/"
    if path.get("pathType") == "Exact":
        words = (
            f"path {where!r} is served as Prefix, because proxies don't know Exact: write pathType: Prefix to say so"
        )
        notes.append(Note("Warning", "UnsupportedPathTypeExact", words))
    if pattern := _PATTERN.search(where):
        words = (
            f"path {where!r} is served as it stands, because proxies know no patterns: write the beginning of the "
            f"paths, such as {where[: pattern.start()].rstrip('/') or '/'}"
        )
        notes.append(Note("Warning", "UnsupportedPathPattern", words))
    if not path.get("path"):
        notes.append(Note("Normal", "PathUndefined", "a rule has no path: it serves /"))
        return "/"
    return str(path["path"])


def _backend(wanted: Object, services: Mapping[str, Object]) -> Backend:
    """Return the Service and the port of *wanted*, the backend of a path in an Ingress.

    Raises Unusable.
    """
    if not (reference := wanted.get("service")):
        raise Unusable("its backend is not a Service: name one")
    name, port = reference.get("name", ""), reference.get("port") or {}
    if (service := services.get(name)) is None:
        raise Unusable(f"Service {name!r} does not exist in the Ingress's namespace: create it, or name another")
    return Backend(service, port.get("name") or "", int(port.get("number") or 0))


def _invalid(message: str) -> Note:
    return Note("Warning", "InvalidIngressBackend", message)
