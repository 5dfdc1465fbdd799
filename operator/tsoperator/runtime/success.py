"""Adds an Event to a plan when an object becomes reachable, or reachable under other names or addresses."""

from collections.abc import Sequence
from dataclasses import replace

from tsoperator.api.conditions import TRUE
from tsoperator.api.objects import Object
from tsoperator.runtime.plan import Note, Plan


def with_success(plan: Plan, before: Sequence[Object], type_: str, words: str | None = None) -> Plan:
    """Return *plan* with an Event that has *words*, if *plan* makes the condition *type_* True, or adds *words* to it.

    *before* are the conditions that the object has now. If *words* is None, the Event has the message of the plan's
    condition. If *words* is an empty text, there is no Event. There is also no Event if the Go operator has already
    reported that the object is ready: its condition is True, and has a message that only repeats the reason.
    """
    shown = _found((plan.status or {}).get("conditions") or (), type_)
    if shown is None or shown["status"] != TRUE:
        return plan
    words = shown["message"] if words is None else words
    live = _found(before, type_)
    if not words:
        return plan
    if live and live["status"] == TRUE and (words in live["message"] or live["message"] == live["reason"]):
        return plan
    return replace(plan, notes=[*plan.notes, Note("Normal", shown["reason"], words, once=True)])


def device_words(devices: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Return words for *devices*, each with its name and its addresses; empty without devices."""
    return " and ".join(f"{name} ({', '.join(ips)})" if ips else name for name, ips in devices)


def _found(conditions: Sequence[Object], type_: str) -> Object | None:
    return next((each for each in conditions if each["type"] == type_), None)
