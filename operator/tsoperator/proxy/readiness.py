"""Tells which replicas of a proxy serve: their Pods are ready, and they have a device in the tailnet."""

from collections.abc import Callable

from tsoperator.api.objects import Key, Object, key_of
from tsoperator.proxy.secret import reported_id_of


def wanted_replicas(statefulset: Object) -> int:
    """Return the number of Pods that a StatefulSet should have."""
    count: int = (statefulset.get("spec") or {}).get("replicas", 1)
    return count


def ready_replicas(statefulset: Object) -> int:
    """Return the number of Pods of a StatefulSet that are ready."""
    count: int = (statefulset.get("status") or {}).get("readyReplicas") or 0
    return count


def is_rolled_out(statefulset: Object, replicas: int) -> bool:
    """Tell whether a StatefulSet has exactly *replicas* Pods, all made from its present template."""
    status = statefulset.get("status") or {}
    seen = status.get("observedGeneration") == statefulset["metadata"].get("generation")
    counts = {wanted_replicas(statefulset), status.get("replicas") or 0, status.get("updatedReplicas") or 0}
    return seen and counts == {replicas}


def secret_keys(statefulset: Object) -> list[Key]:
    """Return the keys of the Secrets with the state of a proxy's replicas, by ordinal."""
    namespace, name = key_of(statefulset)
    return [Key(namespace, f"{name}-{ordinal}") for ordinal in range(wanted_replicas(statefulset))]


def is_serving(statefulset: Object, secret: Callable[[Key], Object | None]) -> bool:
    """Tell whether all replicas of a proxy serve.

    *secret* is a function that returns the *slim* Secret with the given key; None if it doesn't exist.
    """
    if ready_replicas(statefulset) < wanted_replicas(statefulset):
        return False
    states = [secret(key) for key in secret_keys(statefulset)]
    return all(state is not None and reported_id_of(state) for state in states)
