"""How to react when another writer keeps reverting an object that the operator shares with it."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reverts:
    """How to react when another writer keeps reverting a Service.

    *fields* are the fields that the other writer reverts, and *who* is its name, if known. Both are empty until this
    has happened often enough to tell the user. The Service may be rewritten in *wait* seconds. The rewrite counts as
    lasting once the Service has stayed as it is for *settles* seconds.
    """

    fields: Sequence[str] = ()
    who: str = ""
    wait: float = 0.0
    settles: float = 0.0


NO_REVERTS = Reverts()
"""No other writer reverts the Service."""
