"""The cluster's objects by kind, key and index, kept up to date by watches; tells listeners what changed."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tsoperator.api.objects import Key, Object, Resource, key_of
from tsoperator.kube.client import KubeClient
from tsoperator.kube.watch import Changed, Deleted, Listed, Pace, Selection, Update, updates

log = logging.getLogger(__name__)

Listener = Callable[[Object | None, Object | None], None]
"""Called with the old and the new object; None is one that was not there, or is there no more."""

Index = Callable[[Object], Iterable[str]]
"""The values under which an object is found in an index."""


def without_managed_fields(obj: Object) -> Object:
    """Return *obj* without ``managedFields``, which is often its larger half."""
    if "managedFields" not in obj["metadata"]:
        return obj
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {**obj, "metadata": metadata}


@dataclass(frozen=True, slots=True)
class Source:
    """What to keep of one kind: which objects, what of them, and how else than by key they are found."""

    selection: Selection
    indexes: Mapping[str, Index] = field(default_factory=dict)
    slim: Callable[[Object], Object] = without_managed_fields


class Cache:
    """Holds the objects of every Source, one Source a kind. Objects are shared: build a changed copy, never change
    one.
    """

    def __init__(self, sources: Iterable[Source]) -> None:
        self._kinds = {source.selection.resource: _Kind(source) for source in sources}

    def get(self, resource: Resource, key: Key) -> Object | None:
        """Return the object, or None."""
        return self._kinds[resource].objects.get(key)

    def all(self, resource: Resource) -> list[Object]:
        """Return all objects of the kind."""
        return list(self._kinds[resource].objects.values())

    def indexed(self, resource: Resource, index: str, value: str) -> list[Object]:
        """Return the objects that *index* finds under *value*, by namespace and name."""
        kind = self._kinds[resource]
        return [kind.objects[key] for key in sorted(kind.found[index].get(value, ()))]

    def written(self, resource: Resource, obj: Object) -> None:
        """Take *obj* as the API server has just stored it, so that nobody decides by what was before his own write.

        The watch tells of it too: whichever is first. What isn't followed is left out.
        """
        kind = self._kinds.get(resource)
        if kind is not None and kind.source.selection.covers(obj):
            kind.written(obj)

    def listen(self, resource: Resource, listener: Listener) -> None:
        """Call *listener* at every change of the kind from now on."""
        self._kinds[resource].listeners.append(listener)

    def unsynced(self) -> list[str]:
        """Return the kinds whose objects have not been listed yet."""
        return [str(resource) for resource, kind in self._kinds.items() if not kind.synced.is_set()]

    async def synced(self) -> None:
        """Wait until every kind has been listed once, or the API server has said that it does not serve it."""
        for kind in self._kinds.values():
            await kind.synced.wait()

    async def follow(self, client: KubeClient, pace: Pace | None = None) -> None:
        """Keep every kind up to date until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for kind in self._kinds.values():
                tasks.create_task(kind.follow(client, pace))


class _Kind:
    """The objects of one kind."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.objects: dict[Key, Object] = {}
        self.found: dict[str, dict[str, set[Key]]] = {index: defaultdict(set) for index in source.indexes}
        self.listeners: list[Listener] = []
        self.synced = asyncio.Event()
        self._served = True
        self._told = 0  # the version up to which the watch has told all

    async def follow(self, client: KubeClient, pace: Pace | None) -> None:
        async for update in updates(client, self.source.selection, pace):
            self._take(update)
            self.synced.set()

    def written(self, obj: Object) -> None:
        # What the watch has told already may have been followed by a deletion.
        if self.synced.is_set() and _number(obj) > self._told:
            self._put(key_of(obj), obj)

    def _take(self, update: Update) -> None:
        match update:
            case Changed(obj):
                self._tell(obj, obj)
            case Deleted(obj):
                self._tell(obj, None)
            case Listed(items, version):
                if not self._served:
                    log.info("%s is served now", self.source.selection.resource)
                self._served = True
                self._told = int(version) if version.isdecimal() else 0
                self._put_all(items)
            case _:
                if self._served:
                    log.warning(
                        "%s is not served by the API server: what needs it stays off until its CRD is installed",
                        self.source.selection.resource,
                    )
                self._served = False
                self._put_all([])

    def _tell(self, last: Object, obj: Object | None) -> None:
        """Take what the watch tells, unless a write of ours has come after it."""
        self._told = max(self._told, _number(last))
        held = self.objects.get(key_of(last))
        if held is None or _number(held) <= _number(last):
            self._put(key_of(last), obj)

    def _put_all(self, items: Iterable[Object]) -> None:
        fresh = {key_of(obj): obj for obj in items}
        for key in self.objects.keys() - fresh.keys():
            self._put(key, None)
        for key, obj in fresh.items():
            self._put(key, obj)

    def _put(self, key: Key, obj: Object | None) -> None:
        old = self.objects.pop(key, None)
        new = self.source.slim(obj) if obj is not None else None
        if old is not None:
            self._reindex(key, old, set.discard)
        if new is not None:
            self.objects[key] = new
            self._reindex(key, new, set.add)
        if _version(old) != _version(new):
            for listener in self.listeners:
                listener(old, new)

    def _reindex(self, key: Key, obj: Object, change: Callable[[set[Key], Key], None]) -> None:
        for index, values_of in self.source.indexes.items():
            found = self.found[index]
            for value in values_of(obj):
                change(found[value], key)
                if not found[value]:
                    del found[value]


def _number(obj: Object) -> int:
    """Return the resourceVersion of *obj*, which the API server counts up over all objects of a kind; 0 if it is none
    of its.
    """
    version = obj["metadata"]["resourceVersion"]
    return int(version) if version.isdecimal() else 0


def _version(obj: Object | None) -> tuple[str, str] | None:
    return (obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]) if obj is not None else None
