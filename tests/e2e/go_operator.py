"""The Go operator as its users install it: its released chart, and its images."""

import json
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.e2e import product
from tests.e2e.cluster import Cluster, Object
from tests.e2e.testbed import control, oci
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.commands import run
from tests.e2e.testbed.management import Management
from tests.e2e.testbed.parts import TAILSCALE, named, program

OPERATOR_IMAGE = f"tailscale/k8s-operator:v{TAILSCALE}"  # the default of the Go operator's chart
NAMESERVER_IMAGE = "tailscale/k8s-nameserver:stable"  # the default of a DNSConfig that names no image

_CONDITIONAL = "{{ if .Values.installCRDs -}}\n%s{{- end -}}\n"


@cache
def deployed_from(version: str = "") -> Path:
    """Return the folder with the chart and the CRDs in the Go operator's Go module, which is downloaded if necessary.

    By default, *version* is the version that the testbed builds.
    """
    name = f"tailscale.com@v{version}" if version else "tailscale.com"
    module = run(["go", "mod", "download", "-json", name], cwd=named("tailscale").folder, timeout=120)
    return Path(json.loads(module)["Dir"]) / "cmd" / "k8s-operator" / "deploy"


def released_chart(folder: Path) -> Path:
    """Return the Go operator's chart, copied to *folder*, with the CRDs and the version that a release adds."""
    source, chart = deployed_from(), folder / "go-operator"
    shutil.copytree(source / "chart", chart, copy_function=shutil.copyfile)
    chart.chmod(0o755)  # the folder is copied from a Go module, whose files are read-only
    (chart / "templates").chmod(0o755)
    for crd in (source / "crds").iterdir():
        (chart / "templates" / crd.name).write_text(_CONDITIONAL % crd.read_text())
    text = (chart / "Chart.yaml").read_text()
    text = text.replace("version: 0.1.0", f"version: {TAILSCALE}").replace('"stable"', f'"v{TAILSCALE}"')
    (chart / "Chart.yaml").write_text(text)
    return chart


def take_over(bed: Bed, folder: Path, values: Mapping[str, Any] = product.CREDENTIALS) -> None:
    """Uninstall our operator, and install the Go operator's released chart. The chart is written to *folder* first."""
    push_operator(bed)
    push_nameserver(bed)
    product.uninstall(bed)
    product.install(bed, released_chart(folder), values)


def permission(plural: str) -> list[Object]:
    """Return a ClusterRole and its binding that let the Go operator make children for objects of the kind *plural*.

    The Go operator's chart lacks this right, but the API server of the bed requires it.
    """
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": f"go-operator-{plural}"}}
    subject = {"kind": "ServiceAccount", "name": "operator", "namespace": product.NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"go-operator-{plural}"}
    rule = {"apiGroups": ["tailscale.com"], "resources": [f"{plural}/finalizers"], "verbs": ["update"]}
    return [
        {**kind, "kind": "ClusterRole", "rules": [rule]},
        {**kind, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [subject]},
    ]


def forget(cluster: Cluster, management: Management) -> None:
    """Delete the Go operator's own device, and the Secret with its state."""
    cluster.delete("secret", "operator", product.NAMESPACE)
    device = management.device("tailscale-operator")
    if device:
        management.delete(device["nodeId"])


def push_operator(bed: Bed) -> str:
    """Push the Go operator under the name of its released image, and return that name."""
    inside, root = "/usr/local/bin/operator", "/etc/ssl/testbed-root.pem"
    variables = {**control.TAILSCALED_ENV, **control.ACME_ENV, "SSL_CERT_FILE": root}
    environment = [oci.PATH, *(f"{name}={value}" for name, value in variables.items())]
    files = {inside: program(bed.paths, "k8s-operator"), root: control.acme_authority(bed.paths).ca}
    bed.images.push_files(OPERATOR_IMAGE, files, oci.Start(entrypoint=[inside], environment=environment))
    return OPERATOR_IMAGE


def push_nameserver(bed: Bed) -> str:
    """Push the Go operator's nameserver under the name of its released image, and return that name."""
    inside = "/usr/local/bin/k8s-nameserver"
    files = {inside: program(bed.paths, "k8s-nameserver")}
    bed.images.push_files(NAMESERVER_IMAGE, files, oci.Start(entrypoint=[inside]), base=False)
    return NAMESERVER_IMAGE
