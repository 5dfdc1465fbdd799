"""A cluster in which the reconciler of Tailscale Services runs, and simple stand-ins for the reconcilers beside it.

The stand-ins hold and release the finalizers of Ingresses and Services, and write the ConfigMaps of groups.
"""

import asyncio
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from clustersim import objects
from clustersim.sim import ClusterSim, SimOptions, cluster_sim
from clustersim.tailnetservices import TailscaleService
from prometheus_client import CollectorRegistry
from tsoperator.api.names import LABEL_SECRET_TYPE, SECRET_TYPE_CONFIG, SECRET_TYPE_STATE
from tsoperator.api.objects import (
    CONFIGMAP,
    IDENTITY,
    INGRESS,
    PROXYGROUP,
    ROLE,
    ROLEBINDING,
    SECRET,
    SERVICE,
    TAILSCALE_SERVICE,
    Key,
    Object,
    Resource,
    has_finalizer,
    is_deleting,
    key_of,
    labels,
    resource_of,
)
from tsoperator.api.owners import ANNOTATION_OWNERS, joined
from tsoperator.app import PATIENCE
from tsoperator.group.claims import claim_of, finalizer_of
from tsoperator.group.hosted import is_owned
from tsoperator.group.proxygroup import group_owner
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import KubeError
from tsoperator.proxy.hosting import Mapped, hosted, rules_document, serve_document
from tsoperator.reconcilers.hosting import HostingView, HostingWorld, tailnet_of
from tsoperator.reconcilers.tailscaleservice.reconciler import tailscaleservices
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.controller import ControllerMetrics, Policy
from tsoperator.runtime.feeds import Announcer
from tsoperator.runtime.kind import Kind, KindReconciler
from tsoperator.runtime.manager import Manager, Watches
from tsoperator.runtime.plan import Child, Plan, Refusal
from tsoperator.sources import sources
from tsoperator.tsclient.errors import ControlError

from tests.support.cluster import kube_client, put, running, until
from tests.support.manifests import DOMAIN
from tests.support.objects import OPERATOR_NAMESPACE, obj, settings, whole_secret
from tests.support.tailnets import applier, running_tailnets, tailnet_client

US, THEM = "nUS", "nTHEM"
SETTINGS = settings(proxy_tags=("tag:k8s",))


def group(name: str = "ing") -> list[Object]:
    """Return a ProxyGroup whose only proxy has joined the tailnet, with the Secrets of the proxy."""
    of_group = group_owner(name).labels
    state = {"device_id": f"n{name}", "device_fqdn": f"{name}-0.{DOMAIN}.", "device_ips": '["100.64.0.9"]'}
    return [
        obj(PROXYGROUP, Key("", name), {"spec": {"type": "ingress"}}),
        whole_secret(f"{name}-0", state, {**of_group, LABEL_SECRET_TYPE: SECRET_TYPE_STATE}),
        advertising(name),
    ]


def advertising(group: str, *services: str) -> Object:
    """Return the config Secret of a *group*'s proxy, which tells the proxy to advertise *services*."""
    config = {"cap-106.hujson": {"Version": "alpha0", "AdvertiseServices": [*services]}}
    return whole_secret(
        f"{group}-0-config", config, {**group_owner(group).labels, LABEL_SECRET_TYPE: SECRET_TYPE_CONFIG}
    )


def owned(name: str, *ids: str, **fields: Any) -> TailscaleService:
    """Return the Tailscale Service *name*, whose owners are the operators with these *ids*."""
    found: dict[str, str] = {}
    for each in ids:
        found = joined(found, each)
    return TailscaleService(name, **{"ports": ("tcp:443",), "tags": ("tag:k8s",), "annotations": found, **fields})


@dataclass
class Identity:
    """The operator's ID, and the feed that announces its changes."""

    node_id: str = US
    feed: Announcer = field(default_factory=partial(Announcer, IDENTITY))

    def becomes(self, node_id: str) -> None:
        """Change the operator's ID to *node_id*, and announce that."""
        self.node_id = node_id
        self.feed.announce()


