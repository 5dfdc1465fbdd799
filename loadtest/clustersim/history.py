"""The latest changes of objects in their order, from which a watch can resume, and subscriptions to new changes."""

import asyncio
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple, Self

from clustersim.errors import expired
from clustersim.objects import Object, Resource


class Change(NamedTuple):
    """One write of an object: *type* is ADDED, MODIFIED or DELETED; *old* is the object before the write."""

    type: str
    resource: Resource
    object: Object
    old: Object | None
    revision: int


class Subscription:
    """The changes of some kinds within a ``with`` block, as an async iterator."""

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
        """Wait for a change, and return all changes so far that weren't returned before.

        Return an empty list if the subscription is closed and all its changes were returned.
        """
        async for first in self:
            changes = [first, *self._changes]
            self._changes.clear()
            return changes
        return []

    @property
    def pending(self) -> bool:
        """True if there are changes that the subscriber hasn't read yet."""
        return bool(self._changes)

    @property
    def closed(self) -> bool:
        """True if the subscription has been closed."""
        return self._closed

    def close(self) -> None:
        """End the iteration once the subscriber has read the changes so far."""
        self._closed = True
        self._wake.set()

    def wants(self, resource: Resource) -> bool:
        """Tell whether the subscription includes changes of *resource*."""
        return not self._resources or resource in self._resources

    def push(self, change: Change) -> None:
        """Append *change* and wake the task that waits for changes."""
        self._changes.append(change)
        self._wake.set()


class History:
    """The newest changes, at most *window* of them, and the subscriptions of those who want each new change."""

    def __init__(self, window: int) -> None:
        self.subscriptions: set[Subscription] = set()
        self._changes: deque[Change] = deque()
        self._window = window
        self._oldest = 0

    def append(self, change: Change) -> None:
        """Record *change*, and pass it to the subscriptions to its kind."""
        if len(self._changes) >= self._window:
            self._oldest = self._changes.popleft().revision
        self._changes.append(change)
        for subscription in self.subscriptions:
            if subscription.wants(change.resource):
                subscription.push(change)

    def since(self, resource: Resource, revision: int) -> list[Change]:
        """Return the changes of *resource* after *revision*; raises ApiError 410 if not all of them are remembered."""
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
        """Remove the changes after *revision* and yield them, the newest first."""
        while self._changes and self._changes[-1].revision > revision:
            yield self._changes.pop()

    def forget(self, revision: int) -> None:
        """Forget all changes, so that a watch from a version before *revision* gets a 410."""
        self._changes.clear()
        self._oldest = revision
