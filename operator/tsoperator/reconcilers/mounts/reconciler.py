"""Gathers the facts about Pods of proxies for `plan`, and finds the Pods that read a changed Secret or ConfigMap."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

from tsoperator.api.objects import CONFIGMAP, POD, SECRET, Key, Object, key_of, uid
from tsoperator.reconcilers.mounts import plan as plans
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.clock import loop_time, utc_now
from tsoperator.runtime.gathering import Gathering
from tsoperator.runtime.kind import Kind
from tsoperator.runtime.manager import Comparison, Watches
from tsoperator.runtime.memory import Memory
from tsoperator.runtime.ownership import BY_OWNER, owner_of
from tsoperator.runtime.plan import Plan

_TOUCH_DELAY: Final = 0.1
"""Seconds from a change of a Secret or ConfigMap to the touch of the Pods that read it.

In this time, more changes can follow, and the kubelet's own watch has to see the changed object.
"""

KUBELET: Final = 90.0
"""The seconds within which the kubelet mounts a changed Secret or ConfigMap even without a touch."""


def mounts(cache: Cache, now: Callable[[], datetime] = utc_now) -> Kind[plans.Observed]:
    """Return the `Kind` that touches Pods, so that the kubelet mounts a changed Secret or ConfigMap at once.

    A new Pod can reach the cache later than a change of its configuration, although its kubelet has mounted the
    configuration as it was before that change. So a new Pod whose configuration has just changed is touched, too.
    Nothing is touched in a steady state, at a start, or at a resync. If the operator ends between a write and its
    touch, the touch is lost, and the kubelet mounts the change within 90 seconds.
    """
    view = _View(cache, now)
    readers, new_pods = (Comparison(each, at_start=False) for each in (view.readers, view.new_pods))
    watches: Watches = {SECRET: readers, CONFIGMAP: readers, POD: new_pods}
    return Kind(
        POD,
        watches,
        view.look,
        plans.plan,
        lambda *_: Plan(),
        view.touched,
        name="mounts",
        gathering=Gathering(_TOUCH_DELAY),
    )


class _View:
    """Gathers the facts about Pods, and finds the Pods that a change concerns.

    All times are by the clock of the event loop.
    """

    def __init__(self, cache: Cache, now: Callable[[], datetime]) -> None:
        self._cache = cache
        self._now = now
        self._touched = Memory[float](cache)  # when each Pod was last touched
        self._changed = Memory[float](cache)  # when each Secret and ConfigMap last changed
        for resource in (SECRET, CONFIGMAP):
            cache.listen(resource, self._note_change)

    def look(self, _key: Key, pod: Object) -> plans.Observed:
        """Return the time at which the operator last touched *pod*, and the present time by both clocks."""
        return plans.Observed(self._touched.get(pod) if pod else None, loop_time(), self._now())

    def touched(self, pod: Object, observed: plans.Observed, plan: Plan) -> None:
        """Remember that *pod* has been touched, if *plan* does so."""
        if plan.steps:
            self._touched.note(pod, observed.at)

    def _note_change(self, old: Object | None, new: Object | None) -> None:
        if old is not None and new is not None and owner_of(new) is not None and plans.is_news(old, new):
            self._changed.note(new, loop_time())

    def readers(self, old: Object | None, new: Object | None) -> Iterable[Key]:
        """Return the Pods that read a Secret or ConfigMap, if its *new* form differs from the *old* one for them."""
        owner = owner_of(new) if new is not None else None
        if new is None or owner is None or not plans.is_news(old, new):
            return ()
        return map(key_of, plans.readers(new, owner, self._cache.indexed(POD, BY_OWNER, str(owner))))

    def new_pods(self, old: Object | None, new: Object | None) -> Iterable[Key]:
        """Return a new Pod if its configuration changed so recently that its kubelet perhaps missed the change."""
        owner = owner_of(new) if new is not None else None
        if new is None or owner is None or (old is not None and uid(old) == uid(new)):
            return ()
        since = loop_time() - KUBELET
        read = (self._cache.get(resource, key) for resource, key in plans.read_by(new, owner))
        times = (self._changed.get(each) for each in read if each and owner_of(each) == owner)
        return (key_of(new),) if any(at is not None and at > since for at in times) else ()
