"""The node ID of the operator's own device, which names the operator as an owner of Tailscale Services.

The device's tailscaled stores the ID in its login profile, in the Secret that OPERATOR_SECRET names. The Go operator is
a device itself. Our operator isn't: a Pod with the proxy image registers a device for it.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic_core import from_json

from tsoperator.api.names import SECRET_CURRENT_PROFILE
from tsoperator.api.objects import Object


@dataclass(frozen=True, slots=True)
class OperatorIdentity:
    """The identity of the operator in the tailnet.

    *node_id* is empty if the operator has no device yet, or if its ID can't be read. *is_known* is False until the
    Secret has been read once. *problem* says why there is no ID, and what the user can do about it; it is empty if
    there is no problem.
    """

    node_id: str = ""
    is_known: bool = False
    problem: str = ""


class UnreadableProfile(ValueError):
    """An error: the login profile in a Secret isn't that of a tailscaled. The message says what is wrong with it."""


def node_id_in(secret: Object) -> str:
    """Return the node ID of the device whose tailscaled keeps its state in the whole *secret*; empty before its login.

    Raises UnreadableProfile.
    """
    data: Mapping[str, str] = secret.get("data") or {}
    name = _text(data, SECRET_CURRENT_PROFILE)
    text = _text(data, name)
    if not text:
        return ""
    try:
        profile = from_json(text)
    except ValueError as error:
        raise UnreadableProfile(f"its key {name} isn't JSON") from error
    config = profile.get("Config") if isinstance(profile, dict) else profile
    if config is None:
        return ""
    node_id = config.get("NodeID", "") if isinstance(config, dict) else None
    if not isinstance(node_id, str):
        raise UnreadableProfile(f"its key {name} isn't a login profile of tailscaled")
    return node_id


def _text(data: Mapping[str, str], name: str) -> str:
    """Return the value under the key *name* in *data*; empty if there is none. Raises UnreadableProfile."""
    try:
        return base64.b64decode(data.get(name) or "").decode()
    except ValueError as error:
        raise UnreadableProfile(f"its key {name} isn't text") from error
