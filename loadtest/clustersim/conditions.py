"""Status conditions, as the cluster's own controllers write them."""

from collections.abc import Iterable
from datetime import UTC, datetime

from clustersim.objects import Object


def timestamp() -> str:
    """Return the present time in the format of Kubernetes objects: RFC 3339, whole seconds, UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def with_condition(conditions: Iterable[Object], new: Object) -> list[Object]:
    """Return *conditions* with *new* in place of the old condition of the same type.

    The transition time changes only if the status of the condition changes.
    """
    kept = list(conditions)
    old = next((condition for condition in kept if condition["type"] == new["type"]), None)
    since = old["lastTransitionTime"] if old and old["status"] == new["status"] else timestamp()
    written = {**new, "lastTransitionTime": since}
    if old is None:
        return [*kept, written]
    return [written if condition is old else condition for condition in kept]
