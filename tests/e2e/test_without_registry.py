"""An installation without a registry for images: the node imports the images from a file.

Only the chart is in an OCI registry.
"""

import re
import shutil
from collections.abc import Iterator

import pytest
import yaml
from tsnameserver import __version__

from tests.docs.pages import DOCS
from tests.e2e import product, releasing
from tests.e2e.changeover import nameserver_runs
from tests.e2e.cluster import Cluster, dig, is_ready
from tests.e2e.product import RELEASE, ProductImages
from tests.e2e.releasing import IMAGES, Workshop
from tests.e2e.testbed import registry
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.commands import Word, run
from tests.e2e.testbed.node import SOCKET
from tests.e2e.testbed.parts import program
from tests.e2e.waiting import eventually

OPERATOR, NAMESERVER = (f"{name}:{__version__}" for name in IMAGES)
COMMAND = re.compile(
    r"<!-- tests/e2e/test_without_registry.py runs this -->\n```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE
)


@pytest.fixture(scope="module")
def installed(
    cluster: Cluster, nameserver: str, images: ProductImages, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """The chart, installed from a registry on loopback. The images are those that the node has imported from a file."""
    bed, folder = cluster.bed, tmp_path_factory.mktemp("release")
    shutil.copytree(product.context(bed.paths), folder / "context")
    # Other images than the node has pulled already: the kubelet would pull the same ones again under these names.
    (folder / "context" / "nameserver" / "tsnameserver" / "imported.txt").write_text("")
    archive = folder / "images.tar"
    Workshop(bed.paths, folder, registry.BASE, bed.images.storage).build("--archive", archive)
    ctr(bed, "import", archive)
    with releasing.served(bed.paths, tmp_path_factory.mktemp("registry")) as address:
        place = f"{address}/tailnet"
        releasing.push_chart(bed.paths, place, folder)
        product.uninstall(bed)
        try:
            install(bed, place)
            yield
        finally:
            product.deploy(bed, images)
            eventually(lambda: nameserver_runs(cluster, images.nameserver), "the nameserver of the other tests")
            ctr(bed, "remove", *(f"docker.io/library/{name}" for name in (OPERATOR, NAMESERVER)))


def ctr(bed: Bed, *words: Word) -> str:
    """Run `ctr` for the images of the node, as the node's administrator does."""
    argv: list[Word] = [program(bed.paths, "ctr"), "--address", SOCKET, "--namespace", "k8s.io", "images", *words]
    return bed.machines["node"].run(argv, timeout=120)


def install(bed: Bed, place: str) -> None:
    """Install the chart at *place* in a registry on loopback, as documented, and wait until the operator is ready."""
    values = bed.folder / "values.yaml"
    values.write_text(yaml.safe_dump({**product.CREDENTIALS, "operatorConfig": {"manageClusterDNS": True}}))
    [command] = COMMAND.findall((DOCS / "install.md").read_text())
    for documented, ours in {
        "registry.example.org/tailnet": place,
        "install tailscale-operator": f"install {RELEASE}",
        "values.yaml": str(values),
    }.items():
        assert command.count(documented) == 1
        command = command.replace(documented, ours)
    run(["sh", "-euc", f"{command.strip()} --plain-http --wait --timeout=90s"], timeout=120, env=bed.environment())


def test_the_operator_runs_the_image_that_was_loaded_from_an_archive(installed: None, cluster: Cluster) -> None:
    pods = cluster.listed("pods", labels={"app": "operator"})
    assert [is_ready(pod) for pod in pods] == [True, True]
    assert {pod["spec"]["containers"][0]["image"] for pod in pods} == {OPERATOR}
    assert_nothing_pulled(cluster, "operator", OPERATOR)


def test_the_nameserver_runs_the_image_that_was_loaded_from_an_archive(
    installed: None, cluster: Cluster, nameserver: str
) -> None:
    eventually(lambda: nameserver_runs(cluster, NAMESERVER), "our nameserver alone")
    assert dig(cluster.bed, nameserver, "ts.net", "SOA").rcode == "NOERROR"
    assert_nothing_pulled(cluster, "nameserver", NAMESERVER)


def assert_nothing_pulled(cluster: Cluster, app: str, image: str) -> None:
    """Check that the kubelet says of each Pod of *app* that the image was already on the node."""
    names = {pod["metadata"]["name"] for pod in cluster.listed("pods", labels={"app": app})}
    events = [each for each in cluster.listed("events") if each["involvedObject"]["name"] in names]
    said = {each["message"] for each in events if each["reason"] in {"Pulling", "Pulled"}}
    assert said
    assert [words for words in said if f'"{image}" already present on machine' not in words] == []
