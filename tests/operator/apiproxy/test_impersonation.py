"""The users and groups as which the proxy sends requests to the API server, and the callers that it refuses."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.apiproxy.errors import BadHead, BadWhoIs
from tsoperator.apiproxy.head import RequestHead, parse_request
from tsoperator.apiproxy.impersonation import (
    CAPABILITY,
    LEGACY_CAPABILITY,
    AccessMode,
    Admission,
    Denial,
    Impersonation,
    Recorders,
    caller,
    decide,
)
from tsoperator.apiproxy.recording.source import SourceDevice

AUTH, NOAUTH = AccessMode.AUTH, AccessMode.NOAUTH
LOGIN, DEVICE = "alice@example.org", "web.tail1234.ts.net"
TAGS = ["tag:foo", "tag:bar"]
TOKEN = "a.token"
GET = parse_request(b"GET /api/v1/pods?token=a HTTP/1.1\r\nHost: a.example.org\r\n\r\n")
RECORDERS = ["192.0.2.1:80", "[2001:db8::1]:80"]


def whois(
    rules: object = None, *, legacy: object = None, tags: object = None, login: object = LOGIN, **node: object
) -> str:
    """Return tailscaled's answer about a caller, whose device has *tags* or belongs to the user *login*.

    *rules* are those of the caller's grants, *legacy* those under the old name of the capability, and *node* has
    fields of the device.
    """
    capabilities = {CAPABILITY: rules, LEGACY_CAPABILITY: legacy, "https://tailscale.com/cap/is-admin": None}
    return json.dumps(
        {
            "Node": {"ID": 1, "StableID": "n1", "Name": f"{DEVICE}.", "User": 2, "Tags": tags, **node},
            "UserProfile": {"ID": 2, "LoginName": login, "DisplayName": "Alice"},
            "CapMap": {name: values for name, values in capabilities.items() if values is not None} or None,
        }
    )


def groups(*names: object) -> Mapping[str, object]:
    return {"impersonate": {"groups": [*names]}}


class Case(NamedTuple):
    """tailscaled's answer *whois* about a caller, and the *user* and *groups* as which the proxy forwards a request.

    If *user* is None, the proxy impersonates nobody.
    """

    whois: str
    user: str | None
    groups: Sequence[str] = ()
    mode: AccessMode = AUTH


ADMITTED = {
    "a user": Case(whois(), LOGIN),
    "no map of capabilities": Case('{"Node": {"Name": "a."}, "UserProfile": {"LoginName": "bob"}}', "bob"),
    "a user with groups": Case(whois([groups("g1")]), LOGIN, ["g1"]),
    "groups of many rules, without duplicates": Case(
        whois([groups("g1", "g2"), groups("g1", "g3"), groups("g4"), groups("g2"), {}, {"impersonate": {}}, groups()]),
        LOGIN,
        ["g1", "g2", "g3", "g4"],
    ),
    "fields that are null": Case(
        whois([None, {"impersonate": None}, {"impersonate": {"groups": None}, "recorder": None, "recorderAddrs": None,
                      "enforceRecorder": None, "enableEvents": None}]),
        LOGIN,
    ),
    "fields in other letters, and unknown ones": Case(
        whois([{"Impersonate": {"GROUPS": ["g1"], "users": ["bob"]}, "unknown": 1}]), LOGIN, ["g1"]
    ),
    "odd names": Case(whois([groups("My Team", "grüße", "a,b:")], login="Ü Ö"), "Ü Ö", ["My Team", "grüße", "a,b:"]),
    "no rules": Case(whois([]), LOGIN),
    "a tagged device": Case(whois(tags=TAGS, login="tagged-devices"), DEVICE, TAGS),
    "a tagged device with groups": Case(whois([groups("g1")], tags=TAGS), DEVICE, ["g1"]),
    "a tagged device with rules, but no groups": Case(whois([{}, groups()], tags=TAGS), DEVICE, TAGS),
    "a tag twice": Case(whois(tags=["tag:foo", "tag:foo"]), DEVICE, ["tag:foo"]),
    "a tagged device of nobody": Case(whois(tags=TAGS, login=""), DEVICE, TAGS),
    "a name without a dot at its end": Case(whois(tags=TAGS, Name=DEVICE), DEVICE, TAGS),
    "no tags": Case(whois(tags=[]), LOGIN),
    "groups under the old name": Case(whois(legacy=[groups("g1")]), LOGIN, ["g1"]),
    "no rules under the new name": Case(whois([], legacy=[groups("g1")]), LOGIN, ["g1"]),
    "rules without groups under the new name": Case(whois([{}], legacy=[groups("g1")]), LOGIN),
    "both names": Case(whois([groups("g1")], legacy=[groups("g2")]), LOGIN, ["g1"]),
    "a tagged device with groups under the old name": Case(whois(legacy=[groups("g1")], tags=TAGS), DEVICE, ["g1"]),
    "recorders under the old name": Case(whois(legacy=[{"enforceRecorder": True, "enableEvents": True}]), LOGIN),
    "the request has credentials of its own": Case(whois([groups("g1")]), None, mode=NOAUTH),
    "a tagged device with credentials of its own": Case(whois(tags=TAGS), None, mode=NOAUTH),
    "groups that nobody needs": Case(whois([groups("a\n")]), None, mode=NOAUTH),
}  # fmt: skip

BAD_GRANTS: Mapping[str, Any] = {
    "not a list": {"impersonate": {}},
    "an empty object": {},
    "not an object": [["g1"]],
    "a text": ["{}"],
    "impersonate: a list": [{"impersonate": ["g1"]}],
    "groups: a text": [{"impersonate": {"groups": "g1"}}],
    "groups: a number": [groups(1)],
    "groups: null": [groups(None)],
    "recorder: a text": [{"recorder": "tag:rec"}],
    "recorderAddrs: a text": [{"recorderAddrs": RECORDERS[0]}],
    "recorderAddrs: an empty text": [{"recorderAddrs": [""]}],
    "recorderAddrs: no port": [{"recorderAddrs": ["192.0.2.1"]}],
    "recorderAddrs: a name": [{"recorderAddrs": ["rec.example.org:80"]}],
    "recorderAddrs: a port that doesn't exist": [{"recorderAddrs": ["192.0.2.1:65536"]}],
    "recorderAddrs: an odd port": [{"recorderAddrs": ["192.0.2.1:8_0"]}],
    "recorderAddrs: a port before a line end": [{"recorderAddrs": ["192.0.2.1:80\n"]}],
    "recorderAddrs: a long port": [{"recorderAddrs": ["192.0.2.1:" + "1" * 500]}],
    "recorderAddrs: a long name": [{"recorderAddrs": ["a" * 500 + "\n:80"]}],
    "recorderAddrs: IPv6 without brackets": [{"recorderAddrs": ["2001:db8::1:80"]}],
    "recorderAddrs: IPv4 in brackets": [{"recorderAddrs": ["[192.0.2.1]:80"]}],
    "enforceRecorder: a text": [{"enforceRecorder": "false"}],
    "enforceRecorder: a number": [{"enforceRecorder": 0}],
    "enableEvents: a text": [{"enableEvents": ""}],
    "a field twice": [{"enforceRecorder": True, "EnforceRecorder": False}],
    "a good rule before": [groups("g1"), {"enforceRecorder": 1}],
}
"""The rules of grants that can't be read."""


