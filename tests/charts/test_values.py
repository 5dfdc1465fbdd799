"""The documented values for the chart: an API server accepts the manifests, and the operator its variables."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import yaml
from tsnameserver import __version__
from tsoperator.settings import Settings, read_settings

from tests.charts.rendered import the
from tests.docs import pages
from tests.e2e.product import CHART, NAMESPACE
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.commands import Word, run

Render = Callable[[str], str]

VALUES = pages.values()
EXAMPLES = "docs/examples/values"
every_example = pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())

FIELDS = {
    "metadata.name": "operator-7d9f",
    "metadata.namespace": NAMESPACE,
    "metadata.uid": "11111111-2222-3333-4444-555555555555",
    "spec.serviceAccountName": "operator",
}
"""The values of the Pod's fields that its variables refer to."""

NOT_SETTINGS = {
    "POD_UID": "the Go operator's Events are about its Pod: ours finds it by its name",
    "SSL_CERT_FILE": "read by the TLS library",
}
"""Variables that the chart sets although they are no settings of our operator, with the reasons."""


@pytest.fixture(scope="module")
def render(helm: Path) -> Render:
    words: list[Word] = [helm, "template", "operator", CHART, "--namespace", NAMESPACE, "--values", "-"]
    return cache(lambda values: run(words, stdin=values))


@pytest.fixture(scope="module")
def admitting(spaced_bed: Bed) -> Bed:
    """An API server with the operator's namespace and the namespaces that the operator is to watch."""
    watched = {name for values in VALUES.values() for name in watched_by(values)}
    namespaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in watched]
    spaced_bed.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(namespaces))
    return spaced_bed


def watched_by(values: str) -> tuple[str, ...]:
    """Return the users' namespaces that the operator watches with *values*."""
    return tuple(yaml.safe_load(values).get("operatorConfig", {}).get("watchNamespaces", ()))


def pod_of(rendered: str, folder: Path) -> tuple[dict[str, str], Path]:
    """Return the environment variables in a rendered Deployment, and the path of the operator's identity token.

    A path in a mounted volume is replaced by the path of a file that the function writes into *folder*.
    """
    spec = the("Deployment", list(filter(None, yaml.safe_load_all(rendered))))["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    mounts = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
    assert {*mounts.values()} == {each["name"] for each in spec["volumes"]}

    def mounted(path: str) -> str:
        if not any(path.startswith(f"{mount}/") for mount in mounts):
            return path
        file = folder / path.removeprefix("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("from a volume")
        return str(file)

    environment = {each["name"]: mounted(each["value"]) for each in container["env"] if "value" in each}
    environment |= {
        each["name"]: FIELDS[each["valueFrom"]["fieldRef"]["fieldPath"]]
        for each in container["env"]
        if "valueFrom" in each
    }
    return environment, Path(mounted(str(Settings(NAMESPACE, Path(), Path()).identity_token)))


@every_example
def test_an_api_server_accepts_the_manifests_that_the_chart_renders(
    admitting: Bed, render: Render, values: str
) -> None:
    accepted = admitting.kubectl("apply", "--dry-run=server", "-f", "-", stdin=render(values))
    assert "deployment.apps/operator created (server dry run)" in accepted


@every_example
def test_the_operator_accepts_the_environment_from_the_chart(render: Render, values: str, tmp_path: Path) -> None:
    settings = read_settings(*pod_of(render(values), tmp_path))
    given = yaml.safe_load(values)
    config = {"nameserverImage": {"repository": "tsnameserver"}, "zones": []} | given.get("operatorConfig", {})
    assert settings.namespace == NAMESPACE
    assert settings.login_server == given.get("loginServer", "")
    assert settings.nameserver_image == f"{config['nameserverImage']['repository']}:{__version__}"
    assert settings.zones == tuple(config["zones"])
    assert settings.watch_namespaces == watched_by(values)
    assert settings.warnings == ()


def test_each_environment_variable_in_the_chart_is_a_setting_of_the_operator_or_a_listed_exception(
    render: Render, tmp_path: Path
) -> None:
    known = {*pages.rows(pages.sections("settings.md")["The operator"])}
    rendered: set[str] = set()
    for shown in VALUES.values():
        rendered |= pod_of(render(shown), tmp_path)[0].keys()
    assert rendered - known == {*NOT_SETTINGS}


def example(name: str) -> str:
    return VALUES[f"{EXAMPLES}/{name}.yaml"]


@pytest.mark.parametrize("name", ["oauth", "existing-secret", "secret-volume", "headscale"])
def test_the_operator_reads_an_oauth_client_from_its_volume(render: Render, name: str, tmp_path: Path) -> None:
    settings = read_settings(*pod_of(render(example(name)), tmp_path))
    assert settings.client_id_file == tmp_path / "oauth" / "client_id"
    assert settings.client_secret_file == tmp_path / "oauth" / "client_secret"


def test_with_workload_identity_the_operator_reads_its_token_from_the_volume_in_the_chart(
    render: Render, tmp_path: Path
) -> None:
    settings = read_settings(*pod_of(render(example("workload-identity")), tmp_path))
    assert settings.client_id == "TAbc123CNTRL-kAbc123CNTRL"
    assert tmp_path in settings.identity_token.parents


def test_the_chart_mounts_the_certificate_of_a_headscale_where_the_tls_library_looks(
    render: Render, tmp_path: Path
) -> None:
    environment, _ = pod_of(render(example("headscale")), tmp_path)
    assert environment["SSL_CERT_FILE"] == str(tmp_path / "etc" / "tailnet-ca" / "ca.crt")
