"""What the operator reads of a Pod."""

from tsoperator.api.objects import Object

_METADATA = ("name", "namespace", "uid", "resourceVersion", "labels", "deletionTimestamp")


def slim(pod: Object) -> Object:
    """Return what the cache keeps of a Pod, which is a tenth of it.

    This is its identity, its labels, the kinds of its owners, its addresses, and how often its containers have
    restarted.
    """
    metadata, status = pod["metadata"], pod.get("status") or {}
    kept = {name: metadata[name] for name in _METADATA if name in metadata}
    owners = [{"kind": owner["kind"]} for owner in metadata.get("ownerReferences") or ()]
    restarts = [{"restartCount": each["restartCount"]} for each in status.get("containerStatuses") or ()]
    return {
        "apiVersion": pod["apiVersion"],
        "kind": pod["kind"],
        "metadata": {**kept, "ownerReferences": owners},
        "status": {
            "podIP": status.get("podIP", ""),
            "podIPs": status.get("podIPs") or [],
            "containerStatuses": restarts,
        },
    }
