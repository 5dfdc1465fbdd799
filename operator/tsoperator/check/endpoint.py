"""A host and a port, as a user gives them."""

import contextlib
from argparse import ArgumentTypeError
from typing import NamedTuple
from urllib.parse import urlsplit


class Endpoint(NamedTuple):
    """A host, by name or address, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def endpoint(text: str) -> Endpoint:
    """Parse ``HOST:PORT`` or ``[ADDRESS]:PORT``. Raises ArgumentTypeError, whose message argparse shows."""
    with contextlib.suppress(ValueError):
        parts = urlsplit(f"//{text}")
        if parts.hostname and parts.port:
            return Endpoint(parts.hostname, parts.port)
    raise ArgumentTypeError(f"{text!r} is not HOST:PORT, such as operator:9002 or [2001:db8::1]:53")
