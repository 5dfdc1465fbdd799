"""The messages for users when a call to the control server fails."""

from typing import NamedTuple

import pytest
from clustersim.control import Control
from tsoperator.runtime.events import MESSAGE_LIMIT
from tsoperator.tailnet.refusals import explain, lacking
from tsoperator.tsclient.errors import (
    BadRequest,
    Call,
    ControlError,
    CredentialsUnreadable,
    Forbidden,
    Granted,
    IdentityUnreadable,
    NameInUse,
    NoToken,
    NotSupported,
    Unauthorized,
    Unavailable,
)

from tests.support.tailnets import tailnet_client

TAILSCALE, HEADSCALE = "https://controlplane.tailscale.com", "https://headscale.example.org"
TOKEN, KEYS, DEVICE = "/api/v2/oauth/token", "/api/v2/tailnet/-/keys", "/api/v2/device/n1"
SERVICE, SERVICE_HOSTS = "/api/v2/tailnet/-/vip-services/svc:web", "/api/v2/tailnet/-/services/svc:web/devices"
LAB = "Secret tailscale/lab-oauth"
FULL = ("auth_keys", "devices:core")
OWNERS = '"tagOwners": {"tag:k8s-operator": [], "tag:db": ["tag:k8s-operator"]}'
DENIED = "requested tags [tag:db] are invalid or not permitted"
WEAK = "calling actor does not have enough permissions to perform this function"


def key_call(
    server: str = TAILSCALE, scopes: tuple[str, ...] | None = FULL, tags: tuple[str, ...] | None = None
) -> Call:
    return Call(server, KEYS, ("tag:db",), Granted(scopes, tags))


def of_tailnet(path: str, scopes: tuple[str, ...] | None = FULL, tags: tuple[str, ...] | None = None) -> Call:
    return Call(HEADSCALE, path, ("tag:db",), Granted(scopes, tags), LAB)


class Case(NamedTuple):
    error: ControlError
    words: tuple[str, ...]
    not_said: str = "nothing of the kind"
    reason: str = ""
    length: int = MESSAGE_LIMIT


LINES = 2 * 120  # characters: two lines of a wide terminal

