"""Custom kinds: the API server serves each while its CustomResourceDefinition exists."""

from collections.abc import Iterable

from clustersim.history import Change
from clustersim.kinds import Kinds
from clustersim.objects import CRD, CRD_FINALIZER, Object, Resource, name_of, namespace_of
from clustersim.pods import is_deleting
from clustersim.store import Store


async def run(store: Store, kinds: Kinds) -> None:
    """Serve the kinds whose CustomResourceDefinitions exist, until cancelled.

    When a definition is deleted, so are the objects of its kind. A definition with `CRD_FINALIZER` stays until the last
    of these objects is gone, because they can have finalizers of their own.
    """
    leaving = False
    with store.subscribe() as changes:
        while batch := await changes.batch():
            if leaving or any(change.resource == CRD for change in batch):
                leaving = _follow(store, kinds, batch)


def _follow(store: Store, kinds: Kinds, batch: Iterable[Change]) -> bool:
    """Apply a *batch* of changes: serve the kinds whose definitions exist.

    Return True if a definition is being deleted.
    """
    for change in batch:
        if change.resource == CRD and change.type == "DELETED":
            _withdraw(store, kinds, change.object)
        elif change.resource == CRD and not is_deleting(change.object):
            _serve(kinds, change.object)
    leaving = [definition for definition in store.list(CRD) if is_deleting(definition)]
    for definition in leaving:
        _empty(store, kinds, definition)
    return bool(leaving)


def _serve(kinds: Kinds, definition: Object) -> None:
    """Serve the kind that *definition* defines.

    If the kind is served already, its Resource stays the same, because the store finds the objects by the Resource.
    """
    if kinds.locate(_path(definition)) is None:
        spec, version = definition["spec"], definition["spec"]["versions"][0]
        names = spec["names"]
        kinds.serve(
            Resource(
                spec["group"],
                version["name"],
                names["plural"],
                names["kind"],
                spec["scope"] == "Namespaced",
                tuple(names.get("shortNames") or ()),
                "status" in version.get("subresources", {}),
            )
        )


def _withdraw(store: Store, kinds: Kinds, definition: Object) -> None:
    served = kinds.locate(_path(definition))
    if served is None:
        return
    for obj in store.list(served.resource):
        store.delete(served.resource, namespace_of(obj), name_of(obj))
    kinds.withdraw(served.resource)


def _empty(store: Store, kinds: Kinds, definition: Object) -> None:
    """Delete the objects of a kind. When none is left, remove `CRD_FINALIZER` from the *definition* of the kind."""
    served = kinds.locate(_path(definition))
    there = store.list(served.resource) if served else []
    for obj in there:
        if served and not is_deleting(obj):
            store.delete(served.resource, namespace_of(obj), name_of(obj))
    if not there:
        store.update(CRD, "", name_of(definition), _released)


def _released(definition: Object) -> Object:
    left = [name for name in definition["metadata"].get("finalizers", ()) if name != CRD_FINALIZER]
    return {**definition, "metadata": {**definition["metadata"], "finalizers": left}}


def _path(definition: Object) -> str:
    spec = definition["spec"]
    return f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
