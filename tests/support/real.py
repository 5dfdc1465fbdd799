"""A world on a real API server and its controllers, with a simulated node and a simulated control server.

No kubelet and no scheduler runs there. The Mirror, a copy of the cluster, follows the API server. clustersim's kubelet
runs the Pods of the Mirror, and the Mirror sends the kubelet's writes to the API server.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, closing, suppress
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import yaml
from clustersim import kubelet, objects
from clustersim.control import Control
from clustersim.furniture import COREDNS, chart
from clustersim.health import HealthProxy
from clustersim.loadbalancers import LoadBalancers
from clustersim.merge import merge_patch
from clustersim.nodes import NODE_NAME, node
from clustersim.store import Store
from clustersim.tailnet import Tailnets
from operatorbench.audit import AuditLog
from tsoperator.api.objects import POD, Object, Resource, key_of, resource_of
from tsoperator.kube.client import KubeClient
from tsoperator.kube.config import load_configuration
from tsoperator.kube.errors import AlreadyExists, Conflict, NotFound, Rejected
from tsoperator.kube.watch import Changed, Deleted, Listed, Selection, Unserved, updates

from tests.support.manifests import egress, ingress
from tests.support.operator import NAMESPACE, World
from tests.support.rbac import operators_rights

QUIET = 0.15
"""The seconds of a quiet period. After two periods without a change in the cluster, the operator counts as settled."""

PATIENCE = 75.0
"""The seconds after which a wait for a condition fails. The garbage collector looks for new kinds only every 30 s."""

CRDS = Path(__file__).parents[2] / "charts" / "tailscale-operator" / "files" / "crds"
KINDS = (
    *objects.CUSTOM_RESOURCES, objects.SERVICE, objects.INGRESS, objects.STATEFULSET, objects.DEPLOYMENT,
    objects.REPLICASET, objects.POD, objects.SECRET, objects.CONFIGMAP, objects.ENDPOINTSLICE,
    objects.SERVICEACCOUNT, objects.ROLE, objects.ROLEBINDING, objects.ADMISSIONPOLICY, objects.ADMISSIONBINDING,
    objects.LEASE, objects.EVENT, objects.NODE,
)  # fmt: skip
"""The kinds of objects that tests or the operator create or read."""

OPERATOR = "system:serviceaccount:tailscale:operator"
"""The API server's user for the operator, with the chart's rights. The test and the node use another user."""

_FURNITURE = {
    "default",
    "operator",
    "proxies",
    "kubernetes",
    "kube-root-ca.crt",
    NODE_NAME,
}  # the names of objects that are in the namespaces before any test
_NEVER_THERE = (*objects.CUSTOM_RESOURCES, objects.SECRET)
_RBAC = "rbac.authorization.k8s.io"
_PATCH = "application/strategic-merge-patch+json"  # like a kubelet's: conditions that others set meanwhile stay
_EMPTYING = 60.0  # s: the time limit for the removal of the previous test's objects
_AT_ONCE = 8  # the most requests for the removal at once
_SERVING = 15.0  # s: the time limit until the API server serves a new kind
_LOOK_AGAIN = 0.05  # s
_TRY_AGAIN = 0.5  # s after which the removal of the remaining objects is tried again


class Write(NamedTuple):
    """A write of a node: the *uid* of the object, a *patch* with the changes, and a function that sends the write."""

    uid: str
    patch: Object
    send: Callable[[KubeClient], Awaitable[object]]


class Mirror(Store):
    """A copy of the cluster that follows the API server, and stores the node's writes until the API server has them."""

    def __init__(self) -> None:
        super().__init__(namespaces=())
        self._queue: asyncio.Queue[Write] = asyncio.Queue()
        self._unconfirmed: list[Write] = []
        self._listed: set[objects.Resource] = set()
        self.complete = asyncio.Event()

    def merge(
        self, resource: objects.Resource, namespace: str, name: str, patch: Object, subresource: str = ""
    ) -> Object:
        """Merge a *patch* of the node into an object of the Mirror, and send it to the API server later."""
        old = self.get(resource, namespace, name)
        new = super().merge(resource, namespace, name, patch, subresource)
        if new is not old:
            if resource == objects.POD and not subresource:
                self._send(old, patch, lambda client: _bind(client, old))
            else:
                sent = {**patch, "metadata": {"uid": old["metadata"]["uid"]}}
                path = _named(resource).path(namespace, name, subresource)
                self._send(old, patch, lambda client: client._call("PATCH", path, body=sent, content_type=_PATCH))
        return new

    def _send(self, obj: Object, patch: Object, send: Callable[[KubeClient], Awaitable[object]]) -> None:
        write = Write(obj["metadata"]["uid"], patch, send)
        self._unconfirmed.append(write)
        self._queue.put_nowait(write)

    async def follow(self, client: KubeClient, resource: objects.Resource) -> None:
        """Follow the API server's objects of one kind."""
        async for update in updates(client, Selection(_named(resource))):
            match update:
                case Listed(items):
                    self._replace(resource, [obj for obj in items if _matters(obj)])
                case Changed(obj) if _matters(obj):
                    self._take(resource, obj)
                case Deleted(obj) if _matters(obj):
                    self.disown(resource, *key_of(obj))
                case Unserved():
                    raise AssertionError(f"the API server doesn't know {resource}")

    async def send(self, client: KubeClient) -> None:
        """Send the writes of the node to the API server, in order, until cancelled."""
        while True:
            write = await self._queue.get()
            with suppress(NotFound, Conflict, Rejected):  # the object is gone, or another object has its name now
                await write.send(client)
            self._unconfirmed.remove(write)

    def _replace(self, resource: objects.Resource, items: list[Object]) -> None:
        """Make *items* the only objects of a kind in the Mirror."""
        for gone in {key_of(obj) for obj in self.list(resource)} - {key_of(obj) for obj in items}:
            self.disown(resource, *gone)
        for obj in items:
            self._take(resource, obj)
        self._listed.add(resource)
        if self._listed >= set(KINDS):
            self.complete.set()

    def _take(self, resource: objects.Resource, obj: Object) -> None:
        """Put *obj* into the Mirror, together with the node's writes that the API server doesn't have yet."""
        if resource == objects.POD and "deletionTimestamp" in obj["metadata"]:
            self._send(obj, {}, lambda client: _end(client, obj))
            return  # a deleted Pod runs until it is gone
        same = (write for write in self._unconfirmed if write.uid == obj["metadata"]["uid"])
        self.adopt(resource, reduce(_merged, (write.patch for write in same), obj))

    def leftovers(self) -> list[tuple[objects.Resource, Object]]:
        """Return all objects except those that are in a cluster before any test."""
        everything = ((resource, obj) for resource in KINDS for obj in self.list(resource))
        return [each for each in everything if not _stands(*each)]


