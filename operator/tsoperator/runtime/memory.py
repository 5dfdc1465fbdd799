"""The facts about objects that the operator remembers beside the cache, and forgets when the objects are gone."""

from collections.abc import Iterable
from typing import Generic, TypeVar

from tsoperator.api.objects import Object, Resource, key_of, resource_of, uid
from tsoperator.runtime.cache import Cache

Fact = TypeVar("Fact")


class Memory(Generic[Fact]):
    """Facts about objects, at most one about each.

    A fact is forgotten when its object is no longer in the cache. An object that is made under the name of an
    earlier one has another UID, so it has none of the earlier object's facts.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._facts: dict[str, Fact] = {}
        self._followed: set[Resource] = set()

    def get(self, obj: Object) -> Fact | None:
        """Return the fact about *obj*, None if there is none."""
        return self._facts.get(uid(obj))

    def facts(self) -> Iterable[Fact]:
        """Return the facts about all objects."""
        return self._facts.values()

    def note(self, obj: Object, fact: Fact | None) -> None:
        """Remember *fact* about *obj* in place of an earlier fact. With None, only forget the earlier fact.

        A fact about an object that is no longer in the cache is ignored.
        """
        if fact is None:
            self._facts.pop(uid(obj), None)
            return
        resource = resource_of(obj)
        there = self._cache.get(resource, key_of(obj))
        if there is None or uid(there) != uid(obj):
            return
        self._facts[uid(obj)] = fact
        if resource not in self._followed:
            self._followed.add(resource)
            self._cache.listen(resource, self._changed)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and (new is None or uid(new) != uid(old)):
            self._facts.pop(uid(old), None)
