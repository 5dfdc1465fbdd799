"""The Deployment controller: it makes Pods directly from the template, without a ReplicaSet."""

from collections.abc import Iterable, Sequence

from clustersim.conditions import with_condition
from clustersim.controller import Key, follow, key_of, owner_keys
from clustersim.objects import DEPLOYMENT, POD, Object, Resource
from clustersim.pods import controlled_by, count, is_deleting, is_ready, pod_from_template, template_hash
from clustersim.store import Store

HASH_LABEL = "pod-template-hash"


async def run(store: Store) -> None:
    """Create and delete the Pods of all Deployments, until cancelled."""
    controller = Deployments(store)
    await follow(store, (DEPLOYMENT, POD), _keys, controller.reconcile)


def _keys(resource: Resource, obj: Object) -> Iterable[Key]:
    return (key_of(obj),) if resource is DEPLOYMENT else owner_keys(obj, DEPLOYMENT.kind)


class Deployments:
    """Reconciles Deployments, one at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def reconcile(self, key: Key) -> None:
        """Make the Pods and the status match the Deployment named *key*."""
        obj = self._store.find(DEPLOYMENT, *key)
        if obj is None:
            return
        if not is_deleting(obj):
            self._roll(obj)
        self._report(obj)

    def _all_pods(self, obj: Object) -> list[Object]:
        """Return the Deployment's Pods."""
        pods = self._store.list(POD, obj["metadata"]["namespace"], obj["spec"]["selector"].get("matchLabels"))
        return [pod for pod in pods if controlled_by(pod, obj["metadata"]["uid"])]

    def _pods(self, obj: Object) -> list[Object]:
        """Return the Deployment's Pods without those that are being deleted."""
        return [pod for pod in self._all_pods(obj) if not is_deleting(pod)]

    def _roll(self, obj: Object) -> None:
        """Delete the Pods of an older template and the surplus Pods, and create the missing ones.

        With the strategy Recreate, no Pod is created before the Pods of the older template are gone.
        """
        revision = template_hash(obj["spec"]["template"])
        pods = self._pods(obj)
        current = _of_revision(pods, revision)
        outdated = [pod for pod in pods if pod not in current]
        replicas = obj["spec"].get("replicas", 1)
        for pod in outdated + current[replicas:]:
            self._store.delete(POD, *key_of(pod), uid=pod["metadata"]["uid"])
        everything = self._all_pods(obj)
        if obj["spec"].get("strategy", {}).get("type") == "Recreate" and everything != _of_revision(
            everything, revision
        ):
            return
        metadata = {"generateName": f"{obj['metadata']['name']}-{revision}-", "labels": {HASH_LABEL: revision}}
        for _ in range(replicas - len(current)):
            self._store.create(POD, pod_from_template(obj, DEPLOYMENT, metadata, {}))

    def _report(self, obj: Object) -> None:
        pods = self._pods(obj)  # without the Pods that were just deleted
        ready = sum(is_ready(pod) for pod in pods)
        replicas = obj["spec"].get("replicas", 1)
        enough = ready >= replicas
        conditions = with_condition(
            obj.get("status", {}).get("conditions", ()),
            {
                "type": "Available",
                "status": "True" if enough else "False",
                "reason": "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
                "message": f"Deployment {'has' if enough else 'does not have'} minimum availability.",
            },
        )
        status = {
            "observedGeneration": obj["metadata"]["generation"],
            "replicas": count(len(pods)),
            "updatedReplicas": count(len(pods)),
            "readyReplicas": count(ready),
            "availableReplicas": count(ready),
            "unavailableReplicas": count(max(replicas - ready, 0)),
            "conditions": conditions,
        }
        self._store.merge(DEPLOYMENT, *key_of(obj), {"status": status}, "status")


def _of_revision(pods: Sequence[Object], revision: str) -> list[Object]:
    return [pod for pod in pods if pod["metadata"]["labels"].get(HASH_LABEL) == revision]
