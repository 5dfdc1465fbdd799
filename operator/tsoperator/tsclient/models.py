"""What the control server says, in JSON, as far as the operator reads it."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

_Time = Annotated[datetime | None, BeforeValidator(lambda value: value or None)]
_Words = Annotated[tuple[str, ...], BeforeValidator(lambda value: value or ())]
_Secret = Annotated[SecretStr, Field(min_length=1)]
_Split = Annotated[
    tuple[str, ...] | None, BeforeValidator(lambda value: value.split() if isinstance(value, str) else None)
]


class _Body(BaseModel):
    """A body whose other fields are ignored; an ID may be a number, which Headscale's IDs look like."""

    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True, hide_input_in_errors=True)


class AuthKey(_Body):
    """A new auth key; *key* is never shown in a repr or a log."""

    id: str
    key: _Secret
    expires: _Time = None


class Device(_Body):
    """A device; *node_id* is the stable ID that its proxy writes to its Secret.

    Headscale gives the short name in *name*, and neither *last_seen* nor *connected*. An *external* one is another
    tailnet's, shared with this one.
    """

    id: str
    node_id: str = Field(validation_alias=AliasChoices("nodeId", "id"))
    name: str
    hostname: str = ""
    addresses: _Words = ()
    tags: _Words = ()
    authorized: bool = True
    external: bool = Field(default=False, validation_alias="isExternal")
    key_expiry_disabled: bool = Field(default=False, validation_alias="keyExpiryDisabled")
    created: _Time = None
    last_seen: _Time = Field(default=None, validation_alias="lastSeen")
    connected: bool | None = Field(default=None, validation_alias="connectedToControl")

    @property
    def short_name(self) -> str:
        """The first label of its MagicDNS name, which both servers know."""
        return self.name.partition(".")[0]


class DeviceList(_Body):
    """All devices of a tailnet."""

    devices: Annotated[tuple[Device, ...], BeforeValidator(lambda value: value or ())]


class AccessToken(_Body):
    """An OAuth access token (RFC 6749, section 5.1); *expires_in* is in seconds.

    *scopes* and *tags* are the OAuth client's, None where the server doesn't tell: Headscale tells no tags.
    """

    access_token: _Secret
    expires_in: float = Field(default=3600, gt=0)
    scopes: _Split = Field(default=None, validation_alias="scope")
    tags: _Split = None


class _Details(BaseModel):
    errors: list[Any] = []


def _details(value: Any) -> Any:
    return value if isinstance(value, list) and all(isinstance(item, dict) for item in value) else []


class Problem(BaseModel):
    """An error body: Tailscale's ``message``, Headscale's ``message`` and ``data``, OAuth's ``error``."""

    message: str = ""
    error: str = ""
    error_description: str = ""
    data: Annotated[list[_Details], BeforeValidator(_details)] = []

    @property
    def words(self) -> str:
        """What the server says, in one line, empty if it says nothing."""
        said = self.message or ": ".join(filter(None, (self.error, self.error_description)))
        reasons = "; ".join(str(reason) for details in self.data for reason in details.errors)
        return ": ".join(filter(None, (said, reasons)))
