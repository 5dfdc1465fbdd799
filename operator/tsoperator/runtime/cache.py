"""The cluster's objects by kind, key and index, kept up to date by watches, and announced to listeners."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from tsoperator.api.objects import DNSCONFIG, Key, Object, Resource, key_of
from tsoperator.kube.client import KubeClient
from tsoperator.kube.watch import (
    Changed,
    Deleted,
    Listed,
    Selection,
    Update,
    WatchDenied,
    Watching,
    WatchPace,
    updates,
    version_number,
)

log = logging.getLogger(__name__)

Listener = Callable[[Object | None, Object | None], None]
"""A function of the old and the new object. An object that was not there, or is no longer there, is None."""

Index = Callable[[Object], Iterable[str]]
"""A function that returns the values under which an index finds an object."""


def only_identity(obj: Object) -> Object:
    """Return *obj* with only its kind, names, UID, version and time of deletion, to store if only existence matters."""
    kept = ("namespace", "name", "uid", "resourceVersion", "deletionTimestamp")
    metadata = {name: obj["metadata"][name] for name in kept if name in obj["metadata"]}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}


def without_managed_fields(obj: Object) -> Object:
    """Return *obj* without ``managedFields``, which are often its larger half."""
    if "managedFields" not in obj["metadata"]:
        return obj
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {**obj, "metadata": metadata}


@dataclass(frozen=True, slots=True)
class Source:
    """A rule that says which objects of one kind the cache stores: those of *selection*, each reduced by *slim*.

    The *indexes* find the objects. Several Sources of one kind can select the same object, and an index of one Source
    finds the objects of all of them. The operator does not wait for an *optional* Source if the API server does not
    let it see the objects. If *without* is true, the operator works without the objects, so it logs no warning when it
    can't see them.
    """

    selection: Selection
    indexes: Mapping[str, Index] = field(default_factory=dict)
    slim: Callable[[Object], Object] = without_managed_fields
    optional: bool = False
    without: bool = False


class Cache:
    """Holds the objects of every Source.

    It does not tell apart the Sources of one kind: it has an object while at least one of the Sources selects it.
    Callers share the objects, so build a changed copy and never change an object.
    """

    def __init__(self, sources: Iterable[Source]) -> None:
        self._kinds: dict[Resource, _Kind] = {}
        for source in sources:
            self.add(source)

    def add(self, source: Source) -> None:
        """Let the cache hold the objects of a further *source*. Call this before `follow`."""
        self._kinds.setdefault(source.selection.resource, _Kind()).add(source)

    def index(self, resource: Resource, indexes: Mapping[str, Index]) -> None:
        """Add *indexes* that find the objects of *resource*. Call this before `follow`."""
        self._kinds[resource].index(indexes)

    def get(self, resource: Resource, key: Key) -> Object | None:
        """Return the object of *resource* with this *key*, or None."""
        return self._kinds[resource].objects.get(key)

    def newest(self, resource: Resource, obj: Object) -> Object:
        """Return *obj*, or the copy of it in the cache if that is newer."""
        held = self.get(resource, key_of(obj)) if resource in self._kinds else None
        return held if held is not None and _is_newer(held, obj) else obj

    def all(self, resource: Resource) -> list[Object]:
        """Return all objects of *resource* that the cache has."""
        return list(self._kinds[resource].objects.values())

    def indexed(self, resource: Resource, index: str, value: str) -> list[Object]:
        """Return the objects that the index called *index* finds under *value*, sorted by namespace and name."""
        kind = self._kinds[resource]
        keys = kind.found[index].get(value)
        return [kind.objects[key] for key in sorted(keys)] if keys else []

    def knows(self, resource: Resource, namespace: str) -> bool:
        """Tell whether the API server has listed the objects of *resource* in *namespace* that the Sources select.

        If so, an object that is not in the cache did not exist when the API server last let us see such
        objects.
        """
        parts = self._kinds[resource].reaching(namespace)
        return bool(parts) and all(part.known for part in parts)

    def sees(self, resource: Resource, namespace: str) -> bool:
        """Tell whether the cache knows the selected objects in *namespace*, and the API server lets us see them now."""
        parts = self._kinds[resource].reaching(namespace)
        return bool(parts) and all(part.known and not part.refused for part in parts)

    def serves(self, resource: Resource) -> bool:
        """Tell whether the API server serves *resource*; True until it says that it doesn't."""
        return self._kinds[resource].served

    def written(self, resource: Resource, obj: Object) -> None:
        """Put *obj* into the cache as the API server has just stored it.

        So no reconcile decides by the state before its own write. The watch also yields *obj*, before or after this
        call. An object that no Source selects is ignored.
        """
        for part in self._kinds[resource].parts if resource in self._kinds else ():
            if part.source.selection.covers(obj):
                part.written(obj)

    def listen(self, resource: Resource, listener: Listener) -> None:
        """Call *listener* at every change of an object of *resource* from now on."""
        self._kinds[resource].listeners.append(listener)

    def listen_for_deletions(self, resource: Resource, listener: Callable[[Object], None]) -> None:
        """Call *listener* from now on with the final state of each object of *resource* that the API server deletes.

        It isn't called for objects that are only missing from a new list, as after a restore from a backup.
        """
        self._kinds[resource].deletion_listeners.append(listener)

    def unsynced_selections(self) -> list[str]:
        """Return the selections whose objects have not been listed yet."""
        return [str(part.source.selection) for part in self._parts() if not part.synced.is_set()]

    def refused_selections(self) -> list[Selection]:
        """Return the selections whose objects the API server does not let us see now."""
        return [part.source.selection for part in self._parts() if part.refused]

    async def synced(self) -> None:
        """Wait until every Source is synced.

        A Source is synced when its objects have been listed once, or the API server has said that it does not serve the
        kind. An optional Source is also synced when the API server does not let us see its objects.
        """
        for part in self._parts():
            await part.synced.wait()

    async def follow(self, client: KubeClient, pace: WatchPace | None = None) -> None:
        """Keep all objects in the cache up to date until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for part in self._parts():
                tasks.create_task(part.follow(client, pace))

    def _parts(self) -> list["_Part"]:
        return [part for kind in self._kinds.values() for part in kind.parts]


class CacheMetrics(Collector):
    """Exports the resources and namespaces that the API server doesn't let the operator see."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def collect(self) -> Iterator[Metric]:
        """Yield the metric; prometheus_client calls this at each scrape."""
        refused = GaugeMetricFamily(
            "tsoperator_watch_refused", "Objects that the operator may not see.", labels=["resource", "namespace"]
        )
        for resource, namespace in {(str(each.resource), each.namespace) for each in self._cache.refused_selections()}:
            refused.add_metric([resource, namespace], 1)
        yield refused


