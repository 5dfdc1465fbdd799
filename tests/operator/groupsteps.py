"""Changes of ProxyGroups, egress Services and the operator, in any order, and checks of the state after them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from clustersim.objects import EVENT as SIM_EVENT
from clustersim.objects import LEASE as SIM_LEASE
from clustersim.objects import RESOURCES
from hypothesis import strategies as st
from tsoperator.api.names import ANNOTATION_TAILNET_FQDN, ANNOTATION_TAILNET_IP, PROXY_GROUP
from tsoperator.api.objects import (
    CONFIGMAP,
    ENDPOINTSLICE,
    POD,
    ROLE,
    SECRET,
    SERVICE,
    SERVICEACCOUNT,
    STATEFULSET,
    Object,
    Resource,
    key_of,
    labels,
    resource_of,
)
from tsoperator.kube.errors import Conflict, NotFound

from tests.support.groups import entries, replicas
from tests.support.manifests import DOMAIN, dnsconfig, group_egress, proxy_group
from tests.support.operator import NAMESPACE, World, running_operator

GRACE = 0.05
"""Seconds for which an old place stays."""
REST = 30.0
"""Seconds of virtual time after which `GRACE` and all other waits of the operator are over."""
GROUPS = {name: proxy_group(name, replicas=1) for name in ("blue", "green")}
SERVICES = {name: group_egress(name, "blue", f"{name}.{DOMAIN}") for name in ("db", "mail")}
MANIFESTS = {**GROUPS, **SERVICES, "dns": dnsconfig()}
TARGETS = (f"db.{DOMAIN}", f"other.{DOMAIN}", "100.64.7.7", "db.example.org", "")
"""The targets that a Service can name. The last two are invalid."""
_CHILDREN = (SERVICE, ENDPOINTSLICE, CONFIGMAP, STATEFULSET, POD, SECRET, SERVICEACCOUNT, ROLE)
KINDS = {resource.kind: resource for resource in _CHILDREN}
"""The kinds of children that a step can delete."""
PACES = (0.0, 0.01, 0.1, None)
"""The possible pauses in seconds; None waits until the operator has settled."""
_LOOKS = 60
_PAUSE = 1.0  # s between two calls
_DOMAIN = f"{NAMESPACE}.svc.cluster.local"
_MANAGED = "tailscale.com/managed=true"


class Step(NamedTuple):
    """A change in the world: its method of `Stage`, its object, its value and the pause after it."""

    what: str
    whom: str = ""
    how: Any = None
    pace: float | None = None


class Wish(NamedTuple):
    """The objects that the user wants in the end: the number of replicas by group, and the group of each Service.

    The name of the group is empty if the Service is to have a proxy of its own. All other objects have to be gone.
    """

    replicas: dict[str, int]
    services: dict[str, str]


@dataclass
class Stage:
    """A world with an operator that can be stopped, and the IDs of devices that have possibly lost their Secret."""

    world: World
    lost: set[str] = field(default_factory=set)
    operator: AsyncExitStack = field(default_factory=AsyncExitStack)
    runs: bool = False
    forgot: bool = False

    async def start(self) -> None:
        if not self.runs:
            await self.operator.enter_async_context(running_operator(self.world, move_grace=GRACE, newcomer_wait=GRACE))
            self.runs = True

    async def stop(self) -> None:
        await self.operator.aclose()
        self.runs = False

    async def comes_to_rest(self) -> None:
        """Assert that the operator writes nothing after some time has passed, and nothing when it starts again."""
        await asyncio.sleep(REST)
        written = await self.world.writes_when_left_alone()
        await self.stop()
        written += await self.world.writes_during(self.world.restart())
        await self.start()
        assert not written, written  # pytest explains the assertions of test modules only

    async def play(self, taken: Sequence[Step]) -> set[str]:
        """Start the operator, let it settle, and take the steps. Return `everything` from before the steps."""
        await self.start()
        await self.world.settled()
        before = everything(self.world)
        for step in taken:
            await self.take(step)
        return before

    async def take(self, step: Step) -> None:
        """Carry out *step* if its object exists, and after that, wait for the pause of the step."""
        with suppress(NotFound, Conflict):
            await _ACTS[step.what](self, step)
        if step.pace is None and self.runs:
            await self.world.settled()
        else:
            await asyncio.sleep(step.pace or 0)

    async def make(self, step: Step) -> None:
        await self.world.apply(MANIFESTS[step.whom])

    async def delete(self, step: Step) -> None:
        await self.world.delete(MANIFESTS[step.whom])

    async def change(self, step: Step) -> None:
        await self.world.change(MANIFESTS[step.whom], {"spec": step.how})

    async def move(self, step: Step) -> None:
        """Let a Service name another group, or none."""
        await self.world.annotate(MANIFESTS[step.whom], {PROXY_GROUP: step.how or None})

    async def lead(self, step: Step) -> None:
        await self.world.annotate(MANIFESTS[step.whom], leading(step.how))

    async def lose(self, step: Step) -> None:
        """Delete all children of the kind in *step*. But delete Secrets only while an operator runs that has seen them.

        Only the Secret of a proxy, and the memory of a running operator, tell which device the proxy has.
        """
        if (are_secrets := step.whom == SECRET.kind) and not self.runs:
            return
        if are_secrets:
            await self.world.settled()
        await self.world.delete(*(await self.world.api.list(KINDS[step.whom], NAMESPACE, _MANAGED)).items)
        if are_secrets:
            self.lost.update(self.world.control.devices)
            await self.world.settled()

    async def forget(self, _: Step) -> None:
        """Remove the device that was the latest to join.

        Only the first call does so: after a second removal, the proxy would wait 30 s for another auth key.
        """
        devices = [*self.world.control.devices.values()]
        if devices and not self.forgot:
            self.world.control.delete_device(devices[-1])
            self.forgot = True


_ACTS: dict[str, Callable[[Stage, Step], Awaitable[None]]] = {
    **{name: getattr(Stage, name) for name in ("make", "delete", "change", "move", "lead", "lose", "forget")},
    "rest": lambda _stage, _step: asyncio.sleep(0),
    "start": lambda stage, _: stage.start(),
    "stop": lambda stage, _: stage.stop(),
}


def leading(target: str) -> dict[str, str | None]:
    kind = ANNOTATION_TAILNET_IP if target[:1].isdigit() else ANNOTATION_TAILNET_FQDN
    return {ANNOTATION_TAILNET_FQDN: None, ANNOTATION_TAILNET_IP: None} | ({kind: target} if target else {})


def ports(*numbers: int) -> Object:
    """Return the part of a Service's spec with these ports: each with TCP, and those above 1,000 also with UDP."""
    found = [{"name": f"port-{each}", "port": each, "protocol": "TCP"} for each in numbers]
    found += [{"name": f"udp-{each}", "port": each, "protocol": "UDP"} for each in numbers if each > 1000]
    return {"ports": found}


