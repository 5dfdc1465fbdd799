"""A user edits a hostname while the proxy runs. The same device gets the new name, and nothing restarts."""

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.cluster import Cluster, Object, identity, shown_hostnames
from tests.e2e.testbed import control
from tests.e2e.testbed.management import Management
from tests.e2e.testbed.peer import Peer
from tests.e2e.waiting import eventually
from tests.e2e.workloads import BALANCED, PAGE, exposed_service, ingress, web


class Case(NamedTuple):
    """A kind of object that exposes a page under a hostname, and the scheme by which users fetch the page."""

    scheme: str
    hostname: str
    renamed: str

    def obj(self, namespace: str, hostname: str) -> Object:
        if self.scheme == "https":
            return ingress(namespace, "shop", host=hostname)
        return exposed_service(namespace, "lb", BALANCED, hostname=hostname)


@pytest.mark.full
@pytest.mark.parametrize(
    "case",
    [Case("http", "lb-before", "lb-after"), Case("https", "shop-before", "shop-after")],
    ids=["a load balancer", "an Ingress"],
)
def test_a_device_is_renamed_while_its_proxy_runs(
    cluster: Cluster, namespace: str, management: Management, outside: Peer, acme_root: Path, case: Case
) -> None:
    before, after = case.obj(namespace, case.hostname), case.obj(namespace, case.renamed)
    cluster.apply(*web(namespace, "web"), before)
    pod = cluster.device_proxy(before)
    device = eventually(lambda: management.device(case.hostname), f"the device {case.hostname}")
    cluster.apply(after)
    name = f"{case.renamed}.{control.DOMAIN}"
    fetch: list[str | Path] = ["--cacert", acme_root, f"{case.scheme}://{name}/"]
    eventually(lambda: outside.curl(*fetch).strip() == PAGE, f"the page of {name}")
    eventually(lambda: shown_hostnames(cluster.look(after)) == [name], f"{name} in the status")
    renamed = management.device(case.renamed) or {}
    assert device
    assert (renamed.get("nodeId"), management.device(case.hostname)) == (device["nodeId"], None)
    assert identity(cluster.proxy(after)) == identity(pod)
