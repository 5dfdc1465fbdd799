"""The changes in their order: a window of the past to resume a watch from, and subscriptions to what comes."""

import asyncio
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple, Self

from clustersim.errors import expired
from clustersim.objects import Object, Resource


class Change(NamedTuple):
    """One write: *type* is ADDED, MODIFIED or DELETED; *old* is what it replaced."""

    type: str
    resource: Resource
    object: Object
    old: Object | None
    revision: int


class Subscription:
    """The changes of some kinds from now on, as an async iterator; ``with`` ends it."""

    def __init__(self, history: "History", resources: frozenset[Resource]) -> None:
        self._history = history
        self._resources = resources
        self._changes: deque[Change] = deque()
        self._wake = asyncio.Event()
        self._closed = False

    def __enter__(self) -> Self:
        self._history.subscriptions.add(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._history.subscriptions.discard(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        while not self._changes:
            if self._closed:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        return self._changes.popleft()

    async def batch(self) -> list[Change]:
        """Wait for changes and return all that are there; none at the end."""
        async for first in self:
            changes = [first, *self._changes]
            self._changes.clear()
            return changes
        return []

    @property
    def pending(self) -> bool:
        """Tell whether there are changes that nobody has taken yet."""
        return bool(self._changes)

    @property
    def closed(self) -> bool:
        """Tell whether it has been closed."""
        return self._closed

    def close(self) -> None:
        """End the iteration, after what is there already."""
        self._closed = True
        self._wake.set()

    def wants(self, resource: Resource) -> bool:
        """Tell whether changes of *resource* are subscribed to."""
        return not self._resources or resource in self._resources

    def push(self, change: Change) -> None:
        """Append *change* and wake who waits."""
        self._changes.append(change)
        self._wake.set()


class History:
    """The last *window* changes, and who is told about new ones."""

    def __init__(self, window: int) -> None:
        self.subscriptions: set[Subscription] = set()
        self._changes: deque[Change] = deque()
        self._window = window
        self._oldest = 0

    def append(self, change: Change) -> None:
        """Record *change* and tell the subscriptions."""
        if len(self._changes) >= self._window:
            self._oldest = self._changes.popleft().revision
        self._changes.append(change)
        for subscription in self.subscriptions:
            if subscription.wants(change.resource):
                subscription.push(change)

    def since(self, resource: Resource, revision: int) -> list[Change]:
        """Return the changes of *resource* after *revision*; a 410 ApiError if they are forgotten."""
        if revision < self._oldest:
            raise expired(self._oldest, revision)
        recent: list[Change] = []
        for change in reversed(self._changes):
            if change.revision <= revision:
                break
            if change.resource == resource:
                recent.append(change)
        return recent[::-1]

    def undo(self, revision: int) -> Iterator[Change]:
        """Take back the changes after *revision*, the last one first."""
        while self._changes and self._changes[-1].revision > revision:
            yield self._changes.pop()

    def forget(self, revision: int) -> None:
        """Forget everything up to *revision*: watches from before it get a 410."""
        self._changes.clear()
        self._oldest = revision
