"""ProxyClasses: a running proxy restarts only once to get its class's settings, and its metrics can be read."""

from collections.abc import Iterator

import pytest

from tests.e2e.cluster import Cluster, Object
from tests.e2e.product import NAMESPACE
from tests.e2e.waiting import eventually
from tests.e2e.workloads import BALANCED, exposed_service
from tests.support.manifests import proxy_class

CLASS = "end-to-end"
RESOURCES: Object = {"requests": {"cpu": "2m", "memory": "20Mi"}}
CONTAINER: Object = {"env": [{"name": "EXAMPLE", "value": "value"}], "resources": RESOURCES}


@pytest.fixture
def given_class(cluster: Cluster) -> Iterator[str]:
    """A ProxyClass in the cluster."""
    cluster.apply(proxy_class(CLASS, metrics={"enable": True}, statefulSet={"pod": {"tailscaleContainer": CONTAINER}}))
    yield CLASS
    cluster.delete("proxyclass", CLASS)


def test_a_proxy_changes_with_its_proxyclass_and_returns_to_its_old_form_without_the_proxyclass(
    cluster: Cluster, client: Object, namespace: str, given_class: str
) -> None:
    service = exposed_service(namespace, "lb", BALANCED)
    cluster.apply(service)
    plain = revision(cluster.proxy(service))
    cluster.annotate(service, f"tailscale.com/proxy-class={given_class}")
    eventually(lambda: revision(cluster.proxy(service)) != plain, "another proxy Pod")
    (container,) = cluster.proxy(service)["spec"]["containers"]
    assert (container["resources"], CONTAINER["env"][0] in container["env"]) == (RESOURCES, True)
    eventually(lambda: "\ntailscaled_" in cluster.curl(client, metrics_url(cluster, service)), "metrics of tailscaled")
    assert len(revisions(cluster, service)) == 2
    cluster.annotate(service, "tailscale.com/proxy-class-")
    eventually(lambda: revision(cluster.proxy(service)) == plain, "a proxy Pod as the first")


def metrics_url(cluster: Cluster, service: Object) -> str:
    (statefulset,) = cluster.children(service, "statefulsets")
    return f"http://{statefulset['metadata']['name']}-metrics.{NAMESPACE}.svc.cluster.local:9002/metrics"


def revisions(cluster: Cluster, service: Object) -> list[Object]:
    """Return the ControllerRevisions of the proxy's StatefulSet: one for each Pod template that it has had."""
    return cluster.listed("controllerrevisions", NAMESPACE, {"app": cluster.look(service)["metadata"]["uid"]})


def revision(pod: Object) -> str:
    return str(pod["metadata"]["labels"]["controller-revision-hash"])
