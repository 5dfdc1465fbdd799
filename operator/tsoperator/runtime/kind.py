"""The value that describes one kind of objects, and the function by which objects of all kinds are reconciled."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from typing import Any, Generic, TypeVar

from tsoperator.api.objects import Key, Object, Resource
from tsoperator.runtime.apply import Applier
from tsoperator.runtime.cache import Cache, Index, Source
from tsoperator.runtime.gathering import AT_ONCE, Gathering
from tsoperator.runtime.manager import Watches
from tsoperator.runtime.plan import Decision, Plan, Question, Refusal
from tsoperator.runtime.result import Pending, Result

log = logging.getLogger(__name__)

Observed = TypeVar("Observed")


def _nothing(_obj: Object, _observed: Any, _plan: Plan) -> None:
    """Do nothing: the default of `Kind.acted` and `Kind.reported`."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[Observed]):
    """The way to reconcile the objects of one kind.

    *watches* has a mapper for each resource and each signal to watch. A mapper returns the keys that a change
    concerns. *look* reads the facts for a key, mostly from the cache. *plan* decides; it is pure. *refused* returns
    the plan that reports a refusal. *acted* is called after the steps of a plan have been carried out. *reported* is
    called after the status has been written, also if the reconcile has to wait for something.

    Each function gets the object of *resource* that the key names. If the object is gone, the functions get an empty
    object, and *plan* removes the children that are left. They also get an empty object if the key names something
    else, such as a namespace. In this case *look* finds the objects of the key, the plan has a report on each of them,
    and *resource* can be None.

    *name* is the name of the kind in metrics and in the log, if that isn't the name of *resource*.

    *sources* are the objects in the cache that only this kind needs, and *indexes* are the indexes that only it needs.
    *gathering* says for how long the changes that concern a key are gathered into one reconcile.
    """

    resource: Resource | None
    watches: Watches
    look: Callable[[Key, Object], Observed | Awaitable[Observed]]
    plan: Callable[[Object, Observed], Decision]
    refused: Callable[[Observed, Object, Refusal], Plan]
    acted: Callable[[Object, Observed, Plan], None] = _nothing
    reported: Callable[[Object, Observed, Plan], None] = _nothing
    name: str = ""
    sources: Sequence[Source] = ()
    indexes: Mapping[Resource, Mapping[str, Index]] = field(default_factory=dict)
    gathering: Gathering = AT_ONCE

    def __str__(self) -> str:
        return self.name or (self.resource.kind if self.resource else "")


class KindReconciler(Generic[Observed]):
    """Reconciles the keys of a `Kind`: for each key it looks, decides, acts and reports.

    It also adds the sources and indexes that only this `Kind` needs to the cache.
    """

    def __init__(self, kind: Kind[Observed], cache: Cache, applier: Applier) -> None:
        self.name = str(kind).lower()
        self.watches = kind.watches
        self.gathering = kind.gathering
        self._kind = kind
        self._cache = cache
        self._applier = applier
        for source in kind.sources:
            cache.add(source)
        for resource, indexes in kind.indexes.items():
            cache.index(resource, indexes)

    async def reconcile(self, key: Key) -> Result:
        """Make the cluster match the object that *key* names.

        Raises the errors of the plan's steps, such as KubeError and Pending.
        """
        kind = self._kind
        obj = (kind.resource and self._cache.get(kind.resource, key)) or {}
        looked = kind.look(key, obj)
        observed: Observed = await looked if isawaitable(looked) else looked
        decision = kind.plan(obj, observed)
        if isinstance(decision, Question):
            decision = decision.then(await decision.ask())
        plan = replace(decision, by=self.name)

        def refused(parent: Object, refusal: Refusal) -> Plan:
            return replace(kind.refused(observed, parent, refusal), by=self.name)

        stored = await self._applier.act(obj, plan, refused)
        if not obj:
            for note in plan.notes:  # there is no object to write an Event on
                log.warning("%s %s: %s", kind, key, note.message)
        kind.acted(obj, observed, plan)
        try:
            result = await self._applier.report(stored, plan, refused)
        except Pending:  # raised when all is reported
            kind.reported(obj, observed, plan)
            raise
        kind.reported(obj, observed, plan)
        return result
