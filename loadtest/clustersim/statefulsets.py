"""The StatefulSet controller: it makes numbered Pods, and replaces them one by one when the template changes."""

from collections.abc import Iterable

from clustersim.controller import Key, follow, key_of, owner_keys
from clustersim.objects import POD, STATEFULSET, Object, Resource
from clustersim.pods import controlled_by, count, is_deleting, is_ready, pod_from_template, template_hash
from clustersim.store import Store

REVISION_LABEL = "controller-revision-hash"
POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"


async def run(store: Store) -> None:
    """Create and delete the Pods of all StatefulSets, until cancelled."""
    controller = StatefulSets(store)
    await follow(store, (STATEFULSET, POD), _keys, controller.reconcile)


def _keys(resource: Resource, obj: Object) -> Iterable[Key]:
    return (key_of(obj),) if resource is STATEFULSET else owner_keys(obj, STATEFULSET.kind)


class StatefulSets:
    """Reconciles StatefulSets, one at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def reconcile(self, key: Key) -> None:
        """Make the Pods and the status match the StatefulSet named *key*."""
        obj = self._store.find(STATEFULSET, *key)
        if obj is None:
            return
        revision = f"{key.name}-{template_hash(obj['spec']['template'])}"
        if not is_deleting(obj):
            self._scale_down(obj)
            if self._scale_up(obj, revision):
                self._update(obj, revision)
        self._report(obj, revision)

    def _pods(self, obj: Object) -> dict[int, Object]:
        """Return the StatefulSet's Pods by ordinal."""
        pods = self._store.list(POD, obj["metadata"]["namespace"], obj["spec"]["selector"].get("matchLabels"))
        owned = (pod for pod in pods if controlled_by(pod, obj["metadata"]["uid"]))
        return {int(pod["metadata"]["name"].rpartition("-")[2]): pod for pod in owned}

    def _scale_down(self, obj: Object) -> None:
        """Delete the surplus Pods, one after the other unless the Pod management policy is Parallel."""
        for ordinal, pod in sorted(self._pods(obj).items(), reverse=True):
            if ordinal < _replicas(obj):
                return
            if not is_deleting(pod):
                self._delete(pod)
            if _is_ordered(obj) and ordinal in self._pods(obj):
                return

    def _scale_up(self, obj: Object, revision: str) -> bool:
        """Create missing Pods, and tell whether all Pods exist.

        Unless the Pod management policy is Parallel, create each Pod only after all Pods before it are ready, and tell
        whether all Pods exist and are ready.
        """
        pods = self._pods(obj)
        for ordinal in range(_replicas(obj)):
            pod = pods.get(ordinal)
            if pod is None:
                self._store.create(POD, _pod(obj, ordinal, revision))
            if _is_ordered(obj) and (pod is None or not is_ready(pod) or is_deleting(pod)):
                return False
        return all(ordinal in pods for ordinal in range(_replicas(obj)))

    def _update(self, obj: Object, revision: str) -> None:
        """Of the Pods of older revisions, delete the one with the highest ordinal, if all Pods above it are ready."""
        for _, pod in sorted(self._pods(obj).items(), reverse=True):
            if is_deleting(pod):
                return
            if pod["metadata"]["labels"].get(REVISION_LABEL) != revision:
                self._delete(pod)
                return
            if not is_ready(pod):
                return

    def _delete(self, pod: Object) -> None:
        metadata = pod["metadata"]
        self._store.delete(POD, metadata["namespace"], metadata["name"], uid=metadata["uid"])

    def _report(self, obj: Object, revision: str) -> None:
        pods = self._pods(obj).values()
        ready = sum(is_ready(pod) for pod in pods)
        updated = sum(pod["metadata"]["labels"].get(REVISION_LABEL) == revision for pod in pods)
        current = obj.get("status", {}).get("currentRevision", revision)
        if ready == updated == len(pods) == _replicas(obj):
            current = revision
        status = {
            "observedGeneration": obj["metadata"]["generation"],
            "replicas": len(pods),
            "availableReplicas": ready,
            "readyReplicas": count(ready),
            "updatedReplicas": count(updated),
            "currentRevision": current,
            "updateRevision": revision,
        }
        self._store.merge(STATEFULSET, *key_of(obj), {"status": status}, "status")


def _replicas(obj: Object) -> int:
    replicas: int = obj["spec"].get("replicas", 1)
    return replicas


def _is_ordered(obj: Object) -> bool:
    return bool(obj["spec"].get("podManagementPolicy") != "Parallel")


def _pod(obj: Object, ordinal: int, revision: str) -> Object:
    name = f"{obj['metadata']['name']}-{ordinal}"
    labels = {POD_NAME_LABEL: name, POD_INDEX_LABEL: str(ordinal), REVISION_LABEL: revision}
    spec = {"hostname": name, "subdomain": obj["spec"].get("serviceName")}
    return pod_from_template(obj, STATEFULSET, {"name": name, "labels": labels}, spec)