@dataclass
class Scene:
    """A cluster without controllers, and its tailnet."""

    sim: ClusterSim
    client: KubeClient
    identity: Identity = field(default_factory=Identity)

    async def make(self, *objects: Object) -> None:
        """Create *objects* in the cluster."""
        await put(self.client, *objects)

    async def change(self, manifest: Object, patch: Object) -> None:
        """Merge *patch* into the object with the kind and the key of *manifest*."""
        await self.client.patch(resource_of(manifest), key_of(manifest), patch)

    async def delete(self, manifest: Object) -> None:
        """Delete the object with the kind and the key of *manifest*. Its finalizers can delay its end."""
        await self.client.delete(resource_of(manifest), key_of(manifest))

    @property
    def services(self) -> dict[str, tuple[str, ...]]:
        """The owners of each Tailscale Service, by the label of the Service."""
        present = self.sim.control.services.present.values()
        return {each.label: owners_of(each) for each in present}

    def service(self, label: str) -> TailscaleService:
        """Return the Tailscale Service with this *label*."""
        return self.sim.control.services.present[f"svc:{label}"]

    @property
    def certificates(self) -> dict[str, set[str]]:
        """A map from the name that all objects of one certificate have to the groups that these objects name."""
        found: dict[str, set[str]] = {}
        for resource in (objects.SECRET, objects.ROLE, objects.ROLEBINDING):
            for each in self.sim.store.list(resource):
                if "tailscale.com/domain" in labels(each):
                    groups = found.setdefault(key_of(each).name, set())
                    groups.add(labels(each)["tailscale.com/proxy-group"])
                    groups.update(subject["name"] for subject in each.get("subjects") or ())
        return found

    async def shows(self, **owners: tuple[str, ...]) -> None:
        """Wait until the tailnet has exactly the Tailscale Services in *owners*, each with the owners given there."""
        try:
            await until(lambda: self.services == owners)
        except TimeoutError:
            assert self.services == owners

    async def shows_later(self, **owners: tuple[str, ...]) -> None:
        """Do as `shows`, but wait up to a quarter of an hour."""
        for _ in range(900):
            if self.services == owners:
                return
            await asyncio.sleep(1)
        assert self.services == owners

    async def certifies(self, **groups: str) -> None:
        """Wait until exactly the labels in *groups* have certificates, each for the proxies of the given group."""
        wanted = {f"{label}.{DOMAIN}": {name} for label, name in groups.items()}
        try:
            await until(lambda: self.certificates == wanted)
        except TimeoutError:
            assert self.certificates == wanted


def owners_of(service: TailscaleService) -> tuple[str, ...]:
    """Return the IDs of the operators that own *service*."""
    text = service.annotations.get(ANNOTATION_OWNERS, "")
    return tuple(re.findall(r'"operatorID":"(\w+)"', text))


@asynccontextmanager
async def new_scene() -> AsyncIterator[Scene]:
    """Yield a Scene whose cluster has no controllers."""
    async with cluster_sim(SimOptions(controllers=False)) as sim, kube_client(sim.api_url) as client:
        yield Scene(sim, client)


@asynccontextmanager
async def reconciling(scene: Scene) -> AsyncIterator[None]:
    """Run the reconciler of Tailscale Services and its stand-ins until the end of the block."""
    cache = Cache(sources(OPERATOR_NAMESPACE))
    async with (
        tailnet_client(scene.sim.control, scene.sim.control_url) as control,
        running_tailnets(control, scene.client, cache, SETTINGS) as tailnets,
    ):
        world = HostingWorld(
            tailnets.service,
            lambda: [""],
            lambda: scene.identity.node_id,
            lambda: "",
            lambda: bool(scene.identity.node_id),
            lambda: map(key_of, tailnets.all(TAILSCALE_SERVICE)),
            tailnets.service_settled,
        )
        view = HostingView(cache, SETTINGS, world)
        kinds: list[Kind[Any]] = [
            tailscaleservices(cache, SETTINGS, world),
            _users(INGRESS, cache, view),
            _users(SERVICE, cache, view),
            _groups(cache, view),
        ]
        made = applier(scene.client, cache, tailnets)
        manager = Manager(
            cache,
            [KindReconciler(each, cache, made) for each in kinds],
            ControllerMetrics(CollectorRegistry()),
            Policy(4, expected=(KubeError, ControlError), patience=PATIENCE),
            feeds={TAILSCALE_SERVICE: tailnets, IDENTITY: scene.identity.feed},
        )
        async with running(manager.run(scene.client, None)):
            yield


