"""A kind of objects as a value, and the one way in which objects of all kinds are reconciled."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from inspect import isawaitable
from typing import Any, Generic, TypeVar

from tsoperator.api.objects import Key, Object, Resource
from tsoperator.kube.errors import KubeError
from tsoperator.runtime.apply import Applier
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.manager import Mapper
from tsoperator.runtime.plan import Decision, Plan, Question, Refusal
from tsoperator.runtime.result import Pending, Result

log = logging.getLogger(__name__)

Observed = TypeVar("Observed")


def _nothing(_obj: Object, _observed: Any, _plan: Plan) -> None:
    """Do nothing: the default of *acted* and *reported*."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[Observed]):
    """The way to reconcile the objects of one kind.

    *watches* has a mapper for each kind to watch, which returns the keys that a change concerns. *look* gathers the
    facts about an object, mostly from the cache. *plan* decides; it is pure. *refused* returns the plan that reports a
    refusal on an object. *gone* returns the plan for the key of an object that is gone: it removes what the object left
    behind.

    *acted* is called after the steps of a plan. *reported* is called after the report on an object, also if the object
    has to wait.
    """

    resource: Resource
    watches: Mapping[Resource, Mapper]
    look: Callable[[Object], Observed | Awaitable[Observed]]
    plan: Callable[[Object, Observed], Decision]
    refused: Callable[[Observed, Object, Refusal], Plan]
    gone: Callable[[Key], Plan] = lambda _key: Plan()
    acted: Callable[[Object, Observed, Plan], None] = _nothing
    reported: Callable[[Object, Observed, Plan], None] = _nothing


class KindReconciler(Generic[Observed]):
    """Reconciles the objects of a kind, one at a time: it looks, decides, acts and reports."""

    def __init__(self, kind: Kind[Observed], cache: Cache, applier: Applier) -> None:
        self.name = kind.resource.kind.lower()
        self.watches = kind.watches
        self._kind = kind
        self._cache = cache
        self._applier = applier

    async def reconcile(self, key: Key) -> Result:
        """Make the cluster match the object named *key*. Raises the errors of its plan's steps, such as KubeError."""
        kind = self._kind
        obj = self._cache.get(kind.resource, key)
        if obj is None:
            return await self._clean_up(key, kind.gone(key))
        looked = kind.look(obj)
        observed: Observed = await looked if isawaitable(looked) else looked
        plan = kind.plan(obj, observed)
        if isinstance(plan, Question):
            plan = plan.then(await plan.ask())
        refused = partial(kind.refused, observed)
        stored = await self._applier.act(obj, plan, refused)
        kind.acted(obj, observed, plan)
        try:
            result = await self._applier.report(stored, plan, refused)
        except Pending:  # raised when all is reported
            kind.reported(obj, observed, plan)
            raise
        kind.reported(obj, observed, plan)
        return result

    async def _clean_up(self, key: Key, plan: Plan) -> Result:
        """Carry out the *plan* for an object that is gone. Log its Events, as there is no object to write them on."""
        try:
            await self._applier.apply({}, replace(plan, notes=()))
        except Exception as error:
            if plan.way_out and not isinstance(error, KubeError | Pending):
                error.add_note(plan.way_out)
            raise
        for note in plan.notes:
            log.warning("%s %s: %s", self._kind.resource.kind, key, note.message)
        return Result(plan.requeue_after)
