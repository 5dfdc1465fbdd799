"""Reads the credentials and the control server's URL of a Tailnet, or says what is wrong with them."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import SecretStr

from tsoperator.api.names import DEFAULT_CONTROL_URL
from tsoperator.api.objects import Key, Object
from tsoperator.api.rules import control_url_error
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.api.v1alpha1.tailnet import Tailnet
from tsoperator.runtime.plan import Refusal

INVALID: Final = "TailnetInvalid"
INVALID_SECRET: Final = "InvalidSecret"  # noqa: S105 - a reason

SOON: Final = 30.0
"""The seconds after which the operator tries bad credentials again."""


@dataclass(frozen=True, slots=True)
class Given:
    """The credentials in a Secret: a client ID, with the client's secret or an *audience* for workload identity."""

    client_id: str
    client_secret: SecretStr = field(default=SecretStr(""))
    audience: str = ""


def secret_name(obj: Object) -> str:
    """Return the name of the Secret that the Tailnet *obj* names. The Tailnet can be invalid."""
    spec = _mapping(obj.get("spec"))
    name = _mapping(spec.get("credentials")).get("secretName")
    return name if isinstance(name, str) else ""


def login_url(tailnet: Tailnet) -> str:
    """Return the URL of the control server of *tailnet*."""
    return (tailnet.spec.login_url or DEFAULT_CONTROL_URL).removesuffix("/")


def violation(tailnet: Tailnet | Invalid) -> Refusal | None:
    """Return a refusal that says what is wrong with the fields of the Tailnet *tailnet*; None if it is valid."""
    if isinstance(tailnet, Invalid):
        return Refusal(f"this Tailnet is invalid: {tailnet.message}", INVALID)
    if error := control_url_error(tailnet.spec.login_url or DEFAULT_CONTROL_URL):
        return Refusal(f"this Tailnet is invalid: spec.loginUrl {error}", INVALID)
    return None


def credentials(key: Key, secret: Object | None) -> Given | Refusal:
    """Return the credentials in *secret*, whose key is *key*, or a refusal that says what is wrong with the Secret."""
    name = f'Secret "{key.name}"'
    fields = "client_id, and client_secret or audience"
    if secret is None:
        where = f'does not exist in namespace "{key.namespace}"'
        return Refusal(f'referenced secret "{key.name}" {where}: create it with {fields}', INVALID_SECRET)
    data = _mapping(secret.get("data"))
    if not data:
        return _unfit(f"{name} is empty: put {fields} into it")
    given = {field: _text(data.get(field)) for field in ("client_id", "client_secret", "audience")}
    if not given["client_id"]:
        words = "is missing the client_id field: it is the ID of an OAuth client of that tailnet"
        return _unfit(f"{name} {words}")
    if given["audience"]:
        return Given(given["client_id"], audience=given["audience"])
    if given["client_secret"]:
        return Given(given["client_id"], SecretStr(given["client_secret"]))
    words = "must contain either a client_secret or an audience field: the secret of the OAuth client, or the audience"
    return _unfit(f"{name} {words} of workload identity")


def _unfit(message: str) -> Refusal:
    return Refusal(message, INVALID_SECRET, requeue_after=SOON)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(encoded: object) -> str:
    """Return the text of a field of a Secret without white space around it; empty if the Secret has no such field."""
    try:
        return base64.b64decode(str(encoded or "")).decode().strip()
    except (binascii.Error, UnicodeDecodeError):
        return ""
