"""Decides whether a Tailnet can be used, and how to report that (docs/development/control-servers.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tsoperator.api.conditions import TRUE, condition, conditions_of, status_with
from tsoperator.api.names import CONDITION_TAILNET_READY, FINALIZER
from tsoperator.api.objects import SECRET, Object, generation_of, has_finalizer, is_deleting
from tsoperator.runtime.plan import Note, Plan, Refusal
from tsoperator.tailnet.credentials import INVALID, SOON

VALID: Final = "TailnetValid"
INVALID_OAUTH: Final = "InvalidOAuth"
UNREACHABLE: Final = "ControlServerUnreachable"
CHANGED: Final = "TailnetChanged"
IN_USE: Final = "TailnetInUse"

DAY: Final = 24 * 3600.0
"""The seconds after which good credentials are tried again."""

_SHOWN: Final = 20  # the most objects that a message names
_AWAY: Final = "check that spec.loginUrl is right, and that the operator's Pod can reach it"


@dataclass(frozen=True, slots=True)
class Probe:
    """The result of trying the credentials of a tailnet at its control server.

    *refusals* has a Refusal for each call that failed. *devices* has the MagicDNS names of the tailnet's devices by
    their IDs; it is empty if they could not be listed. A device that another tailnet shares with this one has an empty
    name.
    """

    refusals: Sequence[Refusal]
    devices: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Observed:
    """The facts on which the plan for a Tailnet depends, besides the Tailnet itself.

    *refusal* says why the Tailnet can't be used; it is None if it can. *users* are the objects that name the Tailnet.
    The Tailnet is reconciled again after *seconds*; with None, only after a change.
    """

    refusal: Refusal | None = None
    users: Sequence[str] = ()
    seconds: float | None = None


def refusal_of(probe: Probe, ours: Mapping[str, str]) -> Refusal | None:
    """Return why the credentials that *probe* has tried can't be used; None if they can.

    *ours* has the MagicDNS names of the devices that proxies have in this tailnet, by their IDs. Credentials that don't
    show these devices are perhaps those of another tailnet.
    """
    if not probe.refusals and _is_theirs(probe.devices, ours):
        return None
    message = "; ".join(each.message for each in probe.refusals)
    reason = next((each.reason for each in probe.refusals if each.reason), INVALID_OAUTH)
    if not probe.refusals:
        reason, message = CHANGED, _other_tailnet([*ours.values()])
    elif all(each.is_passing for each in probe.refusals):
        reason, message = UNREACHABLE, f"{message}; {_AWAY}"
    return Refusal(message, reason, requeue_after=SOON)


def _is_theirs(listed: Mapping[str, str], ours: Mapping[str, str]) -> bool:
    """Tell whether the *listed* devices are in the tailnet of the devices *ours*.

    They are if both have a device or a domain in common, or if there are no devices *ours*.
    """
    domains = {_domain(name) for name in listed.values()} - {""}
    return not ours or not listed.keys().isdisjoint(ours) or not domains.isdisjoint(map(_domain, ours.values()))


def _domain(name: str) -> str:
    return name.lower().removesuffix(".").partition(".")[2]


def _other_tailnet(ours: Sequence[str]) -> str:
    return (
        "these credentials are for another tailnet than before: it has none of the devices of this Tailnet's proxies "
        f"({_listed(ours)}). So they are not used, and what runs goes on with those from before as long as this "
        "operator runs. Put credentials for the old tailnet back. To move, make another Tailnet, and make the objects "
        "anew that name this one. If the tailnet is the same, and all its devices were deleted there, delete the "
        "Secrets of these proxies, too"
    )


def plan(obj: Object, observed: Observed) -> Plan:
    """Return the plan for the Tailnet *obj*. *obj* is empty if the Tailnet is gone."""
    if not obj or is_idle(obj, observed.users):
        return Plan(release=FINALIZER)
    refused = Refusal(_still_used(observed), IN_USE) if is_deleting(obj) else observed.refusal
    reason, message = (refused.reason, refused.message) if refused else (VALID, VALID)
    wanted = condition(CONDITION_TAILNET_READY, refused is None, reason, message, generation_of(obj))
    told = [each for each in conditions_of(obj) if each["type"] == CONDITION_TAILNET_READY]
    is_new = [(each["reason"], each["message"]) for each in told] != [(reason, message)]
    return Plan(
        hold="" if refused else FINALIZER,
        status=status_with(obj, wanted),
        notes=[Note("Warning", reason, message)] if is_new and refused else [],
        requeue_after=observed.seconds,
    )


def refusal(made: Plan) -> str:
    """Return the reason in the plan *made* why new proxies can't use the Tailnet; empty if they can."""
    found = ((made.status or {}).get("conditions") or []) if made.status else []
    ready = next((each for each in found if each["type"] == CONDITION_TAILNET_READY), None)
    return "" if ready is None or ready["status"] == TRUE else str(ready["message"])


def failed(_obj: Object, refused: Refusal) -> Plan:
    """Return the plan that says by an Event why the API server refused a write on a Tailnet."""
    return Plan(notes=[Note("Warning", INVALID, refused.message)], error=refused.error)


def is_idle(obj: Object, users: Sequence[str]) -> bool:
    """Tell whether the Tailnet *obj* is being deleted, and no object names it any more."""
    return is_deleting(obj) and not users


def was_good(obj: Object) -> bool:
    """Tell whether the Tailnet *obj* has ever been usable. Only then does it get our finalizer."""
    return has_finalizer(obj, FINALIZER)


def _still_used(observed: Observed) -> str:
    cure = f". If you can, mend it before: {observed.refusal.message}" if observed.refusal else ""
    return (
        f"this Tailnet is being deleted, and stays as long as objects use it: {_listed(observed.users)}. "
        "Delete them, so that their devices are removed from the tailnet. If the tailnet can't be reached any more, "
        f"delete the {SECRET.kind}s of their proxies by hand as well: the devices are then left as they are, and the "
        f"objects go{cure}"
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
