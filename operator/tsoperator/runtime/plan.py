"""A Plan: what is to be done about one object, as a value."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tsoperator.api.objects import Key, Object, Resource
from tsoperator.runtime.ownership import Owner


@dataclass(frozen=True, slots=True)
class Child:
    """A whole child of ours as it should be: it is created, or it replaces a live one that differs."""

    obj: Object


@dataclass(frozen=True, slots=True)
class Creation:
    """A child that others write too: it is created, but it never replaces one that turns out to be there."""

    obj: Object


@dataclass(frozen=True, slots=True)
class Patch:
    """A JSON merge patch of our fields on an object that others write too. *about* says in the log what they are."""

    resource: Resource
    key: Key
    body: Object
    about: str = ""


@dataclass(frozen=True, slots=True)
class Deletion:
    """The deletion of *obj*, and of no other object that has its name.

    *release* names a finalizer of ours to take off it first. With *unchanged* the object is deleted only as it was
    seen: a Secret in which a proxy has just reported its device fails with a Conflict. A Pod has *grace* seconds to
    end; None leaves it the time that it says itself.
    """

    resource: Resource
    obj: Object
    propagation: Literal["Background", "Foreground"] = "Background"
    release: str = ""
    unchanged: bool = False
    grace: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteDevice:
    """Delete a device from the tailnet in which it is; the steps after it wait until that is done.

    Its parent names the Tailnet called *tailnet*; None says that the parent is gone. *name* is the MagicDNS name of the
    device, and *url* is where its proxy logs in. Both are empty if the proxy's Secrets don't say.
    """

    tailnet: str | None
    owner: Owner
    device: str
    name: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class SetTags:
    """Give a device these tags in place of those that it has; nothing waits for it."""

    tailnet: str
    owner: Owner
    device: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FreeName:
    """Delete the dead device that has the name *hostname*, if there is one; the steps after it wait for that.

    A device is dead if it has been offline for long and has the *tags* of the proxy that wants the name.
    """

    tailnet: str
    owner: Owner
    hostname: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TakeName:
    """Give a device the name *hostname*, which is freed first as by `FreeName`; nothing waits for it."""

    tailnet: str
    owner: Owner
    device: str
    hostname: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ForgetFailure:
    """Forget that the control server did not do *what* was asked for a device: the device no longer needs it."""

    tailnet: str
    owner: Owner
    device: str
    what: str


ControlStep = DeleteDevice | SetTags | FreeName | TakeName | ForgetFailure
"""A step that asks something of the control server of a tailnet for the proxies of an owner, or forgets a failure."""


@dataclass(frozen=True, slots=True)
class FindNodePorts:
    """Find out which node ports the cluster has, by a request for a Service that the API server must refuse."""


Errand = ControlStep | FindNodePorts
"""A step that doesn't write an object of the plan."""

Step = Child | Creation | Patch | Deletion | Errand


@dataclass(frozen=True, slots=True)
class Note:
    """An Event to write on the object.

    An Event that repeats itself is written again from time to time, so that it stays visible. One that is told *once*
    is not.
    """

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    once: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request for an object that the API server or a control server refused.

    *message* says why, and what the user can do. *reason* is the reason for the condition, if it says more than that of
    the kind. *error* is what was raised.
    """

    message: str
    reason: str = ""
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Outline:
    """The facts about a proxy for the log: the hostname that it asks for, its routes, and its devices.

    Each device is its name in the tailnet and its addresses, as text.
    """

    hostname: str
    routes: str = ""
    devices: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps that close the gap between an object and the cluster, in their order, and what to report.

    First the finalizer *hold* is put on the object, then come the *steps* in their order and an Event for each of
    *notes*. Then the object gets *status*, its whole desired status with conditions that have no transition time yet;
    None leaves the status as it is. Last the finalizer *release* is taken off. *requeue_after* is in seconds.

    *error* is raised when all that is done, so that the object is tried again. *way_out* tells the user what to do
    should a control server refuse one of the steps for good. *outline* is of the proxy that the object has, if it is to
    have one. A plan that isn't *whole* leaves out what else may be wrong with the object: it waits for something, or
    reports one refusal.
    """

    hold: str = ""
    steps: Sequence[Step] = ()
    notes: Sequence[Note] = ()
    status: Object | None = None
    release: str = ""
    requeue_after: float | None = None
    error: Exception | None = None
    way_out: str = ""
    outline: Outline | None = None
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Question:
    """A decision that needs an answer of a control server first.

    *ask* gets the answer, and *then* returns the plan that follows from it.
    """

    ask: Callable[[], Awaitable[Any]]
    then: Callable[[Any], Plan]


Decision = Plan | Question


def earliest(*seconds: float | None) -> float | None:
    """Return the least of *seconds* that isn't None; None if there is none."""
    return min((each for each in seconds if each is not None), default=None)
