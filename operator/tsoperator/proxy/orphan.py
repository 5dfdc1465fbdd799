"""The proxy of a parent that vanished without waiting for our finalizer."""

from dataclasses import dataclass
from typing import Final

from tsoperator.proxy.proxy import Children
from tsoperator.proxy.workload import is_removed, plan_removal
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import Plan

ORPHANED_FOR: Final = 3600.0
"""The seconds for which a proxy outlives a parent that vanished.

In this time, somebody can restore the parent from a backup.
"""


@dataclass(frozen=True, slots=True)
class Orphan:
    """The *children* of a proxy whose *owner* vanished without waiting for our finalizer.

    The operator deletes the children only after *due* seconds, because somebody can restore the owner until then.
    *tailnet* is the argument of `plan_removal`.
    """

    owner: Owner
    children: Children
    due: float = 0.0
    tailnet: str | None = None


def plan_orphan(orphan: Orphan) -> Plan:
    """Return the plan with the next steps of the removal of the proxy whose owner vanished."""
    if is_removed(orphan.children):
        return Plan()
    if orphan.due > 0:
        return Plan(requeue_after=orphan.due)
    return plan_removal(orphan.owner, orphan.children, orphan.tailnet)
