"""An API server that knows one Lease and Pods, and unreliable links to it."""

import asyncio
import copy
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import NamedTuple

from tsoperator.api.objects import LEASE, POD, Key, Object, Resource
from tsoperator.kube.errors import AlreadyExists, Conflict, Denied, KubeError, NotFound, Unreachable

from tests.support.virtual_time import now, wall

KEY = Key("tailscale", "operator")
TOKEN_CACHE = 10.0
"""The time in seconds for which the API server still accepts the token of a Pod that is gone."""


class LeaseServer:
    """An API server with one Lease, optimistic locking, and a list of the written records with their times."""

    def __init__(self) -> None:
        self.lease: Object | None = None
        self.pods: dict[str, Object] = {}
        self.pods_read: list[float] = []
        self._pods_ended: dict[str, float] = {}
        self.writes: list[tuple[float, Object]] = []
        self._version = 0

    @property
    def spec(self) -> Object:
        assert self.lease is not None
        spec: Object = self.lease["spec"]
        return spec

    def get(self, resource: Resource, key: Key) -> Object:
        if resource == POD:
            self.pods_read.append(now())
            if key.name not in self.pods:
                raise NotFound(404, "NotFound", "no such pod")
            return copy.deepcopy(self.pods[key.name])
        assert (resource, key) == (LEASE, KEY)
        if self.lease is None:
            raise NotFound(404, "NotFound", "no such lease")
        return copy.deepcopy(self.lease)

    def remove_pod(self, name: str) -> None:
        """Remove a Pod without ending its processes."""
        self._pods_ended[self.pods.pop(name)["metadata"]["uid"]] = now()

    def authenticate(self, uid: str) -> None:
        """Refuse a token that is bound to the Pod with *uid* if that Pod has been gone for `TOKEN_CACHE` seconds."""
        if uid in self._pods_ended and now() >= self._pods_ended[uid] + TOKEN_CACHE:
            raise Denied(401, "Unauthorized", "Unauthorized")

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
        """Store *obj* without a check of its version."""
        self._version += 1
        metadata = {**obj["metadata"], "resourceVersion": str(self._version)}
        self.lease = copy.deepcopy({**obj, "metadata": metadata})
        self.writes.append((now(), self.lease["spec"]))
        return copy.deepcopy(self.lease)

    def put_record(self, holder: str, **fields: object) -> None:
        """Store the Lease with *holder* as its holder, as client-go writes it; *fields* are set in its spec, too."""
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


class OperatorPod:
    """A Pod of the operator. Its node's clock is *skew* seconds fast, and its kubelet reports *lag* seconds late."""

    def __init__(self, server: LeaseServer, name: str, *, skew: float = 0, lag: float = 0, bound: bool = True) -> None:
        """Create the Pod; if *bound* is true, the tokens of its processes are bound to it."""
        self.name = name
        self.skew = skew
        self.lag = lag
        self.uid = f"uid-{name}-{now()}"
        self.bound_to = self.uid if bound else ""
        self._server = server
        self._count = 0
        self._status: Object = {"name": "operator", "state": {"waiting": {}}, "lastState": {}}
        server.pods[name] = {"metadata": {"name": name, "uid": self.uid}, "status": {}}
        self.start()

    def start(self) -> None:
        """Start a container."""
        self._count += 1
        container = f"containerd://{self.uid}-{self._count}"
        state = {"running": {"startedAt": self._second()}}
        self._tell({"name": "operator", "containerID": container, "state": state, "lastState": self._status["state"]})

    def end(self) -> None:
        """End the container."""
        ended = {"containerID": self._status["containerID"], "exitCode": 137, "finishedAt": self._second()}
        self._tell({**self._status, "state": {"terminated": ended}})

    def delete(self) -> None:
        """Delete the Pod by force: its processes go on."""
        self._server.remove_pod(self.name)

    def _second(self) -> str:
        return (wall() + timedelta(seconds=self.skew)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _tell(self, status: Object) -> None:
        self._status = status
        asyncio.get_running_loop().call_later(self.lag, self._write, status)

    def _write(self, status: Object) -> None:
        if (pod := self._server.pods.get(self.name)) and pod["metadata"]["uid"] == self.uid:
            pod["status"] = {"containerStatuses": [status]}


class Fate(NamedTuple):
    """The fate of a request: the seconds that the request and its answer take, and whether one of the two gets lost."""

    there: float = 0.0
    back: float = 0.0
    request_lost: bool = False
    answer_lost: bool = False


class Link:
    """A client of the `LeaseServer`. A request arrives at the server even if its caller has given it up."""

    def __init__(self, server: LeaseServer, fates: Iterable[Fate] = (), bound_to: str = "") -> None:
        """Create a client of *server*. Its requests have the *fates* in order.

        Its token is bound to the Pod with the UID *bound_to*, or to no Pod if *bound_to* is empty.
        """
        self._server = server
        self._fates = iter(fates)
        self._bound_to = bound_to
        self.away = False
        self.hangs = False
        self.hides_pods = False
        """True if reads of Pods get no answer."""

    async def get(self, resource: Resource, key: Key) -> Object:
        if resource == POD and self.hides_pods:
            await asyncio.sleep(1e6)
        return await self._call(lambda: self._server.get(resource, key))

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
                self._server.authenticate(self._bound_to)
                result = act()
        except KubeError as error:
            result = error
        if fate.answer_lost:
            result = Unreachable("answer lost")
        asyncio.get_running_loop().call_later(fate.back, _give, answer, result)


def _give(answer: asyncio.Future[Object | KubeError], result: Object | KubeError) -> None:
    if not answer.done():
        answer.set_result(result)
