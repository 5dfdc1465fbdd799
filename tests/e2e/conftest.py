"""Fixtures of the end-to-end tests: the bed, the product on it, namespaces and clients.

If a bed is up already, the tests use it and leave it up, which helps while you work on one test. Otherwise they bring
one up, and take it down at the end, whatever happened.
"""

import re
import shutil
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml
from tsoperator.kube.client import KubeClient
from tsoperator.kube.config import load_configuration

from tests.e2e import evidence, product
from tests.e2e.cluster import Cluster, Object, dig
from tests.e2e.product import TREE, ProductImages
from tests.e2e.testbed import control
from tests.e2e.testbed.bed import Bed, brought_up
from tests.e2e.testbed.control import SECOND
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.lock import locked
from tests.e2e.testbed.management import Management, replace_client
from tests.e2e.testbed.network import DNS_SERVICE
from tests.e2e.testbed.paths import Paths
from tests.e2e.testbed.peer import Peer
from tests.e2e.testbed.progress import Progress
from tests.e2e.waiting import eventually
from tests.e2e.workloads import client as client_pod

TIMEOUT = 300.0  # seconds that a test may take; its fixtures have limits of their own
_FAILURES = TREE / "build" / "e2e" / "failures"
_STANZA = TREE / "coredns" / "stub-domain.conf"
_DNSCONFIG = TREE / "docs" / "examples" / "dnsconfig-by-hand.yaml"


def pytest_itemcollected(item: pytest.Item) -> None:
    """Apply the time limit to the test function only.

    Otherwise the limit of the first test would include the start of the bed.
    """
    item.add_marker(pytest.mark.timeout(TIMEOUT, func_only=True))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Sort the tests: those marked `verdict` come at the very end, and those marked `last` just before them.

    Tests marked `last` leave the cluster busy, and those marked `verdict` judge the whole session. If only a part of
    the tests runs, deselect those marked `whole`, which judge a run of all tests. Leaving out tests marked `full`
    doesn't count as running a part.
    """
    items.sort(key=lambda item: (_has("verdict", item), _has("last", item)))
    collected = list(items)
    yield
    missing = set(collected) - set(items)
    modules = set(Path(__file__).parent.glob("test_*.py")) - {item.path for item in collected}
    if modules or any("::" in words for words in config.args) or not all(_has("full", item) for item in missing):
        config.hook.pytest_deselected(items=[item for item in items if _has("whole", item)])
        items[:] = [item for item in items if not _has("whole", item)]


def _has(marker: str, item: pytest.Item) -> bool:
    return item.get_closest_marker(marker) is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Collect the evidence of a failure at once, since the bed will be gone afterwards."""
    report = yield
    bed = Bed(Paths.from_environment())
    if report.failed and bed.runs:
        folder = _FAILURES / re.sub(r"[^\w.-]+", "_", item.nodeid.removeprefix("tests/e2e/")) / report.when
        evidence.collect(bed, folder)
        report.sections.append(("evidence", str(folder)))
    return report


@pytest.fixture(scope="session")
def bed() -> Iterator[Bed]:
    """A bed that is up, and that no other run of the tests uses."""
    found = Bed(Paths.from_environment())
    with ExitStack() as stack:
        was_up = found.runs
        try:
            # Two runs would change the same objects, and fail for no reason that either of them shows.
            stack.enter_context(locked(found.paths.work / "tests", "the end-to-end tests"))
            stack.enter_context(brought_up(found))
        except BedError as problem:
            pytest.exit(f"no testbed: {problem}", returncode=1)  # otherwise each test would report the same problem
        if not was_up:
            shutil.rmtree(_FAILURES, ignore_errors=True)
        yield found


@pytest.fixture(scope="session")
def images(bed: Bed) -> ProductImages:
    """The product's images, pushed to the bed's registry."""
    with Progress().step("the product's images"):
        return product.push_images(bed)


@pytest.fixture(scope="session")
def cluster(bed: Bed, images: ProductImages) -> Cluster:
    """The cluster, in which the operator is installed and ready."""
    with Progress().step("the operator"):
        product.deploy(bed, images)
    return Cluster(bed)