_CHANGES: Sequence[Object] = [
    *({"replicas": count} for count in range(4)),
    {"tags": ["tag:gate"]},
    {"tags": None},
    {"hostnamePrefix": "gate"},
    {"hostnamePrefix": None},
    {"proxyClass": "missing"},
    {"proxyClass": None},
]
_EDITS: Sequence[Object] = [ports(80), ports(80, 443), ports(5432), ports(), {"externalName": "placeholder"}]


def steps() -> st.SearchStrategy[Step]:
    group, service = st.sampled_from([*GROUPS]), st.sampled_from([*SERVICES])
    pace = st.sampled_from(PACES)

    def step(what: str, whom: st.SearchStrategy[str], how: Sequence[Any] = (None,)) -> st.SearchStrategy[Step]:
        return st.builds(Step, st.just(what), whom, st.sampled_from(how), pace)

    nobody = st.just("")
    return st.one_of(
        step("rest", nobody),  # comes first: examples shrink to it
        step("make", st.sampled_from([*MANIFESTS])),
        step("make", service),
        step("make", group),
        step("move", service, [*GROUPS, "missing", ""]),
        step("move", service, [*GROUPS, ""]),
        step("change", group, _CHANGES),
        step("change", service, _EDITS),
        step("lead", service, TARGETS),
        step("delete", st.sampled_from([*MANIFESTS])),
        step("lose", st.sampled_from([*KINDS])),
        step("forget", nobody),
        step("stop", nobody),
        step("start", nobody),
    )


def wishes() -> st.SearchStrategy[Wish]:
    counts = st.fixed_dictionaries({name: st.integers(1, 2) for name in GROUPS})
    return st.builds(Wish, counts, st.dictionaries(st.sampled_from([*SERVICES]), st.sampled_from([*GROUPS, ""])))


async def grant(world: World, wish: Wish) -> None:
    """Apply the groups and Services in *wish*, and delete the other Services, whatever objects exist now."""
    for name, group in GROUPS.items():
        spec = {"replicas": wish.replicas[name], "tags": None, "hostnamePrefix": None, "proxyClass": None}
        await _there(world, group, {"spec": spec})
    for name, service in SERVICES.items():
        if name not in wish.services:
            with suppress(NotFound):
                await world.delete(service)
            continue
        annotations = {**leading(f"{name}.{DOMAIN}"), PROXY_GROUP: wish.services[name] or None}
        await _there(world, service, {"metadata": {"annotations": annotations}, "spec": ports(5432)})