CASES = {
    "wrong client": Case(
        Unauthorized("x", 401, "API token invalid", Call(TAILSCALE, TOKEN)),
        (
            "the control server does not accept the operator's OAuth client (HTTP 401: API token invalid): put the ID ",
            "put the ID and secret of a valid one into Secret operator-oauth (see https://login.tailscale.com/admin/settings/trust-credentials)",
        ),
        length=LINES,
    ),
    "wrong client of Headscale": Case(
        Unauthorized("x", 401, "invalid_client", Call(HEADSCALE, TOKEN)),
        (HEADSCALE, "invalid_client", "Secret operator-oauth"),
        "login.tailscale.com",
        length=LINES,
    ),
    "no files": Case(CredentialsUnreadable("CLIENT_ID_FILE: /x is empty"), ("/x is empty", "operator-oauth")),
    "a cluster that is not trusted": Case(
        Unauthorized("x", 401, "API token invalid", Call(TAILSCALE, "/api/v2/oauth/token-exchange")),
        ("CLIENT_ID", "issuer", "audience", "/admin/settings/trust-credentials", "API token invalid"),
        "CLIENT_SECRET_FILE",
    ),
    "no workload identity at Headscale": Case(
        NotSupported("x", 404, "404 page not found", Call(HEADSCALE, "/api/v2/oauth/token-exchange")),
        ("/api/v2/oauth/token-exchange", "CLIENT_ID_FILE and CLIENT_SECRET_FILE"),
        "0.30",
        "UnsupportedByControlServer",
    ),
    "no token": Case(IdentityUnreadable("CLIENT_ID: /x is empty"), ("/x is empty", "oauth.audience"), "operator-oauth"),
    "scopes that are not told": Case(
        Forbidden("x", 403, WEAK, key_call(scopes=None)), ("needs the scope Auth Keys (auth_keys)",), "tagOwners"
    ),
    "tags": Case(BadRequest("x", 400, DENIED, key_call()), (DENIED, OWNERS, "/admin/acls/file", "tag:db to devices")),
    "tags of another owner": Case(
        BadRequest("x", 400, DENIED, key_call(tags=("tag:ops",))),
        ('"tagOwners": {"tag:ops": [], "tag:db": ["tag:ops"]}',),
    ),
    "a client without tags": Case(
        BadRequest("x", 400, DENIED, key_call(tags=())), ("client has no tag at all", OWNERS)
    ),
    "tags unknown to Headscale": Case(
        BadRequest("x", 400, "tag tag:db is not defined in policy", key_call(HEADSCALE)),
        ("tag tag:db is not defined in policy", OWNERS, f"the policy of the control server ({HEADSCALE})"),
        "login.tailscale.com",
    ),
    "tags denied by Headscale": Case(
        Forbidden("x", 403, "token may not assign tag tag:db", key_call(HEADSCALE)), (OWNERS,), "Auth Keys (auth_keys)"
    ),
    "no scope for keys": Case(
        Forbidden("x", 403, WEAK, key_call(scopes=("devices:core",))),
        (WEAK, "needs the scope Auth Keys (auth_keys) with write access", "tag:k8s-operator"),
        "tagOwners",
    ),
    "no scope for devices": Case(
        Forbidden("x", 403, WEAK, Call(TAILSCALE, DEVICE, (), Granted(("auth_keys",)))),
        ("needs the scope Devices Core (devices:core) with write access",),
    ),
    "no scope for services": Case(
        Forbidden("x", 403, WEAK, of_tailnet("/api/v2/tailnet/-/vip-services")),
        (
            "it needs the scope Services (services) with write access; use an OAuth client of the control server with ",
            "write access to Auth Keys, Devices Core and Services, and with tag:k8s-operator",
        ),
    ),
    "no scope for the hosts of a service": Case(
        Forbidden("x", 403, WEAK, Call(TAILSCALE, SERVICE_HOSTS, (), Granted(("auth_keys", "services")))),
        ("needs the scope Devices Core (devices:core) with write access",),
    ),
    "no scope for services, needed for their hosts": Case(
        Forbidden("x", 403, WEAK, Call(TAILSCALE, SERVICE_HOSTS, (), Granted(FULL))),
        ("needs the scope Services (services) with write access",),
    ),
    "tags of a service": Case(
        BadRequest("x", 400, DENIED, Call(TAILSCALE, SERVICE, ("tag:db",), Granted((*FULL, "services")))),
        ("does not let the operator give tag:db to Tailscale Services", OWNERS),
    ),
    "a service with the name of a device": Case(
        NameInUse("x", 400, "name taken", Call(TAILSCALE, SERVICE, ("tag:db",), Granted((*FULL, "services")))),
        ("Tailscale Service web can't be made", "name taken", "until the device is gone", "choose another hostname"),
        "tagOwners",
    ),
    "no services at Headscale": Case(
        NotSupported("x", 404, "404 page not found", Call(HEADSCALE, SERVICE)),
        (HEADSCALE, "has no Tailscale Services", "tailscale.com/proxy-group"),
        "0.30",
        "UnsupportedByControlServer",
    ),
    "another bad request": Case(
        BadRequest("POST /x: HTTP 422: too big", 422, "too big"), ("too big", "within five minutes"), "tagOwners"
    ),
    "no such call": Case(
        NotSupported("x", 404, "404 page not found", Call(HEADSCALE, KEYS)),
        (HEADSCALE, KEYS, "OPERATOR_LOGIN_SERVER", "0.30", "within a day"),
        reason="UnsupportedByControlServer",
    ),
    "wrong client of a Tailnet": Case(
        Unauthorized("x", 401, "invalid_client", of_tailnet(TOKEN)),
        (f"the OAuth client in {LAB}", f"of a valid one into {LAB}"),
        "operator-oauth",
        length=LINES,
    ),
    "a cluster that a Tailnet does not trust": Case(
        Unauthorized("x", 401, "API token invalid", of_tailnet("/api/v2/oauth/token-exchange")),
        (f"client_id of {LAB}", f"audience of {LAB}", "system:serviceaccount"),
        "oauth.",
    ),
    "no workload identity for a Tailnet": Case(
        NotSupported("x", 404, "404 page not found", of_tailnet("/api/v2/oauth/token-exchange")),
        (f"audience in {LAB}", "client_secret of an OAuth client"),
        "CLIENT_ID",
        "UnsupportedByControlServer",
    ),
    "no scope in a Tailnet": Case(
        Forbidden("x", 403, WEAK, of_tailnet(KEYS, scopes=None)),
        (f"the OAuth client in {LAB} may not use {KEYS}",),
        "operator's",
    ),
    "no tag in a Tailnet": Case(
        BadRequest("x", 400, DENIED, of_tailnet(KEYS, tags=())), (f"the OAuth client in {LAB} has no tag at all",)
    ),
    "tags of a Tailnet": Case(
        BadRequest("x", 400, DENIED, of_tailnet(KEYS)), (f"owned by a tag of the OAuth client in {LAB}", OWNERS)
    ),
    "no such call in a Tailnet": Case(
        NotSupported("x", 404, "404 page not found", of_tailnet(KEYS)),
        ("spec.loginUrl of the Tailnet",),
        "OPERATOR_LOGIN_SERVER",
        "UnsupportedByControlServer",
    ),
    "no token for a Tailnet": Case(NoToken("the API server gives no token"), ("gives no token",), "oauth.audience"),
    "away": Case(Unavailable("POST /x: refused"), ("POST /x: refused",), "within five minutes"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_message_for_each_failed_call_to_the_control_server_says_what_to_do(case: Case) -> None:
    told = explain(case.error)
    assert [words for words in case.words if words not in told.message] == []
    assert case.not_said not in told.message
    assert told.reason == case.reason
    assert len(told.message) <= case.length


@pytest.mark.parametrize(
    ("scopes", "lacks"),
    [
        (None, False),
        ((), True),
        (("auth_keys",), False),
        (("auth_keys:read",), True),
        (("all",), False),
        (("devices",), False),
        (("devices:core", "all:read"), True),
    ],
)
def test_a_scope_counts_as_missing_only_if_the_server_lists_the_scopes(
    scopes: tuple[str, ...] | None, lacks: bool
) -> None:
    assert lacking(Granted(scopes), "auth_keys") is lacks


@pytest.mark.parametrize(
    ("field", "value", "words", "not_said"),
    [
        ("policy_tags", {"tag:k8s"}, OWNERS, "auth_keys"),
        ("client_tags", {"tag:k8s"}, OWNERS, "auth_keys"),
        ("scopes", {"devices:core"}, "scope Auth Keys (auth_keys)", "tagOwners"),
    ],
    ids=["unknown tag", "tag of others", "scope"],
)
async def test_the_message_for_a_recorded_refusal_of_a_real_server_names_the_missing_setting(
    field: str, value: set[str], words: str, not_said: str
) -> None:
    setattr(control := Control(), field, value)
    async with control.serve() as url, tailnet_client(control, url) as client:
        with pytest.raises((BadRequest, Forbidden)) as refused:
            await client.create_auth_key(["tag:db"])
    told = explain(refused.value).message
    assert words in told
    assert not_said not in told
    assert control.client_secret not in told
