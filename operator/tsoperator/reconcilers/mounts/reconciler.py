"""Makes the kubelet mount a changed Secret or ConfigMap at once, for one Pod of a proxy at a time."""

import asyncio
from collections.abc import Mapping
from typing import Final

from tsoperator.api.objects import CONFIGMAP, POD, SECRET, Key, Object, Resource, is_deleting, key_of, uid
from tsoperator.reconcilers.mounts import desired
from tsoperator.runtime.apply import Applier
from tsoperator.runtime.cache import Cache, Listener
from tsoperator.runtime.manager import Mapper
from tsoperator.runtime.memory import Memory
from tsoperator.runtime.ownership import BY_OWNER, owner_of
from tsoperator.runtime.plan import Plan
from tsoperator.runtime.result import DONE, Result

CONFIG: Final = Resource("", "", "configs", "Config")
"""The resource of changes of Pods' configurations. It isn't in the API: each of its events has a Pod that has to read a
change."""

DELAY: Final = 0.1
"""Seconds from a change to the touch. More changes may come, and the kubelet's own watch has to see the object first.
"""

INTERVAL: Final = 2.0
"""The shortest time between two touches of a Pod, in seconds."""

KUBELET: Final = 90.0
"""The seconds within which the kubelet mounts a change even without a touch."""


class MountsReconciler:
    """Touches an annotation of each Pod whose mounted Secret or ConfigMap has changed.

    It listens to the cache, which has each write of ours as soon as the API server has stored it, and announces the
    Pods that read the object to the manager. The cache may not have a Pod yet whose kubelet has mounted the state from
    before the write. So each new Pod whose configuration has just changed is announced, too.

    Nothing is announced in a steady state, at a start, or at a resync. If the operator ends between a write and its
    touch, the touch is lost, and the kubelet mounts the change within 90 seconds.
    """

    name = "mounts"

    def __init__(self, cache: Cache, applier: Applier) -> None:
        self._cache = cache
        self._applier = applier
        self._touched = Memory[float](cache)  # when each Pod was last touched, by the clock of the loop
        self._changed = Memory[float](cache)  # when each Secret and ConfigMap last changed
        self._listeners: list[Listener] = []
        self.watches: Mapping[Resource, Mapper] = {CONFIG: lambda pod: (key_of(pod),)}
        for resource in (SECRET, CONFIGMAP):
            cache.listen(resource, self._announce_readers)
        cache.listen(POD, self._announce_new)

    def listen(self, resource: Resource, listener: Listener) -> None:
        """Call *listener* with each Pod that has to read its configuration again, if *resource* is `CONFIG`."""
        if resource == CONFIG:
            self._listeners.append(listener)

    def all(self, resource: Resource) -> list[Object]:
        """Return nothing: only a change needs a touch."""
        del resource
        return []

    async def reconcile(self, key: Key) -> Result:
        """Touch the Pod named *key*, unless it was touched a moment ago. Raises KubeError."""
        pod = self._cache.get(POD, key)
        if pod is None or is_deleting(pod):
            return DONE
        now = asyncio.get_running_loop().time()
        last = self._touched.get(pod)
        left = 0.0 if last is None else round(last + INTERVAL - now, 3)  # a timer may be a nanosecond early
        if left > 0:
            return Result(left)
        await self._applier.apply(pod, Plan(steps=[desired.touch(pod, self._applier.now())]))
        self._touched.note(pod, now)
        return DONE

    def _announce_readers(self, old: Object | None, new: Object | None) -> None:
        """Announce the Pods that have to read *new*, if it differs from *old* for them."""
        owner = owner_of(new) if new is not None else None
        if new is None or owner is None or not desired.is_news(old, new):
            return
        if old is not None:
            self._changed.note(new, asyncio.get_running_loop().time())
        for pod in desired.readers(new, owner, self._cache.indexed(POD, BY_OWNER, str(owner))):
            self._announce(pod)

    def _announce_new(self, old: Object | None, new: Object | None) -> None:
        """Announce a new Pod if its configuration has changed since its kubelet may have mounted it."""
        owner = owner_of(new) if new is not None else None
        if new is None or owner is None or (old is not None and uid(old) == uid(new)):
            return
        since = asyncio.get_running_loop().time() - KUBELET
        read = (self._cache.get(resource, key) for resource, key in desired.read_by(new, owner))
        if any(owner_of(each) == owner and (self._changed.get(each) or since) > since for each in read if each):
            self._announce(new)

    def _announce(self, pod: Object) -> None:
        for listener in self._listeners:
            listener(None, pod)
