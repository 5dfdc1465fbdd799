from typing import Any

from clustersim import deployments
from clustersim.controller import Key
from clustersim.objects import DEPLOYMENT, POD, Object
from clustersim.store import Store

from tests.loadtest.clustersim.running import statefulset


def deployment(image: str, replicas: int = 2) -> Object:
    obj = statefulset(replicas, image)
    del obj["spec"]["serviceName"]
    return obj


def status(store: Store) -> Any:
    return store.get(DEPLOYMENT, "default", "web").get("status", {})


def pod_names(store: Store) -> set[str]:
    return {pod["metadata"]["name"] for pod in store.list(POD, "default")}


def test_pods_of_an_older_template_do_not_count_as_updated() -> None:
    store = Store()
    controller = deployments.Deployments(store)
    store.create(DEPLOYMENT, deployment("example.org/a:1"))
    controller.reconcile(Key("default", "web"))
    store.replace(DEPLOYMENT, deployment("example.org/a:2"))
    for name in pod_names(store):  # they take their time to go
        store.merge(POD, "default", name, {"metadata": {"finalizers": ["example.org/slow"]}})
    controller.reconcile(Key("default", "web"))
    assert (len(pod_names(store)), status(store)["replicas"], status(store)["updatedReplicas"]) == (4, 2, 2)
