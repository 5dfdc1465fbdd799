"""An upgrade from the Go operator's chart to ours and back, with a group that exposes Ingresses and Services.

No Pod restarts, no connection fails, and the tailnet stays as it is.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from tsoperator.api.names import ANNOTATION_DIGEST

from tests.e2e import go_operator, product
from tests.e2e.cluster import Cluster, Object, identity
from tests.e2e.groups import await_group
from tests.e2e.hosting import address_of, await_shown, certificates, dns_name
from tests.e2e.load import Load, Outcome
from tests.e2e.product import NAMESPACE, ProductImages
from tests.e2e.testbed.management import Management
from tests.e2e.testbed.peer import Peer
from tests.e2e.waiting import eventually
from tests.e2e.workloads import BALANCED, PAGE, exposed_service, ingress, proxy_group, web

pytestmark = [pytest.mark.full, pytest.mark.timeout(600, func_only=True)]

GROUP = proxy_group("entry", type="ingress", replicas=2)
RATE = 5.0  # connections a second to each target


class Inventory(NamedTuple):
    """The inventory that must not change: Pods, devices, Tailscale Services, certificates and statuses.

    It has the *revision* of the group's StatefulSet, too, because the revision changes before the Pods restart.
    """

    revision: str
    pods: Mapping[str, tuple[str, int]]
    devices: Mapping[str, str]
    services: Mapping[str, Object]
    certificates: Mapping[str, Object]
    statuses: Mapping[str, Object]


class HostingUsers:
    """Users who expose Ingresses and Services by a group."""

    def __init__(self, cluster: Cluster, space: str, management: Management, device: Peer) -> None:
        self.cluster = cluster
        self._space = space
        self._management = management
        self._device = device
        self._made: list[Object] = []

    def add(self, maker: str) -> None:
        """Apply a Service and an Ingress whose names begin with *maker*, and wait until they are served."""
        service = exposed_service(self._space, f"{maker}-lb", BALANCED, proxy_group="entry", hostname=f"{maker}-lb")
        shop = ingress(self._space, f"{maker}-shop", proxy_group="entry")
        self.cluster.apply(service, shop)
        for obj in (service, shop):
            await_shown(self.cluster, obj, obj["metadata"]["name"])
        self._made += [service, shop]

    @contextmanager
    def at_work(self, maker: str) -> Iterator[list[Outcome]]:
        """Open new connections to the objects of *maker* during the block, and yield a list that gets the outcome."""
        outcomes: list[Outcome] = []
        name = dns_name(f"{maker}-shop")
        targets = [f"http://{address_of(self._management, f'{maker}-lb')}:80", f"https://{name}:443"]
        with Load.from_device(self._device, f"{PAGE}\n", targets, RATE * len(targets)) as load:
            began = time.time()  # the first packets may be lost while the WireGuard path is made
            yield outcomes
        outcomes.append(load.since(began))

    def inventory(self, *makers: str) -> Inventory:
        """Return the present inventory, with the objects that *makers* have made."""

        def chosen(found: Mapping[str, Object]) -> dict[str, Object]:
            return {name: each for name, each in found.items() if name.removeprefix("svc:").startswith(makers)}

        secrets = [self.cluster.get("secret", name, NAMESPACE) or {} for name in {*certificates(self.cluster)}]
        (statefulset,) = self.cluster.children(GROUP, "statefulsets")
        return Inventory(
            statefulset["status"]["updateRevision"],
            {name_of(pod): identity(pod) for pod in self.cluster.children(GROUP, "pods")},
            {device["name"]: device["nodeId"] for device in self._management.devices()},
            chosen({each["name"]: each for each in self._management.services()}),
            chosen({name_of(each): each["data"] for each in secrets}),
            chosen({name_of(each): self.cluster.look(each)["status"]["loadBalancer"] for each in self._made}),
        )

    def leave(self) -> None:
        """Delete the users' objects and the group, and wait until they are gone."""
        for kind in ("services", "ingresses"):
            self.cluster.bed.kubectl("-n", self._space, "delete", kind, "--all", "--timeout=90s", timeout=100)
        self.cluster.remove(GROUP)


def name_of(obj: Object) -> str:
    return str(obj["metadata"]["name"])


class Stage(NamedTuple):
    """A change of operators: the inventories before and after it, and the outcome of connections during it."""

    before: Inventory
    after: Inventory
    outcomes: list[Outcome]


@pytest.fixture(scope="module")
def users(
    cluster: Cluster,
    images: ProductImages,
    shared_namespace: str,
    management: Management,
    outside: Peer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[HostingUsers]:
    """Users whose group the Go operator has made. At the end our operator runs again."""
    made = HostingUsers(cluster, shared_namespace, management, outside)
    go_operator.take_over(cluster.bed, tmp_path_factory.mktemp("charts"))
    cluster.apply(*go_operator.permission("proxygroups"), *web(shared_namespace, "web"), GROUP)
    await_group(cluster, GROUP, 2)
    made.add("go")
    yield made
    product.deploy(cluster.bed, images)
    cluster.scale_operator(2)  # the chart leaves it with as many Pods as the Go operator had
    made.leave()
    for obj in go_operator.permission("proxygroups"):
        cluster.delete(obj["kind"], name_of(obj))
    go_operator.forget(cluster, management)


@pytest.fixture(scope="module")
def ours(users: HostingUsers, images: ProductImages) -> Stage:
    """The upgrade of the release to our chart, with the same values and the names of our images."""
    before = users.inventory("go")
    with users.at_work("go") as outcomes:
        product.install(users.cluster.bed, product.CHART, {**product.CREDENTIALS, **product.image_values(images)})
        eventually(lambda: is_adopted(users.cluster), "our mark on the group's StatefulSet")
        users.add("ours")
    return Stage(before, users.inventory("go"), outcomes)


def is_adopted(cluster: Cluster) -> bool:
    (statefulset,) = cluster.children(GROUP, "statefulsets")
    return ANNOTATION_DIGEST in statefulset["metadata"].get("annotations", {})


def check(outcomes: list[Outcome]) -> None:
    assert all(outcome.attempts and not outcome.failed for outcome in outcomes), "\n".join(map(str, outcomes))


def test_an_upgrade_from_the_go_operator_to_ours_changes_nothing_that_an_ingress_group_serves(ours: Stage) -> None:
    assert ours.after == ours.before
    assert [*ours.after.services] == ["svc:go-lb", "svc:go-shop"]


def test_no_connection_to_an_ingress_group_fails_while_our_operator_replaces_the_go_operator(ours: Stage) -> None:
    check(ours.outcomes)


@pytest.fixture(scope="module")
def back(ours: Stage, users: HostingUsers) -> Stage:
    """A rollback to the Go operator by `helm rollback`.

    After it, the Go operator also reconciles the objects of users for which our operator made children.
    """
    bed = users.cluster.bed
    before = users.inventory("go", "ours")
    with users.at_work("ours") as outcomes:
        with bed.plane.excused("the release went back to the Go operator's roles"):
            bed.helm("rollback", product.RELEASE, "1", "--namespace", NAMESPACE)
            product.wait_ready(bed, 90)
        users.add("late")
    return Stage(before, users.inventory("go", "ours"), outcomes)


def test_a_rollback_to_the_go_operator_changes_nothing_that_an_ingress_group_serves(back: Stage) -> None:
    assert back.after == back.before
    assert [*back.after.statuses] == ["go-lb", "go-shop", "ours-lb", "ours-shop"]


def test_no_connection_to_an_ingress_group_fails_during_a_rollback_to_the_go_operator(back: Stage) -> None:
    check(back.outcomes)
