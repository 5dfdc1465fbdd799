from typing import Any

from clustersim import deployments, kubelet
from clustersim.controller import Key
from clustersim.objects import DEPLOYMENT, POD, Object
from clustersim.store import Store
from clustersim.tailnet import Tailnet

from tests.loadtest.clustersim.running import running, statefulset, until


def deployment(image: str, replicas: int = 2) -> Object:
    obj = statefulset(replicas, image)
    del obj["spec"]["serviceName"]
    return obj


def status(store: Store) -> Any:
    return store.get(DEPLOYMENT, "default", "web").get("status", {})


def pod_names(store: Store) -> set[str]:
    return {pod["metadata"]["name"] for pod in store.list(POD, "default")}


async def test_a_deployment_with_ready_pods_is_available() -> None:
    store = Store()
    async with running(deployments.run(store), kubelet.run(store, Tailnet())):
        store.create(DEPLOYMENT, deployment("example.org/a:1"))
        await until(store, lambda: status(store).get("availableReplicas") == 2)
    (condition,) = status(store)["conditions"]
    assert (condition["type"], condition["status"]) == ("Available", "True")
    assert status(store)["observedGeneration"] == 1
    assert all(name.startswith("web-") and len(name) == len("web-0123456789-abcde") for name in pod_names(store))


def test_a_deployment_without_ready_pods_is_not_available() -> None:
    store = Store()
    store.create(DEPLOYMENT, deployment("example.org/a:1"))
    deployments.Deployments(store).reconcile(Key("default", "web"))
    (condition,) = status(store)["conditions"]
    assert (condition["status"], status(store)["unavailableReplicas"]) == ("False", 2)


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
