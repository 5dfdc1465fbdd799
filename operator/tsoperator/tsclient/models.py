"""The fields that the operator reads of the control server's JSON."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

_Time = Annotated[datetime | None, BeforeValidator(lambda value: value or None)]
_Words = Annotated[tuple[str, ...], BeforeValidator(lambda value: value or ())]
_Secret = Annotated[SecretStr, Field(min_length=1)]
_Split = Annotated[
    tuple[str, ...] | None, BeforeValidator(lambda value: value.split() if isinstance(value, str) else None)
]


# Other fields are ignored. An ID may be a number, which Headscale's IDs look like.
_CONFIG: Final = ConfigDict(frozen=True, coerce_numbers_to_str=True, hide_input_in_errors=True)


class _Body(BaseModel):
    model_config = _CONFIG


class AuthKey(_Body):
    """A new auth key. No repr and no log shows *key*."""

    id: str
    key: _Secret
    expires: _Time = None


@dataclass(frozen=True, slots=True)
class Device:
    """What the operator reads of a device; *node_id* is the stable ID that its proxy writes to its Secret.

    Headscale gives the short name in *name*, and neither *last_seen* nor *connected*. An *external* device belongs to
    another tailnet, which shares it with this one. This is a dataclass, as tens of thousands of models would take too
    much memory.
    """

    __pydantic_config__ = _CONFIG

    node_id: Annotated[str, Field(validation_alias=AliasChoices("nodeId", "id"))]
    name: str
    hostname: str = ""
    addresses: _Words = ()
    tags: _Words = ()
    authorized: bool = True
    external: Annotated[bool, Field(validation_alias="isExternal")] = False
    last_seen: Annotated[_Time, Field(validation_alias="lastSeen")] = None
    connected: Annotated[bool | None, Field(validation_alias="connectedToControl")] = None

    @property
    def short_name(self) -> str:
        """The first label of its MagicDNS name, which both servers give."""
        return self.name.partition(".")[0]


class DeviceList(_Body):
    """All devices of a tailnet."""

    devices: Annotated[tuple[Device, ...], BeforeValidator(lambda value: value or ())]


class AccessToken(_Body):
    """An OAuth access token (RFC 6749, section 5.1); *expires_in* is in seconds.

    *scopes* and *tags* are those of the OAuth client, None if the server doesn't give them. Headscale gives no tags.
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
        """The server's message in one line, empty if there is none."""
        said = self.message or ": ".join(filter(None, (self.error, self.error_description)))
        reasons = "; ".join(str(reason) for details in self.data for reason in details.errors)
        return ": ".join(filter(None, (said, reasons)))
