"""Conditions of an object's status: one set of functions for every kind.

The conditions in a Plan have no times. Only `set_condition` sets ``lastTransitionTime``, when the status is written. A
condition keeps its old time while its status stays the same.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from tsoperator.api.objects import Object

TRUE: Final = "True"
FALSE: Final = "False"
MESSAGE_MAX: Final = 32768
"""The longest message that the API server takes, in characters."""


def condition(
    type_: str, status: bool | str, reason: str, message: str, observed_generation: int | None = None
) -> Object:
    """Return a condition without a time. A *message* that is longer than `MESSAGE_MAX` is cut.

    Conditions of Services have no *observed_generation*.
    """
    made: Object = {
        "type": type_,
        "status": status if isinstance(status, str) else TRUE if status else FALSE,
        "reason": reason,
        "message": message[:MESSAGE_MAX],
    }
    if observed_generation is not None:
        made["observedGeneration"] = observed_generation
    return made


def conditions_of(obj: Object) -> Sequence[Object]:
    """Return the conditions of *obj*, empty if it has none."""
    return (obj.get("status") or {}).get("conditions") or ()


def is_true(obj: Object, type_: str) -> bool:
    """Tell whether *obj* has a condition of the type *type_* with the status True."""
    return any((each["type"], each["status"]) == (type_, TRUE) for each in conditions_of(obj))


def status_with(obj: Object, *wanted: Object) -> Object:
    """Return the status of *obj* with the *wanted* conditions, each in place of the old condition of the same type.

    A wanted condition without an old one comes at the end. The time of a wanted condition is empty if there is no old
    one, or if the old one has another status.
    """
    return {**(obj.get("status") or {}), "conditions": set_condition(conditions_of(obj), wanted, now="")}


def set_condition(conditions: Sequence[Object], wanted: Iterable[Object], now: str) -> list[Object]:
    """Return *conditions* with the *wanted* ones, each in place of the old condition of the same type.

    A wanted condition without an old one comes at the end. *now* is the time of a change, in RFC 3339 with whole
    seconds. A condition whose status stays the same keeps its old time.
    """
    merged = {existing["type"]: existing for existing in conditions}
    for new in wanted:
        old = merged.get(new["type"], {})
        changed = old.get("status") != new["status"]
        merged[new["type"]] = {**new, "lastTransitionTime": now if changed else old.get("lastTransitionTime", now)}
    return list(merged.values())
