"""Leader election by Lease: a leader that cannot renew has stopped before another starts.

All timing uses the process's own monotonic clock. The times in the Lease are for people: nothing compares them with a
clock of ours. The holder counts from the moment before it sent its last successful renewal. An observer counts from the
moment after it saw the record change, which is later by the time that the network took. So, counted from one renewal:

    0               renew_deadline           last resort             gone                  duration
    |--- working ---|--- stopping the work ---|--- process has ended ---|--- if the holder's --|--- another may lead
                                                                         Pod is gone, another
                                                                         may lead

Another may lead earlier if the holder's Pod proves that the holder has ended: see `tsoperator.runtime.holder`. The
record has the format of client-go, so this elector and client-go's can take over from each other.
"""

import asyncio
import logging
import math
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol

from tsoperator.api.objects import LEASE, POD, Key, Object, Resource, annotations
from tsoperator.kube.errors import Conflict, KubeError, NotFound, Unreachable
from tsoperator.runtime import holder
from tsoperator.runtime.clock import loop_time, utc_now
from tsoperator.runtime.holder import LeaderPlace, Process

log = logging.getLogger(__name__)

_LATE: Final = 1.0
"""Seconds between two looks at the Lease while a renewal is late."""
_ROUNDING: Final = 0.01  # s to add to a wait until a moment, so that the next look comes after that moment
_LONGEST_PAUSE: Final = 60.0  # s between two tries to find out where we run


class LeadershipLost(Exception):
    """An error: the Lease could not be renewed in time, or somebody else holds it. The work has stopped."""


class LeaseClient(Protocol):
    """The part of the API server's client that an elector needs; it raises the errors of `tsoperator.kube.errors`."""

    async def get(self, resource: Resource, key: Key) -> Object:
        """Return the object named *key*."""
        ...

    async def create(self, resource: Resource, obj: Object) -> Object:
        """Create *obj* and return it as stored."""
        ...

    async def replace(self, resource: Resource, obj: Object) -> Object:
        """Replace the object if it still has the resourceVersion of *obj*, and return it as stored."""
        ...


@dataclass(frozen=True, slots=True)
class Timing:
    """The times of a leader election, in seconds: ``retry_period < renew_deadline < gone <= duration``.

    If our Pod is gone, another process is allowed to lead when the Lease has not changed for *gone* seconds. The API
    server can accept the token of a deleted Pod for another 10 s (its ``TokenSuccessCacheTTL``), so *gone* has to be at
    least 10.
    """

    duration: float = 15.0
    renew_deadline: float = 9.0
    retry_period: float = 2.0
    gone: int = 10

    def __post_init__(self) -> None:
        if not 0 < self.retry_period < self.renew_deadline < self.gone <= self.duration:
            raise ValueError(f"a lease needs 0 < retry_period < renew_deadline < gone <= duration, not {self}")

    @property
    def call(self) -> float:
        """The seconds that a read and a write of the Lease can take together before they are given up.

        If one try hangs, a second one fits in before the renew deadline.
        """
        return (self.renew_deadline - self.retry_period) / 2

    @property
    def last_resort(self) -> float:
        """The seconds after a renewal at which a process ends itself if its work hasn't stopped.

        They are halfway from `renew_deadline` to `gone`.
        """
        return (self.renew_deadline + self.gone) / 2


def end_process() -> None:
    """End the process at once, because the work did not stop and another process is soon allowed to lead."""
    os._exit(1)


@dataclass(slots=True)
class _Silence:
    """The spec of the Lease as another process left it.

    *since* is the time from which we have seen this spec, and *gone_since* the time from which that process's Pod
    has been gone.
    """

    record: Object
    since: float
    gone_since: float = math.inf


