"""The feeds of signals that have at most one object."""

from typing import Final

from tsoperator.api.objects import Object, Signal
from tsoperator.runtime.cache import Listener

START: Final = Signal("Start")
"""The signal that a reconciler watches if it has a key for which the cluster perhaps has no object."""


class StartFeed:
    """The feed of the signal `START`: it shows one object, which never changes.

    So a reconciler that watches `START` gets a key from it only when this process begins to lead, and at each resync.
    """

    def listen(self, signal: Signal, listener: Listener) -> None:
        """Do nothing, because the object never changes."""

    def all(self, signal: Signal) -> list[Object]:
        """Return the one object if *signal* is `START`, otherwise none."""
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
        """Announce a change of the object called *name*. With an empty *name*, no object in particular has changed."""
        for listener in self._listeners:
            listener(None, {"kind": self._signal.kind, "metadata": {"name": name}})
