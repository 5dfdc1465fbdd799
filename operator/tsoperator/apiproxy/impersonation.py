"""Decides as whom the proxy forwards a request to the Kubernetes API, or why it refuses the request."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from ipaddress import ip_address
from typing import Any, Final

from tsoperator.apiproxy.errors import BadWhoIs
from tsoperator.apiproxy.head import Header, RequestHead, forwarded
from tsoperator.apiproxy.recording.requestinfo import SessionRequest, session_request
from tsoperator.apiproxy.recording.source import UNKNOWN, SourceDevice

CAPABILITY: Final = "tailscale.com/cap/kubernetes"
LEGACY_CAPABILITY: Final = "https://tailscale.com/cap/kubernetes"
"""The old name of the capability. We read its rules only if there are no rules under the new name."""

_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_IDENTITY: Final = re.compile(rb"authorization\Z|impersonate[^0-9a-z]", re.IGNORECASE)
"""The pattern of headers that say who sends a request. It allows other characters in place of the hyphen, because some
programs take an underscore, for example, for a hyphen."""
_OF_A_PROGRAM: Final = re.compile(rb"file://|https?://(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]+)?")
"""The pattern of the origin of a page that a program on the caller's own device shows, such as a dashboard. No web site
on another machine can have such an origin."""


class AccessMode(Enum):
    """The way in which a caller proves to the API server who it is."""

    AUTH = "true"
    """The proxy impersonates the caller."""
    NOAUTH = "noauth"
    """The caller's request has credentials of its own."""


@dataclass(frozen=True, slots=True)
class Recorders:
    """The rules about recording in the grants of a caller."""

    addresses: Sequence[str] = ()
    is_enforced: bool = False
    has_events: bool = False


@dataclass(frozen=True, slots=True)
class Caller:
    """A device in the tailnet, or its user.

    *name* is the login name of the user, or the name of a device with *tags*. *unreadable* is the name of a capability
    whose grants can't be read, with the cause; in that case, the caller has no groups and no recorders.
    """

    name: str
    tags: Sequence[str]
    groups: Sequence[str] = ()
    recorders: Recorders = Recorders()
    unreadable: str = ""
    device: SourceDevice = UNKNOWN


@dataclass(frozen=True, slots=True)
class Denial:
    """A refusal: an HTTP *status*, a short *reason* for the metrics, and a *message* for the caller and the log."""

    status: int
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Impersonation:
    """The user and the groups as whom the proxy forwards a request. *user* is never empty."""

    user: str
    groups: Sequence[str]


@dataclass(frozen=True, slots=True)
class RecordingOrder:
    """The instruction of the tailnet's grants to record a request, or the session that the request opens.

    *session* is the session to record; None if there is none. *unrecordable* describes a session that we allow although
    we can't record it; empty if there is none.
    """

    recorders: Recorders
    device: SourceDevice
    session: SessionRequest | None = None
    unrecordable: str = ""


@dataclass(frozen=True, slots=True)
class Admission:
    """The decision to admit a request. *identity* is None if the request goes on with credentials of its own.

    *recording* is None if no grant wants the request recorded.
    """

    identity: Impersonation | None
    recording: RecordingOrder | None = None

    def head(self, request: RequestHead, token: str) -> bytes:
        """Return the head of *request* for the API server. The *token* is that of the proxy's ServiceAccount."""
        if self.identity is None:
            return forwarded(request, ())
        if not _TOKEN.fullmatch(token) or not _is_name(self.identity.user):
            raise ValueError("a request can't be impersonated without a token and a user")
        dropped = {name.lower() for name, _ in request.headers if _IDENTITY.match(name)}
        return forwarded(request, _impersonating(self.identity, token), dropped)


class _Unreadable(Exception):
    """An error: the grants of a caller can't be read."""


