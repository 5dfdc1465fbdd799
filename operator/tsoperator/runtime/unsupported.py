"""The condition of an object that this version of the operator does not support."""

import json
from collections.abc import Sequence
from typing import Final

from tsoperator.api.conditions import condition, set_condition
from tsoperator.api.names import HA_INGRESS_FINALIZER, HA_SERVICE_FINALIZER
from tsoperator.api.objects import Object, is_deleting, key_of
from tsoperator.runtime.plan import Note, Plan, Refusal

REASON: Final = "NotSupportedYet"

_HA_FINALIZERS: Final = (HA_INGRESS_FINALIZER, HA_SERVICE_FINALIZER)
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


def blocked_notes(obj: Object, hostname: str) -> Sequence[Note]:
    """Say how the deletion of *obj* can end, if it waits for a finalizer that only the Go operator removes.

    The deletion has begun. The Go operator puts the finalizer on an Ingress or a Service that a ProxyGroup serves.
    *hostname* is the name of the object's Tailscale Service.
    """
    finalizers = obj["metadata"].get("finalizers") or ()
    found = next((each for each in enumerate(finalizers) if each[1] in _HA_FINALIZERS), None)
    if found is None:
        return ()
    key, path = key_of(obj), f"/metadata/finalizers/{found[0]}"
    patch = [{"op": "test", "path": path, "value": found[1]}, {"op": "remove", "path": path}]
    words = (
        f"the finalizer {found[1]} keeps this object from going: Tailscale's operator put it there, and this operator "
        "can't remove what that operator made. Either run that operator again until the object is gone. Or "
        f"delete the Tailscale Service svc:{hostname.lower()} in the tailnet's admin console, unless other clusters "
        f"serve it, too; then remove the finalizer: kubectl -n {key.namespace} patch {obj['kind'].lower()} {key.name} "
        f"--type json -p '{json.dumps(patch)}'"
    )
    return (Note("Warning", "DeletionBlocked", words),)


def failed(_obj: Object, refusal: Refusal) -> Plan:
    """Return the plan that says by an Event why the API server refused a write on an object."""
    return Plan(notes=[Note("Warning", REASON, refusal.message)], error=refusal.error)
