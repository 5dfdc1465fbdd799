"""Steps in which users change objects and faults happen around the operator, and checks of the state after them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from clustersim.control import Control
from clustersim.furniture import COREDNS, COREFILE
from clustersim.nodes import NODE_NAME
from hypothesis import strategies as st
from tsoperator.api.names import PROXY_GROUP
from tsoperator.api.objects import CONFIGMAP, DNSCONFIG, INGRESS, SERVICE, Object, annotations, key_of, resource_of
from tsoperator.kube.errors import Conflict, NotFound

from tests.operator.groupsteps import Stage, Step
from tests.support.groups import endpoints, replicas
from tests.support.manifests import DOMAIN, connector, dnsconfig, egress, group_egress, ingress, proxy_group
from tests.support.operator import NAMESPACE, World
from tests.support.othertailnet import NAME, OTHER_DOMAIN, OtherTailnet

NODES = (NODE_NAME, "node2")
FQDN, FAR = f"db.{DOMAIN}", f"db.{OTHER_DOMAIN}"
HERE = proxy_group("here", replicas=2)
THERE = proxy_group("there", replicas=1, tailnet=NAME)
OWN = egress("own", FQDN)
GROUPED = {
    "db": group_egress("db", "here", FQDN, 5432),
    "sql": group_egress("sql", "here", FQDN, 5432),
    "cache": group_egress("cache", "here", FQDN, 6379),
    "far": group_egress("far", "there", FAR, 5432),
}
ROUTER, GATE = connector("router"), connector("gate", exitNode=True, tailnet=NAME)
DNS = {**dnsconfig(), "spec": {"nameserver": {}, "clusterDNS": {"mode": "Managed"}}}
USERS: dict[str, Object] = {
    **{"here": HERE, "there": THERE, "own": OWN, **GROUPED},
    **{"router": ROUTER, "gate": GATE, "web": ingress(), "dns": DNS},
}
DEVICES = {"here": 2, "there": 1, "own": 1, "router": 1, "gate": 1, "web": 1}
"""The number of devices of each object; the devices of the objects in `ABROAD` are in the other tailnet."""
ABROAD = ("there", "gate")
PACES = (0.0, 0.05, 2.0, 70.0, 400.0)
"""The possible pauses in seconds: shorter than a reconcile, or until a dead node's Pods are unready, or deleted."""
NEVER = 10.0**6
"""Seconds after which a control server that hangs would answer."""
_MARK = "# BEGIN tailnet stub domain"  # the first line of the operator's part of the Corefile
_DOMAIN = f"{NAMESPACE}.svc.cluster.local"


@dataclass
class Play(Stage):
    """A world with an operator, another tailnet, and two nodes, in which steps change objects and cause faults."""

    other: OtherTailnet | None = None
    mended: int = 0

    @property
    def abroad(self) -> OtherTailnet:
        assert self.other
        return self.other

    def control(self, name: str) -> Control:
        return self.abroad.control if name == NAME else self.world.control

    async def take(self, step: Step) -> None:
        """Carry out *step* if its object exists, and after that, wait for the pause of the step."""
        with suppress(NotFound, Conflict):
            await getattr(self, step.what)(step)
        await asyncio.sleep(step.pace or 0)

    async def rest(self, _: Step) -> None: ...

    async def make(self, step: Step) -> None:
        await self.world.apply(USERS[step.whom])

    async def delete(self, step: Step) -> None:
        await self.world.delete(USERS[step.whom])

    async def change(self, step: Step) -> None:
        await self.world.change(USERS[step.whom], step.how)

    async def die(self, step: Step) -> None:
        """Make a node die, unless a node is dead already."""
        if not self.world.sim.store.silent_nodes:
            self.world.sim.kubelet.kill_node(step.whom)

    async def revive(self, _: Step) -> None:
        for name in {*self.world.sim.store.silent_nodes}:
            self.world.sim.kubelet.revive_node(name)

    async def succeed(self, _: Step) -> None:
        """Stop the operator, and start another one."""
        await self.stop()
        await self.start()

    async def spoil(self, _: Step) -> None:
        """Replace the credentials of the other tailnet by bad credentials."""
        await self.world.change(self.abroad.secret(), self.abroad.secret(client_id="bad", client_secret="bad"))

    async def mend(self, _: Step) -> None:
        """Write valid credentials into the Secret of the other tailnet again.

        The Secret always changes, so that the operator tries the credentials at once. It also tries them again after
        half a minute, but of real time, for which a test in virtual time doesn't wait.
        """
        good = self.abroad.control
        self.mended += 1
        secret = self.abroad.secret(
            client_id=good.client_id, client_secret=good.client_secret, comment=f"mended {self.mended}"
        )
        await self.world.change(secret, secret)

    async def hang(self, step: Step) -> None:
        """Make a control server accept requests and never answer."""
        self.control(step.whom).latency = NEVER

    async def answer(self, step: Step) -> None:
        self.control(step.whom).heal()

    async def revert(self, step: Step) -> None:
        """Set the external name of a Service to ``placeholder``, as when a user applies the manifest again."""
        await self.world.change(USERS[step.whom], {"spec": {"externalName": "placeholder"}})

    async def rewrite(self, step: Step) -> None:
        """Replace the Corefile by an administrator's own version, with a comment of theirs."""
        await self.world.api.patch(CONFIGMAP, key_of(COREDNS), {"data": {"Corefile": step.how}})

    async def heal(self) -> None:
        """End all faults."""
        for name in ("", NAME):
            await self.answer(Step("answer", name))
        await self.revive(Step("revive"))
        await self.mend(Step("mend"))
        await self.start()


