"""Custom kinds: served while their CustomResourceDefinition is there."""

import asyncio

from clustersim.kinds import Kinds
from clustersim.objects import CRD, Object, Resource, name_of, namespace_of
from clustersim.store import Store


async def run(store: Store, kinds: Kinds) -> None:
    """Serve kinds as their definitions come, and take them away with all their objects as those go; until cancelled.

    Objects that a finalizer holds are served until they are gone, which the definition itself doesn't wait for here.
    """
    async with asyncio.TaskGroup() as tasks:
        with store.subscribe(CRD) as changes:
            async for change in changes:
                if change.type == "DELETED":
                    tasks.create_task(_withdraw(store, kinds, change.object))
                else:
                    _serve(kinds, change.object)


def _serve(kinds: Kinds, definition: Object) -> None:
    """Serve the kind, unless it is served already: its objects are kept under that."""
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


async def _withdraw(store: Store, kinds: Kinds, definition: Object) -> None:
    served = kinds.locate(_path(definition))
    if served is None:
        return
    with store.subscribe(served.resource) as changes:
        for obj in store.list(served.resource):
            store.delete(served.resource, namespace_of(obj), name_of(obj))
        while store.list(served.resource):
            await changes.batch()
    if store.find(CRD, "", name_of(definition)) is None:
        kinds.withdraw(served.resource)


def _path(definition: Object) -> str:
    spec = definition["spec"]
    return f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