@pytest.fixture(scope="session")
def nameserver(cluster: Cluster) -> str:
    """The address of the nameserver of a DNSConfig. The cluster's DNS forwards the tailnet's names to this address."""
    dnsconfig = yaml.safe_load(_DNSCONFIG.read_text())
    cluster.apply(dnsconfig)

    def address() -> str:
        found = cluster.get("dnsconfig", dnsconfig["metadata"]["name"]) or {}
        return str(found.get("status", {}).get("nameserver", {}).get("ip", ""))

    ip = eventually(address, "the nameserver's address in the DNSConfig's status")
    _add_stub_domain(cluster, ip)
    eventually(lambda: dig(cluster.bed, ip, "ts.net", "SOA").rcode == "NOERROR", "an answer of the nameserver")
    eventually(lambda: dig(cluster.bed, DNS_SERVICE, "ts.net", "SOA").rcode == "NOERROR", "one through cluster DNS")
    return ip


def _add_stub_domain(cluster: Cluster, ip: str) -> None:
    configmap = cluster.get("configmap", "coredns", "kube-system")
    assert configmap
    # The stub domain is all of ts.net, as the nameserver's zone is: tests compare answers to names anywhere in it.
    stanza = _STANZA.read_text().replace("TAILNET_DOMAIN", "ts.net").replace("NAMESERVER_IP", ip)
    if stanza not in configmap["data"]["Corefile"]:
        configmap["data"]["Corefile"] += f"\n{stanza}"
        cluster.apply(configmap)
        cluster.remount_dns()


@pytest.fixture(scope="session")
def client(cluster: Cluster) -> Object:
    """A Pod of a user, with curl and dig."""
    pod = client_pod("default")
    cluster.apply(pod)
    name = pod["metadata"]["name"]
    cluster.bed.kubectl("-n", "default", "wait", f"pod/{name}", "--for=condition=Ready", "--timeout=60s", timeout=70)
    return pod


@pytest.fixture(scope="session")
def management(bed: Bed) -> Management:
    """The tailnet's management API."""
    return Management.log_in(bed.machines["wan"])


@pytest.fixture
async def api(bed: Bed) -> AsyncIterator[KubeClient]:
    """The Kubernetes API, as admin."""
    async with KubeClient(await load_configuration(str(bed.kubeconfig))) as client:
        yield client


@pytest.fixture(scope="session")
def outside(bed: Bed) -> Peer:
    """The first device outside the cluster, in the tailnet of the operator."""
    return bed.peers()[0]


@pytest.fixture(scope="session")
def neighbour(bed: Bed) -> Peer:
    """Another device outside the cluster, in the same tailnet as `outside`."""
    return bed.peers()[1]


@pytest.fixture(scope="session")
def second(bed: Bed) -> Peer:
    """The device outside the cluster in the second tailnet.

    The fixture makes the original OAuth client of that tailnet valid again, in case an earlier run has replaced it.
    """
    replace_client(bed.machines["wan"], SECOND)
    return bed.peers()[2]


@pytest.fixture(scope="session")
def acme_root(bed: Bed) -> Path:
    """A file with the root certificate of the ACME server."""
    file = bed.folder / "acme-root.pem"
    file.write_text(control.acme_root(bed.paths, bed.machines["wan"]))
    return file


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[[object], None]:
    """A function that prints a measured figure, even if the test passes."""

    def write(figure: object) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{figure}\n")

    return write


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of a user. It is deleted afterwards, with its objects and their children."""
    with _namespace(cluster) as name:
        yield name


@pytest.fixture(scope="module")
def shared_namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace that the tests of a module share."""
    with _namespace(cluster) as name:
        yield name


@pytest.fixture
def namespace_left(cluster: Cluster) -> Iterator[str]:
    """A namespace of a user, for tests marked `last`. Nobody waits for its deletion."""
    name = _create_namespace(cluster)
    yield name
    cluster.bed.kubectl("delete", "namespace", name, "--wait=false")


def _create_namespace(cluster: Cluster) -> str:
    name = f"test-{uuid.uuid4().hex[:6]}"
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    cluster.bed.plane.wait_for_namespace(name)
    return name


@contextmanager
def _namespace(cluster: Cluster) -> Iterator[str]:
    name = _create_namespace(cluster)
    yield name
    # The finalizers make kubectl wait for the proxies here. That is faster than to wait for the namespace: 10 s.
    words = ["delete", "services,ingresses,pods", "--all", "--timeout=90s"]
    cluster.bed.kubectl("-n", name, *words, timeout=100)
    cluster.delete("namespace", name)
