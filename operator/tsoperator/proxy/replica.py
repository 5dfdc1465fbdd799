"""One replica of a proxy: where its configuration and its state are stored, and what its device should be."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tsoperator.api.objects import Key, Object
from tsoperator.api.rules import DNS_LABEL_MAX

REPLICAS_MAX: Final = 100
"""The largest number of replicas that a proxy can have.

Each Pod of a ProxyGroup mounts the configs of all replicas, so the time to plan a proxy grows with their number. With
many more replicas, all other objects would have to wait for the plan of one proxy.
"""


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica of a proxy: one Pod, which has the same name as *state_secret*, with a device of its own.

    The operator writes *config_secret*, and the proxy writes *state_secret*; a standalone proxy has one Secret for
    both. *hostname* and *tags* are those that the device should have.
    """

    ordinal: int
    config_secret: Key
    state_secret: Key
    hostname: str
    tags: Sequence[str]


@dataclass(frozen=True, slots=True)
class ReplicaSecrets:
    """The Secrets of one replica as the cache holds them. A Secret that doesn't exist is None."""

    config: Object | None = None
    state: Object | None = None


def replicas_error(count: int) -> str:
    """Return what is wrong with *count* as a number of replicas in a spec, and how to fix it; empty if it is valid."""
    return f"spec.replicas must be at most {REPLICAS_MAX}, not {count}: lower it" if count > REPLICAS_MAX else ""


def hostnames_error(prefix: str, count: int) -> str:
    """Return a message if the longest of *count* hostnames that begin with *prefix* is too long; else an empty text.

    tailscaled cuts off the end of such a hostname, so all replicas would ask for the same name.
    """
    longest = f"{prefix}-{min(max(count, 1), REPLICAS_MAX) - 1}"
    if len(longest) <= DNS_LABEL_MAX:
        return ""
    return (
        f"its last hostname {longest} must have at most {DNS_LABEL_MAX} characters, not {len(longest)}: shorten "
        "spec.hostnamePrefix"
    )