class Refusal(NamedTuple):
    """An answer of tailscaled, and the reason of a refusal."""

    whois: str
    reason: str
    mode: AccessMode = AUTH


REFUSED = {
    **{f"new name: {name}": Refusal(whois(rules), "grant") for name, rules in BAD_GRANTS.items()},
    **{f"old name: {name}": Refusal(whois(legacy=rules), "grant") for name, rules in BAD_GRANTS.items()},
    "a bad grant under the old name, although the new one counts": Refusal(whois([groups("g1")], legacy=[1]), "grant"),
    "a bad grant under the new name, although there is an old one": Refusal(whois([1], legacy=[groups("g1")]), "grant"),
    "a bad grant, and credentials of the request's own": Refusal(whois([1]), "grant", NOAUTH),
    "a bad grant of a tagged device": Refusal(whois([1], tags=TAGS), "grant"),
    "an empty login": Refusal(whois(login=""), "name"),
    "an empty login with groups": Refusal(whois([groups("g1")], login=""), "name"),
    "an empty login, and credentials of the request's own": Refusal(whois(login=""), "name", NOAUTH),
    "no login": Refusal(whois(login=None), "name"),
    "no user": Refusal('{"Node": {"Name": "a."}}', "name"),
    "a login of white space": Refusal(whois(login=" "), "name"),
    "a login after white space": Refusal(whois(login=" bob"), "name"),
    "a login before a line end": Refusal(whois(login="bob\n"), "name"),
    "a login with a line end": Refusal(whois(login="bob\r\nImpersonate-Group: system:masters"), "name"),
    "a login that can't be encoded": Refusal(whois(login="\ud800"), "name"),
    "a long login with a line end": Refusal(whois(login="g" * 500 + "\n"), "name"),
    "a login that looks like another": Refusal(whois(login="bob\u200b"), "name"),
    "an empty name of a device": Refusal(whois(tags=TAGS, Name=""), "name"),
    "a dot as the name of a device": Refusal(whois(tags=TAGS, Name="."), "name"),
    "no name of a device": Refusal(whois(tags=TAGS, Name=None), "name"),
    "a long group with a line end": Refusal(whois([groups("g" * 500 + "\n")]), "group"),
    "an empty group": Refusal(whois([groups("")]), "group"),
    "a group with a line end": Refusal(whois([groups("g1", "a\r\nImpersonate-User: b")]), "group"),
    "a group before white space": Refusal(whois([groups("system:masters ")]), "group"),
    "a tag with a zero byte": Refusal(whois(tags=["tag:\0"]), "group"),
    "a recorder is needed, and there is none": Refusal(whois([{"enforceRecorder": True}]), "no-recorder"),
    "a recorder is needed by another rule": Refusal(whois([groups("g1"), {"enforceRecorder": True}]), "no-recorder"),
    "a recorder is needed, and no impersonation": Refusal(whois([{"enforceRecorder": True}]), "no-recorder", NOAUTH),
}

