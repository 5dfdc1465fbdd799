"""Explains refusals to users: what is wrong, and what they can do about it.

The object that a refusal affects reports these words.
"""

from typing import Final

from tsoperator.api.policy import OPERATOR_TAG, UNSUPPORTED, clients_place, is_tailscales, policy_place, tag_owners
from tsoperator.kube.errors import Denied, NameTaken, Rejected
from tsoperator.runtime.plan import Refusal
from tsoperator.tsclient.errors import (
    BadRequest,
    ControlError,
    CredentialsUnreadable,
    Forbidden,
    Granted,
    IdentityUnreadable,
    NameInUse,
    NoToken,
    NotSupported,
    Refused,
    Unauthorized,
)
from tsoperator.tsclient.oauth import TOKEN_EXCHANGE

AUTH_KEYS: Final = "auth_keys"
DEVICES: Final = "devices:core"

SERVICES: Final = "services"

NEEDED: Final = {AUTH_KEYS: "Auth Keys", DEVICES: "Devices Core"}
"""The OAuth scopes that the operator needs with write access, with their names in Tailscale's admin console."""

NAMES: Final = {**NEEDED, SERVICES: "Services"}
"""The names of all scopes that the operator can need. Only Tailscale Services need the last scope here."""

_SCOPES = {"/vip-services": SERVICES, "/services": SERVICES, "/keys": AUTH_KEYS, "/device": DEVICES}
"""The scope that a call needs, by a part of the call's path."""
_BROAD = {"all", "devices"}  # OAuth clients that are older than the split of "devices" still have it
_AGAIN = "It is tried again by itself, within five minutes at the latest, and at once when this object changes"
_CREDENTIALS = "the files of CLIENT_ID_FILE and CLIENT_SECRET_FILE (the chart takes them from Secret operator-oauth)"

_PROJECTED = "a token of the operator's ServiceAccount must be projected there (oauth.audience of the chart does)"


def refusal_of(error: Exception) -> Refusal | None:
    """Return the refusal that *error* stands for, or None.

    Each error of a control server stands for a refusal. Of the API server's errors, only Denied and Rejected do: the
    cause of any other can pass without anybody's help.
    """
    return explain(error) if isinstance(error, ControlError | Denied | Rejected) else None


def explain(error: Exception) -> Refusal:
    """Return the refusal that *error* means for the affected object, with the fault and its cure in words."""
    reason = UNSUPPORTED if isinstance(error, NotSupported) else ""
    return Refusal(_in_words(error), reason, error, is_taken=isinstance(error, NameTaken))


def _in_words(error: Exception) -> str:
    match error:
        case IdentityUnreadable():
            return f"{error}; {_PROJECTED}"
        case NoToken():
            return str(error)
        case CredentialsUnreadable():
            return f"{error}; {_CREDENTIALS} must hold the ID and the secret of an OAuth client"
        case Unauthorized() if error.call.path == TOKEN_EXCHANGE:
            return _untrusted_cluster(error)
        case Unauthorized():
            return _unknown_client(error)
        case NotSupported():
            return _unsupported(error)
        case NameInUse():
            return _name_in_use(error)
        case Forbidden() if error.call.granted.scopes is None:
            return f"{_scope_missing(error)}. {_AGAIN}"
        case Forbidden() | BadRequest() if error.call.tags and not lacking(error.call.granted, _scope_of(error)):
            return f"{_tags_refused(error)}. {_AGAIN}"
        case Forbidden():
            return f"{_scope_missing(error)}. {_AGAIN}"
        case BadRequest():
            return f"{error}. {_AGAIN}"
    return str(error)


def lacking(granted: Granted, scope: str) -> bool:
    """Tell whether the control server says that the OAuth client doesn't have *scope* with write access."""
    return granted.scopes is not None and _BROAD.isdisjoint(granted.scopes) and scope not in granted.scopes


def client_words(url: str, scope: str = "") -> str:
    """Return words that describe the OAuth client that the operator needs at the control server with this *url*.

    If a *scope* is given, the words say that the client needs it.
    """
    *first, last = {**NEEDED, **({scope: NAMES[scope]} if scope in NAMES else {})}.values()
    return (
        f"an OAuth client of {clients_place(url)} with write access to {', '.join(first)} and {last}, and with "
        f"{OPERATOR_TAG}"
    )


