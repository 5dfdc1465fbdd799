"""An API server that knows one Lease, and links to it that lose and delay what goes over them."""

import asyncio
import copy
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tsoperator.api.objects import LEASE, Key, Object, Resource
from tsoperator.kube.errors import AlreadyExists, Conflict, KubeError, NotFound, Unreachable

from tests.support.virtual_time import now

KEY = Key("tailscale", "operator")


class LeaseServer:
    """Keeps the Lease, with optimistic locking, and when it was written with which record."""

    def __init__(self) -> None:
        self.lease: Object | None = None
        self.writes: list[tuple[float, Object]] = []
        self._version = 0

    @property
    def spec(self) -> Object:
        assert self.lease is not None
        spec: Object = self.lease["spec"]
        return spec

    def get(self, key: Key) -> Object:
        assert key == KEY
        if self.lease is None:
            raise NotFound(404, "NotFound", "no such lease")
        return copy.deepcopy(self.lease)

    def create(self, obj: Object) -> Object:
        if self.lease is not None:
            raise AlreadyExists(409, "AlreadyExists", "there is one")
        return self.put(obj)

    def replace(self, obj: Object) -> Object:
        if self.lease is None:
            raise NotFound(404, "NotFound", "no such lease")
        if obj["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "the object has been modified")
        return self.put(obj)

    def put(self, obj: Object) -> Object:
        """Store *obj* whatever is there."""
        self._version += 1
        metadata = {**obj["metadata"], "resourceVersion": str(self._version)}
        self.lease = copy.deepcopy({**obj, "metadata": metadata})
        self.writes.append((now(), self.lease["spec"]))
        return copy.deepcopy(self.lease)

    def put_record(self, holder: str, **fields: object) -> None:
        """Store a record as client-go writes it, for *holder*."""
        record = {
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            "acquireTime": "2001-01-01T00:00:00.000000Z",
            "renewTime": "2001-01-01T00:00:00.000000Z",
            "leaseTransitions": 3,
            **fields,
        }
        metadata = {"namespace": KEY.namespace, "name": KEY.name}
        self.put({"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": record})


class Fate(NamedTuple):
    """What becomes of a request: seconds to the server, seconds back, and which of the two ways it gets lost on."""

    there: float = 0.0
    back: float = 0.0
    request_lost: bool = False
    answer_lost: bool = False


class Link:
    """A client of the server; a request that its caller gives up arrives all the same."""

    def __init__(self, server: LeaseServer, fates: Iterable[Fate] = ()) -> None:
        self._server = server
        self._fates = iter(fates)
        self.away = False
        self.hangs = False

    async def get(self, _resource: Resource, key: Key) -> Object:
        return await self._call(lambda: self._server.get(key))

    async def create(self, _resource: Resource, obj: Object) -> Object:
        return await self._call(lambda: self._server.create(obj))

    async def replace(self, _resource: Resource, obj: Object) -> Object:
        return await self._call(lambda: self._server.replace(obj))

    async def _call(self, act: Callable[[], Object]) -> Object:
        fate = next(self._fates, Fate())
        answer: asyncio.Future[Object | KubeError] = asyncio.get_running_loop().create_future()
        if not self.hangs:
            asyncio.get_running_loop().call_later(fate.there, self._arrive, act, fate, answer)
        result = await answer
        if isinstance(result, KubeError):
            raise result
        return result

    def _arrive(self, act: Callable[[], Object], fate: Fate, answer: asyncio.Future[Object | KubeError]) -> None:
        result: Object | KubeError = Unreachable("request lost")
        try:
            if not (fate.request_lost or self.away):
                result = act()
        except KubeError as error:
            result = error
        if fate.answer_lost:
            result = Unreachable("answer lost")
        asyncio.get_running_loop().call_later(fate.back, _give, answer, result)


def _give(answer: asyncio.Future[Object | KubeError], result: Object | KubeError) -> None:
    if not answer.done():
        answer.set_result(result)
