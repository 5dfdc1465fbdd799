"""An uninstalled chart: proxies keep running, objects can be deleted, and a new operator manages the old objects."""

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import NamedTuple

import pytest
import yaml
from tsoperator.api.names import FINALIZER

from tests.docs.pages import DOCS
from tests.e2e import product
from tests.e2e.cluster import Answer, Cluster, Object, dig, identity, pod_ip
from tests.e2e.product import NAMESPACE, ProductImages
from tests.e2e.testbed.commands import run
from tests.e2e.testbed.management import Management
from tests.e2e.testbed.peer import GREETING, WEB_PORT
from tests.e2e.waiting import eventually
from tests.e2e.workloads import NOWHERE, PEER_NAME, egress_service

pytestmark = pytest.mark.full(share=4)

KINDS = "customresourcedefinitions,dnsconfigs,proxyclasses"
COMMAND = re.compile(r"<!-- tests/e2e/test_uninstall.py runs this -->\n```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Left(NamedTuple):
    """The objects that remain after an operator was uninstalled.

    The proxy of *service* runs: *pod* and *device* are its Pod and its device. The proxy of *lonely*, in another
    namespace, doesn't run. *kinds* are the UIDs of our CRDs and of our cluster-scoped objects.
    """

    service: Object
    lonely: Object
    pod: Object
    device: str
    kinds: set[str]


def uids(cluster: Cluster) -> set[str]:
    return {obj["metadata"]["uid"] for obj in cluster.listed(KINDS, "")}


def device_of(management: Management, service: Object) -> str:
    metadata = service["metadata"]
    device = management.device(f"{metadata['namespace']}-{metadata['name']}")
    assert device
    return str(device["nodeId"])


@pytest.fixture(scope="module")
def left(
    cluster: Cluster, nameserver: str, images: ProductImages, shared_namespace: str, management: Management
) -> Iterator[Left]:
    """The objects that remain after the chart was uninstalled. The chart is installed again at the end."""
    service = egress_service(shared_namespace, "db", tailnet_fqdn=PEER_NAME)
    elsewhere = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{shared_namespace}-brief"}}
    lonely = egress_service(f"{shared_namespace}-brief", "db", tailnet_fqdn=PEER_NAME, proxy_class="nowhere")
    cluster.apply(NOWHERE, service, elsewhere, lonely)
    pod = cluster.device_proxy(service)
    right = Answer("NOERROR", (pod_ip(pod),))
    eventually(lambda: dig(cluster.bed, nameserver, PEER_NAME) == right, f"{PEER_NAME} is {right}")
    eventually(lambda: is_held(cluster, lonely), "our finalizer")
    known = Left(service, lonely, pod, device_of(management, service), uids(cluster))
    lease = product.lease(cluster.bed)
    try:
        product.uninstall(cluster.bed)
        hold(cluster, lease)
        yield known
    finally:
        product.deploy(cluster.bed, images)
    for child in cluster.children(lonely):
        cluster.delete(child["kind"], child["metadata"]["name"], NAMESPACE)
    cluster.delete("proxyclass", NOWHERE["metadata"]["name"])


def hold(cluster: Cluster, lease: Object) -> None:
    """Write *lease* with its holder into the cluster, as if the leader had not released the Lease when it ended.

    This can happen if the chart's Role is deleted first.
    """
    metadata = {name: value for name, value in lease["metadata"].items() if name not in ("resourceVersion", "uid")}
    cluster.bed.kubectl("replace", "-f", "-", stdin=yaml.safe_dump({**lease, "metadata": metadata}))


def is_held(cluster: Cluster, obj: Object) -> bool:
    return FINALIZER in cluster.look(obj)["metadata"].get("finalizers", ())


def test_objects_stay_and_proxies_keep_running_after_the_operator_is_uninstalled(left: Left, cluster: Cluster) -> None:
    assert not cluster.listed("pods", labels={"app": "operator"})
    assert uids(cluster) >= left.kinds
    assert is_held(cluster, left.service)
    assert identity(cluster.proxy(left.service)) == identity(left.pod)


def test_a_proxy_pod_that_is_replaced_while_no_operator_runs_comes_back_as_the_same_device(
    left: Left, cluster: Cluster, client: Object, management: Management
) -> None:
    cluster.delete("pod", left.pod["metadata"]["name"], NAMESPACE)
    eventually(lambda: cluster.proxy(left.service)["metadata"]["uid"] != left.pod["metadata"]["uid"], "another Pod")
    metadata = left.service["metadata"]
    page = f"http://{metadata['name']}.{metadata['namespace']}.svc.cluster.local:{WEB_PORT}/"
    eventually(lambda: cluster.curl(client, page) == GREETING, f"the page of {page}")
    assert device_of(management, left.service) == left.device


def test_a_namespace_can_be_deleted_once_our_finalizers_are_removed_as_documented(left: Left, cluster: Cluster) -> None:
    (command,) = COMMAND.findall((DOCS / "install.md").read_text())
    namespace = left.lonely["metadata"]["namespace"]
    cluster.delete("namespace", namespace)
    eventually(
        lambda: "deletionTimestamp" in cluster.look(left.lonely)["metadata"], "its Service waits for an operator"
    )
    run(["sh", "-euc", command], env=cluster.bed.environment())
    eventually(lambda: cluster.get("namespace", namespace) is None, f"no {namespace}")
    assert not is_held(cluster, left.service)


@pytest.fixture(scope="module")
def again(left: Left, cluster: Cluster, images: ProductImages) -> Object:
    """The operator, installed again. The value is the proxy's Pod as it was before."""
    before = cluster.proxy(left.service)
    product.deploy(cluster.bed, images)
    return before


def test_an_operator_that_is_installed_again_leads_within_ten_seconds(
    again: Object, cluster: Cluster, say: Callable[[object], None]
) -> None:
    leader = eventually(lambda: leading(cluster), "a leader in a Pod that is there", 20)
    log = cluster.bed.kubectl("-n", NAMESPACE, "logs", "--timestamps", leader)
    ready, leads = (time_of(words, log) for words in ("standing by: ", "leading: "))
    idle = (leads - ready).total_seconds()
    say(f"an operator that is installed again waits for {idle:.2f} s until it leads")
    assert round(idle) <= 10


def leading(cluster: Cluster) -> str:
    """Return the name of the leading Pod, or "" if the Pod in the Lease doesn't exist."""
    name = str(product.lease(cluster.bed)["spec"]["holderIdentity"].partition("_")[0])
    return name if cluster.get("pod", name, NAMESPACE) else ""


def time_of(words: str, log: str) -> datetime:
    """Return the time of the first log line that contains *words*."""
    line = next(each for each in log.splitlines() if words in each)
    return datetime.fromisoformat(line.partition(" ")[0])


def test_an_operator_that_is_installed_again_manages_the_objects_that_remained(
    again: Object, left: Left, cluster: Cluster, nameserver: str, management: Management
) -> None:
    eventually(lambda: is_held(cluster, left.service), "our finalizer again")
    right = Answer("NOERROR", (pod_ip(again),))
    eventually(lambda: dig(cluster.bed, nameserver, PEER_NAME) == right, f"{PEER_NAME} is {right}")
    assert identity(cluster.proxy(left.service)) == identity(again)
    assert device_of(management, left.service) == left.device
