"""The upkeep of the devices of proxies: it makes the changes for which Plans ask, by calls to the control server.

It remembers failed changes, so that the parents of the proxies can report them.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from tsoperator.api.device import Device
from tsoperator.api.objects import SECRET
from tsoperator.proxy.devices import NAME, TAGS, TWO_HOSTNAMES, Failed, Holder, listed
from tsoperator.proxy.findings import DeviceFinding, Effect
from tsoperator.proxy.secret import BY_DEVICE
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.clock import loop_time, utc_now
from tsoperator.runtime.ownership import Owner, parent_title
from tsoperator.runtime.plan import ControlStep, DeleteDevice, ForgetFailure, FreeName, SetTags, TakeName
from tsoperator.tailnet.calls import Calls
from tsoperator.tailnet.devices import Devices
from tsoperator.tailnet.refusals import explain
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.errors import ControlError, Missing, Refused

log = logging.getLogger(__name__)

DEAD_FOR: Final = timedelta(minutes=5)
"""The time for which a device must have been offline before another device gets its name."""


@dataclass(frozen=True, slots=True)
class RetryPauses:
    """The seconds from a failed change to the next try.

    *soon* applies if the control server gave no answer. *later* applies after a refusal, because by that time an admin
    has possibly changed the policy.
    """

    soon: float = 30.0
    later: float = 300.0


@dataclass(frozen=True, slots=True)
class _Failure:
    """A change of a device that failed.

    *wanted* is the value that we asked for. We are allowed to ask again at the time *until* on the event loop's clock.
    """

    wanted: object
    finding: DeviceFinding
    until: float


@dataclass(slots=True)
class _Memory:
    """The news about the devices of one parent, and the failed changes of these devices.

    *shown* is the number of news that `DeviceUpkeep.news` has returned. The keys of *failures* are the device ID and
    the changed property, `TAGS` or `NAME`.
    """

    news: list[DeviceFinding] = field(default_factory=list)
    shown: int = 0
    failures: dict[tuple[str, str], _Failure] = field(default_factory=dict)


class DeviceUpkeep:
    """The upkeep of the devices of proxies in one tailnet.

    It sets tags and names in the background, remembers the outcome, and enqueues the parent of the proxy, so that a
    reconcile reports the outcome. *now* returns the time, for a comparison with the time at which the control server
    last saw a device.
    """

    def __init__(
        self,
        tailnet: TailnetClient,
        devices: Devices,
        calls: Calls,
        cache: Cache,
        retry: RetryPauses | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._tailnet = tailnet
        self._devices = devices
        self._calls = calls
        self._cache = cache
        self._retry = retry or RetryPauses()
        self._now = now
        self._memories: dict[Owner, _Memory] = {}

    def failures(self, owner: Owner) -> dict[tuple[str, str], Failed]:
        """Return the failed changes of the devices of *owner*, each with the seconds until we are allowed to retry it.

        The keys are the device ID and the changed property, `TAGS` or `NAME`.
        """
        now = loop_time()
        there = self._memories.get(owner)
        found = there.failures if there else {}
        return {about: Failed(each.wanted, each.finding, each.until - now) for about, each in found.items()}

    def news(self, owner: Owner) -> Sequence[DeviceFinding]:
        """Return the news about changes of *owner*'s devices. They are kept until `news_told` is called."""
        there = self._memories.get(owner)
        if there is None:
            return ()
        there.shown = len(there.news)
        return [*there.news]

    def news_told(self, owner: Owner) -> None:
        """Forget the news that *owner* has reported: those that the most recent call of `news` returned."""
        if (there := self._memories.get(owner)) is not None:
            del there.news[: there.shown]
            there.shown = 0
            self._forget_if_empty(owner)

    def retry(self) -> None:
        """Allow a retry of all failed changes now, because somebody has possibly changed the policy."""
        now = loop_time()
        for memory in self._memories.values():
            memory.failures = {about: replace(each, until=now) for about, each in memory.failures.items()}
            for device, _ in memory.failures:
                self._devices.announce(device)

    def forget(self, owner: Owner) -> None:
        """Forget all facts about the devices of *owner*, which has no proxies any more."""
        self._memories.pop(owner, None)

    async def carry_out(self, step: ControlStep) -> None:
        """Make the change that *step* asks for, or begin to make it in the background.

        Raises Pending, and ControlError if a device can't be deleted.
        """
        match step:
            case ForgetFailure(_, owner, device, what):
                self._forget_failure(owner, (device, what))
            case DeleteDevice():
                await self.delete(step)
            case FreeName(_, owner, hostname, _):
                try:
                    await self._calls.result(owner, ("free", hostname), step.tags, lambda: self._free(step))
                except ControlError as error:  # the proxy gets another name in this case
                    words = f"the name {hostname} may be that of a dead device, which could not be looked for"
                    finding = _because(DeviceFinding(Effect.WARNING, "NameNotTakenOver", words), error)
                    log.debug("%s", finding.message)
                    self._memories.setdefault(owner, _Memory()).news.append(finding)
            case SetTags(_, owner, device, tags):
                failing = self._tags_refused(device, tags)
                self._begin(owner, (device, TAGS), tags, lambda: self._set_tags(step), failing)
            case TakeName(_, owner, device, hostname, _):
                failing = _name_refused(step, self._devices.known(device))
                self._begin(owner, (device, NAME), hostname, lambda: self._take_name(step), failing)

    async def delete(self, step: DeleteDevice) -> bool:
        """Delete a device; return False if this tailnet has no such device. Raises ControlError, Pending."""
        return await self._calls.result(step.owner, step, None, lambda: self._delete(step.device))

    def _begin(
        self,
        owner: Owner,
        about: tuple[str, str],
        wanted: object,
        change: Callable[[], Awaitable[DeviceFinding | None]],
        failing: DeviceFinding,
    ) -> None:
        """Begin a *change* of a device, and remember its result.

        *about* is the device ID and the changed property. If the change fails, remember the finding *failing* with the
        reason.
        """

        def give_up(error: ControlError) -> None:
            found = _because(failing, error)
            log.debug("%s", found.message)
            seconds = self._retry.later if isinstance(error, Refused) else self._retry.soon
            self._remember(owner, about, wanted, found, seconds)

        async def attempt() -> None:
            try:
                found = await change()
            except Missing:
                self._devices.announce(about[0])  # the device is gone, as the next list will show
            except ControlError as error:
                give_up(error)
                raise
            else:
                self._remember(owner, about, wanted, found)

        self._calls.start(owner, about, wanted, attempt, give_up)

    def _remember(
        self, owner: Owner, about: tuple[str, str], wanted: object, found: DeviceFinding | None, seconds: float = 0.0
    ) -> None:
        """Remember *found*, the result of a change, and enqueue the parent.

        *found* is news, a failure, or None if there is nothing to report. After a failure, we are allowed to ask again
        in *seconds* seconds. If *seconds* is 0 and the parent knows of the same failure already, don't enqueue the
        parent, because it would ask again at once.
        """
        memory = self._memories.setdefault(owner, _Memory())
        last = memory.failures.pop(about, None)
        if found is not None and found.effect is Effect.NEWS:
            memory.news.append(found)
        elif found is not None:
            until = loop_time() + seconds
            memory.failures[about] = _Failure(wanted, found, until)
        self._forget_if_empty(owner)
        if seconds or last is None or found != last.finding:
            self._devices.announce(about[0])

    def _forget_failure(self, owner: Owner, about: tuple[str, str]) -> None:
        if (memory := self._memories.get(owner)) is not None:
            memory.failures.pop(about, None)
            self._forget_if_empty(owner)

    def _forget_if_empty(self, owner: Owner) -> None:
        if (memory := self._memories.get(owner)) is not None and not (memory.news or memory.failures):
            del self._memories[owner]

    async def _delete(self, device: str) -> bool:
        was_there = await self._tailnet.delete_device(device)
        self._devices.drop(device)
        return was_there

    async def _set_tags(self, step: SetTags) -> DeviceFinding | None:
        device = self._devices.known(step.device)
        await self._tailnet.set_tags(step.device, step.tags)
        if device is None:
            return None
        self._devices.put(replace(device, tags=step.tags))
        change = f"has the tags {listed(step.tags)} now, and had {listed(device.tags)}"
        log.debug("device %s %s", device.name, change)
        return DeviceFinding(Effect.NEWS, "TagsChanged", f"device {device.name} {change}")

    def _tags_refused(self, node_id: str, tags: Iterable[str]) -> DeviceFinding:
        device = self._devices.known(node_id)
        name, old = (device.name, device.tags) if device else (node_id, ())
        words = f"device {name} keeps the tags {listed(old)}: it could not be given {listed(tags)}"
        return DeviceFinding(Effect.FAILED, "TagsRefused", words)

    async def _free(self, step: FreeName) -> None:
        """Free the name for which a new proxy is about to ask: if a dead device has it, delete that device."""
        await self._devices.refresh()
        holder = self._devices.at(step.hostname)
        found = await self._remove(holder, step.hostname, step.tags) if holder else None
        if found is not None and found.effect is Effect.NEWS:  # a notice is reported when the proxy has another name
            self._memories.setdefault(step.owner, _Memory()).news.append(found)

    async def _take_name(self, step: TakeName) -> DeviceFinding | None:
        """Give a device the name for which it asked, if that name is free or can be freed."""
        holder = self._devices.at(step.hostname)
        found = await self._remove(holder, step.hostname, step.tags) if holder else None
        if found is not None and found.effect is not Effect.NEWS:
            return found
        renamed = await self._rename(step.device, step.hostname)
        log.debug("%s", renamed)
        return DeviceFinding(Effect.NEWS, "NameTakenOver", "; ".join([found.message, renamed] if found else [renamed]))

    async def _remove(self, holder: Device, hostname: str, tags: Sequence[str]) -> DeviceFinding | None:
        """Delete *holder*, the device that has the name *hostname*, if it is dead.

        Return news of the deletion, or a notice that says why the device isn't deleted, or None if it was gone already.
        """
        if self.holder(holder).parent:
            words = f"the name {hostname} is held by {self.holder(holder)}; to have it, {TWO_HOSTNAMES}"
            return DeviceFinding(Effect.NOTICE, "NameHeld", words, self._retry.later)
        if not (why := self._why_kept(holder, tags)):
            try:
                live = await self._tailnet.device(holder.node_id)  # the list is seconds old, or minutes
            except Missing:
                self._devices.drop(holder.node_id)
                return None
            self._devices.put(live)
            why = self._why_kept(live, tags)
        if why:
            words = f"the name {hostname} is held by {Holder(holder)}, which {why}"
            words = f"{words}; to have it, delete that device or choose another hostname"
            return DeviceFinding(Effect.NOTICE, "NameHeld", words, self._retry.later)
        await self._tailnet.delete_device(holder.node_id)
        self._devices.drop(holder.node_id)
        words = f"device {holder.name} ({holder.node_id}), which was offline, was deleted for its name {hostname}"
        log.debug("%s", words)
        return DeviceFinding(Effect.NEWS, "NameTakenOver", words)

    def holder(self, device: Device) -> Holder:
        """Return *device* as the holder of a name for which another device asked.

        If *device* belongs to a proxy of this operator, the result also names the parent of the proxy.
        """
        secret = next(iter(self._cache.indexed(SECRET, BY_DEVICE, device.node_id)), None)
        return Holder(device, parent_title(secret) if secret else "")

    def _why_kept(self, holder: Device, tags: Sequence[str]) -> str:
        """Return the reason why *holder* must not be deleted; empty if it is dead and has exactly these *tags*."""
        if set(holder.tags) != set(tags):
            return f"has other tags: {listed(holder.tags)}"
        if holder.connected is None:
            return "may be in use: this control server does not tell whether devices are online"
        if holder.connected or holder.last_seen is None:
            return "is online"
        if self._now() - holder.last_seen < DEAD_FOR:
            return f"has been online in the last {DEAD_FOR.seconds // 60} minutes"
        return ""

    async def _rename(self, node_id: str, hostname: str) -> str:
        """Give a device the name *hostname*, and return words for the user that say so."""
        old = self._devices.known(node_id)
        await self._tailnet.set_name(node_id, "")  # the name follows the hostname again; a name that we set would not
        renamed = await self._tailnet.device(node_id)
        if renamed.short_name != hostname.lower():
            await self._tailnet.set_name(node_id, hostname)
            renamed = await self._tailnet.device(node_id)
        self._devices.put(renamed)
        return f"device {old.name if old else node_id} has the name {renamed.name} now"


def _name_refused(step: TakeName, device: Device | None) -> DeviceFinding:
    words = f"device {device.name if device else step.device} could not be given the name {step.hostname}"
    return DeviceFinding(Effect.NOTICE, "NameNotTakenOver", words)


def _because(finding: DeviceFinding, error: ControlError) -> DeviceFinding:
    return replace(finding, message=f"{finding.message}: {explain(error).message}")
