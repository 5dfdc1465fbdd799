"""Reads the parts of a request as the API server does, and finds out whether the request opens a session.

The rules are those of k8s.io/apiserver, `endpoints/request/requestinfo.go`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final
from urllib.parse import unquote, unquote_plus

EXEC: Final = "exec"
ATTACH: Final = "attach"

_VERBS: Final = {
    "POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete",
}  # fmt: skip
_PATH_VERBS: Final = frozenset({"proxy", "watch"})
_NAMESPACE_SUBRESOURCES: Final = frozenset({"status", "finalize"})
_SELECTING: Final = frozenset({"list", "watch", "deletecollection"})
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_UNRECORDABLE: Final = {"portforward": "port-forward", "ephemeralcontainers": "ephemeral container"}
"""The names of sessions that no recorder can record, by subresource."""
_KUBELET: Final = {"run": "run", "portForward": "port-forward", "cri": "kubelet session"}
"""The names of sessions that no recorder can record, by the first part of the path of a kubelet."""
_UPGRADED: Final = "upgraded connection"
"""The name of all other sessions that no recorder can record."""


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """The parts of a request. In events, a part has the same name as here, but in Go's spelling."""

    is_resource_request: bool
    path: str
    verb: str
    api_prefix: str = ""
    api_group: str = ""
    api_version: str = ""
    namespace: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    parts: Sequence[str] | None = None
    field_selector: str = ""
    label_selector: str = ""

    def as_event(self) -> Mapping[str, Any]:
        """Return the parts with the names that they have in an event."""
        return {_go_name(name): value for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """A request that opens a session. *kind* is `exec` or `attach`, or the name of a session that can't be recorded."""

    kind: str
    namespace: str = ""
    pod: str = ""
    container: str = ""
    command: str = ""
    has_terminal: bool = False
    is_recordable: bool = True


def query_parameters(target: str) -> Mapping[str, Sequence[str]]:
    """Return the values of each parameter in the query of a request's *target*."""
    values: dict[str, list[str]] = {}
    for part in target.partition("?")[2].split("&"):
        if part:
            name, _, value = part.partition("=")
            values.setdefault(unquote_plus(name), []).append(unquote_plus(value))
    return values


def request_info(method: str, target: str) -> RequestInfo:
    """Return the parts of a request, as the API server would find them."""
    path = unquote(target.partition("?")[0])
    return _info(method, path, _split(path), query_parameters(target))


def session_request(method: str, target: str, *, upgrades: bool = False) -> SessionRequest | None:
    """Return the session that a request opens; None if it opens none.

    *upgrades* says whether the request upgrades its connection. We take any upgraded connection for a session, unless
    the connection carries a watch or a log. The reason is that an upgraded connection can lead to a shell in a virtual
    machine. By the proxy of a Pod, a Service or a node, it can also lead to a kubelet or to the API server itself. Some
    servers remove empty parts and dots from a path, so we also look at the path without these.
    """
    path, query = unquote(target.partition("?")[0]), query_parameters(target)
    literal = _split(path)
    infos = [_info(method, path, parts, query) for parts in (literal, _cleaned(literal))]
    for info in infos:
        found = _session(method, info, query)
        if found:
            return found
    if upgrades and not all(map(_is_reading, infos)):
        return SessionRequest(_UPGRADED, infos[0].namespace, is_recordable=False)
    return None


def _info(method: str, path: str, parts: Sequence[str], query: Mapping[str, Sequence[str]]) -> RequestInfo:
    if len(parts) < 3 or parts[0] not in {"api", "apis"}:
        return RequestInfo(False, path, method.lower())
    prefix, group, rest = parts[0], "", parts[1:]
    if prefix == "apis":
        if len(rest) < 3:
            return RequestInfo(False, path, method.lower(), prefix)
        group, rest = rest[0], rest[1:]
    version, rest = rest[0], rest[1:]
    verb = _VERBS.get(method, "")
    has_path_verb = rest[0] in _PATH_VERBS and len(rest) > 1
    if has_path_verb:
        verb, rest = rest[0], rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    fields = _first(query, "fieldSelector")
    if not name and verb == "get":
        verb = "watch" if _is_true(query.get("watch")) else "list"
        name = _selected_name(fields)
    elif not name and verb == "delete":
        verb = "deletecollection"
    has_selectors = verb in _SELECTING and not has_path_verb
    return RequestInfo(
        is_resource_request=True,
        path=path,
        verb=verb,
        api_prefix=prefix,
        api_group=group,
        api_version=version,
        namespace=namespace,
        resource=rest[0],
        subresource=rest[2] if len(rest) > 2 and verb != "proxy" else "",
        name=name,
        parts=tuple(rest),
        field_selector=fields if has_selectors else "",
        label_selector=_first(query, "labelSelector") if has_selectors else "",
    )


def _session(method: str, info: RequestInfo, query: Mapping[str, Sequence[str]]) -> SessionRequest | None:
    """Return the session that a request opens by its *method* and path; None if these open no session."""
    parts = info.parts or ()
    if info.subresource in {EXEC, ATTACH}:
        return SessionRequest(
            info.subresource,
            info.namespace,
            info.name,
            "".join(query.get("container", ())),
            " ".join(query.get("command", ())),
            _is_true(query.get("tty")),
        )
    if info.subresource == "ephemeralcontainers" and method in _READING:
        return None
    if info.subresource in _UNRECORDABLE:
        return SessionRequest(_UNRECORDABLE[info.subresource], info.namespace, info.name, is_recordable=False)
    if info.resource == "nodes" and info.subresource == "proxy":
        return _kubelet_session(parts[3:], query)
    if info.resource == "nodes" and info.verb == "proxy":
        return _kubelet_session(parts[2:], query)
    return None


def _is_reading(info: RequestInfo) -> bool:
    """Tell whether a request is for a watch, or for the log of a Pod.

    The API server can send both by WebSocket, so an upgrade of such a request opens no session.
    """
    if info.subresource:
        return (info.api_prefix, info.resource, info.subresource, info.verb) == ("api", "pods", "log", "get")
    return info.verb == "watch"


def _kubelet_session(parts: Sequence[str], query: Mapping[str, Sequence[str]]) -> SessionRequest | None:
    """Return the session that a request to a kubelet opens, by a path such as `exec/<namespace>/<pod>/<container>`.

    Return None if the path opens no session. The API server resolves ``.`` and ``..`` in the path, which can't lead out
    of the kubelet's paths.
    """
    match _cleaned(parts):
        case ["exec" | "attach" as kind, namespace, pod, *_, container]:
            command = " ".join(query.get("command", ()))
            return SessionRequest(kind, namespace, pod, container, command, _first(query, "tty") == "1")
        case ["exec" | "attach" as kind, *_]:
            return SessionRequest(kind, is_recordable=False)
        case [first, *_] if first in _KUBELET:
            return SessionRequest(_KUBELET[first], is_recordable=False)
    return None


def _split(path: str) -> Sequence[str]:
    trimmed = path.strip("/")
    return trimmed.split("/") if trimmed else ()


def _cleaned(parts: Sequence[str]) -> Sequence[str]:
    """Return the *parts* of a path without empty ones, and with the parts ``.`` and ``..`` resolved."""
    kept: list[str] = []
    for part in parts:
        if part == "..":
            del kept[-1:]
        elif part not in {"", "."}:
            kept.append(part)
    return kept


def _first(query: Mapping[str, Sequence[str]], name: str) -> str:
    return query.get(name, ("",))[0]


def _is_true(values: Sequence[str] | None) -> bool:
    """Tell whether a parameter with *values* is true: it exists, and its first value is neither false nor 0."""
    return values is not None and values[0].lower() not in {"false", "0"}


def _selected_name(selector: str) -> str:
    """Return the name that a field selector requires; empty if it requires none."""
    for term in selector.split(","):
        field, equals, name = term.partition("=")
        name = name.removeprefix("=")
        if field == "metadata.name" and equals and name not in {".", ".."} and not {"/", "%"} & {*name}:
            return name
    return ""


def _go_name(name: str) -> str:
    return "".join(word.upper() if word == "api" else word.capitalize() for word in name.split("_"))
