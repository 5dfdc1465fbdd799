"""The feeds of signals that have at most one object."""

from typing import Final

from tsoperator.api.objects import Object, Signal
from tsoperator.runtime.cache import Listener

START: Final = Signal("Start")
"""The signal to watch for a reconciler whose key has to be enqueued while the cluster has no object for it."""


class StartFeed:
    """Holds one object of `START`, which never changes: its key is enqueued at the start and at each resync."""

    def listen(self, signal: Signal, listener: Listener) -> None:
        """Do nothing, because the object never changes."""

    def all(self, signal: Signal) -> list[Object]:
        """Return the object, if *signal* is `START`."""
        return [{"kind": START.kind, "metadata": {"name": "start"}}] if signal == START else []


class Announcer:
    """Announces changes of *signal*. It has no objects, because a resync enqueues all keys anyway."""

    def __init__(self, signal: Signal) -> None:
        self._signal = signal
        self._listeners: list[Listener] = []

    def listen(self, signal: Signal, listener: Listener) -> None:
        """Call *listener* at every change from now on, if *signal* is the one announced here; ignore any other."""
        if signal == self._signal:
            self._listeners.append(listener)

    def all(self, signal: Signal) -> list[Object]:
        """Return an empty list."""
        del signal
        return []

    def announce(self, name: str = "") -> None:
        """Announce a change that concerns the object called *name*, or no object in particular."""
        for listener in self._listeners:
            listener(None, {"kind": self._signal.kind, "metadata": {"name": name}})