RECORDING = {
    "addresses, and a recorder is needed": (
        [{"recorderAddrs": RECORDERS, "enforceRecorder": True}], Recorders(RECORDERS, is_enforced=True),
    ),
    "addresses": ([{"recorder": ["tag:rec"], "recorderAddrs": RECORDERS}], Recorders(RECORDERS)),
    "three rules": (
        [{"recorderAddrs": RECORDERS[:1], "enforceRecorder": False}, {"recorderAddrs": RECORDERS[1:]},
         {"enforceRecorder": True, **groups("system:masters")}],
        Recorders(RECORDERS, is_enforced=True),
    ),
    "no rules": ([], Recorders()),
    "groups only": ([groups("system:masters")], Recorders()),
    "events": ([{"enableEvents": True}, {"enableEvents": False}], Recorders(has_events=True)),
}  # fmt: skip


def admitted(who: str, mode: AccessMode = AUTH, head: RequestHead = GET) -> Admission:
    decision = decide(caller(who), mode, head)
    assert isinstance(decision, Admission)
    return decision


def denied(who: str, mode: AccessMode = AUTH) -> Denial:
    decision = decide(caller(who), mode, GET)
    assert isinstance(decision, Denial)
    return decision


@pytest.mark.parametrize("case", ADMITTED.values(), ids=ADMITTED)
def test_a_request_is_admitted_under_the_identity_of_its_caller(case: Case) -> None:
    wanted = None if case.user is None else Impersonation(case.user, tuple(case.groups))
    assert admitted(case.whois, case.mode) == Admission(wanted)


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_a_caller_with_a_bad_name_or_a_bad_grant_is_refused_with_a_reason(case: Refusal) -> None:
    refusal = denied(case.whois, case.mode)
    assert (refusal.status, refusal.reason) == (403, case.reason)


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_the_words_of_a_refusal_fit_in_one_line_of_a_log(case: Refusal) -> None:
    message = denied(case.whois, case.mode).message
    assert message.isprintable()
    assert len(message) < 250