def caller(raw: bytes | str) -> Caller:
    """Return the caller that *raw* describes, an answer of tailscaled's WhoIs. Raises BadWhoIs."""
    try:
        answer = json.loads(raw, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BadWhoIs("the answer isn't JSON") from error
    if not isinstance(answer, dict) or not answer.get("Node"):
        raise BadWhoIs("the answer has no node")
    node, profile, capabilities = (_part(answer, key) for key in ("Node", "UserProfile", "CapMap"))
    tags = node.get("Tags") or []
    name = (node.get("Name") if tags else profile.get("LoginName")) or ""
    if not isinstance(name, str) or not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise BadWhoIs("the names or tags in the answer aren't text")
    device = _device(node, profile, tags)
    who = Caller(name.removesuffix(".") if tags else name, tuple(dict.fromkeys(tags)), device=device)
    try:
        rules, legacy = _rules(capabilities, CAPABILITY), _rules(capabilities, LEGACY_CAPABILITY)
    except _Unreadable as error:
        return replace(who, unreadable=str(error))
    recorders = Recorders(
        addresses=tuple(address for rule in rules for address in rule.addresses),
        is_enforced=any(rule.is_enforced for rule in rules),
        has_events=any(rule.has_events for rule in rules),
    )
    groups = dict.fromkeys(group for rule in rules or legacy for group in rule.groups)
    return replace(who, groups=tuple(groups), recorders=recorders)


def decide(who: Caller, mode: AccessMode, head: RequestHead, *, is_plain: bool = False) -> Admission | Denial:
    """Decide whether the proxy forwards the request with *head* to the API server, and as whom.

    *is_plain* says that the request has come without TLS.
    """
    if not who.name:
        return Denial(403, "name", "the caller has no login name, or its device has no name")
    if not _is_name(who.name):
        return Denial(403, "name", f"the name {who.name[:60]!r} of the caller can't be sent to the API server")
    if who.unreadable:
        return Denial(403, "grant", f"the grants of {who.name} can't be read: {who.unreadable}")
    recording = _recording(who, head)
    if isinstance(recording, Denial):
        return recording
    if mode is AccessMode.NOAUTH:
        return Admission(None, recording)
    if _is_of_another_site(head):
        return Denial(403, "origin", "a page of another site sends this request, and it would act as the caller")
    if is_plain and not _is_name_of_ours(head.host, who.device.name):
        words = "without TLS, this proxy serves only its addresses and its name in the tailnet"
        return Denial(403, "host", f"{words}: {head.host.decode('latin-1')[:60]!r} could be the name of another site")
    groups = who.groups or who.tags
    bad = next((group for group in groups if not _is_name(group)), None)
    if bad is not None:
        return Denial(403, "group", f"the group {bad[:60]!r} of {who.name} can't be sent to the API server")
    return Admission(Impersonation(who.name, groups), recording)


def _recording(who: Caller, head: RequestHead) -> RecordingOrder | Denial | None:
    """Return the order to record a request; a refusal if we must record it but can't; None if no grant wants that."""
    recorders = who.recorders
    wanted = f"grants want {head.method} {head.path} recorded"
    if not recorders.addresses:
        return Denial(403, "no-recorder", f"{wanted}, and there is no recorder") if recorders.is_enforced else None
    session = session_request(head.method, head.target, upgrades=bool(head.upgrade))
    if session is None or (session.is_recordable and head.upgrade):
        return RecordingOrder(recorders, who.device, session)
    unrecordable = f"{session.kind} without an upgrade" if session.is_recordable else session.kind
    if recorders.is_enforced:
        return Denial(403, "unrecordable", f"{wanted}, and this proxy can't record {unrecordable}")
    return RecordingOrder(recorders, who.device, unrecordable=unrecordable)


@dataclass(frozen=True, slots=True)
class _Rule:
    groups: Sequence[str]
    addresses: Sequence[str]
    is_enforced: bool
    has_events: bool


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} isn't JSON")