class _Kind:
    """The objects of one kind.

    A `_Part` has the objects of one Source. If several parts have an object, the `_Kind` shows the newest state of the
    object.
    """

    def __init__(self) -> None:
        self.parts: list[_Part] = []
        self.objects: dict[Key, Object] = {}
        self.found: dict[str, dict[str, set[Key]]] = {}
        self.listeners: list[Listener] = []
        self.deletion_listeners: list[Callable[[Object], None]] = []
        self.served = True
        self._indexes: dict[str, Index] = {}
        self._values: dict[Key, tuple[tuple[str, ...], ...]] = {}  # under which each index finds a key

    def add(self, source: Source) -> None:
        """Hold the objects that a further *source* selects."""
        self.parts.append(_Part(self, source))
        self.index(source.indexes)

    def index(self, indexes: Mapping[str, Index]) -> None:
        """Add *indexes* that find the objects."""
        self._indexes.update(indexes)
        for index in indexes:
            self.found.setdefault(index, defaultdict(set))

    def reaching(self, namespace: str) -> list["_Part"]:
        """Return the parts that select objects in *namespace*."""
        return [part for part in self.parts if part.source.selection.namespace in ("", namespace)]

    def show(self, key: Key) -> None:
        """Show the newest object that a part has under *key*, and call the listeners if it has changed."""
        old, new = self.objects.get(key), None
        for part in self.parts:
            held = part.objects.get(key)
            if held is not None and (new is None or _number(held) > _number(new)):
                new = held
        if old is new:
            return
        if new is None:
            del self.objects[key]
        else:
            self.objects[key] = new
        self._reindex(key, new)
        if _version(old) != _version(new):
            for listener in self.listeners:
                listener(old, new)

    def _reindex(self, key: Key, obj: Object | None) -> None:
        """Let each index find the object *obj* under its present values, and no longer under its earlier ones.

        *key* is the key of the object. If the object is gone, *obj* is None.
        """
        old = self._values.pop(key, self._no_values)
        new = tuple(tuple(values_of(obj)) for values_of in self._indexes.values()) if obj else self._no_values
        if new != self._no_values:
            self._values[key] = new
        if old == new:
            return
        for index, gone, there in zip(self._indexes, old, new, strict=True):
            found = self.found[index]
            for value in gone:
                found[value].discard(key)
                if not found[value]:
                    del found[value]
            for value in there:
                found[value].add(key)

    @property
    def _no_values(self) -> tuple[tuple[str, ...], ...]:
        return ((),) * len(self._indexes)


