"""Findings about a proxy's devices, which the proxy's parent reports by Events and in its condition."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from tsoperator.api.conditions import FALSE, TRUE, set_condition
from tsoperator.api.objects import Object
from tsoperator.runtime.plan import Note, Plan, earliest


class Effect(IntEnum):
    """The effect of a finding on the parent of the proxy. The effects are in order, from the mildest to the worst.

    The parent reports news and warnings only by an Event. A notice also stays in the parent's condition, and its Event
    is written only once. A pending or failed finding is a reason why the parent isn't ready.
    """

    NEWS = 0
    WARNING = 1
    NOTICE = 2
    PENDING = 3
    FAILED = 4


@dataclass(frozen=True, slots=True)
class DeviceFinding:
    """A fact about a device of a proxy. The Event about the fact has this *reason*.

    The parent of the proxy is requeued after *requeue_after* seconds. If the finding makes a condition of the parent
    false, and *is_reason* is true, *reason* is also the reason of the condition.
    """

    effect: Effect
    reason: str
    message: str
    requeue_after: float | None = None
    is_reason: bool = False


def with_findings(
    plan: Plan, findings: Sequence[DeviceFinding], *, condition: str = "", reasons: Mapping[Effect, str] | None = None
) -> Plan:
    """Return *plan* with *findings* in its Events and, if its status has *condition*, also in this condition.

    Findings whose effect is worse than a warning change the condition. If *reasons* has a reason for the worst effect
    among them, the condition becomes false for that reason. Otherwise only the messages of the findings are added to
    the message of the condition.
    """
    if not findings:
        return plan
    notes = [
        Note(
            "Normal" if each.effect == Effect.NEWS else "Warning",
            each.reason,
            each.message,
            once=each.effect == Effect.NOTICE,
        )
        for each in findings
    ]
    requeue_after = earliest(plan.requeue_after, *(each.requeue_after for each in findings))
    status = _status(plan.status, findings, condition, reasons or {}) if plan.status else plan.status
    return replace(plan, status=status, notes=[*plan.notes, *notes], requeue_after=requeue_after)


def _status(status: Object, findings: Sequence[DeviceFinding], condition: str, reasons: Mapping[Effect, str]) -> Object:
    conditions = status.get("conditions") or []
    found = next((each for each in conditions if each["type"] == condition), None)
    lasting = [each for each in findings if each.effect >= Effect.NOTICE]
    if found is None or not lasting:
        return status
    worst = max(lasting, key=lambda each: each.effect)
    words = [each.message for each in lasting]
    if worst.effect in reasons:
        blocked = found["status"] == TRUE
        kept = [] if blocked else [found["message"]]
        theirs = worst.reason if worst.is_reason else reasons[worst.effect]
        reason = theirs if blocked or worst.effect == Effect.FAILED else found["reason"]
        wanted = {**found, "status": FALSE, "reason": reason, "message": "; ".join([*words, *kept])}
    else:
        wanted = {**found, "message": "; ".join([found["message"], *words])}
    return {**status, "conditions": set_condition(conditions, [wanted], now="")}
