"""A device of a tailnet, with the fields that the operator reads from the control server's JSON."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address
from typing import Annotated

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field

Time = Annotated[datetime | None, BeforeValidator(lambda value: value or None)]
"""The type of a time in the control server's JSON, which has an empty string if there is no time."""

_Words = Annotated[tuple[str, ...], BeforeValidator(lambda value: value or ())]


@dataclass(frozen=True, slots=True)
class Device:
    """A device. *node_id* is its stable ID. If the device is that of a proxy, the proxy writes this ID to its Secret.

    If the control server is Headscale, *name* is the short name, and *last_seen* and *connected* are None. A tailnet's
    list of devices also has the devices that other tailnets share with this tailnet: they are *external*. This class is
    a dataclass, because tens of thousands of models would take too much memory.
    """

    # Headscale's IDs look like numbers, so JSON can have them as numbers.
    __pydantic_config__ = ConfigDict(coerce_numbers_to_str=True)

    node_id: Annotated[str, Field(validation_alias=AliasChoices("nodeId", "id"))]
    name: str
    hostname: str = ""
    addresses: _Words = ()
    tags: _Words = ()
    authorized: bool = True
    external: Annotated[bool, Field(validation_alias="isExternal")] = False
    last_seen: Annotated[Time, Field(validation_alias="lastSeen")] = None
    connected: Annotated[bool | None, Field(validation_alias="connectedToControl")] = None

    @property
    def short_name(self) -> str:
        """The first label of the device's MagicDNS name. Tailscale and Headscale both give this label."""
        return self.name.partition(".")[0]


def lookup_name(text: str) -> str:
    """Return *text*, a MagicDNS name or an address, in the form by which devices are looked up.

    The form is in lower case, without a dot at the end.
    """
    if ":" in text or text[-1:].isdigit():  # only such a text can be an address, and parsing each name is slow
        with suppress(ValueError):
            return str(ip_address(text))
    return text.lower().removesuffix(".")


def domain_of(name: str) -> str:
    """Return the domain of the MagicDNS name *name*, in lower case; empty if *name* is a short name."""
    return lookup_name(name).partition(".")[2]


def lookup_names(device: Device) -> frozenset[str]:
    """Return all names by which *device* is looked up.

    These are its MagicDNS name, its addresses and, unless the device is external, the first label of its name.
    """
    label = () if device.external else (device.short_name.lower(),)
    return frozenset({lookup_name(device.name), *map(lookup_name, device.addresses), *label})
