"""Ingresses on a cluster with a running operator: the tests check the state of the cluster and of the tailnet."""

from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta

import pytest
from clustersim import objects as kinds
from clustersim.faults import Failure
from clustersim.sim import ClusterSim, SimOptions, cluster_sim
from clustersim.x509 import certificate_for
from tsoperator.api.names import INGRESS_CONTROLLER
from tsoperator.api.objects import INGRESS, INGRESSCLASS, SECRET, SERVICE, STATEFULSET, Key, Object, Resource, key_of
from tsoperator.kube.errors import KubeError
from tsoperator.proxy.certificate import PATIENCE
from tsoperator.reconcilers.ingress.reconciler import ingresses
from tsoperator.reconcilers.proxies import Proxies
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.kind import KindReconciler
from tsoperator.runtime.manager import Reconciler
from tsoperator.runtime.result import Pending
from tsoperator.sources import sources

from tests.support.cluster import kube_client, running, until
from tests.support.hosting import no_hosting
from tests.support.manifests import DOMAIN, FQDN, backend, connector, dnsconfig, egress, ingress
from tests.support.objects import settings
from tests.support.operator import NAMESPACE, World, running_operator
from tests.support.tailnets import applier, running_tailnets, tailnet_client
from tests.support.virtual_time import Clock

WEB = f"web.{DOMAIN}"
HOST = "${TS_CERT_DOMAIN}"
NO_CLASS = "there is no IngressClass private: Ingresses that name it are served, but tools may not know it; create it"


def ingress_class(name: str, controller: str) -> Object:
    kind = {"apiVersion": INGRESSCLASS.api_version, "kind": INGRESSCLASS.kind}
    return {**kind, "metadata": {"name": name}, "spec": {"controller": controller}}


async def test_a_dnsconfig_with_ingress_names_lets_pods_reach_each_ingress_that_has_no_annotation_against_it(
    world: World,
) -> None:
    off = ingress("off", "off", experimental_forward_cluster_traffic_via_ingress="false")
    await world.apply(backend(), ingress(), off, dnsconfig())
    before = [await world.joined(each) for each in (ingress(), off)]
    asking = {**dnsconfig(), "spec": {**dnsconfig()["spec"], "clusterDNS": {"ingressNames": True}}}
    await world.change(dnsconfig(), {"spec": asking["spec"]})
    await world.becomes(lambda: in_kernel(world), True)
    after = [await world.joined(each) for each in (ingress(), off)]
    assert [old.pod_uid == new.pod_uid for old, new in zip(before, after, strict=True)] == [False, True]
    await world.annotate(dnsconfig(), {"example.org/note": "x"})
    assert not await world.writes_when_left_alone()
    await world.delete(dnsconfig())
    await world.becomes(lambda: in_kernel(world), False)
    await world.settled()
    await world.apply(asking)
    await world.becomes(lambda: in_kernel(world), True)


async def in_kernel(world: World) -> bool:
    """Tell whether the proxy of the Ingress is set up to accept connections from Pods of the cluster."""
    proxy = await world.proxy(ingress())
    return proxy is not None and "EXPERIMENTAL_ALLOW_PROXYING_CLUSTER_TRAFFIC_VIA_INGRESS" in proxy.env


@pytest.mark.real_time
async def test_an_ingress_serves_a_backend_that_is_created_later(world: World) -> None:
    await world.apply(ingress())
    await world.eventually(lambda: event(world, "NoValidBackends"))
    assert await world.leftovers(ingress()) == []
    await world.apply(backend())
    await world.joined(ingress())


async def event(world: World, reason: str) -> str:
    """Return the message of the Event on the Ingress with this *reason*, or an empty string without one."""
    return (await world.events(ingress())).get(reason, "")


async def certify(world: World, pem: str) -> None:
    """Give the proxy a certificate, as its tailscaled does."""
    (secret,) = await world.children(SECRET, ingress())
    files = {f"{WEB}.crt": pem, f"{WEB}.key": "key"}
    await world.change(secret, {"data": {name: b64encode(text.encode()).decode() for name, text in files.items()}})


async def test_an_event_says_that_a_certificate_is_ready_as_soon_as_the_proxy_has_it(world: World) -> None:
    await world.apply(backend(), ingress())
    await world.joined(ingress())
    assert await event(world, "CertificateReady") == ""
    await certify(world, certificate_for(timedelta(days=90)))
    assert f"https://{WEB}/" in await world.eventually(lambda: event(world, "CertificateReady"))
    assert not await world.writes_when_left_alone()
    assert not await world.writes_during(world.restart())


async def test_the_log_says_once_that_the_ingress_class_is_missing_and_once_more_after_its_deletion(
    cluster: World, caplog: pytest.LogCaptureFixture
) -> None:
    both = [ingress(), ingress("shop", "shop", tags="tag:k8s")]
    await cluster.apply(backend(), *both)
    for obj in both:
        await cluster.change(obj, {"spec": {"ingressClassName": "private"}})
    async with running_operator(cluster, ingress_class="private"):
        for obj in both:
            await cluster.eventually(lambda obj=obj: cluster.proxy(obj))  # type: ignore[misc]  # bound
        assert [record.message for record in caplog.records].count(NO_CLASS) == 1
        for change in (cluster.apply, cluster.delete):
            await change(ingress_class("private", INGRESS_CONTROLLER))
            await cluster.settled()
            await cluster.annotate(ingress(), {"example.org/look": change.__name__})
            await cluster.settled()
    assert [record.message for record in caplog.records].count(NO_CLASS) == 2


