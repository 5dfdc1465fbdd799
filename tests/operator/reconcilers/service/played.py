"""A ProxyGroup whose objects and reports a test writes, and a run of only the reconcilers of Services and records."""

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry
from tsoperator.api.conditions import condition, set_condition
from tsoperator.api.names import CONDITION_PROXYGROUP_AVAILABLE, EGRESS_SERVICES, PROXY_GROUP
from tsoperator.api.objects import (
    CONFIGMAP,
    DEVICE,
    ENDPOINTSLICE,
    POD,
    PROXYGROUP,
    SECRET,
    SERVICE,
    SUFFIXES,
    Key,
    Object,
    Resource,
    Signal,
    key_of,
)
from tsoperator.group.egress import entry_name, entry_of, served_service
from tsoperator.group.grouptype import EGRESS
from tsoperator.group.proxygroup import group_owner
from tsoperator.kube.errors import AlreadyExists, KubeError
from tsoperator.proxy.entries import Entry, render_entries
from tsoperator.reconcilers.dnsrecords.reconciler import dnsrecords
from tsoperator.reconcilers.proxies import Proxies
from tsoperator.reconcilers.service.reconciler import services
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.controller import ControllerMetrics, Policy
from tsoperator.runtime.kind import KindReconciler
from tsoperator.runtime.manager import Feed, Manager, Reconciler
from tsoperator.sources import sources
from tsoperator.tailnet.devices import ListPace
from tsoperator.tailnet.suffixes import KnownSuffixes
from tsoperator.tsclient.errors import ControlError

from tests.support.cluster import running
from tests.support.hosting import QUIET, no_hosting
from tests.support.manifests import FQDN, group_egress, proxy_group
from tests.support.objects import settings
from tests.support.operator import NAMESPACE, World
from tests.support.tailnets import applier, running_tailnets, tailnet_client

VALID, CONFIGURED, READY = (f"TailscaleEgressSvc{name}" for name in ("Valid", "Configured", "Ready"))
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
CLUSTER_DOMAIN = "k8s.example.org"
GRACE = 0.3
"""Seconds for which an old place stays, and for which a new Pod waits for connections, in these tests."""
_SETTINGS = {"cluster_domain": CLUSTER_DOMAIN, "move_grace": GRACE, "newcomer_wait": GRACE}


def grouped(name: str = "db", group: str = "egress", *ports: int) -> Object:
    """Return the egress Service *name*, which names *group* and has these *ports*."""
    return group_egress(name, group, FQDN, *ports)


async def make_namespaces(world: World, *names: str) -> None:
    """Create namespaces of users. No test deletes them."""
    for name in names:
        with suppress(AlreadyExists):
            await world.api.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


@asynccontextmanager
async def running_services(world: World, pace: ListPace | None = None, **changes: Any) -> AsyncIterator[None]:
    """Run the reconcilers of Services and of records on the cluster of *world* until the end of the block.

    The operator lists the devices at this *pace*. *changes* replace settings of the operator.
    """
    chosen = settings(**{**_SETTINGS, "login_server": world.control_url, **changes})
    cache = Cache(sources(NAMESPACE))
    async with (
        world.operators_client() as client,
        tailnet_client(world.control, world.control_url) as tailnet,
        running_tailnets(tailnet, client, cache, chosen, pace) as tailnets,
    ):
        acting = applier(client, cache, tailnets)
        suffixes = KnownSuffixes(cache, tailnets)
        proxies = Proxies(cache, acting, tailnets, chosen, suffixes=suffixes.current)
        hosting = no_hosting(cache, chosen)
        reconcilers: list[Reconciler] = [
            KindReconciler(services(proxies, client, hosting), cache, acting),
            KindReconciler(dnsrecords(cache, chosen, hosting, suffixes.current), cache, acting),
        ]
        metrics = ControllerMetrics(CollectorRegistry())
        policy = Policy(expected=(KubeError, ControlError))
        feeds: dict[Signal, Feed] = {DEVICE: tailnets, SUFFIXES: suffixes.feed, **QUIET}
        manager = Manager(cache, reconcilers, metrics, policy, feeds=feeds)
        async with running(manager.run(client, None)):
            yield


