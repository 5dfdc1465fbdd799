"""The operator works with each documented file of values. The tests replace only values that don't fit the bed."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from tsnameserver import __version__

from tests.docs.pages import DOCS
from tests.e2e import product
from tests.e2e.cluster import Cluster, Object
from tests.e2e.product import CHART, NAMESPACE
from tests.e2e.testbed import control, registry
from tests.e2e.testbed.commands import Word
from tests.e2e.testbed.management import CLIENT_ID, CLIENT_SECRET, Management
from tests.e2e.testbed.parts import TAILSCALE
from tests.e2e.waiting import eventually
from tests.e2e.workloads import PEER_NAME, egress_service

REGISTRY = "registry.example.org"  # the registry in the documentation
ON_THE_BED = {"loginServer": control.URL, "proxyConfig": {"image": {"tag": f"v{TAILSCALE}"}}}
SECRET: Object = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"namespace": NAMESPACE, "name": "tailnet-credentials"},
    "stringData": {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET},
}
SECRET_VOLUME = {"secretName": SECRET["metadata"]["name"]}


class Case(NamedTuple):
    """A documented file of values, and the changes of its values that make it fit the bed."""

    file: str
    changes: Object


CASES = {
    "by value": Case("oauth.yaml", {"oauth": {"clientId": CLIENT_ID, "clientSecret": CLIENT_SECRET}}),
    "by an existing Secret": Case("existing-secret.yaml", {}),
    "by a volume": Case("secret-volume.yaml", {"oauthSecretVolume": {"csi": None, "secret": SECRET_VOLUME}}),
}


@pytest.fixture(scope="module")
def documented_images(cluster: Cluster) -> Iterator[None]:
    """Our images under the names that the documentation uses. The release is restored afterwards."""
    bed, revision = cluster.bed, _revision(cluster)
    for target in ("operator", "nameserver"):
        built = product.push_image(bed, target)
        registry.copy(bed.paths, bed.machines["node"], built, f"{REGISTRY}/ts{target}:{__version__}")
    cluster.apply(SECRET)
    yield
    bed.helm("rollback", product.RELEASE, revision, "--namespace", NAMESPACE)
    product.wait_ready(bed, 90)
    cluster.delete("secret", "tailnet-credentials", NAMESPACE)


def _revision(cluster: Cluster) -> str:
    (release,) = yaml.safe_load(
        cluster.bed.helm("list", "--namespace", NAMESPACE, "--filter", "^operator$", "-o", "json")
    )
    return str(release["revision"])


@pytest.mark.full
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_operator_works_with_the_documented_values(
    cluster: Cluster, documented_images: None, management: Management, namespace: str, case: Case, tmp_path: Path
) -> None:
    changes = tmp_path / "changes.yaml"
    changes.write_text(yaml.safe_dump({**ON_THE_BED, **case.changes}))
    words: list[Word] = ["upgrade", product.RELEASE, CHART, "--namespace", NAMESPACE, "--reset-values"]
    cluster.bed.helm(*words, "--values", DOCS / "examples" / "values" / case.file, "--values", changes)
    product.wait_ready(cluster.bed, 90)
    images = {pod["spec"]["containers"][0]["image"] for pod in cluster.listed("pods", NAMESPACE, {"app": "operator"})}
    assert f"{REGISTRY}/tsoperator:{__version__}" in images
    cluster.apply(egress_service(namespace, "db", tailnet_fqdn=PEER_NAME))
    eventually(lambda: management.device(f"{namespace}-db"), "a device, for which an auth key was made")