def ports(*numbers: int) -> Object:
    return {"spec": {"ports": group_egress("", "", FQDN, *numbers)["spec"]["ports"]}}


def steps() -> st.SearchStrategy[Step]:
    pace = st.sampled_from(PACES)

    def step(what: str, whom: Sequence[str] = ("",), how: Sequence[Any] = (None,)) -> st.SearchStrategy[Step]:
        return st.builds(Step, st.just(what), st.sampled_from(whom), st.sampled_from(how), pace)

    return st.one_of(
        step("rest"),  # comes first: examples shrink to it
        step("make", [*USERS]),
        step("make", [*USERS]),
        step("delete", [*USERS]),
        step("change", [*GROUPED], [ports(5432), ports(6379), ports(5432, 6379)]),
        step("change", ["here"], [{"spec": {"replicas": count}} for count in (1, 3)]),
        step("die", NODES),
        step("revive"),
        step("succeed"),
        step("spoil"),
        step("mend"),
        step("hang", ["", NAME]),
        step("answer", ["", NAME]),
        step("revert", ["own", *GROUPED]),
        step("rewrite", [""], [COREFILE, f"{COREFILE}# ours\n"]),
    )


def wishes() -> st.SearchStrategy[frozenset[str]]:
    """Return a strategy for the objects that a user wants in the end: a Service is among them only if its group is."""

    def possible(chosen: set[str]) -> frozenset[str]:
        orphans = {name for name, service in GROUPED.items() if annotations(service)[PROXY_GROUP] not in chosen}
        return frozenset(chosen - orphans)

    return st.sets(st.sampled_from([*USERS])).map(possible)


async def grant(play: Play, wish: frozenset[str]) -> None:
    """End all faults, give the objects in *wish* their spec from `USERS` again, and delete the rest of `USERS`."""
    await play.heal()
    for name, obj in USERS.items():
        with suppress(NotFound):
            if name not in wish:
                await play.world.delete(obj)
            elif name in GROUPED or name == "here":
                spec = {each: value for each, value in obj["spec"].items() if each != "externalName"}
                await play.world.change(obj, {"spec": spec})


async def wrong(play: Play, wish: frozenset[str]) -> list[str]:
    """Return the differences between the world and the user's *wish* as texts, and create missing objects of *wish*."""
    world, found = play.world, []
    for name, obj in USERS.items():
        live = await world.find(resource_of(obj), key_of(obj).name, key_of(obj).namespace)
        if name in wish and live is None:
            await world.apply(obj)
        if (name in wish) != (live is not None and "deletionTimestamp" not in live["metadata"]):
            found.append(f"{name} is there" if live else f"{name} is not there")
        if name not in wish and obj["kind"] != DNSCONFIG.kind:
            found += await world.leftovers(obj)
    if not found:
        found += [f"{name}: {each}" for name in wish async for each in _wrong_object(world, name)]
        found += [f"{len(each)} devices: {each}" for each in _wrong_devices(play, wish)]
    return found or [each async for each in _wrong_names(world, wish)]


