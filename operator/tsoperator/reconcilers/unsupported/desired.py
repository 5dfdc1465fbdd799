"""Decides what to say on an object that this version does nothing for."""

from collections.abc import Mapping
from typing import Final

from tsoperator.api.conditions import condition, set_condition
from tsoperator.api.names import (
    CONDITION_PEERRELAY_READY,
    CONDITION_PROXYGROUP_READY,
    CONDITION_PROXYGROUPPOLICY_READY,
    CONDITION_RECORDER_READY,
)
from tsoperator.api.objects import (
    PEERRELAY,
    PROXYGROUP,
    PROXYGROUPPOLICY,
    RECORDER,
    Object,
    Resource,
    is_deleting,
)
from tsoperator.desired.plan import Note, Plan, Refusal

CONDITIONS: Final[Mapping[Resource, str]] = {
    PEERRELAY: CONDITION_PEERRELAY_READY,
    PROXYGROUP: CONDITION_PROXYGROUP_READY,
    PROXYGROUPPOLICY: CONDITION_PROXYGROUPPOLICY_READY,
    RECORDER: CONDITION_RECORDER_READY,
}
"""By kind, the condition that says that nothing is done for an object."""

REASON: Final = "NotSupportedYet"

_FINALIZERS: Final = "tailscale.com/"
"""The prefix of the finalizers of other operators for the tailnet; a ProxyGroup can have two of them."""


def plan(obj: Object, type_: str) -> Plan:
    """Return the plan that says by the condition *type_* that nothing is done for *obj*."""
    message = (
        f"this version of the operator does nothing for a {obj['kind']}: what another operator made for it stays as it "
        "is, and nobody looks after it"
    )
    held_by = [name for name in obj["metadata"].get("finalizers") or () if name.startswith(_FINALIZERS)]
    if is_deleting(obj) and held_by:
        message = (
            f"this version of the operator can't take away what another one made for this {obj['kind']}: delete its "
            f"objects and its devices in the tailnet, then take off its finalizers {', '.join(held_by)}"
        )
    wanted = condition(type_, False, REASON, message, int(obj["metadata"].get("generation", 0)))
    status = obj.get("status") or {}
    return Plan(status={**status, "conditions": set_condition(status.get("conditions") or [], [wanted], now="")})


def failed(_obj: Object, refusal: Refusal) -> Plan:
    """Return the plan that says by an Event why nothing could be written on an object."""
    return Plan(notes=[Note("Warning", REASON, refusal.message)], error=refusal.error)
