"""A Tailscale Service: one name and two addresses in a tailnet, which several devices can serve."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

PREFIX: Final = "svc:"
"""The beginning of the name of each Tailscale Service. The first label of its MagicDNS name follows."""

ANY_PORT: Final = ("do-not-validate",)
"""The *ports* of a Tailscale Service whose hosts can serve any port, because the control server compares no ports."""

NOT_APPROVED: Final = "not-approved"


@dataclass(frozen=True, slots=True)
class TailscaleService:
    """A Tailscale Service called *name*, which begins with ``svc:``.

    The control server chooses its two *addresses*. *ports* are texts such as ``tcp:443``, or `ANY_PORT`. The order of
    *ports* and *tags* doesn't matter. *annotations* is None if they aren't known, because the list of all Services
    doesn't have them. *other* are the remaining fields of the control server's JSON, which a write must keep.
    """

    name: str
    addresses: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    annotations: Mapping[str, str] | None = None
    other: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The first label of the MagicDNS name of this Tailscale Service, in lower case."""
        return self.name.removeprefix(PREFIX).lower()

    def address(self, version: int) -> str:
        """Return this Tailscale Service's address in the IP *version*, 4 or 6; empty if there is no such address."""
        return next((each for each in self.addresses if (":" in each) is (version == 6)), "")


@dataclass(frozen=True, slots=True)
class ServiceHost:
    """A host of a Tailscale Service: the ID of the device, and the control server's *approval* of the device."""

    node_id: str
    approval: str

    @property
    def is_approved(self) -> bool:
        """True if the control server lets the device host the Service."""
        return self.approval != NOT_APPROVED


def service_name(label: str) -> str:
    """Return the name of the Tailscale Service whose MagicDNS name begins with *label*."""
    return f"{PREFIX}{label}"