class LeaderElector:
    """Leads while this process holds the Lease named *key*.

    *process* is this process. If it runs in a Pod, the Pod is in the namespace of the Lease. The elector calls *abort*
    if the work has not stopped although another process is soon allowed to lead. *abort* has to end the work.
    """

    def __init__(
        self,
        client: LeaseClient,
        key: Key,
        process: Process,
        timing: Timing | None = None,
        wall: Callable[[], datetime] = utc_now,
        abort: Callable[[], None] = end_process,
    ) -> None:
        self._client = client
        self._key = key
        self._process = process
        self._timing = timing or Timing()
        self._wall = wall
        self._abort = abort
        self._lease: Object | None = None  # as last read or written; None if it has to be read again
        self._note: LeaderPlace | None = None  # where this process runs, once it leads and knows its place
        self._seen: _Silence | None = None
        self._pause = self._timing.retry_period  # until the next look at another's record
        self._claimed = False  # True if the Lease perhaps names this process as its holder
        self._renewed = -math.inf  # when the last good write was sent
        self._last_resort: asyncio.TimerHandle | None = None
        self._complaint = ""
        self._holder = ""  # the last holder that was logged

    @property
    def leader(self) -> str:
        """The name of the Pod that holds the Lease, as this standby read it last; empty if that isn't known."""
        return _holder(self._lease or {}).rpartition("_")[0]

    async def look(self) -> None:
        """Read from the Lease which process leads.

        So the wait for a silent holder begins before this process is ready to lead.
        """
        await self._bounded(self._try_to_look, self._timing.call)

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease and run *work* while we hold it; return when the work has ended and the lease is released.

        If the caller cancels this call, cancel the work, renew the lease until the work has stopped, and release it.

        Raises:
            LeadershipLost: we lost the lease, so the work was cancelled, and it has stopped.
        """
        try:
            await self._acquire()
            log.info("leading: %s holds the Lease %s", self._process.identity, self._key)
            await self._work_while_renewing(work)
        except LeadershipLost:  # the process ends with a line that says why
            self._claimed = False
            log.info("no longer leading: the work has stopped")
            raise
        finally:
            self._disarm()
            if self._claimed:
                await self._release()

    async def _acquire(self) -> None:
        self._lease = self._note = None
        while not await self._bounded(self._try_to_take, self._timing.call):  # noqa: ASYNC110 (no event tells us)
            await asyncio.sleep(self._pause)

    async def _work_while_renewing(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run *work* in this task, and renew the lease until the work has stopped.

        If renewing fails, the TaskGroup cancels the work.
        """
        try:
            async with asyncio.TaskGroup() as group:
                beside = [group.create_task(self._renew(), name="renew the lease")]
                if self._process.pod:
                    beside.append(group.create_task(self._find_note(), name="find our place"))
                try:
                    await work()
                finally:
                    for task in beside:
                        task.cancel()
        except BaseExceptionGroup as errors:
            if len(errors.exceptions) > 1:
                raise
            raise errors.exceptions[0] from None

    async def _renew(self) -> None:
        """Renew the lease again and again, until that has failed for too long."""
        loop = asyncio.get_running_loop()
        while (deadline := self._renewed + self._timing.renew_deadline) > loop.time():
            await asyncio.sleep(min(self._timing.retry_period, deadline - loop.time()))
            await self._bounded(self._try_to_renew, min(self._timing.call, deadline - loop.time()))
        raise LeadershipLost(f"could not renew {self._key} for {self._timing.renew_deadline:g} s")

    async def _find_note(self) -> None:
        """Find out in which Pod and container this process runs.

        From then on, each renewal writes that into annotations of the Lease.
        """
        pause = self._timing.retry_period
        while True:
            try:
                async with asyncio.timeout(self._timing.call):
                    pod = await self._client.get(POD, Key(self._key.namespace, self._process.pod))
            except (KubeError, TimeoutError) as error:
                log.debug("%s: our Pod can't be read: %r", self._key, error)
            else:
                self._note = holder.own_note(self._process, pod, self._timing.gone)
            if self._note is not None:
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _bounded(self, attempt: Callable[[], Awaitable[bool]], seconds: float) -> bool:
        """Return the result of *attempt*, or False if the API server refuses or does not answer within *seconds*."""
        try:
            async with asyncio.timeout(seconds):
                return await attempt()
        except (KubeError, TimeoutError) as error:
            self._complain(error)
            self._lease = None
            return False

    async def _try_to_look(self) -> bool:
        """Read the Lease, and tell whether this process is allowed to take it."""
        self._pause = self._timing.retry_period
        try:
            self._lease = await self._client.get(LEASE, self._key)
        except NotFound:
            self._lease = None
        return self._lease is None or await self._may_take(self._lease)

    async def _try_to_take(self) -> bool:
        """Take the Lease if nobody holds it, and tell whether this process holds it now."""
        if not await self._try_to_look():
            who = _holder(self._lease or {})
            if who != self._holder:
                log.info("standing by: %s holds the Lease %s", who, self._key)
                self._holder = who
            return False
        await self._write(self._lease or self._new_lease())
        return True

    async def _try_to_renew(self) -> bool:
        """Renew the Lease if this process still holds it, and return True.

        Raises:
            LeadershipLost: another process or nobody holds the Lease, or it was deleted.
        """
        lease = self._lease
        if lease is None:
            try:
                lease = await self._client.get(LEASE, self._key)
            except NotFound:
                raise LeadershipLost(f"{self._key} was deleted") from None
        who = _holder(lease)
        if who != self._process.identity:
            raise LeadershipLost(f"{self._key} is held by {who or 'nobody'}")
        await self._write(lease)
        return True

    async def _may_take(self, lease: Object) -> bool:
        """Tell whether this process is allowed to take *lease*.

        It is if nobody else holds the Lease, if the holder has ended, or if it was silent for as long as the Lease
        says.
        """
        spec = lease.get("spec") or {}
        who = _holder(lease)
        if who in ("", self._process.identity):
            return True
        now = loop_time()
        was_renewed = self._seen is not None and self._seen.record != spec
        if self._seen is None or was_renewed:
            self._seen = _Silence(spec, now)
        if now - self._seen.since >= float(spec.get("leaseDurationSeconds") or self._timing.duration):
            return True
        note = holder.noted(lease)
        if note is None or was_renewed:
            return False
        if why := await self._proof(note, self._seen):
            log.info("taking over from %s: %s", who, why)
        return bool(why)

    async def _proof(self, note: LeaderPlace, seen: _Silence) -> str:
        """Return why the holder, whose renewal is late, has certainly ended; empty if it perhaps still leads.

        *note* says where the holder runs, and *seen* since when it has not renewed the Lease.
        """
        self._pause = _LATE
        try:
            pod = await self._client.get(POD, Key(self._key.namespace, note.pod))
        except NotFound:
            pod = None
        now = loop_time()
        seen.gone_since = min(seen.gone_since, now) if holder.is_gone(note, pod) else math.inf
        gone_for = max(now - seen.gone_since, 0)
        if (remaining := note.gone_seconds - gone_for) > 0:
            self._pause = min(_LATE, remaining + _ROUNDING)
        return holder.proof(note, seen.record.get("renewTime") or "", pod, gone_for)

    async def _write(self, lease: Object) -> None:
        """Write *lease*, as it was read, with the name of this process, its Pod and container, and the time.

        By our own clock, the moment before the write is sent counts as the time of the renewal.
        """
        sent = loop_time()
        new = {**lease, "metadata": self._noting(lease), "spec": self._claim(lease.get("spec") or {})}
        self._claimed = True  # from here on: the write can succeed even if we get no answer
        if "resourceVersion" in lease["metadata"]:
            self._lease = await self._client.replace(LEASE, new)
        else:
            self._lease = await self._client.create(LEASE, new)
        self._renewed = sent
        self._complaint = ""
        self._arm(sent + self._timing.last_resort)

    def _claim(self, spec: Object) -> Object:
        """Return the *spec* of a Lease with this process as its holder."""
        now = _micro_time(self._wall())
        new = {
            **spec,
            "holderIdentity": self._process.identity,
            "leaseDurationSeconds": math.ceil(self._timing.duration),
            "renewTime": now,
        }
        if spec.get("holderIdentity") != self._process.identity:
            new["acquireTime"] = now
            new["leaseTransitions"] = (spec.get("leaseTransitions") or 0) + 1 if spec else 0
        return new

    def _noting(self, lease: Object) -> Object:
        """Return the metadata of *lease* with the annotations that say where this process runs.

        They replace those of another process. They are left out as long as we don't know where we run.
        """
        others = {name: value for name, value in annotations(lease).items() if name not in holder.NAMES}
        ours = self._note.annotations() if self._note is not None else {}
        return {**lease["metadata"], "annotations": {**others, **ours}}

    def _new_lease(self) -> Object:
        return {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {"namespace": self._key.namespace, "name": self._key.name},
        }

    async def _release(self) -> None:
        """Remove our name from the lease after the work has stopped, so that a standby need not wait."""
        try:
            async with asyncio.timeout(self._timing.call):
                while self._claimed:
                    await self._try_to_release()
        except (KubeError, TimeoutError) as error:
            log.warning("%s stays held until it expires: %s %s", self._key, type(error).__name__, error)

    async def _try_to_release(self) -> None:
        lease = self._lease or await self._client.get(LEASE, self._key)
        self._lease = None
        if _holder(lease) == self._process.identity:
            now = _micro_time(self._wall())
            free = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now, "acquireTime": now}
            try:
                await self._client.replace(LEASE, {**lease, "spec": {**lease["spec"], **free}})
            except Conflict:
                return  # a renewal that we gave up on, or somebody else's write, came first: read again
        self._claimed = False

    def _arm(self, when: float) -> None:
        """End the process at *when* if the work hasn't stopped by then. This replaces the time of an earlier call."""
        self._disarm()
        self._last_resort = asyncio.get_running_loop().call_at(when, self._overrun)

    def _disarm(self) -> None:
        if self._last_resort is not None:
            self._last_resort.cancel()
            self._last_resort = None

    def _overrun(self) -> None:
        log.critical("%s: the work goes on although %s may be another's soon", self._process.identity, self._key)
        self._abort()

    def _complain(self, error: Exception) -> None:
        """Log *error*, which keeps us from holding the Lease.

        Log it as a warning, unless it is a conflict or the same as the previous error. All requests without an answer
        count as the same error.
        """
        words = f"{type(error).__name__}: {error}"
        complaint = Unreachable.__name__ if isinstance(error, Unreachable) else words
        quiet = isinstance(error, Conflict) or complaint == self._complaint
        log.log(logging.DEBUG if quiet else logging.WARNING, "%s: %s", self._key, words)
        self._complaint = complaint


def _holder(lease: Object) -> str:
    """Return the name of the process that holds *lease*; empty if nobody does."""
    return (lease.get("spec") or {}).get("holderIdentity") or ""


def _micro_time(moment: datetime) -> str:
    """Return *moment* as a Kubernetes MicroTime."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
