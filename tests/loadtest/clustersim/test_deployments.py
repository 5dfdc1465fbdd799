from clustersim import deployments
from clustersim.controller import Key
from clustersim.objects import DEPLOYMENT, POD
from clustersim.store import Store

from tests.loadtest.clustersim.running import statefulset


def pods(store: Store) -> list[str]:
    return [pod["metadata"]["name"] for pod in store.list(POD, "default")]


def test_pods_of_an_older_template_are_not_counted_as_updated() -> None:
    store = Store()
    controller = deployments.Deployments(store)
    store.create(DEPLOYMENT, statefulset(2, "example.org/a:1"))
    controller.reconcile(Key("default", "web"))
    store.replace(DEPLOYMENT, statefulset(2, "example.org/a:2"))
    for name in pods(store):  # the deleted Pods need some time to end
        store.merge(POD, "default", name, {"metadata": {"finalizers": ["example.org/slow"]}})
    controller.reconcile(Key("default", "web"))
    status = store.get(DEPLOYMENT, "default", "web")["status"]
    assert (len(pods(store)), status["replicas"], status["updatedReplicas"]) == (4, 2, 2)
    assert (status["conditions"][0]["status"], status["unavailableReplicas"]) == ("False", 2)


def test_a_deployment_with_the_strategy_recreate_has_no_new_pod_before_the_old_one_is_gone() -> None:
    store, key = Store(), Key("default", "web")
    controller = deployments.Deployments(store)
    before, after = (statefulset(1, f"example.org/a:{version}") for version in (1, 2))
    for each in (before, after):
        each["spec"]["strategy"] = {"type": "Recreate"}
    store.create(DEPLOYMENT, before)
    controller.reconcile(key)
    (old,) = pods(store)
    store.replace(DEPLOYMENT, after)
    store.merge(POD, "default", old, {"metadata": {"finalizers": ["example.org/slow"]}})
    controller.reconcile(key)
    assert pods(store) == [old]
    store.merge(POD, "default", old, {"metadata": {"finalizers": None}})
    controller.reconcile(key)
    (new,) = pods(store)
    assert new != old