@dataclass(frozen=True, slots=True)
class PlayedGroup:
    """A ProxyGroup called *name* with *replicas*. A test acts in place of the operator and of the group's proxies."""

    world: World
    name: str = "egress"
    replicas: int = 2

    async def start(self, type_: str = "egress") -> None:
        """Make the ProxyGroup, set its condition to available, and make its ConfigMap, Pods and state Secrets."""
        await self.world.apply(proxy_group(self.name, type=type_, replicas=self.replicas))
        await self.available(True)
        await self.world.apply(self._child(CONFIGMAP.kind, EGRESS.config_name(self.name)))
        for ordinal in range(self.replicas):
            await self.start_pod(ordinal)
            await self.world.apply(self._child(SECRET.kind, f"{self.name}-{ordinal}"))

    async def stop(self) -> None:
        """Delete all objects that `start` made."""
        await self.world.api.delete(PROXYGROUP, Key("", self.name))
        await self.world.delete(self._child(CONFIGMAP.kind, EGRESS.config_name(self.name)))
        for ordinal in range(self.replicas):
            await self.world.delete(*(self._child(kind, f"{self.name}-{ordinal}") for kind in (POD.kind, SECRET.kind)))
            await self.world.eventually(lambda ordinal=ordinal: self._is_gone(ordinal))  # type: ignore[misc]  # a value

    async def _is_gone(self, ordinal: int) -> bool:
        return await self.world.find(POD, f"{self.name}-{ordinal}") is None

    async def available(self, value: bool) -> None:
        """Set the ProxyGroup's condition that says whether the group has a proxy that runs."""
        live = await self.world.api.get(PROXYGROUP, Key("", self.name))
        shown = condition(CONDITION_PROXYGROUP_AVAILABLE, value, "Test", "")
        status = {"conditions": set_condition([], [shown], "2026-01-02T03:04:05Z")}
        await self.world.api.replace_status(PROXYGROUP, {**live, "status": status})

    async def start_pod(self, ordinal: int) -> None:
        """Make a Pod, and wait for its address."""
        spec = {"containers": [{"name": "tailscale", "image": "example.org/played:1"}]}
        await self.world.apply({**self._child(POD.kind, f"{self.name}-{ordinal}"), "spec": spec})
        await self.world.eventually(lambda: self.addresses(ordinal))

    async def replace_pod(self, ordinal: int) -> None:
        """Delete a Pod, and make another one with the same name."""
        await self.world.delete(self._child(POD.kind, f"{self.name}-{ordinal}"))
        await self.world.eventually(lambda: self._is_gone(ordinal))
        await self.start_pod(ordinal)

    async def addresses(self, ordinal: int) -> list[str]:
        """Return the addresses of a Pod."""
        pod = await self.world.api.get(POD, Key(NAMESPACE, f"{self.name}-{ordinal}"))
        return [each["ip"] for each in (pod.get("status") or {}).get("podIPs") or ()]

    async def entries(self) -> dict[str, Entry]:
        """Return the entries that the ConfigMap should have."""
        places = (await self.world.api.list(SERVICE, NAMESPACE, f"{PROXY_GROUP}={self.name}")).items
        found = {entry_name(served_service(each)): entry_of(each, CLUSTER_DOMAIN) for each in places}
        return {name: entry for name, entry in found.items() if entry}

    async def configure(self, entries: dict[str, Entry] | None = None) -> None:
        """Write *entries* into the ConfigMap. Without *entries*, write those that it should have."""
        found = await self.entries() if entries is None else entries
        configmap = self._child(CONFIGMAP.kind, EGRESS.config_name(self.name))
        await self.world.change(configmap, {"binaryData": {EGRESS_SERVICES: render_entries(found)}})

    async def report(self, *ordinals: int, entries: dict[str, Entry] | None = None) -> None:
        """Let the proxies with these *ordinals*, or all proxies, report *entries*.

        Without *entries*, the proxies report those that the ConfigMap should have.
        """
        chosen = await self.entries() if entries is None else entries
        services = {
            name: {
                "ports": [{"protocol": a, "matchPort": b, "targetPort": c} for a, b, c in sorted(entry.ports)],
                "tailnetTarget": {"ip": entry.ip, "fqdn": entry.fqdn},
            }
            for name, entry in chosen.items()
        }
        for ordinal in ordinals or range(self.replicas):
            found = {("podIPv6" if ":" in ip else "podIPv4"): ip for ip in await self.addresses(ordinal)}
            text = json.dumps({**found, "services": services})
            secret = self._child(SECRET.kind, f"{self.name}-{ordinal}")
            await self.world.change(secret, {"data": {EGRESS_SERVICES: b64encode(text.encode()).decode()}})

    async def play(self) -> None:
        """Write and report the right entries whenever they change, until cancelled."""
        told: dict[str, Entry] = {}
        with self.world.store.subscribe() as changes:
            while True:
                if (entries := await self.entries()) != told:
                    await self.configure(entries)
                    await self.report(entries=entries)
                    told = entries
                await changes.batch()

    async def place(self) -> Object | None:
        """Return the ClusterIP Service at this group, or None unless there is exactly one."""
        found = (await self.world.api.list(SERVICE, NAMESPACE, f"{PROXY_GROUP}={self.name}")).items
        return found[0] if len(found) == 1 else None

    async def endpoints(self) -> dict[str, list[str]]:
        """Return the addresses in the EndpointSlices at this group, by the last part of the EndpointSlice's name."""
        slices = (await self.world.api.list(ENDPOINTSLICE, NAMESPACE, f"{PROXY_GROUP}={self.name}")).items
        return {
            key_of(each).name.rpartition("-")[2]: sorted(
                ip for end in each["endpoints"] or () for ip in end["addresses"]
            )
            for each in slices
        }

    async def led(self) -> dict[str, list[str]]:
        """Return the addresses to which each port leads in the EndpointSlices at this group, by the port's name."""
        slices = (await self.world.api.list(ENDPOINTSLICE, NAMESPACE, f"{PROXY_GROUP}={self.name}")).items
        return {
            port["name"]: sorted(ip for end in each["endpoints"] or () for ip in end["addresses"])
            for each in slices
            for port in each["ports"]
        }

    def _child(self, kind: str, name: str) -> Object:
        metadata = {"namespace": NAMESPACE, "name": name, "labels": group_owner(self.name).labels}
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata}
