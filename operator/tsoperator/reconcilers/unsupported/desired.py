"""Decides what an object is told that this version does nothing for."""

from collections.abc import Mapping
from typing import Final

from tsoperator.api.conditions import condition, set_condition
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import (
    PEERRELAY,
    PROXYGROUP,
    PROXYGROUPPOLICY,
    RECORDER,
    TAILNET,
    Object,
    Resource,
    has_finalizer,
    is_deleting,
)
from tsoperator.desired.plan import Plan

CONDITIONS: Final[Mapping[Resource, str]] = {
    PEERRELAY: "PeerRelayReady",
    PROXYGROUP: "ProxyGroupReady",
    PROXYGROUPPOLICY: "ProxyGroupPolicyReady",
    RECORDER: "RecorderReady",
    TAILNET: "TailnetReady",
}
"""The condition of each kind that says so."""

REASON: Final = "NotSupportedYet"


def plan(obj: Object, type_: str) -> Plan:
    """Return the plan that says by the condition *type_* that nothing is done for *obj*."""
    message = (
        f"this version of the operator does nothing for a {obj['kind']}: what another operator made for it stays as it "
        "is, and nobody looks after it"
    )
    if is_deleting(obj) and has_finalizer(obj, FINALIZER):
        message = (
            f"this version of the operator can't take away what another one made for this {obj['kind']}: delete its "
            f"objects and its devices in the tailnet, then take the finalizer {FINALIZER} off it"
        )
    wanted = condition(type_, False, REASON, message, int(obj["metadata"].get("generation", 0)))
    status = obj.get("status") or {}
    return Plan(status={**status, "conditions": set_condition(status.get("conditions") or [], [wanted], now="")})