@asynccontextmanager
async def real_world(kubeconfig: Path) -> AsyncIterator[World]:
    """Empty the cluster of a testbed's API server, and run a World on it. Nothing else is allowed to use this cluster.

    *kubeconfig* is that of the cluster's admin. Fail at the end if the API server has denied the operator a request.
    """
    operators = kubeconfig.parent / "kubeconfigs" / f"{OPERATOR.replace(':', '-')}.json"
    content = await asyncio.to_thread(operators.read_text)
    async with _client(kubeconfig) as client, asyncio.TaskGroup() as tasks:
        mirror, control = Mirror(), Control()
        tailnets = Tailnets(control)
        nodes, balancers = kubelet.Kubelet(mirror, tailnets), LoadBalancers(mirror)
        programs = [tasks.create_task(mirror.follow(client, resource)) for resource in KINDS]
        programs.append(tasks.create_task(mirror.send(client)))
        await _start(client, mirror)
        programs += [tasks.create_task(nodes.run()), tasks.create_task(balancers.run())]
        health = HealthProxy(mirror, nodes.ask)
        async with control.serve() as control_url, health.serve() as health_url:
            with closing(AuditLog(kubeconfig.parent / "audit.log", OPERATOR)) as log:
                yield World(
                    client,
                    mirror,
                    control,
                    control_url,
                    content,
                    log.requests,
                    tailnets,
                    health_url,
                    balancers,
                    QUIET,
                    PATIENCE,
                )
                log.requests()
                assert not log.denied
        for program in programs:
            program.cancel()


