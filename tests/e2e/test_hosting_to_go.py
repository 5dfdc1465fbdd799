"""The Go operator takes over the Tailscale Services of our operator, which was installed first."""

from collections.abc import Iterator

import pytest
from tsoperator.api.owners import ANNOTATION_OWNERS

from tests.e2e import go_operator, product
from tests.e2e.cluster import Cluster, Object
from tests.e2e.groups import await_group, devices
from tests.e2e.hosting import await_shown, certificates
from tests.e2e.product import ProductImages
from tests.e2e.testbed.management import Management
from tests.e2e.waiting import eventually
from tests.e2e.workloads import ingress, proxy_group, web

pytestmark = [pytest.mark.full, pytest.mark.timeout(600, func_only=True)]

GROUP = proxy_group("heirloom", type="ingress", replicas=1)


@pytest.fixture(scope="module")
def shop(
    cluster: Cluster,
    images: ProductImages,
    shared_namespace: str,
    management: Management,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Object]:
    """An Ingress that our operator exposed, and that the Go operator has taken over.

    For the Tailscale Service, our operator registered a device of its own. At the end our operator runs again.
    """
    go_operator.forget(cluster, management)
    shown = ingress(shared_namespace, "heirloom", proxy_group="heirloom")
    cluster.apply(*go_operator.permission("proxygroups"), *web(shared_namespace, "web"), GROUP, shown)
    await_group(cluster, GROUP, 1)
    await_shown(cluster, shown, "heirloom")
    go_operator.push_operator(cluster.bed)
    with cluster.bed.plane.excused("the release went to the Go operator's roles"):
        chart = go_operator.released_chart(tmp_path_factory.mktemp("charts"))
        product.install(cluster.bed, chart, product.CREDENTIALS)
    yield shown
    product.deploy(cluster.bed, images)
    cluster.scale_operator(2)
    cluster.bed.kubectl("-n", shared_namespace, "delete", "ingresses", "--all", "--timeout=90s", timeout=100)
    cluster.remove(GROUP)
    for obj in go_operator.permission("proxygroups"):
        cluster.delete(obj["kind"], obj["metadata"]["name"])
    go_operator.forget(cluster, management)


def test_the_go_operator_takes_over_the_device_that_our_operator_registered(
    cluster: Cluster, shop: Object, management: Management
) -> None:
    device, service = management.device("tailscale-operator"), management.service("svc:heirloom")
    assert device
    assert service
    assert device["nodeId"] in service["annotations"][ANNOTATION_OWNERS]
    assert service["annotations"][ANNOTATION_OWNERS].count("operatorID") == 1
    assert devices(management, "tailscale-operator") == ["tailscale-operator"]


def test_the_go_operator_deletes_the_tailscale_service_of_an_ingress_that_our_operator_exposed(
    cluster: Cluster, shop: Object, management: Management
) -> None:
    cluster.delete("ingress", shop["metadata"]["name"], shop["metadata"]["namespace"])
    eventually(lambda: management.service("svc:heirloom") is None, "the end of its Tailscale Service")
    eventually(lambda: certificates(cluster) == [], "the end of its certificate")