def _part(answer: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the object under *key* of *answer*; an empty one if it is missing or null. Raises BadWhoIs."""
    part = answer.get(key) or {}
    if not isinstance(part, dict):
        raise BadWhoIs(f"{key} in the answer isn't an object")
    return part


def _device(node: Mapping[str, Any], profile: Mapping[str, Any], tags: Sequence[str]) -> SourceDevice:
    """Return the device of a WhoIs answer. Values of a wrong type are left out, because no decision depends on them."""
    return SourceDevice(
        _text(node.get("Name")).removesuffix("."),
        _text(node.get("StableID")),
        tuple(_text(tag) for tag in tags),
        _whole(node.get("User")),
        _whole(profile.get("ID")),
        _text(profile.get("LoginName")),
    )


def _text(value: object) -> str:
    """Return *value* if it is a text, without characters that UTF-8 can't encode; else an empty text."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else ""


def _whole(value: object) -> int:
    return value if isinstance(value, int) and abs(value) < 1 << 63 else 0


def _rules(capabilities: Mapping[str, Any], capability: str) -> Sequence[_Rule]:
    """Return the rules that *capabilities* have for one *capability*. Raises _Unreadable."""
    values = capabilities.get(capability)
    if not isinstance(values, list | None):
        raise _Unreadable(f"{capability} isn't a list")
    try:
        return [_rule(_fields(value)) for value in values or ()]
    except ValueError as error:
        raise _Unreadable(f"{capability}: {error}"[:150]) from error


def _rule(fields: Mapping[str, Any]) -> _Rule:
    """Return the rule with these *fields*. Raises ValueError."""
    # We only check that the tags of recorders are texts: the control server has put their addresses into recorderAddrs.
    _texts(fields.get("recorder"))
    return _Rule(
        _texts(_fields(fields.get("impersonate")).get("groups")),
        tuple(map(_address, _texts(fields.get("recorderaddrs")))),
        _flag(fields.get("enforcerecorder")),
        _flag(fields.get("enableevents")),
    )


def _fields(value: object) -> Mapping[str, Any]:
    """Return the fields of the object *value* by their names in lower case, because Go takes names in any case.

    If *value* is None, there are no fields. Raises ValueError.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("a rule isn't an object")
    fields = {key.casefold(): each for key, each in value.items()}
    if len(fields) < len(value):
        raise ValueError("a rule has a field twice")
    return fields


def _texts(value: object) -> Sequence[str]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError("a field isn't a list of texts")
    return tuple(value)


def _flag(value: object) -> bool:
    if value is not None and not isinstance(value, bool):
        raise ValueError("a field is neither true nor false")
    return bool(value)


def _address(text: str) -> str:
    """Return *text* if it is the address `ip:port` of a recorder. Raises ValueError if it isn't."""
    host, _, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    version = ip_address(host[1:-1] if bracketed else host).version
    if (version == 6) != bracketed or not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535:
        raise ValueError(f"{text!r} isn't an address of a recorder")
    return text


def _is_of_another_site(head: RequestHead) -> bool:
    """Tell whether we must refuse a request because a browser sends it for a page of another site.

    The headers Origin and Sec-Fetch-Site show the site. We recognise a caller only by the address, and a browser sends
    the requests of all its pages from that address. A browser lets any page send requests and open WebSockets to any
    host. But the page can read only the messages of a WebSocket, not the answers to other requests. So the result is
    false for a request that changes nothing (`RequestHead.is_safe`).
    """
    if head.is_safe:
        return False
    headers = {name.lower(): value.lower() for name, value in head.headers}
    if (site := headers.get(b"sec-fetch-site")) in {b"same-origin", b"none"}:
        return False
    if (origin := headers.get(b"origin")) is None:
        return site is not None
    return origin.partition(b"://")[2] != head.host.lower() and not _OF_A_PROGRAM.fullmatch(origin)


def _is_name_of_ours(host: bytes, device: str) -> bool:
    """Tell whether *host* can only be a name or an address of this proxy. *device* is the name of the caller's device.

    An attacker can point a name of his own at our address (DNS rebinding). Without TLS, a browser then takes our
    answers for those of his site, so his page could act as the caller. He can't point an address, a name without a dot,
    or a name in the tailnet at us.
    """
    name = host.decode("latin-1").lower()
    if name.startswith("["):
        return True
    name = name.partition(":")[0].removesuffix(".")
    domain = device.lower().partition(".")[2]
    return "." not in name or _is_address(name) or bool(domain and name.endswith(f".{domain}"))


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_name(text: str) -> bool:
    """Tell whether *text* can be the value of an impersonation header without being changed.

    An empty text can't: the API server would take the request for one of the proxy's own user.
    """
    return bool(text) and text == text.strip() and text.isprintable()


def _impersonating(identity: Impersonation, token: str) -> Collection[Header]:
    return [
        (b"Authorization", b"Bearer " + token.encode()),
        (b"Impersonate-User", identity.user.encode()),
        *((b"Impersonate-Group", group.encode()) for group in identity.groups),
    ]
