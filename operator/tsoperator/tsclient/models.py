"""The fields that the operator reads of the control server's JSON."""

from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from tsoperator.api.device import Device, Time

_Secret = Annotated[SecretStr, Field(min_length=1)]
_Split = Annotated[
    tuple[str, ...] | None, BeforeValidator(lambda value: value.split() if isinstance(value, str) else None)
]


# Other fields are ignored. An ID may be written as a number: Headscale's IDs look like numbers.
_CONFIG: Final = ConfigDict(frozen=True, coerce_numbers_to_str=True, hide_input_in_errors=True)


class _Body(BaseModel):
    model_config = _CONFIG


class AuthKey(_Body):
    """A new auth key. No repr and no log shows *key*."""

    id: str
    key: _Secret
    expires: Time = None


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


class ErrorBody(BaseModel):
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
