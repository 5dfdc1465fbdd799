"""One replica of a proxy: where its configuration and its state are, and what its device should be."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tsoperator.api.objects import Key, Object

REPLICAS_MAX: Final = 100
"""How many replicas a proxy can have. Each Pod of a ProxyGroup mounts the configs of all, and a plan for many more
would hold up all other objects."""


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica: a Pod with a device of its own, named like its *state_secret*.

    The operator writes *config_secret*, the proxy *state_secret*; a standalone proxy has one Secret for both.
    *hostname* and *tags* are those that the device should have, *tailnet* is the name of the Tailnet that it joins.
    """

    ordinal: int
    config_secret: Key
    state_secret: Key
    hostname: str
    tags: Sequence[str]
    tailnet: str = ""


@dataclass(frozen=True, slots=True)
class ReplicaSecrets:
    """The Secrets of one replica as the cache holds them; None for one that isn't there."""

    config: Object | None = None
    state: Object | None = None


def replicas_error(count: int) -> str:
    """Say what is wrong with a spec that wants *count* replicas, and how to fix it; empty if nothing is."""
    return f"spec.replicas must be at most {REPLICAS_MAX}, not {count}: lower it" if count > REPLICAS_MAX else ""