class _Part:
    """The objects that one Source of the cache selects."""

    def __init__(self, kind: _Kind, source: Source) -> None:
        self.source = source
        self.objects: dict[Key, Object] = {}
        self.synced = asyncio.Event()
        self.known = False
        self.refused = False
        self._kind = kind
        self._told = 0  # the version up to which the watch has yielded every change

    async def follow(self, client: KubeClient, pace: WatchPace | None) -> None:
        async for update in updates(client, self.source.selection, pace, self.source.slim):
            self._take(update)
            if self.known or self.source.optional:
                self.synced.set()

    def written(self, obj: Object) -> None:
        # Don't store an object if the watch is past its version: the watch has perhaps yielded its deletion already.
        if self.synced.is_set() and _number(obj) > self._told:
            self._hold(key_of(obj), self.source.slim(obj))

    def _take(self, update: Update) -> None:
        match update:
            case Changed(obj):
                self._tell(obj, obj)
            case Deleted(obj):
                self._tell(obj, None)
                for listener in self._kind.deletion_listeners:
                    listener(obj)
            case Listed(items, version):
                self._note_served(True)
                self._told = version_number(version)  # after a restore of etcd, it is lower than before
                self._hold_only(items)
            case Watching():
                self._note_let_in()
            case WatchDenied(why):
                self._note_refused(why)
            case _:
                self._note_let_in()
                self._note_served(False)
                self._hold_only([])

    def _note_refused(self, why: str) -> None:
        if not self.refused and self.source.without:
            log.info("%s: the operator may not see them, and works without: %s", self.source.selection, why)
        elif not self.refused:
            log.warning(
                "%s: the operator may not see them, so what is there stays as it is and nobody looks after it: %s",
                self.source.selection,
                why,
            )
        self.refused = True

    def _note_let_in(self) -> None:
        if self.refused:
            log.info("%s: the operator may see them again", self.source.selection)
        self.refused = False

    def _note_served(self, served: bool) -> None:
        """Note that the objects of the Source are known now, and whether the API server serves the kind.

        If it doesn't, log a warning for a kind of ours, but only a line at DEBUG for a kind of another project, such as
        ServiceMonitor: a cluster can do without these.
        """
        self.known = True
        resource = self.source.selection.resource
        is_ours = resource.group == DNSCONFIG.group
        if served and not self._kind.served:
            log.info("%s is served now", resource)
        elif self._kind.served and not served:
            log.log(
                logging.WARNING if is_ours else logging.DEBUG,
                "%s is not served by the API server: what needs it stays off until its CRD is installed",
                resource,
            )
        self._kind.served = served

    def _tell(self, last: Object, obj: Object | None) -> None:
        """Store the state *obj* that the watch yields for an object, or remove the object if *obj* is None.

        *last* is the object in the event of the watch; at a deletion, it is the object in its final state. Do nothing
        if a write of ours has put this state, or a newer one, into the cache.
        """
        number = _number(last)
        self._told = max(self._told, number)
        key = key_of(last)
        held = self.objects.get(key)
        if obj is not None and _version(obj) == _version(held):
            return
        if held is None or _number(held) <= number:
            self._hold(key, obj and self.source.slim(obj))

    def _hold(self, key: Key, obj: Object | None) -> None:
        if obj is None:
            self.objects.pop(key, None)
        else:
            self.objects[key] = obj
        self._kind.show(key)

    def _hold_only(self, items: Iterable[Object]) -> None:
        held, self.objects = self.objects, {key_of(obj): obj for obj in items}
        for key in held.keys() - self.objects.keys():
            self._kind.show(key)
        for key in self.objects:
            self._kind.show(key)


def _number(obj: Object) -> int:
    return version_number(obj["metadata"]["resourceVersion"])


def _is_newer(one: Object, other: Object) -> bool:
    """Tell whether *one* is a later state of the same object as *other*."""
    return bool(one["metadata"]["uid"] == other["metadata"].get("uid")) and _number(one) > _number(other)


def _version(obj: Object | None) -> tuple[str, str] | None:
    return (obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]) if obj is not None else None
