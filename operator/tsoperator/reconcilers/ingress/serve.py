"""Reads the rules of an Ingress: which paths go to which Service, and which parts of them have no effect."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tsoperator.api.objects import Object
from tsoperator.proxy.serve import Backend, Unusable, web_config
from tsoperator.reconcilers.ingress.ask import Ask
from tsoperator.runtime.plan import Note


@dataclass(frozen=True, slots=True)
class Serving:
    """The serve config of an Ingress, and Events about the parts of its rules that have no effect.

    The serve config is None if the Ingress has no usable backend.
    """

    config: Object | None
    notes: tuple[Note, ...]


def serving(ask: Ask, services: Mapping[str, Object]) -> Serving:
    """Return the serve config of an Ingress, given the *services* of its namespace by name."""
    notes = [*_ignored_tls_notes(ask)]
    origins: dict[str, str] = {}
    spec = ask.ingress["spec"]
    if default := spec.get("defaultBackend"):
        _add(origins, notes, "/", default, services)
    for rule in spec.get("rules") or ():
        host = rule.get("host", "")
        if host and host != ask.host:
            notes.append(_invalid(f"rule for host {host!r} is left out{_other_host(ask, host)}"))
            continue
        for path in (rule.get("http") or {}).get("paths") or ():
            _add(origins, notes, _mount_point(path, notes), path.get("backend"), services)
    config = web_config(origins, redirects=ask.redirects, funnels=ask.funnels) if origins else None
    return Serving(config, tuple(notes))


def _other_host(ask: Ask, host: str) -> str:
    """Say why the proxy of an Ingress doesn't serve a rule for *host*."""
    if name := ask.host:
        return (
            f": a proxy has one name, that of spec.tls[0].hosts[0], {name!r}; make an Ingress of its own for each "
            "further host, or remove rules[].host"
        )
    return f", because spec.tls names no host: write {host} in spec.tls[0].hosts[0], or remove rules[].host"


def _add(
    origins: dict[str, str], notes: list[Note], path: str, wanted: Object | None, services: Mapping[str, Object]
) -> None:
    if not wanted:
        return
    try:
        backend = _backend(wanted, services)
        origins[path] = backend.origin()
    except Unusable as reason:
        notes.append(_invalid(f"path {path!r} is left out: {reason}"))
        return
    if doubt := backend.doubt():
        notes.append(_invalid(f"path {path!r} leads to no open port: {doubt}"))


def _mount_point(path: Object, notes: list[Note]) -> str:
    if path.get("pathType") == "Exact":
        where = path.get("path") or "/"
        notes.append(Note("Warning", "UnsupportedPathTypeExact", f"path {where!r}: Exact is served as Prefix"))
    if not path.get("path"):
        notes.append(Note("Normal", "PathUndefined", "a rule has no path: it serves /"))
        return "/"
    return str(path["path"])


def _backend(wanted: Object, services: Mapping[str, Object]) -> Backend:
    """Return the Service and the port that a path of an Ingress leads to; *wanted* is the backend there.

    Raises Unusable.
    """
    if not (reference := wanted.get("service")):
        raise Unusable("its backend is not a Service")
    name, port = reference.get("name", ""), reference.get("port") or {}
    if (service := services.get(name)) is None:
        raise Unusable(f"Service {name!r} does not exist in the Ingress's namespace")
    return Backend(service, port.get("name") or "", int(port.get("number") or 0))


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
