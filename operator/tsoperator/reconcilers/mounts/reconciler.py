"""Makes the kubelet mount a changed Secret or ConfigMap at once, for one Pod of a proxy at a time."""

import asyncio
import math
from collections.abc import Mapping
from typing import Final

from tsoperator.api.objects import CONFIGMAP, POD, SECRET, Key, Object, Resource, is_deleting, key_of
from tsoperator.reconcilers.mounts import desired
from tsoperator.runtime.apply import Applier
from tsoperator.runtime.cache import Cache, Listener
from tsoperator.runtime.manager import Mapper
from tsoperator.runtime.ownership import BY_OWNER, owner_of
from tsoperator.runtime.plan import Plan
from tsoperator.runtime.result import DONE, Result

CONFIG: Final = Resource("", "", "configs", "Config")
"""Configurations of Pods. They are no objects of the cluster: each change is announced with a Pod that has to read it.
"""

DELAY: Final = 0.1
"""Seconds from a change to the touch. More changes may come, and the kubelet's own watch has to see the object first.
"""

INTERVAL: Final = 2.0
"""Seconds between two touches of a Pod, at least."""


class MountsReconciler:
    """Touches an annotation of each Pod whose mounted Secret or ConfigMap has changed.

    It listens to the cache, which has each write of ours as soon as the API server has stored it, and announces the
    Pods that read the object to the manager. It announces nothing in a steady state, at a start, or at a resync. If the
    operator ends between a write and its touch, the touch is lost, and the kubelet mounts the change within 90 seconds.
    """

    name = "mounts"

    def __init__(self, cache: Cache, applier: Applier) -> None:
        self._cache = cache
        self._applier = applier
        self._touched: dict[Key, float] = {}  # when each Pod was last touched, by the clock of the loop
        self._listeners: list[Listener] = []
        self.watches: Mapping[Resource, Mapper] = {CONFIG: lambda pod: (key_of(pod),)}
        for resource in (SECRET, CONFIGMAP):
            cache.listen(resource, self._announce)
        cache.listen_for_deletions(POD, self._forget)

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
        now = asyncio.get_running_loop().time()
        left = round(self._touched.get(key, -math.inf) + INTERVAL - now, 3)  # a timer may be a nanosecond early
        if left > 0:
            return Result(left)
        pod = self._cache.get(POD, key)
        if pod is None or is_deleting(pod):
            return DONE
        await self._applier.apply(pod, Plan(steps=[desired.touch(pod, self._applier.now())]))
        self._touched[key] = now
        return DONE

    def _forget(self, pod: Object) -> None:
        self._touched.pop(key_of(pod), None)

    def _announce(self, old: Object | None, new: Object | None) -> None:
        """Tell which Pods have to read *new*, if it differs from *old* for them."""
        owner = owner_of(new) if new is not None else None
        if new is None or owner is None or not desired.is_news(old, new):
            return
        pods = self._cache.indexed(POD, BY_OWNER, str(owner))
        for pod in desired.readers(new, owner, pods):
            for listener in self._listeners:
                listener(None, pod)