async def _there(world: World, obj: Object, patch: Object) -> None:
    """Wait until *obj* is gone if it is being deleted, create it if it is missing, and apply *patch* to it."""

    async def stays() -> bool:
        live = await world.find(resource_of(obj), key_of(obj).name, key_of(obj).namespace)
        if live is None:
            with suppress(Conflict):
                await world.apply(obj)
        return live is not None and "deletionTimestamp" not in live["metadata"]

    await world.eventually(stays)
    await world.change(obj, patch)


async def wrong(stage: Stage, wish: Wish) -> list[str]:
    world = stage.world
    found = [f"{name}: {each}" for name in GROUPS async for each in _wrong_group(world, name, wish)]
    for name, service in SERVICES.items():
        if name in wish.services:
            found += [f"{name}: {each}" async for each in _wrong_service(world, service, wish.services[name])]
        else:
            found += [*await world.leftovers(service), *([] if await world.gone(service) else [f"{name} is there"])]
    devices = {*world.control.devices} - stage.lost
    count = sum(wish.replicas.values()) + [*wish.services.values()].count("")
    return found + ([f"{len(devices)} devices, not {count}"] if len(devices) > count else [])


async def _wrong_group(world: World, name: str, wish: Wish) -> AsyncIterator[str]:
    group = GROUPS[name]
    good = [each for each in await replicas(world, group) if each.is_ready and each.device_id]
    if len(good) != wish.replicas[name]:
        yield f"{len(good)} of {wish.replicas[name]} replicas"
    there = {*(await entries(world, group) or {})}
    if there != {f"default-{service}" for service, chosen in wish.services.items() if chosen == name}:
        yield f"the entries are {there}"
    if (reason := await world.reason(group, "ProxyGroupReady")) != "ProxyGroupReady":
        yield reason or "no condition"
    live = await world.look(group)
    seen = [each.get("observedGeneration") for each in (live.get("status") or {}).get("conditions") or ()]
    if live["metadata"]["generation"] not in seen:
        yield f"generation {seen} was seen"


async def _wrong_service(world: World, service: Object, group: str) -> AsyncIterator[str]:
    """Yield the mistakes in *service*, which must lead to the proxies of *group*, or to its own if *group* is empty."""
    places = await _listed(world, SERVICE, service)
    if (at := [labels(each)[PROXY_GROUP] for each in places]) != ([group] if group else []):
        yield f"places at {at}"
        return
    shown = await world.reason(service, "TailscaleEgressSvcReady" if group else "TailscaleProxyReady")
    if shown != ("ReadyToRouteTraffic" if group else "ProxyCreated"):
        yield shown or "no condition"
    names = [key_of(each).name for each in places or await world.children(STATEFULSET, service)]
    if (await world.look(service))["spec"]["externalName"] not in [f"{each}.{_DOMAIN}" for each in names]:
        yield f"does not lead to {names}"
    slices = await _listed(world, ENDPOINTSLICE, service)
    serving = sorted(endpoint["addresses"][0] for each in slices for endpoint in each["endpoints"] or ())
    proxies = await replicas(world, GROUPS[group]) if group else []
    if serving != sorted(address for each in proxies for address in each.addresses if "." in address):
        yield f"served by {serving}"


async def _listed(world: World, resource: Resource, service: Object) -> list[Object]:
    """Return the places of *service* at ProxyGroups, or the EndpointSlices of these places, as *resource* says."""
    selector = f"tailscale.com/parent-resource={key_of(service).name},tailscale.com/svc-type=egress"
    return (await world.api.list(resource, NAMESPACE, selector)).items


def everything(world: World) -> set[str]:
    """Return the kinds and keys of all objects in the cluster except Events and the Lease."""
    resources = {*RESOURCES} - {SIM_EVENT, SIM_LEASE}
    return {f"{resource.kind} {key_of(obj)}" for resource in resources for obj in world.store.list(resource)}


async def end(world: World, *others: Object) -> None:
    for obj in (*MANIFESTS.values(), *others):
        with suppress(NotFound):
            await world.delete(obj)


async def soon_empty(look: Callable[[], Awaitable[Collection[str]]], pause: float = _PAUSE) -> None:
    """Wait until *look* returns an empty collection.

    In virtual time a wait costs less than a call, so the pause between two calls is long: *pause* seconds.
    """
    for _ in range(_LOOKS):
        if not await look():
            return
        await asyncio.sleep(pause)
    found = sorted(await look())
    assert found == [], found
