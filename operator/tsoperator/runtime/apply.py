"""Carries out a Plan: our finalizer on, devices, what differs, deletes, our finalizer off. Then reports the status."""

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime

from tsoperator.api.conditions import set_condition
from tsoperator.api.names import FINALIZER, GROUP
from tsoperator.api.objects import (
    SERVICEMONITOR,
    Object,
    Resource,
    has_finalizer,
    is_deleting,
    key_of,
    labels,
    resource_of,
    uid,
)
from tsoperator.desired.children import is_marked
from tsoperator.desired.plan import Creation, Deletion, Patch, Plan, to_create, write_for
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import AlreadyExists, Invalid, NotFound
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.events import EventRecorder


def utc_now() -> datetime:
    """Return the wall clock's time."""
    return datetime.now(UTC)


class Applier:
    """Writes what differs between a Plan and the cluster as the cache has it; nothing if nothing differs.

    Its methods raise KubeError (Conflict when the cache was behind: look again) and what *delete_device* raises.
    """

    def __init__(
        self,
        client: KubeClient,
        cache: Cache,
        events: EventRecorder,
        delete_device: Callable[[str], Awaitable[None]],
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """*delete_device* takes a device ID off the tailnet; one that is gone already is fine."""
        self._client = client
        self._cache = cache
        self._events = events
        self._delete_device = delete_device
        self._now = now

    async def apply(self, parent: Object, plan: Plan) -> Object:
        """Carry out *plan* but for its status; return the parent as it is stored then."""
        if plan.hold and not has_finalizer(parent, FINALIZER):
            parent = await self._set_finalizers(parent, [*(parent["metadata"].get("finalizers") or ()), FINALIZER])
        for device in plan.devices:
            await self._delete_device(device)
        for desired in plan.apply:
            if isinstance(desired, Patch):
                stored = self._stored(
                    desired.resource, await self._client.patch(desired.resource, desired.key, desired.body)
                )
                if uid(stored) == uid(parent):
                    parent = stored
            elif isinstance(desired, Creation):
                await self._create(desired.obj)
            else:
                await self._write(desired)
        for deletion in plan.delete:
            await self._delete(deletion)
        for note in plan.notes:
            await self._events.event(parent, note.type, note.reason, note.message)
        return parent

    async def report(self, parent: Object, plan: Plan) -> None:
        """Write the status that *plan* wants if it is another, conditions stamped; then let go of the parent."""
        if plan.status is not None:
            status = self._stamped(parent.get("status") or {}, plan.status)
            if status != (parent.get("status") or {}):
                resource = resource_of(parent)
                parent = self._stored(
                    resource, await self._client.replace_status(resource, {**parent, "status": status})
                )
        if plan.release and has_finalizer(parent, FINALIZER):
            left = [name for name in parent["metadata"]["finalizers"] if name != FINALIZER]
            with contextlib.suppress(NotFound):  # somebody else let it go
                await self._set_finalizers(parent, left)

    async def _write(self, desired: Object) -> None:
        live = self._cache.get(resource_of(desired), key_of(desired))
        if live is None:
            await self._create(desired)
        elif not is_marked(live):
            raise _in_the_way(live)
        elif obj := write_for(desired, live):
            resource = resource_of(obj)
            self._stored(resource, await self._client.replace(resource, obj))

    async def _create(self, desired: Object) -> None:
        """Create *desired*; one of its name that lost the labels by which the cache finds it is given them back.

        Raises Invalid if it is a stranger's, AlreadyExists otherwise.
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

    async def _relabel(self, obj: Object, wanted: Mapping[str, str]) -> None:
        resource, metadata = resource_of(obj), {"labels": {**labels(obj), **wanted}}
        if resource == SERVICEMONITOR:  # RBAC in existing installations has update, and no patch
            await self._client.replace(resource, {**obj, "metadata": {**obj["metadata"], **metadata}})
        else:
            await self._client.patch(resource, key_of(obj), {"metadata": metadata})

    async def _delete(self, deletion: Deletion) -> None:
        obj = deletion.obj
        with contextlib.suppress(NotFound):  # gone is what was wanted
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
                )

    async def _set_finalizers(self, obj: Object, finalizers: list[str]) -> Object:
        resource = resource_of(obj)
        if resource.group == GROUP:  # whose RBAC in existing installations has update, and no patch
            whole = {**obj, "metadata": {**obj["metadata"], "finalizers": finalizers}}
            return self._stored(resource, await self._client.replace(resource, whole))
        metadata = {"finalizers": finalizers, "resourceVersion": obj["metadata"]["resourceVersion"]}
        return self._stored(resource, await self._client.patch(resource, key_of(obj), {"metadata": metadata}))

    def _stored(self, resource: Resource, obj: Object) -> Object:
        """Return *obj*, which has just been written; the cache has it from now on."""
        self._cache.written(resource, obj)
        return obj

    def _stamped(self, live: Object, wanted: Object) -> Object:
        if "conditions" not in wanted:
            return wanted
        types = {condition["type"] for condition in wanted["conditions"]}
        old = [condition for condition in live.get("conditions") or () if condition["type"] in types]
        now = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        return {**wanted, "conditions": set_condition(old, wanted["conditions"], now)}


def _in_the_way(stranger: Object) -> Invalid:
    """Return the error about an object that has the name of one of ours."""
    what = f"{stranger['kind']} {key_of(stranger)}"
    words = "is in the way: it is not the operator's, which leaves it alone; delete it, or give it another name"
    return Invalid(409, "AlreadyExists", f"{what} {words}")
