"""An upgrade from the Go operator's chart to ours and back, with groups of type kube-apiserver.

No Pod restarts, no request fails, and the tailnet stays as it is.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from tsoperator.api.names import ANNOTATION_DIGEST

from tests.e2e import go_operator, product
from tests.e2e.apiproxy import CAPABILITY
from tests.e2e.apiusers import ApiUser
from tests.e2e.cluster import Cluster, Object, identity
from tests.e2e.groups import await_group
from tests.e2e.hosting import certificates, dns_name
from tests.e2e.load import Load, Outcome
from tests.e2e.product import NAMESPACE, ProductImages
from tests.e2e.testbed.management import Management
from tests.e2e.waiting import eventually
from tests.e2e.workloads import proxy_group

pytestmark = [pytest.mark.full, pytest.mark.timeout(600, func_only=True)]

VALUES = {
    **product.CREDENTIALS,
    "apiServerProxyConfig": {"allowImpersonation": "true"},
    "proxyConfig": {
        "k8sProxyImage": {"tag": "latest"}
    },  # docs/migration.md: set the tag that the Go operator's Pods have
}
RATE = 5.0  # requests a second
ALICE = "alice@example.org"
MASTERS = "system:masters"
GRANT = {"src": [ALICE], "dst": ["tag:k8s"], "app": {CAPABILITY: [{"impersonate": {"groups": [MASTERS]}}]}}
KAPI = proxy_group("kapi", type="kube-apiserver", replicas=2, kubeAPIServer={"mode": "auth"})
LATER = proxy_group("later", type="kube-apiserver", replicas=1, kubeAPIServer={"mode": "noauth"})
"""The group that our operator makes."""


class Inventory(NamedTuple):
    """The inventory that must not change: Pods, devices, Tailscale Services, certificates and URLs.

    It has the revisions of StatefulSets, too, because a revision changes before the Pods restart.
    """

    revisions: Mapping[str, str]
    pods: Mapping[str, tuple[str, int]]
    devices: Mapping[str, str]
    services: Mapping[str, Object]
    certificates: Mapping[str, Object]
    urls: Mapping[str, str]


class Stage(NamedTuple):
    """A change of operators: the inventories before and after it, and the outcome of Alice's requests during it."""

    before: Inventory
    after: Inventory
    requests: Outcome


class Admin:
    """An admin who changes the operator while Alice uses the group `KAPI`."""

    def __init__(self, cluster: Cluster, management: Management, alice: ApiUser) -> None:
        self.cluster = cluster
        self.alice = alice
        self._management = management

    def change(self, step: Callable[[], None], *groups: Object) -> Stage:
        """Call *step*, which changes the operator, and return the observations of *groups* during the change."""
        before = self.inventory(*groups)
        with Load.from_device(self.alice.device, "ok", [f"https://{dns_name('kapi')}:443/readyz"], RATE) as requests:
            step()
            assert self.alice.whoami() == (ALICE, {MASTERS, "system:authenticated"})
            after = self.inventory(*groups)
        return Stage(before, after, requests.since(0))

    def inventory(self, *groups: Object) -> Inventory:
        """Return the present inventory of *groups*."""
        names = tuple(map(name_of, groups))
        secrets = [self.cluster.get("secret", name, NAMESPACE) or {} for name in {*certificates(self.cluster)}]
        sets = [each for group in groups for each in self.cluster.children(group, "statefulsets")]
        pods = [each for group in groups for each in self.cluster.children(group, "pods")]
        return Inventory(
            {name_of(each): each["status"]["updateRevision"] for each in sets},
            {name_of(each): identity(each) for each in pods},
            {each["name"]: each["nodeId"] for each in self._management.devices() if each["name"].startswith(names)},
            {each["name"]: each for each in self._management.services() if each["name"][len("svc:") :] in names},
            {name_of(each): each["data"] for each in secrets if name_of(each).startswith(names)},
            {name_of(each): self.cluster.look(each)["status"]["url"] for each in groups},
        )


def name_of(obj: Object) -> str:
    return str(obj["metadata"]["name"])


@pytest.fixture(scope="module")
def admin(
    cluster: Cluster,
    images: ProductImages,
    management: Management,
    acme_root: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Admin]:
    """An admin with the Go operator, which has made a group that Alice uses. At the end our operator runs again."""
    bed = cluster.bed
    product.push_k8s_proxy(bed, "latest")
    go_operator.take_over(bed, tmp_path_factory.mktemp("charts"), VALUES)
    management.replace_grants(GRANT)
    cluster.apply(*go_operator.permission("proxygroups"), KAPI)
    await_group(cluster, KAPI, 2)
    with bed.third_peer(ALICE) as device:
        alice = ApiUser.at(bed.paths, device, acme_root, tmp_path_factory.mktemp("alice"))
        eventually(lambda: alice.configure("kapi"), "the name of the group", 30)
        eventually(alice.whoami, "an answer", 60)
        yield Admin(cluster, management, alice)
    product.deploy(bed, images)
    cluster.scale_operator(2)  # the chart leaves it with as many Pods as the Go operator had
    for group in (KAPI, LATER):
        cluster.remove(group)
    for obj in go_operator.permission("proxygroups"):
        cluster.delete(obj["kind"], name_of(obj))
    go_operator.forget(cluster, management)
    management.replace_grants()


@pytest.fixture(scope="module")
def ours(admin: Admin, images: ProductImages) -> Stage:
    """The upgrade of the release to our chart, with the same values and the names of our images."""

    def upgrade() -> None:
        product.install(admin.cluster.bed, product.CHART, {**VALUES, **product.image_values(images)})
        eventually(lambda: is_adopted(admin.cluster), "our mark on the group's StatefulSet")
        admin.cluster.apply(LATER)
        await_group(admin.cluster, LATER, 1)

    return admin.change(upgrade, KAPI)


def is_adopted(cluster: Cluster) -> bool:
    (statefulset,) = cluster.children(KAPI, "statefulsets")
    return ANNOTATION_DIGEST in statefulset["metadata"].get("annotations", {})


def test_an_upgrade_from_the_go_operator_to_ours_changes_no_group_of_api_server_proxies(ours: Stage) -> None:
    assert ours.after == ours.before
    assert [*ours.after.services] == ["svc:kapi"]
    assert len(ours.after.devices) == len(ours.after.pods) == 2
    assert not ours.requests.failed


@pytest.fixture(scope="module")
def back(ours: Stage, admin: Admin) -> Stage:
    """A rollback to the Go operator by `helm rollback`.

    After it, the Go operator reconciles both groups: the one that it made, and the one that our operator made.
    """
    bed = admin.cluster.bed

    def rollback() -> None:
        with bed.plane.excused("the release went back to the Go operator's roles"):
            bed.helm("rollback", product.RELEASE, "1", "--namespace", NAMESPACE)
            product.wait_ready(bed, 90)
        for group in (KAPI, LATER):  # once the Go operator has reconciled this change, it has seen the groups
            admin.cluster.patch(group, {"spec": {"tags": ["tag:k8s"]}})
            await_group(admin.cluster, group, group["spec"]["replicas"])

    return admin.change(rollback, KAPI, LATER)


def test_a_rollback_to_the_go_operator_changes_no_group_of_api_server_proxies(back: Stage) -> None:
    assert back.after == back.before
    assert [*back.after.urls] == ["kapi", "later"]
    assert not back.requests.failed
