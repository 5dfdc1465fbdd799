"""The Plan for one object, as a value: the steps, the status of the object, and the Events on it."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from tsoperator.api.objects import Key, Object, Resource
from tsoperator.api.tailscaleservice import TailscaleService
from tsoperator.runtime.ownership import Owner


@dataclass(frozen=True, slots=True)
class Child:
    """A desired child that only we write. It is created, or replaces the live child if the two differ."""

    obj: Object


@dataclass(frozen=True, slots=True)
class Creation:
    """A child that others write, too. It is created, but never replaces an object that exists already."""

    obj: Object


@dataclass(frozen=True, slots=True)
class Patch:
    """A JSON merge patch of our fields on an object that others write, too.

    *about* describes the change for the log.
    """

    resource: Resource
    key: Key
    body: Object
    about: str = ""


@dataclass(frozen=True, slots=True)
class Deletion:
    """The deletion of *obj*, and of no other object that has its name.

    *release* names a finalizer of ours that is taken off the object first. If *unchanged* is true, the object is
    deleted only if it has not changed since it was read: if a proxy has just reported its device in a Secret, the
    deletion of the Secret fails with a Conflict. A Pod has *grace* seconds to end; with None, it has the time that its
    spec gives.
    """

    resource: Resource
    obj: Object
    propagation: Literal["Background", "Foreground"] = "Background"
    release: str = ""
    unchanged: bool = False
    grace: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteDevice:
    """The deletion of a device from its tailnet. The steps after this one wait until the device is deleted.

    *tailnet* is the Tailnet that the parent of the device's proxy names, or None if the parent is gone. *name* is
    the MagicDNS name of the device, and *url* is the URL of the control server at which the proxy logs in. *name* and
    *url* are empty if the proxy's Secrets don't have them.
    """

    tailnet: str | None
    owner: Owner
    device: str
    name: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class SetTags:
    """The replacement of all tags of a device by *tags*. No later step waits for it."""

    tailnet: str
    owner: Owner
    device: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FreeName:
    """The deletion of the dead device with the name *hostname*, if there is one. The steps after this one wait for it.

    A device is dead if it has been offline for long and has the *tags* of the proxy that wants the name.
    """

    tailnet: str
    owner: Owner
    hostname: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TakeName:
    """The renaming of a device to *hostname*. Before that, a dead device with the name is deleted, as by `FreeName`.

    No later step waits for it.
    """

    tailnet: str
    owner: Owner
    device: str
    hostname: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ForgetFailure:
    """An order to forget that a change of *device* failed. *what* says which change: that of its tags or of its name.

    The device no longer needs this change.
    """

    tailnet: str
    owner: Owner
    device: str
    what: str


@dataclass(frozen=True, slots=True)
class PutService:
    """The write of a Tailscale Service into a tailnet. The steps after this one wait for it.

    *before* is the Service on which the decision is based, None if there was none. The control server's API has no
    versions. So the Service is read right before the write, and nothing is written if it is no longer as *before*.
    """

    tailnet: str
    owner: Owner
    service: TailscaleService
    before: TailscaleService | None


@dataclass(frozen=True, slots=True)
class DeleteService:
    """The deletion of the Tailscale Service *before*, unless it has changed. The steps after this one wait for it."""

    tailnet: str
    owner: Owner
    before: TailscaleService


ControlStep = DeleteDevice | SetTags | FreeName | TakeName | ForgetFailure | PutService | DeleteService
"""A step for the proxies of an owner: a request for a change to their control server, or a `ForgetFailure`."""


@dataclass(frozen=True, slots=True)
class FindNodePorts:
    """A request for a Service that the API server must refuse. The refusal shows which node ports the cluster has."""


Errand = ControlStep | FindNodePorts
"""A step of a Plan that isn't a write into the cluster."""

Step = Child | Creation | Patch | Deletion | Errand


