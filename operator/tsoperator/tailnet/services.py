"""The Tailscale Services of one tailnet, as the control server showed them most recently, and the writes of them.

The list of these Services possibly lacks their owners. So if somebody looks at a Service with unknown owners, the
operator reads it by a request of its own. All reads happen in the background, so that a look never waits.

The API has no versions, so a write that relied on an old state could undo another operator's write. So the operator
reads a Service right before it writes it, and checks the result some seconds later.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Final, NamedTuple

from tsoperator.api.device import Device
from tsoperator.api.objects import TAILSCALE_SERVICE
from tsoperator.api.owners import ANNOTATION_OWNERS, ownership
from tsoperator.api.tailscaleservice import ServiceHost, TailscaleService, service_name
from tsoperator.proxy.serviceview import NO_SERVICE, ServiceView
from tsoperator.runtime.clock import loop_time
from tsoperator.runtime.plan import DeleteService, PutService, Refusal
from tsoperator.runtime.result import Pending
from tsoperator.runtime.workqueue import nine_to_ten_tenths
from tsoperator.tailnet.calls import Calls, NotAsked
from tsoperator.tailnet.devices import Devices
from tsoperator.tailnet.refusals import explain
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.errors import BadRequest, ControlError, NameInUse, Refused

log = logging.getLogger(__name__)

_AT_ONCE: Final = 8  # the number of Services that are read at the same time

Told = Callable[[str], None]
"""A function that is called with the label of a Tailscale Service that has changed."""

Write = PutService | DeleteService


@dataclass(frozen=True, slots=True)
class ServicePace:
    """The seconds between reads.

    *interval* is the time between two reads of the list, and *check* the time from a write to the check of its result.
    A failed read is repeated after *away*, or after *denied* if the control server refused it. When somebody looks at a
    Service, its owners are read again if the last read of the owners is more than *interval* ago. Its hosts are read
    again if the last read of the hosts is more than *approved* ago, or more than *unapproved* while no host is
    approved.
    """

    interval: float = 300.0
    check: float = 5.0
    away: float = 10.0
    denied: float = 300.0
    approved: float = 30.0
    unapproved: float = 5.0
    jitter: Callable[[], float] = nine_to_ten_tenths


class _Question(NamedTuple):
    """A request to read one Service or, if *hosts* is true, to read the hosts of the Service instead."""

    label: str
    hosts: bool = False


class _Hosts(NamedTuple):
    found: tuple[ServiceHost, ...]
    read_at: float


class Services:
    """A table of the tailnet's Tailscale Services by label. It is empty until somebody first looks at one of them."""

    def __init__(self, tailnet: TailnetClient, calls: Calls, devices: Devices, pace: ServicePace | None = None) -> None:
        """*calls* makes the writes. *devices* shows which device has the name that a Service should have."""
        self._tailnet = tailnet
        self._calls = calls
        self._devices = devices
        self._pace = pace or ServicePace()
        self._known: dict[str, TailscaleService] = {}  # by label; annotations are None until they have been read
        self._read_at: dict[str, float] = {}  # when the annotations of a Service were last known to be right
        self._hosts: dict[str, _Hosts] = {}
        self._is_listed = False
        self._failure: ControlError | None = None  # the error of the most recent read of the list, if it failed
        self._listed: asyncio.Future[None] | None = None  # done when the first try to read the list has ended
        self._waiting: set[str] = set()  # labels of Services that somebody looked at before they were read
        self._due = 0.0  # when the list is read next, by the event loop's clock
        self._wanted = asyncio.Event()
        self._moved = asyncio.Event()  # is set when the list is due earlier than before
        self._written: set[str] | None = None  # labels that were put or dropped while the list is being read
        self._unchecked: dict[str, float] = {}  # the labels of our writes, and when to look at the results
        self._versions: dict[str, int] = {}  # the number of the last change of each Service that is there
        self._changes = count(1)
        self._questions: asyncio.Queue[_Question] = asyncio.Queue()
        self._asked: dict[_Question, asyncio.Future[None]] = {}
        self._unread: dict[_Question, ControlError] = {}  # the questions that failed, until they may be asked again
        self._refused: dict[str, Refusal] = {}  # the writes that failed, by label, until one succeeds
        self._listeners: list[Told] = []

    def listen(self, listener: Told) -> None:
        """Call *listener* with the label of each Service that changes, is new or is gone, or whose refusal changes."""
        self._listeners.append(listener)

    def labels(self) -> list[str]:
        """Return the labels of the Services that are in the table."""
        return [*self._known]

    def known(self, label: str) -> TailscaleService | None:
        """Return the Service with this *label* as the table has it, without a request to the control server."""
        return self._known.get(label)

    def owned(self, operator_id: str) -> frozenset[str]:
        """Return the labels of the Services that the operator with this ID owns, if their owners are known."""
        return frozenset(
            label
            for label, service in self._known.items()
            if service.annotations is not None and ownership(service, operator_id).is_owner
        )

    def view(self, label: str, *, hosts: bool = False) -> ServiceView:
        """Return a view of the Service with this *label*, and of its hosts if *hosts*. Request missing facts."""
        refused = self._refused.get(label)
        if not self._is_listed:
            return self._unlisted(label)
        service = self._known.get(label)
        if service is None:
            return ServiceView(refusal=refused) if refused else NO_SERVICE
        if service.annotations is None:
            return replace(self._answer(_Question(label)), service=service)
        if loop_time() - self._read_at[label] >= self._pace.interval:
            self._answer(_Question(label))
        view = ServiceView(service, refusal=refused)
        return self._with_hosts(view, label) if hosts else view

    def device_changed(self, old: Device | None, new: Device | None) -> None:
        """If the device has lost a name that kept a Service from being created, announce this Service.

        *old* and *new* are the device before and after its change.
        """
        label = old.short_name.lower() if old else ""
        refused = self._refused.get(label)
        is_gone = new is None or new.short_name.lower() != label
        if refused is not None and is_gone and isinstance(refused.error, NameInUse):
            self._tell([label])

    def settled(self, label: str) -> None:
        """Forget that the last write of the Service failed, because nothing needs to be written any more."""
        if self._refused.pop(label, None):
            self._tell([label])

    def retry(self) -> None:
        """Repeat the reads that failed, because somebody has possibly fixed the cause."""
        if self._failure is not None:
            self._read_list_at(loop_time())
        labels = {question.label for question in self._unread}
        self._unread.clear()
        self._tell(labels)

    def end(self) -> None:
        """Wake everybody who waits, and announce every Service, because the tailnet is no longer registered."""
        for future in [*self._asked.values(), *([self._listed] if self._listed else [])]:
            _wake(future)
        self._unread.clear()
        self._tell({*self._known, *self._waiting})

    async def follow(self) -> None:
        """Keep the table up to date until cancelled. Start when somebody looks at a Service for the first time."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_list())
            for _ in range(_AT_ONCE):
                tasks.create_task(self._answer_questions())

    async def carry_out(self, step: Write) -> None:
        """Write the Service of *step*. Raises ControlError, Pending, NotAsked.

        NotAsked means that the Service has changed since the reconcile decided on *step*, so the reconcile starts
        again. The step and the Service's version identify a write, so that it never gets the result of an earlier
        write.
        """
        label = _subject(step).label
        wanted = (step, self._versions.get(label))
        try:
            await self._calls.result(step.owner, (TAILSCALE_SERVICE, label), wanted, lambda: self._write(step))
        except ControlError as error:
            self._note_refusal(label, replace(_refusal(error), step=step))
            raise

    def _unlisted(self, label: str) -> ServiceView:
        """Return the view of a Service before the first read of the list, and request a read of the list."""
        self._waiting.add(label)
        self._wanted.set()
        if self._failure is not None:
            return ServiceView(refusal=_refusal(self._failure))
        if self._listed is None or self._listed.done():
            self._listed = asyncio.get_running_loop().create_future()
        return ServiceView(pending=Pending(self._listed))

    def _answer(self, question: _Question) -> ServiceView:
        """Request the read that *question* stands for, and return a view of the Service that waits for this read.

        If that read failed a short time ago, don't request it, and return a view with the refusal.
        """
        if (error := self._unread.get(question)) is not None:
            return ServiceView(refusal=_refusal(error))
        if (future := self._asked.get(question)) is None:
            future = self._asked[question] = asyncio.get_running_loop().create_future()
            self._questions.put_nowait(question)
        return ServiceView(pending=Pending(future))

    def _with_hosts(self, view: ServiceView, label: str) -> ServiceView:
        there = self._hosts.get(label)
        is_approved = there is not None and any(each.is_approved for each in there.found)
        age = self._pace.approved if is_approved else self._pace.unapproved
        if there is not None and loop_time() - there.read_at < age:
            return replace(view, hosts=there.found)
        found = self._answer(_Question(label, hosts=True))
        return replace(view, refusal=view.refusal or found.refusal, pending=found.pending)

    async def _follow_list(self) -> None:
        await self._wanted.wait()
        while True:
            self._moved.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._due):
                    await self._moved.wait()
                continue
            await self._read_list()

    def _read_list_at(self, due: float) -> None:
        """Read the list at the time *due*, or earlier if an earlier read is planned already."""
        if due < self._due:
            self._due = due
            self._moved.set()

    async def _read_list(self) -> None:
        self._written = set()
        began = loop_time()
        try:
            listed = {each.label: each for each in await self._tailnet.services()}
        except ControlError as error:
            self._note_failure(error)
            return
        finally:
            written, self._written = self._written, None
        if self._failure is not None:
            log.info("the tailnet's Tailscale Services can be listed again")
        self._failure, self._is_listed = None, True
        for label in [*(self._known.keys() - listed.keys()), *listed]:
            if label not in written:  # the list may be older than the last write
                self._compare(label, listed.get(label))
        checked = {label for label, due in self._unchecked.items() if due <= began}
        for label in checked:
            del self._unchecked[label]
            if label in self._known and not self._is_confirmed(label, listed.get(label)):
                self._answer(_Question(label))
        now = loop_time()
        checks = [max(due, now + self._pace.check) for due in self._unchecked.values()]
        self._due = min([now + self._pace.interval * self._pace.jitter(), *checks])
        self._end_waiting()

    def _compare(self, label: str, listed: TailscaleService | None) -> None:
        """Compare the Service in the table with *listed*, its state in the list, which possibly lacks its owners.

        If the Service has changed, read it by a request of its own.
        """
        known = self._known.get(label)
        if known is None or listed is None or known.annotations is None:
            self._put(label, listed and replace(listed, annotations=None))
        elif _facts(known) != _facts(listed) or _hint(listed) not in (None, _hint(known)):
            self._answer(_Question(label))
        elif self._is_confirmed(label, listed):
            self._read_at[label] = loop_time()

    def _is_confirmed(self, label: str, listed: TailscaleService | None) -> bool:
        """Tell whether *listed*, the Service in the list, shows the same owners as the table."""
        return listed is not None and _hint(listed) is not None and _hint(listed) == _hint(self._known[label])

    def _note_failure(self, error: ControlError) -> None:
        """Remember the *error* of a try to list the Services, and log it if it differs from the error before."""
        is_news = str(error) != str(self._failure)
        if is_news:
            log.warning("the tailnet's Tailscale Services can't be listed: %s", error)
        self._failure = error
        self._due = loop_time() + (self._pace.denied if isinstance(error, Refused) else self._pace.away)
        if is_news:
            self._end_waiting()

    def _end_waiting(self) -> None:
        """Announce the Services at which somebody looked before there was a list.

        By now the list has been read, or a read of it has failed for a new reason.
        """
        if self._listed is not None:
            _wake(self._listed)
        waiting, self._waiting = self._waiting, set()
        self._tell(waiting)

    async def _answer_questions(self) -> None:
        while True:
            question = await self._questions.get()
            try:
                await (self._read_hosts if question.hosts else self._read)(question.label)
            except ControlError as error:
                self._note_unread(question, error)
                if not isinstance(error, Refused):  # other questions would get no answer either
                    while not self._questions.empty():
                        self._note_unread(self._questions.get_nowait(), error)
            finally:
                self._end_question(question)

    def _end_question(self, question: _Question) -> None:
        if (future := self._asked.pop(question, None)) is not None:
            _wake(future)

    def _note_unread(self, question: _Question, error: ControlError) -> None:
        """Remember that a *question* got no answer, until somebody is allowed to ask it again."""
        log.debug("Tailscale Service %s can't be read: %s", question.label, error)
        self._unread[question] = error
        self._end_question(question)
        seconds = self._pace.denied if isinstance(error, Refused) else self._pace.away
        asyncio.get_running_loop().call_later(seconds, self._ask_again, question, error)

    def _ask_again(self, question: _Question, error: ControlError) -> None:
        if self._unread.get(question) is not error:
            return
        del self._unread[question]
        known = self._known.get(question.label)
        if question.hosts or (known is not None and known.annotations is None):  # or nobody waits for it
            self._tell([question.label])

    async def _read(self, label: str) -> None:
        version = self._versions.get(label)
        known = self._known.get(label)
        found = await self._tailnet.service(known.name if known else service_name(label))
        if version == self._versions.get(label):  # otherwise the Service was written in the meantime
            self._put(label, found)

    async def _read_hosts(self, label: str) -> None:
        known = self._known.get(label)
        found = tuple(await self._tailnet.service_hosts(known.name if known else service_name(label)))
        self._hosts[label] = _Hosts(found, loop_time())

    async def _write(self, step: Write) -> None:
        """Carry out *step*, if the Service is still as the reconcile saw it. Raises ControlError, NotAsked."""
        subject = _subject(step)
        live = await self._tailnet.service(subject.name)
        if live is None and isinstance(step, DeleteService):
            self._put(subject.label, None)
            return
        if not _is_same(live, step.before):
            self._put(subject.label, live)
            done = asyncio.get_running_loop().create_future()
            done.set_result(None)
            raise NotAsked(done)
        try:
            if isinstance(step, DeleteService):
                await self._tailnet.delete_service(subject.name)
                stored = None
            else:
                stored = await self._tailnet.put_service(
                    replace(subject, addresses=live.addresses, other=live.other) if live else subject
                )
        except BadRequest as error:
            raise self._in_use(subject.label, error) or error from None
        except ControlError:
            self._doubt(subject.label)  # the write may have taken effect
            raise
        self._put(subject.label, stored)
        self._unchecked[subject.label] = loop_time() + self._pace.check
        self._read_list_at(self._unchecked[subject.label])

    def _in_use(self, label: str, error: BadRequest) -> NameInUse | None:
        """Return the error to raise if a device has the name of the Service; None if *error* has another reason."""
        said = error.detail.lower()
        if "tag" in said or not ("device" in said or "in use" in said or self._devices.at(label)):
            return None
        return NameInUse(str(error), error.status, error.detail, error.call)

    def _put(self, label: str, service: TailscaleService | None) -> None:
        """Put *service*, just read or written, into the table, or remove it if it is None. Announce a change."""
        old = self._known.pop(label, None)
        if self._written is not None:
            self._written.add(label)
        if service is None:
            self._hosts.pop(label, None)
            self._read_at.pop(label, None)
        else:
            self._known[label], self._read_at[label] = service, loop_time()
        if not _is_same(old, service):
            if service is None:
                self._versions.pop(label, None)
            else:
                self._versions[label] = next(self._changes)
            self._refused.pop(label, None)
            self._tell([label])

    def _doubt(self, label: str) -> None:
        """Mark the Service as outdated, so that it is read again when somebody looks at it."""
        if label in self._known:
            self._read_at[label] = loop_time() - self._pace.interval

    def _note_refusal(self, label: str, refusal: Refusal) -> None:
        """Remember the *refusal* of a write. Announce it, unless the same write failed in the same way before.

        The object that asked for the write is retried after a back-off, but an announcement would retry it at once.
        """
        before = self._refused.get(label)
        self._refused[label] = refusal
        if before is None or (type(before.error), before.step) != (type(refusal.error), refusal.step):
            self._tell([label])

    def _tell(self, labels: Iterable[str]) -> None:
        for label in [*labels]:
            for listener in self._listeners:
                listener(label)


def _subject(step: Write) -> TailscaleService:
    """Return the Service that *step* writes."""
    return step.service if isinstance(step, PutService) else step.before


def _refusal(error: ControlError) -> Refusal:
    return replace(explain(error), is_passing=not isinstance(error, Refused))


def _facts(service: TailscaleService) -> tuple[object, ...]:
    """Return the fields of *service* that a list always shows, for a comparison of two states of *service*."""
    return service.name, frozenset(service.ports), frozenset(service.tags), frozenset(service.addresses)


def _hint(service: TailscaleService) -> str | None:
    """Return the annotation with the owners of *service*; None if it isn't there, or if no annotations are known."""
    return (service.annotations or {}).get(ANNOTATION_OWNERS)


def _is_same(one: TailscaleService | None, other: TailscaleService | None) -> bool:
    """Tell whether *one* and *other* are the same Service in the same state, or are both None."""
    if one is None or other is None:
        return one is other
    return (_facts(one), one.annotations) == (_facts(other), other.annotations)


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