def _wrong_devices(play: Play, wish: frozenset[str]) -> list[list[str]]:
    counts = Counter({name in ABROAD: 0 for name in DEVICES})
    for name in DEVICES.keys() & wish:
        counts[name in ABROAD] += DEVICES[name]
    found = {abroad: sorted(proxies(play.control(NAME if abroad else ""))) for abroad in (True, False)}
    return [names for abroad, names in found.items() if len(names) != counts[abroad]]


def proxies(control: Control) -> list[str]:
    """Return the names of the devices of proxies in the tailnet of *control*."""
    return [each.name for each in control.devices.values() if "tag:db" not in each.tags]


_READY = {
    "ProxyGroup": ("ProxyGroupReady", "ProxyGroupReady"),
    "Connector": ("ConnectorReady", "ConnectorCreated"),
    "DNSConfig": ("NameserverReady", "NameserverCreated"),
}
_OF_GROUP = ("TailscaleEgressSvcReady", "ReadyToRouteTraffic")
_OWN = ("TailscaleProxyReady", "ProxyCreated")


async def _wrong_object(world: World, name: str) -> AsyncIterator[str]:
    obj = USERS[name]
    kind = obj["kind"]
    if kind == INGRESS.kind:
        status = (await world.look(obj)).get("status") or {}
        if not status.get("loadBalancer", {}).get("ingress"):
            yield "no hostname"
        return
    type_, wanted = _OF_GROUP if name in GROUPED else _READY.get(kind, _OWN)
    condition = await world.condition(obj, type_)
    if condition is None or (condition.status, condition.reason) != ("True", wanted):
        yield f"{condition}"
    if kind == DNSCONFIG.kind and (reason := await world.reason(obj, "ClusterDNSConfigured")) != "StubDomainWritten":
        yield reason
    if name in GROUPED:
        group = USERS[annotations(obj)[PROXY_GROUP]]
        pods = sorted(each for replica in await replicas(world, group) for each in replica.addresses if "." in each)
        serving = [sorted(each) for slice_, each in (await endpoints(world, obj)).items() if slice_.endswith("ipv4")]
        if serving != [pods]:
            yield f"served by {serving}, not {pods}"


async def _addresses(world: World, name: str) -> list[str]:
    """Return the addresses that the record for the Service or Ingress called *name* must have."""
    if name in GROUPED:
        external: str = (await world.look(USERS[name]))["spec"]["externalName"]
        place = await world.find(SERVICE, external.removesuffix(f".{_DOMAIN}"))
        return list(place["spec"]["clusterIPs"]) if place else []
    proxy = await world.proxy(USERS[name])
    return proxy.addresses if proxy else []


async def _wrong_names(world: World, wish: frozenset[str]) -> AsyncIterator[str]:
    """Yield the mistakes in the cluster's DNS: wrong records or stub domains, and records at odds with conditions.

    The condition of a Service says which object has the name that the Service asks for.
    """
    corefile = (await world.api.get(CONFIGMAP, key_of(COREDNS)))["data"]["Corefile"]
    records = {name: sorted(addresses) for name, addresses in (await world.records()).items()}
    if "dns" not in wish:
        if records or _MARK in corefile:
            yield f"records {records} and Corefile {corefile} without a DNSConfig"
        return
    wanted: dict[str, list[list[str]]] = {}
    if (count := corefile.count(_MARK)) != 1:
        yield f"{count} stub domains"
    if "far" in wish:
        wanted[FAR] = [sorted(await _addresses(world, "far"))]
    if "web" in wish and (proxy := await world.proxy(USERS["web"])):
        wanted[proxy.state["device_fqdn"].removesuffix(".")] = [sorted(proxy.addresses)]
    told = {name: await _holder(world, name) for name in ("own", *GROUPED) if name in wish}
    sharing = [sorted(each & wish) for each in ({"own"}, {"db", "sql"}, {"cache"})]
    for names in filter(None, sharing):
        others = {name for other in sharing if other != names for name in other}
        if all(told[name] == "" for name in names) and all(told[name] in names for name in others):
            wanted[FQDN] = [sorted([each for name in names for each in await _addresses(world, name)])]
    if {name: [each] for name, each in records.items()} != wanted:
        yield f"records {records}, not {wanted}; told of {told}"


async def _holder(world: World, name: str) -> str:
    """Return which Service has the DNS name that the Service *name* asks for, as the condition of *name* says.

    Return an empty text if that condition names no Service.
    """
    condition = await world.condition(USERS[name], "TailscaleEgressSvcValid" if name in GROUPED else _OWN[0])
    words = condition.message if condition else ""
    return words.partition("get to Service default/")[2].partition(",")[0]