def _refused(_observed: Any, _obj: Object, refusal: Refusal) -> Plan:
    return Plan(error=refusal.error)


def _users(resource: Resource, cache: Cache, view: HostingView) -> Kind[Any]:
    """Return the stand-in for the reconciler of Ingresses or Services. It only holds and releases the objects."""

    def plan(user: Object, _observed: None) -> Plan:
        if not user:
            return Plan()
        claim = claim_of(user, SETTINGS)
        if claim is not None and not is_deleting(user):
            return Plan(hold="" if claim.wrong else claim.finalizer)
        name = finalizer_of(user)
        return Plan(release=name if has_finalizer(user, name) and view.remainder(user) is None else "")

    def all_of(_obj: Object) -> Iterable[Key]:
        return map(key_of, cache.all(resource))

    resources = (PROXYGROUP, CONFIGMAP, SECRET, ROLE, ROLEBINDING, TAILSCALE_SERVICE)
    watches: Watches = {resource: lambda each: (key_of(each),), **dict.fromkeys(resources, all_of)}
    return Kind(resource, watches, lambda key, each: None, plan, _refused)


def _groups(cache: Cache, view: HostingView) -> Kind[Any]:
    """Return the stand-in for the reconciler of ProxyGroups, which only writes the ConfigMaps."""

    def plan(obj: Object, _observed: None) -> Plan:
        return Plan(steps=[Child(_config(obj, cache, view))] if obj else [])

    def all_of(_obj: Object) -> Iterable[Key]:
        return map(key_of, cache.all(PROXYGROUP))

    watches: Watches = dict.fromkeys((PROXYGROUP, INGRESS, SERVICE, TAILSCALE_SERVICE), all_of)
    return Kind(PROXYGROUP, watches, lambda key, each: None, plan, _refused)


def _config(obj: Object, cache: Cache, view: HostingView) -> Object:
    """Return the ConfigMap of the ProxyGroup *obj*.

    It has an entry for each claim that wins, if its Tailscale Service is ours, and keeps the entries of invalid claims.
    """
    name = key_of(obj).name
    key = Key(OPERATOR_NAMESPACE, f"{name}-ingress-config")
    before = hosted(cache.get(CONFIGMAP, key))
    rules, served = {}, {}
    for claim in view.claims_of_group(name):
        has_label = claim.counts and view.holder(tailnet_of(obj), claim.label) is not None
        is_holder = has_label and view.holder(tailnet_of(obj), claim.label).rank == claim.rank  # type: ignore[union-attr]
        is_ours = is_owned(view.world.service(tailnet_of(obj), claim.label), view.world.operator_id())
        if (is_holder and is_ours) or (claim.may_be_kept and claim.name in before.names):
            if claim.is_web:
                served[claim.name] = {"TCP": {"443": {"HTTPS": True}}}
            else:
                rules[claim.name] = {4: Mapped("100.80.0.1", "10.0.0.9")}
    documents = {"serve-config.json": serve_document(served), "ingress-config.json": rules_document(rules)}
    data = {file: b64encode(text.encode()).decode() for file, text in documents.items()}
    identity = {"namespace": key.namespace, "name": key.name, "labels": group_owner(name).labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": identity, "binaryData": data}