@dataclass(frozen=True, slots=True)
class Note:
    """An Event to write on the object of a plan.

    An Event whose cause lasts is written again from time to time, so that it stays visible. An Event that is to be
    written *once* is not written again.
    """

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    once: bool = False


class LastingWarning(NamedTuple):
    """A warning that was written as an Event on an object at the time *since*, and that still holds."""

    reason: str
    message: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why something can't be done for an object: a server refused, or the object or what it needs is wrong.

    *message* says why, and what the user can do. *reason* is the reason for the condition; if it is empty, the
    condition has the usual reason of its kind. *error* is the exception that was raised, if a server refused. The
    object is reconciled again after *requeue_after* seconds, or at a change. A refusal that *is_passing* can end
    without anybody's help. *step* is the refused step of a plan; the steps before it have been carried out.
    *is_taken* is true if a child can't be made because somebody else's object has its name.
    """

    message: str
    reason: str = ""
    error: Exception | None = None
    requeue_after: float | None = None
    is_passing: bool = False
    step: Step | None = None
    is_taken: bool = False

    def note(self, usual: str) -> Note:
        """Return the Event that reports the refusal. Its reason is *usual*, unless the refusal has a reason."""
        return Note("Warning", self.reason or usual, self.message)


@dataclass(frozen=True, slots=True)
class Outline:
    """The facts about a proxy for the log: the hostname that it asks for, its routes, and its devices.

    A device is a pair of texts: its name in the tailnet, and its addresses.
    """

    hostname: str
    routes: str = ""
    devices: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """A report on *obj*: an Event for each of *notes*, and then the desired *status*, as in a Plan."""

    obj: Object
    status: Object | None = None
    notes: Sequence[Note] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps that close the gap between an object and the cluster, in their order, and what to report.

    The Applier first puts the finalizer *hold* on the object. Next come the *steps* in their order, and an Event for
    each of *notes*. After that, the object gets *status*: its whole desired status, whose conditions have no transition
    time yet. If *status* is None, the status stays as it is. At the end, the Applier takes off the finalizer *release*.
    The object is reconciled again after *requeue_after* seconds.

    A plan for a key that names no object has only steps, and *reports* on any number of objects. *told* are notes that
    are still true, but need no Event any more, because a condition has their words.

    *error* is raised when all of this is done, so that the object is retried. *way_out* tells the user what to do if a
    control server refuses one of the steps for good. *outline* describes the proxy of the object, if the object should
    have one. A plan that isn't *whole* doesn't name all faults of the object, because it waits for something, or
    reports only one refusal.

    *by* is the name of the reconciler, which the `KindReconciler` adds. If two reconcilers report on one object, it
    keeps their warnings apart: neither of the two ends the warnings of the other one.
    """

    hold: str = ""
    steps: Sequence[Step] = ()
    notes: Sequence[Note] = ()
    status: Object | None = None
    reports: Sequence[Report] = ()
    release: str = ""
    requeue_after: float | None = None
    error: Exception | None = None
    way_out: str = ""
    outline: Outline | None = None
    whole: bool = True
    told: Sequence[Note] = ()
    by: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """A decision that needs an answer of a server first.

    *ask* gets the answer, and *then* returns the plan that follows from the answer.
    """

    ask: Callable[[], Awaitable[Any]]
    then: Callable[[Any], Plan]


Decision = Plan | Question


def reports_of(parent: Object, plan: Plan) -> Iterator[tuple[Object, Plan]]:
    """Yield each object on which *plan* reports, together with a plan that reports only on this object.

    The *parent* comes first, with *plan* itself, unless the *parent* is an empty object.
    """
    if parent:
        yield parent, plan
    for each in plan.reports:
        yield each.obj, Plan(notes=each.notes, status=each.status, error=plan.error, whole=plan.whole, by=plan.by)


def earliest(*seconds: float | None) -> float | None:
    """Return the least of *seconds* that isn't None; None if there is none."""
    return min((each for each in seconds if each is not None), default=None)