def test_the_refusal_of_a_caller_without_a_login_name_says_that_the_name_is_missing() -> None:
    assert "has no login name" in denied(whois(login="")).message


@pytest.mark.parametrize(("rules", "wanted"), RECORDING.values(), ids=RECORDING)
def test_the_recorders_of_a_callers_requests_are_read_from_the_grants(
    rules: Sequence[object], wanted: Recorders
) -> None:
    found = caller(whois(rules)).recorders
    assert (list(found.addresses), found.is_enforced, found.has_events) == (
        list(wanted.addresses),
        wanted.is_enforced,
        wanted.has_events,
    )


POD = "/api/v1/namespaces/default/pods/web"
OPEN = [{"recorderAddrs": RECORDERS, "enableEvents": True}]
ENFORCED = [*OPEN, {"enforceRecorder": True}]


def head(method: str, target: str, upgrade: str = "") -> RequestHead:
    lines = f"Connection: Upgrade\r\nUpgrade: {upgrade}\r\n" if upgrade else ""
    return parse_request(f"{method} {target} HTTP/1.1\r\nHost: k8s\r\n{lines}\r\n".encode())


@pytest.mark.parametrize(
    ("request_head", "kind"),
    [
        (head("POST", f"{POD}/exec?tty=true", "SPDY/3.1"), "exec"),
        (head("GET", f"{POD}/exec", "websocket"), "exec"),
        (head("GET", f"{POD}/exec", "WebSocket"), "exec"),
        (head("GET", f"{POD}/exec", "SPDY/3.1"), "exec"),
        (head("GET", f"{POD}/attach/", "websocket"), "attach"),
        (head("GET", "/api/v1/nodes/n/proxy/exec/default/web/main", "websocket"), "exec"),
        (head("GET", f"{POD}/log"), None),
        (head("GET", "/api/v1/pods?watch=true", "websocket"), None),
    ],
)
@pytest.mark.parametrize("rules", [OPEN, ENFORCED], ids=["open", "enforced"])
@pytest.mark.parametrize("mode", AccessMode)
def test_a_request_is_admitted_with_an_order_to_record_it_if_the_grants_of_the_caller_name_recorders(
    request_head: RequestHead, kind: str | None, rules: Sequence[object], mode: AccessMode
) -> None:
    order = admitted(whois(rules), mode, request_head).recording
    assert order is not None
    assert (list(order.recorders.addresses), order.recorders.has_events, order.unrecordable) == (RECORDERS, True, "")
    assert (order.session and order.session.kind) == kind


@pytest.mark.parametrize(
    ("request_head", "words"),
    [
        (head("POST", f"{POD}/portforward", "SPDY/3.1"), "port-forward"),
        (head("POST", "/api/v1/nodes/n/proxy/run/default/web/main?cmd=ls"), "run"),
        (head("PATCH", f"{POD}/ephemeralcontainers"), "ephemeral container"),
        (head("POST", f"{POD}/exec"), "exec without an upgrade"),
        (head("GET", f"{POD}/proxy/", "websocket"), "upgraded connection"),
    ],
)
def test_a_session_that_no_recorder_can_record_is_refused_if_it_must_be_recorded(
    request_head: RequestHead, words: str
) -> None:
    order = admitted(whois(OPEN), AUTH, request_head).recording
    assert order is not None
    assert (order.session, order.unrecordable) == (None, words)
    refusal = decide(caller(whois(ENFORCED)), AUTH, request_head)
    assert isinstance(refusal, Denial)
    assert (refusal.status, refusal.reason, refusal.message.endswith(words)) == (403, "unrecordable", True)
    assert admitted(whois(), AUTH, request_head).recording is None


