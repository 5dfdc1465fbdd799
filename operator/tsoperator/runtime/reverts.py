"""The reaction to another writer that keeps reverting an object which the operator shares with that writer."""

from collections.abc import Sequence
from dataclasses import dataclass

from tsoperator.api.names import FIELD_MANAGER
from tsoperator.api.objects import Object


@dataclass(frozen=True, slots=True)
class Reverts:
    """The reaction to another writer that keeps reverting an object.

    *fields* are the fields that the other writer reverts, and *who* is its name, if known. Both are empty until the
    object has been reverted often enough to tell the user. The operator waits *wait* seconds before it rewrites the
    object. A rewrite counts as lasting if nobody reverts it within *settles* seconds.
    """

    fields: Sequence[str] = ()
    who: str = ""
    wait: float = 0.0
    settles: float = 0.0


NO_REVERTS = Reverts()
"""The value for an object that no other writer reverts."""


def last_writer(live: Object, part: str, *fields: str) -> str:
    """Return the name of the other writer that last wrote one of the *fields* in a *part* of the *live* object.

    A part is, for example, the data. The managedFields of the object name the writers. Return "" if they name no
    other writer of the fields.
    """
    wanted = {f"f:{field}" for field in fields}
    writers = [
        (entry.get("time", ""), entry.get("manager", ""))
        for entry in live["metadata"].get("managedFields") or ()
        if entry.get("manager") != FIELD_MANAGER and wanted & (entry.get("fieldsV1") or {}).get(f"f:{part}", {}).keys()
    ]
    return max(writers, default=("", ""))[1]
