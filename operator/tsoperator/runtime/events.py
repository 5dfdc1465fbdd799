"""Writes Events on objects. An Event that repeats an earlier one is written again only after a while."""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, NamedTuple, Protocol

from tsoperator.api.names import COMPONENT
from tsoperator.api.objects import EVENT, Key, Object, Resource
from tsoperator.kube.errors import AlreadyExists, KubeError, NotFound
from tsoperator.runtime.clock import loop_time, utc_now

log = logging.getLogger(__name__)

EventType = Literal["Normal", "Warning"]

CALL_TIMEOUT = 10.0
"""Seconds after which the write of an event is given up."""

MESSAGE_LIMIT = 1024
"""The number of characters that every version of the API accepts in a message."""


class EventClient(Protocol):
    """The part of the API server's client that an EventRecorder needs.

    The errors are those of `tsoperator.kube.errors`.
    """

    async def get(self, resource: Resource, key: Key) -> Object:
        """Return the object named *key*."""
        ...

    async def create(self, resource: Resource, obj: Object) -> Object:
        """Create *obj* and return it as stored."""
        ...

    async def patch(self, resource: Resource, key: Key, patch: Object) -> Object:
        """Merge *patch* into the object named *key* and return it as stored."""
        ...


@dataclass(frozen=True, slots=True)
class Quiet:
    """The pause before an event that repeats an earlier one is written again: *first* seconds, doubled up to *longest*.

    *longest* is well below the hour for which the API server keeps an event after its last write. So an event whose
    cause lasts stays visible. *memory* is how many events are remembered; those seen longest ago are forgotten first.
    """

    first: float = 600.0
    longest: float = 1800.0
    memory: int = 4096


@dataclass(slots=True)
class _Seen:
    """An event that was written.

    *count* is how often it was reported, *quiet* is the present pause in seconds, and *until* is the end of the pause.
    """

    count: int
    quiet: float
    until: float


class _Identity(NamedTuple):
    """The fields that identify an event: two events with the same fields count as the same event."""

    uid: str
    type: str
    reason: str
    message: str


class EventRecorder:
    """Writes core/v1 Events on objects.

    An event that repeats an earlier one (same object, type, reason and message) is only counted in memory. After
    the pause that `Quiet` sets, the next repetition updates the count and the time of the written event. The name
    of an event is made from its content, so a repetition also finds the event that an earlier process or another
    replica wrote.
    """

    def __init__(
        self,
        client: EventClient,
        component: str = COMPONENT,
        instance: str = "",
        quiet: Quiet | None = None,
        clock: Callable[[], float] = loop_time,
        wall: Callable[[], datetime] = utc_now,
    ) -> None:
        self._client = client
        self._component = component
        self._instance = instance
        self._quiet = quiet or Quiet()
        self._clock = clock
        self._wall = wall
        self._seen: OrderedDict[_Identity, _Seen] = OrderedDict()
        self._failing = False

    async def event(self, obj: Object, event_type: EventType, reason: str, message: str, *, once: bool = False) -> None:
        """Write an event on *obj*, in the namespace of *obj*. A failure to write it is only logged.

        *obj* carries its ``apiVersion`` and ``kind``; *reason* is one CamelCase word. An event that is to be
        written *once* is never updated, so the API server deletes it after an hour.
        """
        message = message if len(message) <= MESSAGE_LIMIT else f"{message[: MESSAGE_LIMIT - 1]}…"
        identity = _Identity(obj["metadata"].get("uid", ""), event_type, reason, message)
        seen = self._note(identity)
        if seen is None or (once and seen.count > 1):
            return
        try:
            async with asyncio.timeout(CALL_TIMEOUT):
                await self._write(obj, identity, seen, once=once)
        except (KubeError, TimeoutError) as error:
            self._seen.pop(identity, None)  # it was not written, so the next one counts as the first
            self._log_failure(obj, reason, error)
        else:
            self._failing = False

    def _note(self, identity: _Identity) -> _Seen | None:
        """Count an event with this *identity*. Return it if it has to be written now, otherwise None."""
        now = self._clock()
        seen = self._seen.get(identity)
        if seen is None:
            seen = self._seen[identity] = _Seen(1, self._quiet.first, now + self._quiet.first)
            if len(self._seen) > self._quiet.memory:
                self._seen.popitem(last=False)
            return seen
        self._seen.move_to_end(identity)
        seen.count += 1
        if now < seen.until:
            return None
        seen.quiet = min(seen.quiet * 2, self._quiet.longest)
        seen.until = now + seen.quiet
        return seen

    async def _write(self, obj: Object, identity: _Identity, seen: _Seen, *, once: bool) -> None:
        """Create the event with this *identity*, or update it if it exists.

        If an earlier process wrote the event, the count in *seen* goes on from the count in the API server.
        """
        event = self._event(obj, identity, seen.count)
        key = Key(event["metadata"]["namespace"], event["metadata"]["name"])
        if seen.count > 1:
            try:
                await self._update(key, seen.count)
            except NotFound:  # the API server keeps events for an hour
                await self._client.create(EVENT, event)
            return
        try:
            await self._client.create(EVENT, event)
        except AlreadyExists:  # written by an earlier process
            if once:
                return
            seen.count += (await self._client.get(EVENT, key)).get("count") or 0
            await self._update(key, seen.count)

    async def _update(self, key: Key, count: int) -> None:
        await self._client.patch(EVENT, key, {"count": count, "lastTimestamp": _rfc3339(self._wall())})

    def _event(self, obj: Object, identity: _Identity, count: int) -> Object:
        """Return the Event on *obj* with this *identity*.

        It is in the object's namespace, or in ``default`` if the object has none.
        """
        metadata = obj["metadata"]
        now = _rfc3339(self._wall())
        involved = {
            "apiVersion": obj.get("apiVersion", ""),
            "kind": obj.get("kind", ""),
            "namespace": metadata.get("namespace", ""),
            "name": metadata["name"],
            "uid": identity.uid,
            "resourceVersion": metadata.get("resourceVersion", ""),
        }
        return {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {
                "namespace": metadata.get("namespace") or "default",
                "name": _event_name(metadata["name"], identity),
            },
            "involvedObject": {field: value for field, value in involved.items() if value},
            "type": identity.type,
            "reason": identity.reason,
            "message": identity.message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
            "count": count,
            "firstTimestamp": now,
            "lastTimestamp": now,
        }

    def _log_failure(self, obj: Object, reason: str, error: Exception) -> None:
        """Log that an event could not be written.

        The first failure is a warning. Further failures are logged at DEBUG, until an event can be written
        again.
        """
        level = logging.DEBUG if self._failing else logging.WARNING
        self._failing = True
        log.log(level, "event %s on %s not written: %r", reason, obj["metadata"]["name"], error)


def _event_name(name: str, identity: _Identity) -> str:
    """Return the name of the Event: the object's *name*, as far as it fits, and a digest of the Event's content."""
    digest = hashlib.sha256("\0".join(identity).encode()).hexdigest()[:16]
    return f"{name[:236].rstrip('.-')}.{digest}"


def _rfc3339(moment: datetime) -> str:
    """Return *moment* as a Kubernetes Time."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
