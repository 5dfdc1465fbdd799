"""The parts of the control server's JSON that the operator reads."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from tsoperator.api.device import Device, Time
from tsoperator.api.tailscaleservice import ServiceHost, TailscaleService

_Secret = Annotated[SecretStr, Field(min_length=1)]
_Split = Annotated[
    tuple[str, ...] | None, BeforeValidator(lambda value: value.split() if isinstance(value, str) else None)
]

_Words = Annotated[tuple[str, ...], BeforeValidator(lambda value: value or ())]

NOTE: Final = "The Tailscale operator of a Kubernetes cluster manages this Service. Do not change it."
"""The comment of a Tailscale Service that the operator has created. Users can change it: the operator ignores it."""

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


class ServiceBody(_Body):
    """A Tailscale Service. A field that the operator doesn't know is kept, and sent back as it was read."""

    model_config = ConfigDict(extra="allow")

    name: str = ""
    addresses: _Words = Field(default=(), alias="addrs")
    ports: _Words = ()
    tags: _Words = ()
    annotations: dict[str, str] | None = None

    @classmethod
    def of(cls, service: TailscaleService) -> Self:
        """Return *service* in the form in which we send it. A new Service, which has no addresses, gets a comment."""
        others = service.other if service.addresses else {"comment": NOTE, **service.other}
        known = {"name": service.name, "addrs": service.addresses, "ports": service.ports, "tags": service.tags}
        return cls.model_validate({**others, **known, "annotations": dict(service.annotations or {})})

    def to_json(self) -> Mapping[str, Any]:
        """Return the fields as JSON. The result leaves out empty fields that the operator knows."""
        extra = self.model_extra or {}
        fields = self.model_dump(mode="json", by_alias=True)
        return {name: value for name, value in fields.items() if value or name in extra}

    def to_service(self) -> TailscaleService:
        """Return the Service. Its annotations are None if the control server's JSON has no field for them."""
        return TailscaleService(
            self.name, self.addresses, self.ports, self.tags, self.annotations, {**(self.model_extra or {})}
        )


class ServiceList(_Body):
    """All Tailscale Services of a tailnet."""

    services: Annotated[tuple[ServiceBody, ...], BeforeValidator(lambda value: value or ())] = Field(
        validation_alias="vipServices"
    )


class _Host(_Body):
    node_id: str = Field(validation_alias="nodeId")
    approval: str = Field(default="", validation_alias="approvalLevel")


class HostList(_Body):
    """The devices that host a Tailscale Service."""

    hosts: Annotated[tuple[_Host, ...], BeforeValidator(lambda value: value or ())] = ()

    def to_hosts(self) -> list[ServiceHost]:
        """Return these devices as the hosts of the Tailscale Service."""
        return [ServiceHost(each.node_id, each.approval) for each in self.hosts]


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
    """The body of an error: Tailscale's ``message``, Headscale's ``message`` and ``data``, or OAuth's ``error``."""

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
