"""The loop of every simulated controller: reconciles all objects once, and then those that a change concerns."""

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from clustersim.objects import Object, Resource, labels_of, name_of, namespace_of
from clustersim.store import ApiError, Change, Store

logger = logging.getLogger(__name__)


class Key(NamedTuple):
    """The namespace and name of an object."""

    namespace: str
    name: str


KeyT = TypeVar("KeyT")
Mapper = Callable[[Resource, Object], Iterable[KeyT]]


def key_of(obj: Object) -> Key:
    """Return the key of *obj*."""
    return Key(namespace_of(obj), name_of(obj))


def owner_keys(obj: Object, kind: str) -> Iterable[Key]:
    """Yield the key of the owner that controls *obj* if this owner is of *kind*, and nothing otherwise."""
    for reference in obj["metadata"].get("ownerReferences", ()):
        if reference.get("controller") and reference["kind"] == kind:
            yield Key(namespace_of(obj), reference["name"])


async def follow(
    store: Store, resources: Iterable[Resource], mapper: Mapper[KeyT], reconcile: Callable[[KeyT], None]
) -> None:
    """Call *reconcile* for each key that the *mapper* returns for an object of *resources*, until cancelled.

    Begin with all objects, and go on with those that change. After a burst of changes, reconcile each key only once. If
    the store refuses a write, log that, because one bad object must not stop its controller.
    """

    def reconcile_all(touched: Iterable[tuple[Resource, Object]]) -> None:
        for key in dict.fromkeys(key for resource, obj in touched for key in mapper(resource, obj)):
            try:
                reconcile(key)
            except ApiError as error:
                logger.warning("%s: %s", key, error)

    kinds = tuple(resources)
    with store.subscribe(*kinds) as changes:
        reconcile_all((resource, obj) for resource in kinds for obj in store.list(resource))
        while batch := await changes.batch():
            reconcile_all((change.resource, obj) for change in batch for obj in _versions(change))


def _versions(change: Change) -> list[Object]:
    """Return the new version of the changed object. If its labels have changed, return the old version as well.

    For the old labels, the mapper of `follow` can return other keys.
    """
    if change.old is None or labels_of(change.old) == labels_of(change.object):
        return [change.object]
    return [change.object, change.old]