def test_nothing_is_recorded_if_the_grants_name_no_recorder() -> None:
    who = whois([{"enableEvents": True}])
    assert [admitted(who, mode, head("GET", f"{POD}/exec", "websocket")).recording for mode in AccessMode] == [None] * 2


@pytest.mark.parametrize(
    ("who", "device"),
    [
        (whois(), SourceDevice(DEVICE, "n1", (), 2, 2, LOGIN)),
        (whois(tags=TAGS), SourceDevice(DEVICE, "n1", tuple(TAGS), 2, 2, LOGIN)),
        (whois(Name="\ud800", StableID=1, User="x"), SourceDevice("?", "", (), 0, 2, LOGIN)),
    ],
)
def test_the_device_of_a_caller_is_read_from_the_answer_of_tailscaled(who: str, device: SourceDevice) -> None:
    assert caller(who).device == device


def test_the_refusal_of_a_request_that_cannot_be_recorded_names_the_request_without_its_query() -> None:
    message = denied(whois([{"enforceRecorder": True}])).message
    assert "GET /api/v1/pods " in message
    assert "token" not in message


@pytest.mark.parametrize(
    "raw",
    [
        *("", "no match for IP:port\n", "null", "[]", "{}", '{"Node": null}', '{"Node": []}', "[" * 100000),
        *('{"Node": {"Name": "a"}, "UserProfile": {"LoginName": "bob", "ID": NaN}}', '{"Node": [1]}'),
        *('{"Node": {"Name": "a"}, "UserProfile": 1}', '{"Node": {"Name": "a"}, "CapMap": [1]}', b"\xff"),
        *(whois(login=1), whois(tags="tag:foo"), whois(tags=[1]), whois(tags=TAGS, Name=1)),
    ],
)  # fmt: skip
def test_an_answer_of_tailscaled_that_describes_no_device_is_an_error(raw: str | bytes) -> None:
    with pytest.raises(BadWhoIs):
        caller(raw)


WEBSOCKET = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
EVIL = b"Origin: https://evil.example.net\r\n"


@pytest.mark.parametrize(
    ("method", "lines", "is_refused"),
    [
        (b"POST", EVIL, True),
        (b"POST", b"origin: null\r\n", True),
        (b"DELETE", b"Sec-Fetch-Site: cross-site\r\n", True),
        (b"POST", b"Sec-Fetch-Site: same-site\r\n", True),
        (b"GET", EVIL + WEBSOCKET, True),
        (b"GET", b"Origin: http://a.example.org:8001\r\n" + WEBSOCKET, True),
        (b"GET", b"Origin: https://A.example.org\r\n" + WEBSOCKET, False),
        (b"POST", b"Origin: http://dashboard.example.org\r\nSec-Fetch-Site: same-origin\r\n", False),
        (b"POST", b"Origin: http://localhost:8001\r\nSec-Fetch-Site: cross-site\r\n", False),
        (b"GET", b"Origin: file://\r\n" + WEBSOCKET, False),
        (b"POST", b"Origin: http://localhost.evil.example.net\r\n", True),
        (b"POST", b"Sec-Fetch-Site: none\r\n", False),
        (b"GET", EVIL + b"Sec-Fetch-Site: cross-site\r\n", False),
        (b"GET", WEBSOCKET, False),
        (b"POST", b"", False),
    ],
)
def test_a_request_of_a_browser_from_a_page_of_another_site_is_denied_if_it_can_change_anything(
    method: bytes, lines: bytes, is_refused: bool
) -> None:
    head = parse_request(method + b" / HTTP/1.1\r\nHost: a.example.org\r\n" + lines + b"\r\n")
    decision = decide(caller(whois()), AUTH, head)
    assert (isinstance(decision, Denial) and decision.reason == "origin") is is_refused
    assert isinstance(decide(caller(whois()), NOAUTH, head), Admission)


