"""The feed by which a key is enqueued at the start and at each resync, although no object concerns it."""

from typing import Final

from tsoperator.api.objects import Object, Signal
from tsoperator.runtime.cache import Listener

START: Final = Signal("Start")
"""The signal to watch for a reconciler whose key has to be enqueued while the cluster has no object for it."""


class StartFeed:
    """Holds one object of `START`, which never changes."""

    def listen(self, signal: Signal, listener: Listener) -> None:
        """Do nothing, because the object never changes."""

    def all(self, signal: Signal) -> list[Object]:
        """Return the object, if *signal* is `START`."""
        return [{"kind": START.kind, "metadata": {"name": "start"}}] if signal == START else []