def _unknown_client(error: Refused) -> str:
    """Return a message that the control server doesn't know the OAuth client. It fits into two lines of a terminal.

    It leaves out the other settings that the client needs. Another message lists them when the server accepts the
    client.
    """
    server = error.call.server
    who, see = f"the control server {server}", ""
    if is_tailscales(server):
        who, see = "the control server", f" (see {clients_place(server)})"
    secret = error.call.secret or "Secret operator-oauth"
    return (
        f"{who} does not accept {_client(error)} ({_said(error)}): put the ID and secret of a valid one into {secret}"
        f"{see}"
    )


def _client(error: Refused) -> str:
    secret = error.call.secret
    return f"the OAuth client in {secret}" if secret else "the operator's OAuth client"


def _untrusted_cluster(error: Refused) -> str:
    server, secret = error.call.server, error.call.secret
    client_id = f"client_id of {secret}" if secret else "CLIENT_ID (oauth.clientId of the chart)"
    audience = f"audience of {secret}" if secret else "oauth.audience"
    return (
        f"the control server {server} gives the operator's ServiceAccount no access ({_said(error)}): see that "
        f"{client_id} is the ID of a credential of {clients_place(server)} for OpenID "
        "Connect; that its issuer is this cluster's (kubectl get --raw /.well-known/openid-configuration) and can be "
        f"reached from the Internet; that its audience is that of the token ({audience}) and its subject the "
        "operator's ServiceAccount (system:serviceaccount:<namespace>:operator). No restart is needed for what "
        "changes there"
    )


def _no_workload_identity(error: Refused) -> str:
    said = f"the control server {error.call.server} does not have {error.call.path} ({_said(error)})"
    if secret := error.call.secret:
        return (
            f"{said}, so the audience in {secret} can't be used with it: Headscale has no workload identity. Put the "
            "client_secret of an OAuth client there in place of the audience"
        )
    return (
        f"{said}, so CLIENT_ID can't be used with it: Headscale has no workload identity. Unset it (oauth.audience of "
        "the chart), and set CLIENT_ID_FILE and CLIENT_SECRET_FILE"
    )


def _tags_refused(error: Refused) -> str:
    server, tags, owners = error.call.server, error.call.tags, error.call.granted.tags or ()
    wanted = ", ".join(tags)
    if error.call.granted.tags == ():
        remedy = f"{_client(error)} has no tag at all: use {client_words(server)}; and "
    else:
        remedy = f"each of them must be owned by a tag of {_client(error)}: "
    what = "Tailscale Services" if _scope_of(error) == SERVICES else "devices"
    return (
        f"the control server does not let the operator give {wanted} to {what} ({_said(error)}): {remedy}"
        f"{policy_place(server)} needs {tag_owners(tags, owners)}"
    )


def _scope_of(error: Refused) -> str:
    """Return the OAuth scope that the refused call in *error* needs; empty if it needs none that we know.

    If the call needs two scopes, return the one that the client lacks.
    """
    scopes = [scope for part, scope in _SCOPES.items() if part in error.call.path]
    return next((each for each in scopes if lacking(error.call.granted, each)), scopes[0] if scopes else "")


def _scope_missing(error: Refused) -> str:
    server, path = error.call.server, error.call.path
    scope = _scope_of(error)
    return (
        f"{_client(error)} may not use {path} ({_said(error)}): it needs the scope {NAMES.get(scope, scope)} "
        f"({scope}) with write access; use {client_words(server, scope)}"
    )


def _unsupported(error: Refused) -> str:
    if error.call.path == TOKEN_EXCHANGE:
        return _no_workload_identity(error)
    if _scope_of(error) == SERVICES:
        return _no_services(error)
    setting = "spec.loginUrl of the Tailnet" if error.call.secret else "OPERATOR_LOGIN_SERVER"
    return (
        f"the control server {error.call.server} does not have {error.call.path} ({_said(error)}): see that "
        f"{setting} is the URL of Tailscale's server or of Headscale 0.30 or newer. It is looked at again "
        "by itself within a day, and at once when this object changes"
    )


def _no_services(error: Refused) -> str:
    return (
        f"the control server {error.call.server} has no Tailscale Services ({_said(error)}), so no ProxyGroup can "
        "expose an Ingress or a Service there; Headscale has none. Without the annotation tailscale.com/proxy-group, "
        "the object gets a proxy of its own"
    )


def _name_in_use(error: Refused) -> str:
    name = error.call.path.rpartition("/svc:")[2]
    return (
        f"the Tailscale Service {name} can't be made, because a device has its name ({_said(error)}): wait until the "
        "device is gone, some seconds after its proxy, or choose another hostname. It is tried again by itself, within "
        "half a minute"
    )


def _said(error: Refused) -> str:
    return f"HTTP {error.status}: {error.detail}"
