"""`helm upgrade` to another version of our operator, with two replicas: no proxy restarts, and names keep resolving."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import datetime
from typing import NamedTuple

import pytest
from tsoperator.api.names import LABEL_PARENT_NAME, LABEL_PARENT_NAMESPACE

from tests.e2e import product
from tests.e2e.changeover import Changeover, changeover, nameserver_runs
from tests.e2e.cluster import Answer, Cluster, Object, dig, identity, pod_ip
from tests.e2e.product import ProductImages
from tests.e2e.testbed import registry
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.peer import Peer
from tests.e2e.waiting import eventually
from tests.e2e.workloads import NOWHERE, PEER_NAME, egress_service

pytestmark = pytest.mark.full(share=3)

PATIENCE = 5  # seconds that a new Service may wait for its proxy


class Rollout(NamedTuple):
    """The observations of an upgrade.

    They are a proxy's Pod before and after the upgrade, the Services that were made during the upgrade, and a
    `Changeover`.
    """

    before: Object
    after: Object
    services: Sequence[Object]
    seen: Changeover


@pytest.fixture(scope="module")
def rollout(
    cluster: Cluster,
    nameserver: str,
    images: ProductImages,
    shared_namespace: str,
    outside: Peer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Rollout]:
    """An upgrade of the operator and of the nameserver, while the test applies a new Service each second."""
    bed = cluster.bed
    service = egress_service(shared_namespace, "db", tailnet_fqdn=PEER_NAME)
    cluster.apply(NOWHERE, service)
    before = cluster.device_proxy(service)
    right = Answer("NOERROR", (pod_ip(before),))
    eventually(lambda: dig(bed, nameserver, PEER_NAME) == right, f"{PEER_NAME} is {right}")
    following = ProductImages(images.operator, push_again(bed, images.nameserver))
    services: list[Object] = []
    with (
        changeover(bed, nameserver, PEER_NAME, tmp_path_factory.mktemp("next")) as seen,
        ThreadPoolExecutor(1) as pool,
    ):
        upgrading = pool.submit(upgrade, cluster, following)
        while not wait([upgrading], timeout=1).done:
            name = f"new{len(services)}"
            services.append(egress_service(shared_namespace, name, tailnet_ip=outside.address, proxy_class="nowhere"))
            cluster.apply(services[-1])
        upgrading.result()
    eventually(lambda: len(statefulsets(cluster, shared_namespace)) == len(services) + 1, "all StatefulSets")
    yield Rollout(before, cluster.proxy(service), services, seen)
    product.deploy(bed, images)
    cluster.delete("proxyclass", NOWHERE["metadata"]["name"])


def push_again(bed: Bed, image: str) -> str:
    """Give the pushed *image* another name in the registry, and return this name."""
    name = f"{image}-next"
    registry.copy(bed.paths, bed.machines["node"], image, name)
    return name


def upgrade(cluster: Cluster, images: ProductImages) -> None:
    values = product.image_values(images)
    values["operatorConfig"]["podAnnotations"] = {"example.org/version": "next"}
    product.install(cluster.bed, product.CHART, {**product.CREDENTIALS, **values})
    eventually(lambda: nameserver_runs(cluster, images.nameserver), "the next nameserver alone")
    eventually(lambda: len(cluster.listed("pods", labels={"app": "operator"})) == 2, "the next operator alone")


def test_names_resolve_while_an_upgrade_replaces_the_pods_of_the_nameserver(rollout: Rollout) -> None:
    rollout.seen.check_names()


def test_services_that_are_made_during_an_upgrade_get_their_proxies_in_time(
    rollout: Rollout, cluster: Cluster, shared_namespace: str
) -> None:
    asked = {each["metadata"]["name"]: created(each) for each in cluster.listed("services", shared_namespace)}
    made = {
        each["metadata"]["labels"][LABEL_PARENT_NAME]: created(each) for each in statefulsets(cluster, shared_namespace)
    }
    waited = {name: (made[name] - asked[name]).total_seconds() for name in asked}
    assert len(rollout.services) > PATIENCE
    assert max(waited.values()) < PATIENCE, waited


def created(obj: Object) -> datetime:
    """Return when an object was created, rounded down to a second."""
    return datetime.fromisoformat(obj["metadata"]["creationTimestamp"])


def statefulsets(cluster: Cluster, space: str) -> list[Object]:
    """Return the StatefulSets for Services of a namespace."""
    return cluster.listed("statefulsets", labels={LABEL_PARENT_NAMESPACE: space})


def test_the_upgrade_replaced_every_pod_of_the_operator_and_no_pod_of_a_proxy(rollout: Rollout) -> None:
    assert len([name for name, ended in rollout.seen.ended.items() if ended]) == 2
    assert len(rollout.seen.ended) == 4
    assert identity(rollout.after) == identity(rollout.before)
