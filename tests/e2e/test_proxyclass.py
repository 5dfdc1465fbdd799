"""ProxyClasses: how a running proxy looks is what its class says, and changes with it."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.e2e.cluster import Cluster, Object
from tests.e2e.product import NAMESPACE
from tests.e2e.waiting import eventually
from tests.e2e.workloads import BALANCED, exposed_service, proxy_class

CLASS = "end-to-end"
REQUESTS = {"cpu": "2m", "memory": "20Mi"}


class Steps(NamedTuple):
    """The proxy's Pod without a class, with one, after a change of the class, and when the class was taken away."""

    plain: Object
    dressed: Object
    changed: Object
    undressed: Object
    revisions: list[str]


def container(**more: Any) -> Object:
    return {"env": [{"name": "EXAMPLE", "value": "first"}], "resources": {"requests": REQUESTS}, **more}


def spec(tailscale_container: Object) -> Object:
    pod = {"labels": {"team": "a"}, "annotations": {"example.org/note": "b"}, "tailscaleContainer": tailscale_container}
    return {"metrics": {"enable": True}, "statefulSet": {"labels": {"stage": "test"}, "pod": pod}}


@pytest.fixture(scope="module")
def proxied(cluster: Cluster, shared_namespace: str) -> Object:
    """A Service with a proxy that has no class yet."""
    service = exposed_service(shared_namespace, "lb", BALANCED)
    cluster.apply(service)
    return service


@pytest.fixture(scope="module")
def steps(cluster: Cluster, client: Object, proxied: Object) -> Iterator[Steps]:
    """The proxy at each step; with the class, its metrics were there."""
    plain = cluster.proxy(proxied)
    cluster.apply(proxy_class(CLASS, **spec(container())))
    cluster.annotate(proxied, f"tailscale.com/proxy-class={CLASS}")
    dressed = next_proxy(cluster, proxied, plain)
    eventually(lambda: metrics(cluster, client, proxied), "metrics of tailscaled by their Service")
    cluster.apply(proxy_class(CLASS, **spec(container(env=[{"name": "EXAMPLE", "value": "second"}]))))
    changed = next_proxy(cluster, proxied, dressed)
    (statefulset,) = cluster.children(proxied, "statefulsets")
    assert statefulset["metadata"]["labels"]["stage"] == "test"
    cluster.annotate(proxied, "tailscale.com/proxy-class-")
    undressed = next_proxy(cluster, proxied, changed)
    yield Steps(plain, dressed, changed, undressed, revisions(cluster, proxied))
    cluster.delete("proxyclass", CLASS)


def next_proxy(cluster: Cluster, service: Object, old: Object) -> Object:
    """Wait for another Pod than *old*."""

    def another() -> Object | None:
        pod = cluster.proxy(service)
        return pod if pod["metadata"]["uid"] != old["metadata"]["uid"] else None

    found = eventually(another, "another proxy Pod")
    assert found
    return found


def metrics(cluster: Cluster, client: Object, service: Object) -> bool:
    url = f"http://{metrics_service(cluster, service)}.{NAMESPACE}.svc.cluster.local:9002/metrics"
    return "\ntailscaled_" in cluster.curl(client, url)


def metrics_service(cluster: Cluster, service: Object) -> str:
    (statefulset,) = cluster.children(service, "statefulsets")
    return f"{statefulset['metadata']['name']}-metrics"


def revisions(cluster: Cluster, service: Object) -> list[str]:
    """Every template that the proxy's StatefulSet has had: by the Pod label that names it."""
    labels = {"app": cluster.look(service)["metadata"]["uid"]}
    return [each["metadata"]["name"] for each in cluster.listed("controllerrevisions", NAMESPACE, labels)]


def revision(pod: Object) -> str:
    return str(pod["metadata"]["labels"]["controller-revision-hash"])


def environment(pod: Object) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in pod["spec"]["containers"][0]["env"]}


def test_the_proxy_has_what_its_class_gives_it(steps: Steps) -> None:
    metadata, (tailscale,) = steps.dressed["metadata"], steps.dressed["spec"]["containers"]
    assert (metadata["labels"]["team"], metadata["annotations"]["example.org/note"]) == ("a", "b")
    assert tailscale["resources"]["requests"] == REQUESTS
    assert environment(steps.dressed)["EXAMPLE"] == "first"


def test_each_change_rolls_the_pod_once(steps: Steps) -> None:
    seen = [revision(pod) for pod in (steps.plain, steps.dressed, steps.changed)]
    assert sorted(steps.revisions) == sorted(set(seen))
    assert environment(steps.changed)["EXAMPLE"] == "second"


def test_a_proxy_without_its_class_is_what_it_was(steps: Steps, cluster: Cluster, proxied: Object) -> None:
    assert revision(steps.undressed) == revision(steps.plain)
    (statefulset,) = cluster.children(proxied, "statefulsets")
    assert "stage" not in statefulset["metadata"]["labels"]
    metrics_gone = lambda: cluster.get("service", metrics_service(cluster, proxied), NAMESPACE) is None  # noqa: E731
    eventually(metrics_gone, "its metrics Service is gone")