@pytest.mark.parametrize(
    ("host", "is_refused"),
    [
        ("k8s.tail1234.ts.net", False),
        ("K8S.Tail1234.ts.net.:80", False),
        ("k8s", False),
        ("k8s:80", False),
        ("100.64.0.1", False),
        ("100.64.0.1:80", False),
        ("[fd7a:115c:a1e0::1]:80", False),
        ("evil.example.net", True),
        ("k8s.tail1234.ts.net.evil.example.net", True),
        ("eviltail1234.ts.net", True),
        ("100.64.0.1.evil.example.net:80", True),
        ("k8s.tail5678.ts.net", True),
    ],
)
def test_a_request_without_tls_is_denied_if_its_host_is_not_a_name_or_address_of_the_proxy(
    host: str, is_refused: bool
) -> None:
    head = parse_request(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    decision = decide(caller(whois()), AUTH, head, is_plain=True)
    assert (isinstance(decision, Denial) and decision.reason == "host") is is_refused
    assert isinstance(decide(caller(whois()), AUTH, head), Admission)
    assert isinstance(decide(caller(whois()), NOAUTH, head, is_plain=True), Admission)


ALICE = admitted(whois([groups("g1", "grüße")]))
OWN = admitted(whois(), NOAUTH)
IDENTITY = "".join(
    f"{line}\r\n"
    for line in (
        f"Authorization: Bearer {TOKEN}",
        f"Impersonate-User: {LOGIN}",
        "Impersonate-Group: g1",
        "Impersonate-Group: grüße",
    )
).encode()


def sent(admission: Admission, *lines: bytes) -> bytes:
    """Return the headers, except Host, that the API server gets if *admission* lets a request with *lines* through."""
    start = b"GET / HTTP/1.1\r\nHost: a\r\n"
    raw = admission.head(parse_request(start + b"".join(line + b"\r\n" for line in lines) + b"\r\n"), TOKEN)
    assert raw.startswith(start)
    assert raw.endswith(b"\r\n\r\n")
    return raw[len(start) : -2]


IDENTITIES = [
    b"Authorization: Bearer a", b"AUTHORIZATION: Bearer a", b"authorization:", b"Impersonate-User: bob",
    b"impersonate-USER: bob", b"Impersonate-Group: system:masters", b"impersonate-group: g1", b"Impersonate-Uid: 1",
    b"Impersonate-Extra-Scopes: a", b"IMPERSONATE-EXTRA-a%2fb: c", b"Impersonate-Extra-:", b"Impersonate-Other: a",
    b"Impersonate_User: bob", b"Impersonate.User: bob", b"impersonate_extra_scopes: a", b"Impersonate-: a",
]  # fmt: skip
"""Headers that say who sends a request, and headers that some program could take for these."""
OTHERS = [
    b"Cookie: a=b", b"X-Remote-User: bob", b"X-Authorization: a", b"Authorization-Info: a", b"Impersonated: a",
    b"Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.YQ",
]  # fmt: skip


@pytest.mark.parametrize("line", IDENTITIES)
def test_headers_of_a_client_cannot_change_the_identity_that_the_proxy_sends(line: bytes) -> None:
    name = line.partition(b":")[0]
    assert sent(ALICE, line) == IDENTITY
    assert sent(ALICE, line, b"A: b", line, line.swapcase()) == b"A: b\r\n" + IDENTITY
    assert sent(ALICE, line, b"Connection: " + name) == IDENTITY


@pytest.mark.parametrize("line", [*IDENTITIES, *OTHERS])
def test_in_noauth_mode_the_credentials_of_a_caller_are_forwarded_unchanged(line: bytes) -> None:
    assert sent(OWN, line, line).replace(b": ", b":") == (line.replace(b": ", b":") + b"\r\n") * 2


@pytest.mark.parametrize("line", OTHERS)
def test_impersonation_leaves_the_other_headers_of_a_request_unchanged(line: bytes) -> None:
    assert sent(ALICE, line) == line + b"\r\n" + IDENTITY


@pytest.mark.parametrize(
    "name", [b"Impersonate-User", b"impersonate-group", b"Authorization", b"Impersonate-User, Host"]
)
def test_the_header_connection_cannot_remove_the_identity_that_the_proxy_sends(name: bytes) -> None:
    assert sent(ALICE, b"Connection: close, " + name) == IDENTITY


@pytest.mark.parametrize("token", ["", "a\r\nImpersonate-Group: system:masters", "a b", "\xe9"])
def test_the_proxy_impersonates_nobody_if_its_own_token_is_missing_or_malformed(token: str) -> None:
    with pytest.raises(ValueError, match="token"):
        ALICE.head(GET, token)


@pytest.mark.parametrize("user", ["", " ", "bob\r\nA: b"])
def test_the_proxy_impersonates_nobody_with_a_missing_or_malformed_user_name(user: str) -> None:
    with pytest.raises(ValueError, match="user"):
        Admission(Impersonation(user, ["g1"])).head(GET, TOKEN)


def test_in_noauth_mode_the_token_of_the_proxy_is_not_sent() -> None:
    assert TOKEN.encode() not in OWN.head(GET, TOKEN)


names = st.sampled_from([line.partition(b":")[0] for line in IDENTITIES]) | st.text(
    "aI-_mpersonate", min_size=1, max_size=12
).map(str.encode)
values = st.sampled_from(
    [b"bob", b"", b"a\tb", b"close", b"Upgrade", b"Impersonate-User", b"Authorization, Host", b"\xff"]
)
headers = st.lists(
    st.tuples(names | st.sampled_from([b"Connection", b"TE", b"Trailer", b"X-Forwarded-For", b"Upgrade"]), values)
)


@given(headers)
def test_the_api_server_reads_one_identity_whatever_the_client_sends(headers: list[tuple[bytes, bytes]]) -> None:
    lines = b"".join(b"%b: %b\r\n" % header for header in headers)
    try:
        head = parse_request(b"GET / HTTP/1.1\r\nHost: a\r\n" + lines + b"\r\n")
    except BadHead:
        return
    reader = h11.Connection(h11.SERVER)
    reader.receive_data(ALICE.head(head, TOKEN))
    event = reader.next_event()
    assert isinstance(event, h11.Request)
    found = [f"{name.decode()}: {value.decode()}" for name, value in event.headers if is_identity(name)]
    assert "".join(f"{line}\r\n" for line in found).encode().lower() == IDENTITY.lower()


def is_identity(name: bytes) -> bool:
    plain = name.lower().replace(b"_", b"-").replace(b".", b"-")
    return plain == b"authorization" or plain.startswith(b"impersonate-")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["impersonate", "groups", "recorderAddrs", "Node", "Name", "Tags", "CapMap", CAPABILITY]),
            inner,
        )
    ),
    max_leaves=8,
)


@given(json_values, json_values, json_values)
def test_a_random_answer_of_tailscaled_is_an_error_a_refusal_or_an_identity(
    rules: object, tags: object, login: object
) -> None:
    for raw in (whois(rules, tags=tags), whois(rules, login=login), json.dumps(rules)):
        try:
            decision = decide(caller(raw), AUTH, GET)
        except BadWhoIs:
            continue
        assert isinstance(decision, Denial) or (decision.identity and decision.identity.user.strip())
