"""Watches, which send the changes of one kind as JSON lines, until the client, a time-out or a fault ends them."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from aiohttp import web

from clustersim.encoding import Encoder, encode, event
from clustersim.errors import ApiError
from clustersim.faults import Faults
from clustersim.history import Change, Subscription
from clustersim.kinds import Target
from clustersim.objects import Object, namespace_of
from clustersim.selection import Selector
from clustersim.store import Store


@dataclass(frozen=True, slots=True)
class Watch:
    """A client's watch; *timeout* and *bookmark_interval* are in seconds. An interval of 0 means no bookmarks."""

    target: Target
    selector: Selector
    revision: int
    timeout: float
    bookmark_interval: float
    encoder: Encoder

    def sees(self, obj: Object | None) -> bool:
        """Tell whether *obj* is among the objects that the client watches."""
        if obj is None or (self.target.namespace and namespace_of(obj) != self.target.namespace):
            return False
        return self.selector.matches(obj)


async def stream(request: web.Request, watch: Watch, store: Store, faults: Faults) -> web.StreamResponse:
    """Answer *request* with the events of *watch*, unless *faults* silence the watch or end it."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    with store.subscribe(watch.target.resource) as changes:
        faults.watches.add(changes)
        try:
            first = _catch_up(watch, store)
            await response.prepare(request)
            await response.write(b"".join(first))
            await _follow(response, watch, store, changes, faults)
        except ApiError as error:
            await response.prepare(request)
            await response.write(event("ERROR", encode(error.to_status())))
        finally:
            faults.watches.discard(changes)
            faults.silent.discard(changes)
    return response


def _catch_up(watch: Watch, store: Store) -> list[bytes]:
    """Return the events that a new watch sends first: for the changes since the client's version, or for all objects.

    A client that names no version gets all objects.
    """
    resource = watch.target.resource
    if not watch.revision:
        objects = store.list(resource, watch.target.namespace)
        return [event("ADDED", watch.encoder(obj)) for obj in objects if watch.selector.matches(obj)]
    return _lines(watch, store.changes_since(resource, watch.revision))


async def _follow(
    response: web.StreamResponse, watch: Watch, store: Store, changes: Subscription, faults: Faults
) -> None:
    now = asyncio.get_running_loop().time
    deadline = now() + watch.timeout
    while not changes.closed and now() < deadline:
        pause = watch.bookmark_interval or watch.timeout
        try:
            async with asyncio.timeout_at(min(deadline, now() + pause)):
                lines = _lines(watch, await changes.batch())
        except TimeoutError:
            due = watch.bookmark_interval and store.revision >= watch.revision
            bookmark = watch.encoder.bookmark(watch.target.resource, store.revision)
            lines = [event("BOOKMARK", bookmark)] if due else []
            if changes.pending:  # a bookmark promises that the client has got all changes up to its version
                continue
        if lines and changes not in faults.silent:
            await response.write(b"".join(lines))


def _lines(watch: Watch, changes: Iterable[Change]) -> list[bytes]:
    """Return the events for those of *changes* that are newer than the client's version.

    As in Kubernetes, a client whose version is ahead of the server's gets no events until the server has caught up.
    """
    return [line for change in changes if change.revision > watch.revision and (line := _line(watch, change))]


def _line(watch: Watch, change: Change) -> bytes:
    """Return the event for *change*. If the client's selector no longer matches the object, the event is DELETED."""
    before = watch.sees(change.old)
    if change.type != "DELETED" and watch.sees(change.object):
        return event("MODIFIED" if before else "ADDED", watch.encoder(change.object))
    if not before or change.old is None:
        return b""
    if change.type == "DELETED":
        return event("DELETED", watch.encoder(change.object))
    last = {**change.old, "metadata": {**change.old["metadata"], "resourceVersion": str(change.revision)}}
    return event("DELETED", watch.encoder.render(last))