async def _start(client: KubeClient, mirror: Mirror) -> None:
    """Wait until the Mirror has the objects of the cluster, and delete all objects of earlier tests."""
    try:
        async with asyncio.timeout(_EMPTYING):
            await mirror.complete.wait()
            await _empty(client, mirror)
            await _forget_policies(client)
            await _put(client, {"apiVersion": "v1", "kind": "ConfigMap", **COREDNS}, _named(objects.CONFIGMAP))
    except TimeoutError:
        left = [f"{resource.plural} {obj['metadata']}" for resource, obj in mirror.leftovers()]
        raise AssertionError(f"the cluster isn't empty after {_EMPTYING:g} s: {left}") from None


async def prepare(kubeconfig: Path) -> None:
    """Create the objects that are in a cluster before the operator is installed."""
    definitions = [yaml.load(file.read_text(), yaml.CSafeLoader) for file in CRDS.glob("*.yaml")]
    namespace = {"metadata": {"name": NAMESPACE}}
    async with _client(kubeconfig) as client:
        await _create(client, objects.NAMESPACE, namespace)
        await _create(client, objects.NODE, node())
        for furniture, obj in chart(NAMESPACE):
            await _create(client, furniture, obj)
        for definition in definitions:
            await _define(client, definition)
        for right in _rights():
            kind = right["kind"]
            resource = Resource(_RBAC, "v1", f"{kind.lower()}s", kind, namespaced=not kind.startswith("Cluster"))
            await _put(client, right, resource)


async def _create(client: KubeClient, resource: objects.Resource, obj: Object) -> None:
    with suppress(AlreadyExists):  # from an earlier run of the tests
        await client.create(_named(resource), {"apiVersion": resource.api_version, "kind": resource.kind, **obj})


def _rights() -> Iterator[Object]:
    """Yield the chart's roles for the operator, and the bindings that give them to the user `OPERATOR`."""
    for obj in operators_rights():
        subjects = [{"apiGroup": _RBAC, "kind": "User", "name": OPERATOR}]
        yield obj | ({"subjects": subjects} if "subjects" in obj else {})


async def _put(client: KubeClient, obj: Object, resource: Resource) -> None:
    """Create *obj*. If an earlier run has left the object, update it."""
    try:
        await client.create(resource, obj)
    except AlreadyExists:
        await client.replace(resource, obj)


async def _define(client: KubeClient, definition: Object) -> None:
    """Create a CRD, or update the one that an earlier run has left, and wait until the API server serves its kind."""
    crd, spec = _named(objects.CRD), definition["spec"]
    try:
        await client.create(crd, definition)
    except AlreadyExists:
        version = (await client.get(crd, key_of(definition)))["metadata"]["resourceVersion"]
        metadata = {**definition["metadata"], "resourceVersion": version}
        await client.replace(crd, {**definition, "metadata": metadata})
    kind = Resource(spec["group"], spec["versions"][0]["name"], spec["names"]["plural"], spec["names"]["kind"])
    async with asyncio.timeout(_SERVING):
        while not await _is_served(client, kind):  # noqa: ASYNC110 (the API server tells nobody when)
            await asyncio.sleep(_LOOK_AGAIN)


async def _is_served(client: KubeClient, kind: Resource) -> bool:
    try:
        await client.list(kind)
    except NotFound:
        return False
    return True


@asynccontextmanager
async def _client(kubeconfig: Path) -> AsyncIterator[KubeClient]:
    async with KubeClient(await load_configuration(str(kubeconfig)), request_timeout=30) as client:
        yield client


