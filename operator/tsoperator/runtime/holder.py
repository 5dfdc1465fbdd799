"""Decides whether the holder of the Lease has ended, from annotations of the Lease and from the holder's Pod.

This module does no I/O. A leader writes into annotations of the Lease where it runs. Either of two facts proves to a
standby that this leader has ended, so that the standby needn't wait until the Lease has run out:

- The leader's container has ended. The kubelet says so in the status of the Pod after the processes have ended. The ID
  of a container is never used again. But a process that was just started can read a status that still has the ID of the
  previous container, and write that ID into the Lease. So the end must be later than the holder's latest renewal. Both
  times are of one clock, that of the holder's node. The first write of a leader doesn't say yet where the leader runs.
- The leader's Pod is gone, and the Lease has not changed, for as many seconds as an annotation of the Lease says. That
  the Pod is gone proves nothing by itself, because a deletion by force leaves the process running. But a process that
  has not renewed the Lease for so many seconds has stopped leading by its own clock. And if the process still sends
  requests, the API server refuses them: only a leader whose token is bound to its Pod writes that annotation, and the
  API server remembers for at most 10 s that such a token was good.

The seconds count from the moment at which the standby has first seen the Lease as it is and the Pod gone, by its own
clock. A UID is never used again, so a Pod that is gone in two looks was gone in between. A new process can't count the
seconds from an earlier moment, because the times in the Lease are of another machine's clock. So a process looks at
the Lease as soon as it starts.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from tsoperator.api.names import (
    ANNOTATION_LEADER,
    ANNOTATION_LEADER_CONTAINER,
    ANNOTATION_LEADER_GONE,
    ANNOTATION_LEADER_POD,
    ANNOTATION_LEADER_UID,
)
from tsoperator.api.objects import Object, annotations

CONTAINER: Final = "operator"
"""The name of the operator's container in its Pod."""

NAMES: Final = frozenset(
    {
        ANNOTATION_LEADER,
        ANNOTATION_LEADER_CONTAINER,
        ANNOTATION_LEADER_GONE,
        ANNOTATION_LEADER_POD,
        ANNOTATION_LEADER_UID,
    }
)
"""The annotations of the Lease in which a leader says where it runs."""

_SECONDS: Final = re.compile(r"[1-9][0-9]{0,4}")
_ROUNDED: Final = timedelta(seconds=1)  # the kubelet cuts the end of a container to a whole second


class Process(NamedTuple):
    """A process that can become the leader.

    Its *identity* is unique to the process, not just to its Pod: if a Lease has this identity as its holder, the
    process itself holds the Lease. *pod* is the name of the Pod in which the process runs; it is empty if the process
    runs in no Pod. *bound_to* is the UID of the Pod to which its token is bound; it is empty if the token is bound to
    none.
    """

    identity: str
    pod: str = ""
    bound_to: str = ""


@dataclass(frozen=True, slots=True)
class LeaderPlace:
    """The Pod and the container in which a leader runs, as it has written into annotations of the Lease.

    The leader has certainly ended when its Pod has been gone for *gone_seconds* without a change of the Lease. If
    *gone_seconds* is 0, a missing Pod proves nothing.
    """

    identity: str
    pod: str
    uid: str
    container: str
    gone_seconds: int

    def annotations(self) -> dict[str, str]:
        """Return the annotations of the Lease that say where the leader runs."""
        gone = {ANNOTATION_LEADER_GONE: str(self.gone_seconds)} if self.gone_seconds else {}
        return {
            ANNOTATION_LEADER: self.identity,
            ANNOTATION_LEADER_POD: self.pod,
            ANNOTATION_LEADER_UID: self.uid,
            ANNOTATION_LEADER_CONTAINER: self.container,
            **gone,
        }


def own_note(process: Process, pod: Object, gone_seconds: int) -> LeaderPlace | None:
    """Return where *process* runs, according to the status of *pod*; None if the status does not say so yet.

    Return None also if the token of *process* is bound to another Pod than *pod*, which only has the name of our Pod.
    """
    uid = pod["metadata"]["uid"]
    if process.bound_to not in ("", uid):
        return None
    for status in _statuses(pod):
        if status["name"] == CONTAINER and "running" in (status.get("state") or {}) and status.get("containerID"):
            seconds = gone_seconds if process.bound_to else 0
            return LeaderPlace(process.identity, process.pod, uid, status["containerID"], seconds)
    return None


def noted(lease: Object) -> LeaderPlace | None:
    """Return where the present holder of *lease* runs, according to annotations of the Lease.

    Return None if the annotations are those of an earlier holder, or don't say where it ran.
    """
    found = annotations(lease)
    identity = found.get(ANNOTATION_LEADER, "")
    pod, uid, container, gone = (
        found.get(name, "")
        for name in (ANNOTATION_LEADER_POD, ANNOTATION_LEADER_UID, ANNOTATION_LEADER_CONTAINER, ANNOTATION_LEADER_GONE)
    )
    if not (identity and pod and uid and container) or identity != (lease.get("spec") or {}).get("holderIdentity"):
        return None
    return LeaderPlace(identity, pod, uid, container, int(gone) if _SECONDS.fullmatch(gone) else 0)


def is_gone(note: LeaderPlace, pod: Object | None) -> bool:
    """Tell whether the Pod of the leader in *note* is gone.

    *pod* is the Pod that has the name of the leader's Pod now; None if there is none.
    """
    return pod is None or pod["metadata"]["uid"] != note.uid


def proof(note: LeaderPlace, renew_time: str, pod: Object | None, gone_for: float) -> str:
    """Return why the holder of the Lease has certainly ended; empty if it perhaps still leads.

    *note* says where the holder runs, and *renew_time* is that of the Lease. *pod* is the Pod that has the name of the
    holder's Pod now, or None. *gone_for* is the number of seconds for which the holder's Pod has been gone and the
    Lease has not changed.
    """
    if pod is None or is_gone(note, pod):
        if note.gone_seconds and gone_for >= note.gone_seconds:
            return f"its Pod has been gone for {gone_for:.0f} s"
    elif any(_ended_after(renew_time, each) for each in _ends(pod) if each.get("containerID") == note.container):
        return "its container has ended"
    return ""


def _ends(pod: Object) -> Iterator[Object]:
    """Yield the terminated states of containers that are in the status of *pod*."""
    for status in _statuses(pod):
        for state in (status.get("state"), status.get("lastState")):
            if end := (state or {}).get("terminated"):
                yield end


def _ended_after(renew_time: str, end: Object) -> bool:
    finished = end.get("finishedAt")
    if not (finished and renew_time):
        return False
    return datetime.fromisoformat(finished) + _ROUNDED > datetime.fromisoformat(renew_time)


def _statuses(pod: Object) -> list[Object]:
    return (pod.get("status") or {}).get("containerStatuses") or []
