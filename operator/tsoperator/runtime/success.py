"""Writes an Event that says at which name and address an object is reached, once when this becomes true or changes."""

from collections.abc import Sequence
from dataclasses import replace

from tsoperator.api.conditions import TRUE
from tsoperator.api.objects import Object
from tsoperator.runtime.plan import Note, Plan


def with_success(plan: Plan, before: Sequence[Object], type_: str, words: str | None = None) -> Plan:
    """Return *plan* with an Event that has *words*, if the condition *type_* becomes True, or is True with new words.

    If *words* is None, the Event has the message of the condition. If it is an empty text, there is no Event. *before*
    are the conditions that the object has. If the condition was True and its message only repeated its reason, as in
    the Go operator, the object was ready before, and there is no Event.
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
