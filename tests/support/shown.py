"""A cache without watches, for tests: it has only the objects that a test puts into it."""

from tsoperator.api.objects import Key, Object, Resource, key_of, resource_of
from tsoperator.runtime.cache import Cache, Listener


class Shown(Cache):
    """A cache that has *objects*, and announces the changes that a test makes."""

    def __init__(self, *objects: Object) -> None:
        super().__init__([])
        self._there = {(resource_of(obj), key_of(obj)): obj for obj in objects}
        self._told: list[tuple[Resource, Listener]] = []

    def get(self, resource: Resource, key: Key) -> Object | None:
        return self._there.get((resource, key))

    def listen(self, resource: Resource, listener: Listener) -> None:
        self._told.append((resource, listener))

    def show(self, obj: Object) -> None:
        """Put *obj* into the cache, in place of an object with its name, and tell the listeners."""
        old = self._there.get((resource_of(obj), key_of(obj)))
        self._there[resource_of(obj), key_of(obj)] = obj
        self._tell(resource_of(obj), old, obj)

    def drop(self, obj: Object) -> None:
        """Remove the object with the name of *obj*, and tell the listeners."""
        self._tell(resource_of(obj), self._there.pop((resource_of(obj), key_of(obj))), None)

    def _tell(self, resource: Resource, old: Object | None, new: Object | None) -> None:
        for kind, listener in self._told:
            if kind == resource:
                listener(old, new)
