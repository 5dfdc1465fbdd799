"""Garbage collection by owner references.

An object is deleted when it has no owner left. With foreground deletion, an owner waits until the dependents that
block its deletion are gone.
"""

from clustersim.controller import Key, key_of
from clustersim.objects import RESOURCES, Object, Resource
from clustersim.pods import is_deleting
from clustersim.store import Change, Store

FOREGROUND = "foregroundDeletion"


async def run(store: Store) -> None:
    """Delete the objects that have no owner left, and carry out foreground deletions, until cancelled."""
    collector = Collector(store)
    with store.subscribe() as changes:
        for resource in RESOURCES:
            for obj in store.list(resource):
                collector.remember(resource, obj)
        collector.sweep()
        while batch := await changes.batch():
            collector.follow(batch)


class Collector:
    """Deletes objects that have no owner left; for that, it knows the UIDs of each object's children."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._found: dict[str, tuple[Resource, Key]] = {}
        self._children: dict[str, set[str]] = {}

    def follow(self, changes: list[Change]) -> None:
        """Remember the owners of all changed objects, and then delete objects whose owners are all gone.

        The order matters, so that no new dependent is overlooked.
        """
        touched: dict[str, None] = {}
        for change in changes:
            uid, owners = change.object["metadata"]["uid"], _owners(change.object)
            if change.type == "DELETED":
                self._found.pop(uid, None)
                for owner in owners:
                    self._children.get(owner, set()).discard(uid)
                touched |= dict.fromkeys((*owners, *self._children.pop(uid, ())))
            else:
                self.remember(change.resource, change.object)
                touched[uid] = None
        for uid in touched:
            self._check(uid)

    def remember(self, resource: Resource, obj: Object) -> None:
        """Remember that *obj* exists, and who its owners are."""
        uid = obj["metadata"]["uid"]
        self._found[uid] = (resource, key_of(obj))
        for owner in _owners(obj):
            self._children.setdefault(owner, set()).add(uid)

    def sweep(self) -> None:
        """Check for every known object whether garbage collection has to delete it or to remove its finalizer."""
        for uid in list(self._found):
            self._check(uid)

    def _object(self, uid: str) -> Object | None:
        """Return the object with *uid*, or None if it is gone."""
        if uid not in self._found:
            return None
        resource, key = self._found[uid]
        obj = self._store.find(resource, *key)
        return obj if obj is not None and obj["metadata"]["uid"] == uid else None

    def _check(self, uid: str) -> None:
        obj = self._object(uid)
        if obj is None:
            return
        owners = _owners(obj)
        if is_deleting(obj):
            self._finalize(uid, obj)
        elif owners and all(owner not in self._found for owner in owners):
            self._delete(uid, obj, "Background")

    def _finalize(self, uid: str, obj: Object) -> None:
        """Delete the children of *obj* if its deletion waits for them.

        Once no child blocks the deletion, remove the finalizer of *obj* that made it wait.
        """
        if FOREGROUND not in obj["metadata"].get("finalizers", ()):
            return
        for child_uid, child in self._children_of(uid):
            self._delete(child_uid, child, "Foreground" if self._children.get(child_uid) else "Background")
        if not any(_blocks(child, uid) for _, child in self._children_of(uid)):
            resource, key = self._found[uid]
            kept = [name for name in obj["metadata"]["finalizers"] if name != FOREGROUND]
            self._store.merge(resource, *key, {"metadata": {"finalizers": kept}})

    def _children_of(self, uid: str) -> list[tuple[str, Object]]:
        children = ((child, self._object(child)) for child in self._children.get(uid, ()))
        return [(child_uid, child) for child_uid, child in children if child is not None and uid in _owners(child)]

    def _delete(self, uid: str, obj: Object, propagation: str) -> None:
        """Delete *obj* unless it is being deleted already."""
        if not is_deleting(obj):
            resource, key = self._found[uid]
            self._store.delete(resource, *key, propagation=propagation, uid=uid)


def _owners(obj: Object) -> list[str]:
    return [reference["uid"] for reference in obj["metadata"].get("ownerReferences", ())]


def _blocks(child: Object, owner: str) -> bool:
    """Tell whether *child* blocks the deletion of its *owner*."""
    references = child["metadata"].get("ownerReferences", ())
    return any(reference["uid"] == owner and reference.get("blockOwnerDeletion") for reference in references)
