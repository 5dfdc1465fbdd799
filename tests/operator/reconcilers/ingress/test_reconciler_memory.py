"""What the reconciler of Ingresses remembers, and when it forgets that: on a clock of the test's, without a proxy."""

from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from clustersim import objects as kinds
from clustersim.faults import Ban, Failure
from clustersim.sim import ClusterSim, SimOptions, cluster_sim
from tsoperator.api.objects import INGRESS, SECRET, SERVICE, STATEFULSET, Key, Object, Resource, key_of
from tsoperator.kube.errors import KubeError
from tsoperator.reconcilers.ingress.certificate import PATIENCE
from tsoperator.reconcilers.ingress.reconciler import IngressReconciler
from tsoperator.reconcilers.proxies import Proxies
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.result import Pending
from tsoperator.sources import sources

from tests.support.certificates import certificate_for
from tests.support.cluster import kube_client, running, until
from tests.support.manifests import backend, ingress
from tests.support.objects import OPERATOR_NAMESPACE, settings
from tests.support.tailnets import applier, running_tailnets, tailnet_client

WEB = "web.tail1234.ts.net"
KEY = Key("default", "web")
SEEN = {INGRESS: kinds.INGRESS, SECRET: kinds.SECRET, SERVICE: kinds.SERVICE, STATEFULSET: kinds.STATEFULSET}


@dataclass
class Ground:
    """A reconciler of the Ingress `KEY`, in a cluster where no Pod runs."""

    sim: ClusterSim
    cache: Cache
    reconciler: IngressReconciler = field(init=False)
    now: float = 1000.0

    async def reconcile(self, after: float = 0.0) -> float | None:
        """Reconcile the Ingress so many seconds later, once the cache has caught up; return when it wants to again."""
        self.now += after
        await until(lambda: all(self._caught_up(resource) for resource in SEEN))
        while True:
            try:
                return (await self.reconciler.reconcile(KEY)).requeue_after
            except Pending as pending:
                await pending.until

    def _caught_up(self, resource: Resource) -> bool:
        watched = [obj for obj in self.sim.store.list(SEEN[resource]) if key_of(obj).namespace != "kube-system"]
        managed = [obj for obj in watched if resource != SECRET or obj["metadata"].get("labels")]
        return _versions(managed) == _versions(self.cache.all(resource))

    def report(self, **data: str | None) -> None:
        """Write to the proxy's Secret as the proxy does; ``crt`` and ``key`` are those of `WEB`."""
        [secret] = [secret for secret in self.sim.store.list(kinds.SECRET) if secret["metadata"].get("labels")]
        names = {name: f"{WEB}.{name}" if name in ("crt", "key") else name for name in data}
        encoded = {names[name]: value and b64encode(value.encode()).decode() for name, value in data.items()}
        self.sim.store.merge(kinds.SECRET, *key_of(secret), {"data": encoded})


def _versions(objects: list[Object]) -> dict[Key, str]:
    return {key_of(obj): obj["metadata"]["resourceVersion"] for obj in objects}


@asynccontextmanager
async def new_ground(*bans: Ban) -> AsyncIterator[Ground]:
    """Yield a cluster with the Ingress and its backend, where RBAC says *bans*."""
    cache = Cache(sources(OPERATOR_NAMESPACE, [KEY.namespace]))
    async with (
        cluster_sim(SimOptions(controllers=False)) as sim,
        kube_client(sim.api_url) as client,
        tailnet_client(sim.control, sim.control_url) as tailnet,
        running_tailnets(tailnet, client, cache, settings()) as tailnets,
    ):
        found, acting = Ground(sim, cache), applier(client, cache, tailnets)
        found.reconciler = IngressReconciler(
            Proxies(cache, acting, tailnets, settings()), acting, clock=lambda: found.now
        )
        sim.store.create(kinds.SERVICE, backend())
        sim.store.create(kinds.INGRESS, ingress())
        for ban in bans:
            sim.faults.forbid(ban)
        async with running(cache.follow(client)):
            await cache.synced()
            yield found


@pytest.fixture
async def ground() -> AsyncIterator[Ground]:
    """The Ingress with its proxy, whose device has a name and no certificate."""
    async with new_ground() as found:
        await found.reconcile()
        found.report(device_id="n1", device_fqdn=f"{WEB}.")
        assert await found.reconcile() == PATIENCE
        yield found


async def test_a_certificate_that_has_come_is_missed_anew_when_it_is_lost(ground: Ground) -> None:
    ground.report(crt=certificate_for(timedelta(days=90)), key="key")
    await ground.reconcile(1)
    ground.report(crt=None, key=None)
    assert [await ground.reconcile(after) for after in (100, 1)] == [PATIENCE, PATIENCE - 1]


async def test_a_certificate_that_comes_while_a_write_fails_is_told_later(ground: Ground) -> None:
    ground.report(crt=certificate_for(timedelta(days=90)), key="key")
    [statefulset] = ground.sim.store.list(kinds.STATEFULSET)
    ground.sim.store.delete(kinds.STATEFULSET, *key_of(statefulset))
    ground.sim.faults.fail(Failure(500, verb="create", plural="statefulsets"))
    with pytest.raises(KubeError):
        await ground.reconcile(1)
    await ground.reconcile(1)
    assert "CertificateReady" in [event["reason"] for event in ground.sim.store.list(kinds.EVENT)]


async def test_a_certificate_is_missed_anew_when_its_proxy_has_a_name_again(ground: Ground) -> None:
    ground.report(device_fqdn=None)
    await ground.reconcile(1)
    ground.report(device_fqdn=f"{WEB}.")
    assert await ground.reconcile(100) == PATIENCE


async def test_a_certificate_is_missed_anew_by_an_ingress_that_is_made_anew(ground: Ground) -> None:
    ground.sim.store.merge(kinds.INGRESS, *KEY, {"metadata": {"finalizers": None}})
    ground.sim.store.delete(kinds.INGRESS, *KEY)
    await ground.reconcile(1)
    ground.sim.store.create(kinds.INGRESS, ingress())
    await ground.reconcile(PATIENCE)
    assert "CertificatePending" not in [event["reason"] for event in ground.sim.store.list(kinds.EVENT)]


async def test_an_ingress_in_a_namespace_whose_services_were_never_seen_is_looked_at_again() -> None:
    async with new_ground(Ban("services", KEY.namespace)) as ground:
        assert (await ground.reconciler.reconcile(KEY)).requeue_after == 60
