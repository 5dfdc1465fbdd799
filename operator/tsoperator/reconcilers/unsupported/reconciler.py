"""Looks, decides and reports for one object at a time, of a kind that this version does nothing for."""

from collections.abc import Mapping

from tsoperator.api.objects import Key, Resource, key_of
from tsoperator.reconcilers.unsupported.desired import CONDITIONS
from tsoperator.runtime import unsupported
from tsoperator.runtime.apply import Applier
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.manager import Mapper
from tsoperator.runtime.result import DONE, Result


class UnsupportedReconciler:
    """Tells the users of one kind that nothing is done for it, instead of leaving them without an answer."""

    def __init__(self, cache: Cache, applier: Applier, resource: Resource) -> None:
        self.name = resource.kind.lower()
        self._cache = cache
        self._applier = applier
        self._resource = resource
        self.watches: Mapping[Resource, Mapper] = {resource: lambda obj: (key_of(obj),)}

    async def reconcile(self, key: Key) -> Result:
        """Tell the user of the object named *key* that nothing is done for it."""
        obj = self._cache.get(self._resource, key)
        if obj is None:
            return DONE
        plan = unsupported.plan_nothing(obj, CONDITIONS[self._resource])  # decide: there is nothing else to look at
        stored = await self._applier.act(obj, plan, unsupported.failed)  # act
        return await self._applier.report(stored, plan, unsupported.failed)  # report
