"""One replica of a proxy: where its configuration and its state are, and what its device should be."""

from collections.abc import Sequence
from dataclasses import dataclass

from tsoperator.api.objects import Key, Object


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
