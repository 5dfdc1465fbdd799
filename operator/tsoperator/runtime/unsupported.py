"""The condition of an object that this version of the operator does not support."""

from typing import Final

from tsoperator.api.conditions import condition, set_condition
from tsoperator.api.objects import Object, is_deleting
from tsoperator.runtime.plan import Note, Plan, Refusal

REASON: Final = "NotSupportedYet"

_FINALIZERS: Final = "tailscale.com/"
"""The beginning of the names of the finalizers that other operators for the tailnet use. A ProxyGroup can have two."""


def plan_nothing(obj: Object, type_: str, kind: str = "") -> Plan:
    """Return the plan that says by the condition *type_* that nothing is done for *obj*, a *kind* of object."""
    kind = kind or obj["kind"]
    message = (
        f"this version of the operator does nothing for a {kind}: what another operator made for it stays as it "
        "is, and nobody looks after it"
    )
    held_by = [name for name in obj["metadata"].get("finalizers") or () if name.startswith(_FINALIZERS)]
    if is_deleting(obj) and held_by:
        message = (
            f"this version of the operator can't take away what another one made for this {kind}: delete its "
            f"objects and its devices in the tailnet, then take off its finalizers {', '.join(held_by)}"
        )
    wanted = condition(type_, False, REASON, message, int(obj["metadata"].get("generation", 0)))
    status = obj.get("status") or {}
    return Plan(status={**status, "conditions": set_condition(status.get("conditions") or [], [wanted], now="")})


def failed(_obj: Object, refusal: Refusal) -> Plan:
    """Return the plan that says by an Event why the API server refused a write on an object."""
    return Plan(notes=[Note("Warning", REASON, refusal.message)], error=refusal.error)