async def test_an_ingress_a_service_and_a_connector_of_one_name_have_proxies_of_their_own(world: World) -> None:
    obj, others = ingress(), [egress("web", FQDN), connector("web")]
    obj["spec"]["defaultBackend"]["service"]["name"] = "shop"
    await world.apply(backend("shop"), obj, *others)
    await world.becomes(world.device_names, [f"default-web.{DOMAIN}", f"web-connector.{DOMAIN}", WEB])
    assert len((await world.api.list(STATEFULSET, NAMESPACE)).items) == 3
    await world.joined(obj)
    await world.delete(obj)
    await world.eventually(lambda: world.gone(obj))
    assert await world.device_names() == [f"default-web.{DOMAIN}", f"web-connector.{DOMAIN}"]


KEY = Key("default", "web")
SEEN = {INGRESS: kinds.INGRESS, SECRET: kinds.SECRET, SERVICE: kinds.SERVICE, STATEFULSET: kinds.STATEFULSET}


@dataclass
class Ground:
    """A reconciler of the Ingress `KEY`, in a cluster where no Pod runs."""

    sim: ClusterSim
    cache: Cache
    reconciler: Reconciler
    clock: Clock

    async def reconcile(self, after: float = 0.0) -> float | None:
        """Advance the clock by *after* seconds, and reconcile with an up-to-date cache.

        Return the seconds until the next reconcile, or None if nothing asks for one.
        """
        self.clock.now += after
        await until(lambda: all(self._caught_up(resource) for resource in SEEN))
        while True:
            try:
                return (await self.reconciler.reconcile(KEY)).requeue_after
            except Pending as pending:
                await pending.until

    def _caught_up(self, resource: Resource) -> bool:
        watched = [obj for obj in self.sim.store.list(SEEN[resource]) if key_of(obj).namespace != "kube-system"]
        managed = [obj for obj in watched if resource != SECRET or obj["metadata"].get("labels")]
        found = [
            {key_of(obj): obj["metadata"]["resourceVersion"] for obj in side}
            for side in (managed, self.cache.all(resource))
        ]
        return found[0] == found[1]

    def report(self, **data: str | None) -> None:
        """Write to the proxy's Secret as the proxy does. ``crt`` and ``key`` stand for the certificate of `WEB`."""
        [secret] = [secret for secret in self.sim.store.list(kinds.SECRET) if secret["metadata"].get("labels")]
        names = {name: f"{WEB}.{name}" if name in ("crt", "key") else name for name in data}
        encoded = {names[name]: value and b64encode(value.encode()).decode() for name, value in data.items()}
        self.sim.store.merge(kinds.SECRET, *key_of(secret), {"data": encoded})


@pytest.fixture
async def ground() -> AsyncIterator[Ground]:
    """A Ground with the Ingress and its proxy, whose device has a name but no certificate yet."""
    cache = Cache(sources(NAMESPACE, [KEY.namespace]))
    async with (
        cluster_sim(SimOptions(controllers=False)) as sim,
        kube_client(sim.api_url) as client,
        tailnet_client(sim.control, sim.control_url) as tailnet,
        running_tailnets(tailnet, client, cache, settings()) as tailnets,
    ):
        acting, clock = applier(client, cache, tailnets), Clock()
        kind = ingresses(Proxies(cache, acting, tailnets, settings()), no_hosting(cache, settings()), clock=clock)
        found = Ground(sim, cache, KindReconciler(kind, cache, acting), clock)
        sim.store.create(kinds.SERVICE, backend())
        sim.store.create(kinds.INGRESS, ingress())
        async with running(cache.follow(client)):
            await cache.synced()
            await found.reconcile()
            found.report(device_id="n1", device_fqdn=f"{WEB}.")
            assert await found.reconcile() == PATIENCE
            yield found


async def test_the_wait_for_a_certificate_starts_again_when_the_certificate_is_lost(ground: Ground) -> None:
    ground.report(crt=certificate_for(timedelta(days=90)), key="key")
    await ground.reconcile(1)
    ground.report(crt=None, key=None)
    assert [await ground.reconcile(after) for after in (100, 1)] == [PATIENCE, PATIENCE - 1]


async def test_a_certificate_that_arrives_during_a_failed_write_is_reported_after_the_next_write(
    ground: Ground,
) -> None:
    ground.report(crt=certificate_for(timedelta(days=90)), key="key")
    [statefulset] = ground.sim.store.list(kinds.STATEFULSET)
    ground.sim.store.delete(kinds.STATEFULSET, *key_of(statefulset))
    ground.sim.faults.fail(Failure(500, verb="create", plural="statefulsets"))
    with pytest.raises(KubeError):
        await ground.reconcile(1)
    await ground.reconcile(1)
    assert "CertificateReady" in [event["reason"] for event in ground.sim.store.list(kinds.EVENT)]


async def test_the_wait_for_a_certificate_starts_again_when_the_proxy_has_a_name_again(ground: Ground) -> None:
    ground.report(device_fqdn=None)
    await ground.reconcile(1)
    ground.report(device_fqdn=f"{WEB}.")
    assert await ground.reconcile(100) == PATIENCE
