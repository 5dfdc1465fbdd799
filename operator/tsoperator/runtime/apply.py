"""Carries out a Plan, then writes the status. A refusal becomes a condition and an Event."""

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from tsoperator.api.conditions import FALSE, set_condition
from tsoperator.api.objects import Object, Resource, has_finalizer, is_deleting, key_of, labels, resource_of, uid
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import AlreadyExists, Conflict, KubeError, NameTaken, NotFound
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.clock import utc_now
from tsoperator.runtime.diff import to_create, write_for
from tsoperator.runtime.events import EventRecorder
from tsoperator.runtime.journal import Journal, Write, is_taken_over
from tsoperator.runtime.ownership import in_the_way, is_marked
from tsoperator.runtime.plan import (
    Child,
    Creation,
    DeleteDevice,
    Deletion,
    Errand,
    Note,
    Patch,
    Plan,
    Refusal,
    Step,
    reports_of,
)
from tsoperator.runtime.result import Pending, Result

Failed = Callable[[Object, Refusal], Plan]
"""A function of an object and a Refusal. It returns the Plan that reports the refusal to the user.

The report is a condition and an Event on the object.
"""


class Applier:
    """Carries out the plans of all reconcilers, and writes the statuses of their objects.

    The Applier compares a plan with the cache and writes only what differs. Its methods raise KubeError, and the
    errors of *run_errand*, such as Pending. A Conflict means that the cache was behind, so the object has to be
    reconciled again.

    The parent of a plan is the object that the plan is for. The parent is an empty object if that object is gone,
    or if the plan is for no object.
    """

    def __init__(
        self,
        client: KubeClient,
        cache: Cache,
        events: EventRecorder,
        run_errand: Callable[[Errand], Awaitable[None]],
        explain: Callable[[Exception], Refusal | None],
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """*run_errand* carries out a step that is no write. *explain* returns the Refusal that an error means, or None.

        With None, the error isn't reported to the user.
        """
        self._client = client
        self._cache = cache
        self._events = events
        self._run_errand = run_errand
        self._explain = explain
        self.now = now
        self.journal = Journal(cache, now)

    async def act(self, parent: Object, plan: Plan, failed: Failed) -> Object:
        """Carry out the steps of *plan*, write its Events, and return *parent* as the API server has stored it.

        If the API server or a control server refuses a step, carry out and report the plan that *failed* returns. Then
        raise the error, so that the object is retried. If the deletion of a device takes time, leave out the steps
        after it, report the status of *plan*, and raise Pending.
        """
        begun: list[Step] = []
        try:
            parent, waiting = await self._carry_out(parent, plan, begun)
        except Exception as error:
            refusal = self._explain(error)
            if refusal is None:
                raise
            refusal = replace(refusal, step=begun[-1] if begun else None)
            if plan.way_out and not isinstance(error, KubeError):
                refusal = replace(refusal, message=f"{refusal.message}; {plan.way_out}")
                if not parent:  # there is no object whose condition could say so
                    error.add_note(plan.way_out)
            if parent:  # `_carry_out` has perhaps just put the finalizer on it
                parent = self._cache.newest(resource_of(parent), parent)
            refused = replace(failed(parent, refusal), whole=False)
            parent, _ = await self._carry_out(parent, refused, [])
            await self.report(parent, refused, failed)
            self.journal.failed(error, refused)
            raise
        if waiting is not None:
            await self.report(parent, replace(plan, release="", error=waiting), failed)
        return parent

    async def report(self, parent: Object, plan: Plan, failed: Failed) -> Result:
        """Write each status of *plan* that differs from the live one, and remove the finalizer that *plan* releases.

        Conditions get their times here. If *plan* has an error, it is raised at the end. If the API server refuses a
        write, write the Events of the plan that *failed* returns, and raise the API server's error.

        If the error of *plan* is Pending, a condition that is False stays as it is, unless *plan* has an Event with the
        new reason. Without this rule, if a control server refused the same call again and again, the status would
        change before and after each answer, and each change would cause the next call.
        """
        if isinstance(plan.error, Pending):
            plan = replace(plan, status=_still_failing(parent.get("status") or {}, plan))
        try:
            for obj, report in reports_of(parent, plan):
                await self._report(obj, report)
        except Exception as error:
            if refusal := self._explain(error):
                refused = failed(parent, refusal)
                for obj, report in reports_of(parent, refused):
                    await self._tell(obj, report.notes)
                    self.journal.unreported(obj, report)
                self.journal.failed(error, refused)
            raise
        if isinstance(plan.error, Pending):
            raise Pending(plan.error.until, plan.requeue_after)
        if plan.error is not None:
            raise plan.error
        return Result(plan.requeue_after)

    async def _report(self, parent: Object, plan: Plan) -> None:
        if plan.status is not None:
            status = self._stamped(parent.get("status") or {}, plan.status)
            if status != (parent.get("status") or {}):
                before, resource = parent, resource_of(parent)
                with _behind():
                    written = await self._client.replace_status(resource, {**parent, "status": status})
                parent = self._stored(resource, written)
                self.journal.reported(before, status, plan)
        if plan.release and has_finalizer(parent, plan.release):
            left = [name for name in parent["metadata"]["finalizers"] if name != plan.release]
            with contextlib.suppress(NotFound):  # the cache is late, or somebody else removed the finalizer
                await self._set_finalizers(parent, left)
                self.journal.released(parent)

    async def _carry_out(self, parent: Object, plan: Plan, begun: list[Step]) -> tuple[Object, Pending | None]:
        """Add the finalizer, carry out the steps, write the Events, and return *parent* as it is stored now.

        Add each step to *begun* when it begins. If the deletion of a device takes time, the second value is the
        Pending that the deletion raised; otherwise it is None.
        """
        waiting: Pending | None = None
        self.journal.planned(parent or next((each.obj for each in plan.reports), parent), plan)
        writes: list[Write | None] = []
        if plan.hold and not has_finalizer(parent, plan.hold):
            parent = await self._set_finalizers(parent, [*(parent["metadata"].get("finalizers") or ()), plan.hold])
        for step in plan.steps:
            begun.append(step)
            match step:
                case Child(obj):
                    writes.append(await self._write(obj))
                case Creation(obj):
                    writes.append(await self._create(obj))
                case Patch(resource, key, body, about):
                    with _behind():
                        stored = self._stored(resource, await self._client.patch(resource, key, body))
                    writes.append(Write("changed", resource, key, after=body, about=about))
                    if parent and uid(stored) == uid(parent):
                        parent = stored
                case Deletion():
                    await self._delete(step)
                case DeleteDevice():
                    try:
                        await self._run_errand(step)
                    except Pending as pending:
                        waiting = pending
                        break
                case _:
                    await self._run_errand(step)
        for obj, report in reports_of(parent, plan):
            await self._tell(obj, report.notes)
            self.journal.carried_out(obj, report, [write for write in writes if write])
            writes = []  # only the log line about the first object names the writes
        return parent, waiting

    async def _tell(self, parent: Object, notes: Iterable[Note]) -> None:
        for note in notes:
            await self._events.event(parent, note.type, note.reason, note.message, once=note.once)

    async def _write(self, desired: Object) -> Write | None:
        """Create *desired*, or replace the live object with it; return the Write, None if the two don't differ."""
        live = self._cache.get(resource_of(desired), key_of(desired))
        if live is None:
            return await self._create(desired)
        if not is_marked(live):
            raise _in_the_way(live)
        if not (obj := write_for(desired, live)):
            return None
        resource = resource_of(obj)
        with _behind():
            self._stored(resource, await self._client.replace(resource, obj))
        return Write("took over" if is_taken_over(obj, live) else "changed", resource, key_of(obj), live, obj)

    async def _create(self, desired: Object) -> Write:
        """Create *desired*, and return the Write.

        Raises NameTaken if an object of somebody else has the name, and AlreadyExists if an object of ours has it. If
        our object has lost the labels by which the cache finds it, the labels are restored before the error is raised.
        """
        resource, obj = resource_of(desired), to_create(desired)
        try:
            self._stored(resource, await self._client.create(resource, obj))
        except AlreadyExists as error:
            live, wanted = await self._client.get(resource, key_of(obj)), labels(obj)
            if not is_marked(live):
                raise _in_the_way(live) from error
            if not wanted.items() <= labels(live).items():
                await self._relabel(live, wanted)
            raise
        return Write("made", resource, key_of(obj), after=obj)

    async def _relabel(self, obj: Object, wanted: Mapping[str, str]) -> None:
        resource, metadata = resource_of(obj), {"labels": {**labels(obj), **wanted}}
        if resource.patchable:
            await self._client.patch(resource, key_of(obj), {"metadata": metadata})
        else:
            await self._client.replace(resource, {**obj, "metadata": {**obj["metadata"], **metadata}})

    async def _delete(self, deletion: Deletion) -> None:
        obj = deletion.obj
        with contextlib.suppress(NotFound):  # it is gone already
            if deletion.release and has_finalizer(obj, deletion.release):
                left = [name for name in obj["metadata"]["finalizers"] if name != deletion.release]
                obj = await self._set_finalizers(obj, left)
            if not is_deleting(obj):
                version = obj["metadata"]["resourceVersion"] if deletion.unchanged else ""
                await self._client.delete(
                    deletion.resource,
                    key_of(obj),
                    uid=uid(obj),
                    resource_version=version,
                    propagation=deletion.propagation,
                    grace=deletion.grace,
                )

    async def _set_finalizers(self, obj: Object, finalizers: list[str]) -> Object:
        resource = resource_of(obj)
        if not resource.patchable:
            whole = {**obj, "metadata": {**obj["metadata"], "finalizers": finalizers}}
            return self._stored(resource, await self._client.replace(resource, whole))
        metadata = {"finalizers": finalizers, "resourceVersion": obj["metadata"]["resourceVersion"]}
        return self._stored(resource, await self._client.patch(resource, key_of(obj), {"metadata": metadata}))

    def _stored(self, resource: Resource, obj: Object) -> Object:
        """Put *obj*, which the API server has just stored, into the cache, and return it."""
        self._cache.written(resource, obj)
        return obj

    def _stamped(self, live: Object, wanted: Object) -> Object:
        if "conditions" not in wanted:
            return wanted
        types = {condition["type"] for condition in wanted["conditions"]}
        old = [condition for condition in live.get("conditions") or () if condition["type"] in types]
        conditions = set_condition(old, wanted["conditions"], now="")
        if conditions != old:
            now = self.now().strftime("%Y-%m-%dT%H:%M:%SZ")
            conditions = set_condition(old, wanted["conditions"], now)
        return {**wanted, "conditions": conditions}


def _still_failing(live: Object, plan: Plan) -> Object | None:
    """Return the status that *plan* wants, but with those conditions unchanged that are False in the *live* status.

    A condition changes all the same if *plan* has an Event with the condition's new reason.
    """
    wanted, told = plan.status, {note.reason for note in plan.notes}
    if not wanted or "conditions" not in wanted:
        return wanted
    failing = {each["type"]: each for each in live.get("conditions") or () if each["status"] == FALSE}
    found = [each if each.get("reason") in told else failing.get(each["type"], each) for each in wanted["conditions"]]
    return {**wanted, "conditions": found}


@contextlib.contextmanager
def _behind() -> Iterator[None]:
    """In this context, raise Conflict in place of NotFound.

    The API server answers a write with NotFound if the object is gone. The cache still had the object, so the cache was
    behind.
    """
    try:
        yield
    except NotFound as error:
        raise Conflict(error.status, error.reason, str(error)) from error


def _in_the_way(stranger: Object) -> NameTaken:
    """Return the error to raise if *stranger*, somebody else's object, has the name of an object of ours."""
    return NameTaken(409, "AlreadyExists", in_the_way(stranger))