async def _empty(client: KubeClient, mirror: Mirror) -> None:
    """Delete the objects that the previous test left, again and again until none remains."""
    some = asyncio.Semaphore(_AT_ONCE)

    async def remove(resource: objects.Resource, obj: Object) -> None:
        async with some:
            await _remove(client, _named(resource), obj)

    with mirror.subscribe() as changes:
        while left := mirror.leftovers():
            await asyncio.gather(*(remove(*each) for each in _unmarked(left)))
            with suppress(TimeoutError):  # a controller can have undone or hindered a removal, so the loop tries again
                async with asyncio.timeout(_TRY_AGAIN):
                    await changes.batch()


async def _forget_policies(client: KubeClient) -> None:
    """Wait until the API server enforces no ProxyGroupPolicy of the previous test. It notices changes once a second."""
    for plain in (egress("probe", proxy_group="any"), ingress("probe", proxy_group="any")):
        path = resource_of(plain).path(key_of(plain).namespace)
        while True:
            try:
                await client._call("POST", path, {"dryRun": "All"}, body=plain)
                break
            except Rejected:
                await asyncio.sleep(_LOOK_AGAIN)


def _unmarked(found: Iterable[tuple[objects.Resource, Object]]) -> Iterable[tuple[objects.Resource, Object]]:
    """Yield *found* without deleted objects that have no finalizers, which disappear without further help."""
    for resource, obj in found:
        if "deletionTimestamp" not in obj["metadata"] or obj["metadata"].get("finalizers"):
            yield resource, obj


async def _remove(client: KubeClient, resource: Resource, obj: Object) -> None:
    """Delete *obj*, and then remove its finalizers.

    In the other order, a ProxyGroupPolicy could refuse the change of the finalizers.
    """
    with suppress(NotFound, Conflict):  # a controller has deleted it already, or has made another object of its name
        if resource == POD:
            await _end(client, obj)
        else:
            await client.delete(resource, key_of(obj), uid=obj["metadata"]["uid"])
        if obj["metadata"].get("finalizers"):
            await client.patch(resource, key_of(obj), {"metadata": {"finalizers": None}})


def _matters(obj: Object) -> bool:
    """Tell whether *obj* matters to a test: it isn't in a namespace of the control plane, nor a controller's Event."""
    told_by = (obj.get("source") or {}).get("component", "") if obj["kind"] == "Event" else ""
    return not obj["metadata"].get("namespace", "").startswith("kube-") and not told_by.endswith("-controller")


def _merged(obj: Object, patch: Object) -> Object:
    """Return *obj* with the node's *patch* merged into it. Keep the conditions of other types that *obj* has."""
    made: Object = merge_patch(obj, patch)
    given = (patch.get("status") or {}).get("conditions") or ()
    if not given:
        return made
    mine = {each["type"] for each in given}
    others = [each for each in obj["status"].get("conditions") or () if each["type"] not in mine]
    return {**made, "status": {**made["status"], "conditions": [*others, *given]}}


def _stands(resource: objects.Resource, obj: Object) -> bool:
    """Tell whether *obj* exists before any test. A custom resource or a Secret never does."""
    return resource not in _NEVER_THERE and obj["metadata"]["name"] in _FURNITURE


def _bind(client: KubeClient, pod: Object) -> Awaitable[object]:
    """Place *pod* on the node."""
    key = key_of(pod)
    target = {"apiVersion": "v1", "kind": "Node", "name": NODE_NAME}
    metadata = {"namespace": key.namespace, "name": key.name, "uid": pod["metadata"]["uid"]}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    return client.create(Resource("", "v1", f"pods/{key.name}/binding", "Binding"), binding)


def _end(client: KubeClient, pod: Object) -> Awaitable[object]:
    """Confirm as the kubelet that *pod*, which is being deleted, has ended. `KubeClient.delete` can't do that."""
    key = key_of(pod)
    options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
    return client._call("DELETE", _named(objects.POD).path(key.namespace, key.name), body=options)


def _named(resource: objects.Resource) -> Resource:
    """Return the operator's `Resource` for *resource*, the same kind as clustersim describes it."""
    return Resource(resource.group, resource.version, resource.plural, resource.kind, resource.namespaced)
