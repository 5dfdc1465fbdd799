"""The benchmark's cluster: Services, which the benchmark creates, and the objects that an operator makes for them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from dnsbench.errors import BenchError
from tsnameserver.records import RECORDS_KEY, parse
from tsoperator.api.names import (
    CONDITION_PROXY_READY,
    LABEL_MANAGED,
    LABEL_SERVICE_NAME,
    MANAGED,
    PARENT_NAMESERVER,
    PARENT_SERVICE,
)
from tsoperator.api.objects import (
    CONFIGMAP,
    ENDPOINTSLICE,
    SECRET,
    SERVICE,
    STATEFULSET,
    Key,
    Object,
    Resource,
    key_of,
    labels,
)
from tsoperator.dns.canary import CANARY_PREFIX
from tsoperator.kube.client import KubeClient
from tsoperator.kube.config import load_configuration
from tsoperator.kube.watch import Changed, Deleted, Listed, Selection, updates
from tsoperator.runtime.ownership import Owner, owner_of

from operatorbench.ground import NAMESPACE
from operatorbench.manifests import USERS, egress_service

_LOOK = 1.0  # s between two checks that the operator still runs
_MANAGED = f"{LABEL_MANAGED}={MANAGED}"
SERVICES = Selection(SERVICE, USERS)
_STATEFULSETS = Selection(STATEFULSET, NAMESPACE, _MANAGED)
_HEADLESS = Selection(SERVICE, NAMESPACE, _MANAGED)
_RECORDS = Selection(CONFIGMAP, NAMESPACE, _MANAGED)
FOLLOWED = (SERVICES, _STATEFULSETS, _HEADLESS, Selection(SECRET, NAMESPACE, _MANAGED), _RECORDS)


class Cluster:
    """Creates and deletes the users' objects, and watches them and the objects that the operator makes for them."""

    def __init__(self, client: KubeClient, alive: Callable[[], bool], followed: Sequence[Selection] = FOLLOWED) -> None:
        """Take the function *alive*, which tells whether the operator still runs, and the *followed* objects."""
        self.client = client
        self._alive = alive
        self._objects: dict[Selection, dict[Key, Object]] = {selection: {} for selection in followed}
        self._changed = asyncio.Event()

    def objects(self, selection: Selection) -> Mapping[Key, Object]:
        """Return the present objects of *selection*, which the benchmark has to `follow`."""
        return self._objects[selection]

    async def follow(self, selection: Selection) -> None:
        """Watch the objects of *selection*, so that `objects` returns them, until cancelled."""
        objects = self._objects[selection]
        async for update in updates(self.client, selection):
            match update:
                case Listed(items):
                    objects.clear()
                    objects.update((key_of(item), item) for item in items)
                case Changed(obj):
                    objects[key_of(obj)] = obj
                case Deleted(obj):
                    objects.pop(key_of(obj), None)
            self._changed.set()

    async def create(self, names: list[str]) -> None:
        """Create an egress Service for each of *names*, all at once."""
        await self.apply(egress_service(name) for name in names)

    async def apply(self, objects: Iterable[Object], resource: Resource = SERVICE) -> None:
        """Create *objects*, all at once."""
        async with asyncio.TaskGroup() as group:
            for obj in objects:
                group.create_task(self.client.create(resource, obj))

    async def delete(self, names: Iterable[str], resource: Resource = SERVICE) -> None:
        """Delete the users' objects called *names*, all at once."""
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(self.client.delete(resource, Key(USERS, name)))

    def has_statefulsets(self, count: int) -> bool:
        """Tell whether there are at least *count* StatefulSets, one for each Service."""
        return len(self._objects[_STATEFULSETS]) >= count

    def reported(self, count: int) -> bool:
        """Tell whether the statuses of at least *count* Services say that their proxies are made."""
        return sum(map(is_reported, self._objects[SERVICES].values())) >= count

    def gone(self) -> bool:
        """Tell whether all Services and the objects made for them are gone; objects for the nameserver can remain."""
        owners = (owner_of(obj) for objects in self._objects.values() for obj in objects.values())
        return all(owner is not None and owner.type == PARENT_NAMESERVER for owner in owners)

    def has_proxy(self, name: str) -> bool:
        """Tell whether the Service called *name* has the headless Service of its proxy."""
        return self._headless(name) is not None

    async def give_address(self, name: str, address: str) -> None:
        """Create an EndpointSlice for the proxy of the Service called *name*, as if its Pod were ready at *address*."""
        headless = self._headless(name)
        if headless is None:
            raise BenchError(f"the Service {name} has no proxy")
        key = key_of(headless)
        marks = {LABEL_SERVICE_NAME: key.name, "endpointslice.kubernetes.io/managed-by": USERS}
        endpoint_slice = {
            "apiVersion": ENDPOINTSLICE.api_version,
            "kind": ENDPOINTSLICE.kind,
            "metadata": {"namespace": key.namespace, "name": key.name, "labels": {**labels(headless), **marks}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        }
        await self.client.create(ENDPOINTSLICE, endpoint_slice)

    def _headless(self, name: str) -> Object | None:
        owner = Owner(PARENT_SERVICE, Key(USERS, name))
        return next((obj for obj in self._objects[_HEADLESS].values() if owner_of(obj) == owner), None)

    def resolved(self, count: int) -> bool:
        """Tell whether at least *count* names have an address in the records."""
        return sum(map(addressed, self._objects[_RECORDS].values())) >= count

    async def until(self, holds: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait until *holds* returns True. *what* describes this state in the error.

        Raises BenchError if the operator has ended, or if *seconds* have passed.
        """
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    if not self._alive():
                        raise BenchError(f"the operator ended before: {what}")
                    self._changed.clear()
                    with suppress(TimeoutError):  # nothing has changed; the loop checks again that the operator runs
                        await asyncio.wait_for(self._changed.wait(), _LOOK)
        except TimeoutError:
            counts = ", ".join(f"{len(objects)} {selection}" for selection, objects in self._objects.items())
            raise BenchError(f"not within {seconds:g} s: {what}; there are {counts}") from None


def is_reported(service: Object) -> bool:
    """Tell whether the status of *service* says that its proxy was made.

    Once the proxy is made, the Go operator reports that the Service is ready, and our operator reports that it waits
    for the proxy's Pod, which never runs in this benchmark.
    """
    conditions = (service.get("status") or {}).get("conditions") or ()
    found = [each for each in conditions if each["type"] == CONDITION_PROXY_READY]
    return any(each["status"] == "True" or each["reason"] == "ProxyPending" for each in found)


def addressed(configmap: Object) -> int:
    """Return the number of names in a ConfigMap of records that have an address, without the canaries."""
    found = parse(configmap["data"][RECORDS_KEY]).ip4
    return sum(bool(addresses) for name, addresses in found.items() if not name.startswith(CANARY_PREFIX))


@asynccontextmanager
async def following(
    kubeconfig: Path, alive: Callable[[], bool], followed: Sequence[Selection]
) -> AsyncIterator[Cluster]:
    """Yield a `Cluster` that watches the cluster of the admin's *kubeconfig*."""
    async with KubeClient(await load_configuration(str(kubeconfig))) as client, asyncio.TaskGroup() as group:
        cluster = Cluster(client, alive, followed)
        tasks = [group.create_task(cluster.follow(selection)) for selection in followed]
        try:
            yield cluster
        finally:
            for task in tasks:
                task.cancel()
