"""The tailnets that the operator knows, and the choice among them."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from tsoperator.api.device import Device, lookup_name, lookup_names
from tsoperator.api.objects import DEVICE, TAILSCALE_SERVICE, Object, Signal
from tsoperator.proxy.serviceview import ServiceView
from tsoperator.runtime.cache import Listener
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import ControlStep, DeleteDevice
from tsoperator.runtime.result import Pending
from tsoperator.tailnet.devices import Devices
from tsoperator.tailnet.known import KnownTailnet
from tsoperator.tailnet.preflight import Findings
from tsoperator.tailnet.refusals import explain
from tsoperator.tsclient.errors import ControlError

log = logging.getLogger(__name__)

OWN: Final = ""
"""The name of the operator's own tailnet."""

_PAUSE: Final = 10.0  # s until a tailnet whose run has failed is followed again


class UnknownTailnet(ControlError):
    """An error: there is no Tailnet of that name, or the operator can't use it."""


class Tailnets:
    """The tailnets by name.

    A change of a device in one of them is announced as a watch event of `DEVICE`, and a change of a Tailscale Service
    as one of `TAILSCALE_SERVICE`.

    The operator follows each tailnet until the tailnet is unregistered, and forgets everything about it after that. The
    operator can refuse a registered tailnet to parents without proxies in it. Proxies that already run in it go on.
    """

    def __init__(
        self,
        tailnets: Iterable[KnownTailnet],
        exists: Callable[[str], bool] = lambda name: False,
        pause: float = _PAUSE,
        held: Callable[[], Iterable[str]] = lambda: (),
    ) -> None:
        """*exists* tells for a name whether there is a Tailnet with this name.

        *held* returns the names of the Tailnets that have been usable at some time, so that devices can be in them. If
        following a tailnet fails, the operator starts it again *pause* seconds later. A failure of the operator's own
        tailnet is raised instead.
        """
        self._tailnets = {each.name: each for each in tailnets}
        self._exists = exists
        self._pause = pause
        self._held = held
        self._deleted: dict[Owner, set[str]] = defaultdict(set)  # IDs of devices that were deleted for an owner
        self._refusals: dict[str, str] = {}
        self._awaited: dict[str, asyncio.Future[None]] = {}
        self._listeners: list[Listener] = []
        self._service_listeners: list[Listener] = []
        self._needs_services: Callable[[str], bool] = lambda name: False
        self._name_listeners: list[Callable[[], None]] = []
        self._finding_listeners: list[Callable[[], None]] = []
        self._tasks: asyncio.TaskGroup | None = None
        self._running: dict[str, asyncio.Task[Any]] = {}

    def at(self, name: str) -> KnownTailnet:
        """Return the tailnet called *name*; *name* is `OWN` for the operator's own tailnet.

        Raises UnknownTailnet if the operator can't use a tailnet of that name, and Pending if it hasn't tried the
        tailnet's credentials yet.
        """
        if name != OWN and not self._exists(name):
            raise UnknownTailnet(f"there is no Tailnet {name!r}: create it, with credentials for the tailnet")
        if (found := self._tailnets.get(name)) is not None:
            return found
        if name != OWN and name not in self._refusals:
            raise Pending(self._awaited.setdefault(name, asyncio.get_running_loop().create_future()))
        raise UnknownTailnet(self.refusal(name) or "the operator has no tailnet of its own")

    def refusal(self, name: str) -> str:
        """Return why parents without proxies in the tailnet called *name* must not use it; empty if they can use it."""
        why = self._refusals.get(name)
        return f"Tailnet {name!r} can't be used: {why}" if why else ""

    def registered(self, name: str) -> KnownTailnet | None:
        """Return the tailnet that is registered as *name*; None if there is none."""
        return self._tailnets.get(name)

    def is_pending(self, name: str) -> bool:
        """Tell whether the operator knows nothing of the tailnet called *name* yet.

        That is so if it hasn't tried the tailnet's credentials, or hasn't listed its devices yet.
        """
        found = self._tailnets.get(name)
        return found.devices.is_pending() if found else name != OWN and name not in self._refusals

    def service(self, tailnet: str, label: str, *, hosts: bool = False) -> ServiceView:
        """Return the operator's knowledge of the Tailscale Service with this *label* in a *tailnet*.

        That includes its hosts if *hosts* is true. This method raises nothing and never waits.
        """
        try:
            return self.at(tailnet).services.view(label, hosts=hosts)
        except Pending as pending:
            return ServiceView(pending=pending)
        except UnknownTailnet as error:
            return ServiceView(refusal=explain(error))

    def service_settled(self, tailnet: str, label: str) -> None:
        """Forget that the last write of a Tailscale Service failed, because the Service needs no write any more."""
        if (found := self._tailnets.get(tailnet)) is not None:
            found.services.settled(label)

    def owned_services(self, tailnet: str, operator_id: str) -> frozenset[str]:
        """Return the labels of the Tailscale Services in a *tailnet* that the operator with this ID owns.

        The result leaves out a Tailscale Service whose owners aren't known yet.
        """
        found = self._tailnets.get(tailnet)
        return found.services.owned(operator_id) if found else frozenset()

    def names(self) -> list[str]:
        """Return the names of the tailnets in which the operator can own Tailscale Services.

        These are the registered tailnets, and those whose credentials the operator has yet to try after its start.
        """
        untried = (each for each in self._held() if each not in self._tailnets and each not in self._refusals)
        return [*self._tailnets, *untried]

    def all_registered(self) -> list[KnownTailnet]:
        """Return the tailnets that are registered."""
        return [*self._tailnets.values()]

    def home(self, name: str, url: str, devices: Mapping[str, str]) -> str:
        """Return the name of the tailnet in which *devices* are.

        Their proxies log in at *url*, and should be in the tailnet called *name*. *devices* has the MagicDNS names of
        the devices by ID. One URL can have several tailnets, several Tailnets can be for the same tailnet, and devices
        of different servers can have the same ID. So the result is *name* unless the devices are certainly in another
        tailnet. Raises Pending until the lists of devices that decide this have been read.
        """
        named = self._tailnets.get(name)
        others = [each for each in self._tailnets.values() if each.client.url == url and each is not named]
        is_there = named is not None and named.client.url == url
        if named is not None and is_there and _is_home(named.devices, devices):
            return name
        if named is not None and not is_there and len(others) == 1:
            return others[0].name
        if others:
            _await_lists([*([named] if named is not None and is_there else ()), *others])
        return next((each.name for each in others if _has(each.devices, devices)), name)

    def findings(self) -> Mapping[str, Findings]:
        """Return the findings of the most recent check of each tailnet, by the name of the tailnet."""
        return {name: each.preflight.findings for name, each in self._tailnets.items()}

    def register(self, tailnet: KnownTailnet) -> None:
        """Follow *tailnet* from now on. It replaces the tailnet that is registered under its name, if there is one."""
        self._end(tailnet.name)
        self._tailnets[tailnet.name] = tailnet
        for listener in self._listeners:
            tailnet.devices.listen(_object_listener(tailnet.name, listener))
        for listener in self._service_listeners:
            tailnet.services.listen(_label_listener(tailnet.name, listener))
        for tell in self._name_listeners:
            tailnet.devices.listen_to_names(tell)
            tell()
        for told in self._finding_listeners:
            tailnet.preflight.listen(told)
        tailnet.preflight.needs_services = partial(self._needs_services, tailnet.name)
        self._start(tailnet)

    def refuse(self, name: str, why: str) -> None:
        """Refuse the tailnet called *name* to parents without proxies in it, for the reason *why*.

        If *why* is empty, let all parents use the tailnet.
        """
        self._refusals[name] = why
        if (awaited := self._awaited.pop(name, None)) is not None and not awaited.done():
            awaited.set_result(None)

    def unregister(self, name: str) -> None:
        """Forget the tailnet called *name*, and end the task that follows it."""
        self._end(name)
        for tell in self._name_listeners:
            tell()
        self.refuse(name, "")  # wakes everybody who waits for the check of its credentials
        del self._refusals[name]

    async def run(self) -> None:
        """Follow all tailnets until cancelled, including those that are registered in the meantime."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                for each in self._tailnets.values():
                    self._start(each)
                await asyncio.Event().wait()
            finally:
                self._tasks = None
                self._running.clear()

    def _start(self, tailnet: KnownTailnet) -> None:
        if self._tasks is not None:
            following = tailnet.run() if tailnet.name == OWN else self._follow(tailnet)
            self._running[tailnet.name] = self._tasks.create_task(following, name=f"tailnet {tailnet.name}")

    async def _follow(self, tailnet: KnownTailnet) -> None:
        """Follow *tailnet* until cancelled.

        After an error, wait for a moment and follow it again, so that its failure doesn't stop the other tailnets.
        """
        while True:
            try:
                await tailnet.run()
            except Exception:
                log.exception("Tailnet %s can't be followed; it is tried again in %g s", tailnet.name, self._pause)
            await asyncio.sleep(self._pause)

    def _end(self, name: str) -> None:
        if (tailnet := self._tailnets.pop(name, None)) is not None:
            tailnet.end()
        if (task := self._running.pop(name, None)) is not None:
            task.cancel()

    async def carry_out(self, step: ControlStep) -> None:
        """Make the request of *step* to the control server of its tailnet. Raises ControlError, Pending.

        The device of a cluster-scoped parent, such as a Connector, can be in another tailnet than the one that *step*
        names, because users can change ``spec.tailnet``. So to delete such a device, ask every tailnet that possibly
        has it. Namespaced parents have no ``spec.tailnet``, so their devices are always in the tailnet that *step*
        names.
        """
        if isinstance(step, DeleteDevice) and not step.owner.key.namespace:
            await self._delete(step)
        else:
            await self.at(step.tailnet or OWN).carry_out(step)

    async def _delete(self, step: DeleteDevice) -> None:
        """Delete a device from the tailnet in which it is. Raises ControlError, Pending.

        Users can add and remove ``spec.tailnet``, and the parent is possibly gone. So ask each tailnet that possibly
        has the device. No other device has the same ID at the same URL, so only the right tailnet deletes it. If the
        device was certainly in a tailnet that no longer has it, the device is gone.
        """
        if step.device in self._deleted.get(step.owner, ()):
            return
        asked = [each for each in self._tailnets.values() if _may_have(each, step)]
        asked.sort(key=lambda each: (not each.devices.has(step.device), each.name != step.tailnet))
        if step.tailnet is not None and not any(each.devices.has(step.device) for each in asked):
            if step.tailnet not in self._tailnets:
                _await_lists(asked)
            self.at(step.tailnet)  # raises UnknownTailnet or Pending if that tailnet can't be asked
        for each in asked:
            if await each.delete(step):
                self._deleted[step.owner].add(step.device)
                return
            if _was_in(each, step):
                return
        self._check_that_it_is_gone(step, asked)

    def _check_that_it_is_gone(self, step: DeleteDevice, asked: Sequence[KnownTailnet]) -> None:
        """Raise UnknownTailnet or Pending if the device of *step* possibly still exists.

        None of the tailnets *asked* has the device, and nobody knows in which tailnet it was. We assume that the device
        was in the tailnet that its parent names, and is gone from there, but only if we have asked all other tailnets.
        """
        device = f"device {step.name or step.device}, which logged in at {step.url or 'an unknown URL'},"
        for name in self._held():
            if name not in self._tailnets:
                try:
                    self.at(name)
                except UnknownTailnet as error:
                    raise UnknownTailnet(f"{device} may be in a tailnet that can't be asked: {error}") from error
        named = next((each for each in asked if each.name == step.tailnet), None)
        if named is None or named.devices.lacks_domains_of([step.name]):
            raise UnknownTailnet(
                f"{device} is in no tailnet that the operator can ask, so it can't be deleted: create a Tailnet for "
                "the tailnet in which it is"
            )

    def news_told(self, owner: Owner) -> None:
        """Forget the news that *owner* has reported: those in the most recent `KnownTailnet.view` for *owner*."""
        for each in self._tailnets.values():
            each.news_told(owner)

    def forget(self, owner: Owner) -> None:
        """Forget all facts about the proxies of *owner* in every tailnet."""
        self._deleted.pop(owner, None)
        for each in self._tailnets.values():
            each.forget(owner)

    def listen(self, signal: Signal, listener: Listener) -> None:
        """Call *listener* at every change of a device or of a Tailscale Service, as *signal* says.

        The arguments of *listener* are the old and the new state of a device, as objects of `DEVICE`. If a Tailscale
        Service changes, both arguments are the same object of `TAILSCALE_SERVICE`.
        """
        if signal == DEVICE:
            self._listeners.append(listener)
            for each in self._tailnets.values():
                each.devices.listen(_object_listener(each.name, listener))
        elif signal == TAILSCALE_SERVICE:
            self._service_listeners.append(listener)
            for each in self._tailnets.values():
                each.services.listen(_label_listener(each.name, listener))

    def check_services_while(self, needs: Callable[[str], bool]) -> None:
        """Let the preflight of each tailnet check whether the operator can write Tailscale Services there.

        The preflight makes this check only while *needs* returns true for the name of its tailnet.
        """
        self._needs_services = needs
        for each in self._tailnets.values():
            each.preflight.needs_services = partial(needs, each.name)

    def listen_to_names(self, listener: Callable[[], None]) -> None:
        """Call *listener* when a tailnet is registered or unregistered, or when the names of its devices change."""
        self._name_listeners.append(listener)
        for each in self._tailnets.values():
            each.devices.listen_to_names(listener)

    def listen_to_findings(self, listener: Callable[[], None]) -> None:
        """Call *listener* when the findings about a tailnet differ from those of the check before."""
        self._finding_listeners.append(listener)
        for each in self._tailnets.values():
            each.preflight.listen(listener)

    def all(self, signal: Signal) -> list[Object]:
        """Return all objects of *signal* for a resync: all Tailscale Services, but no devices.

        A Tailscale Service possibly has no object in the cluster any more, so the resync of the objects in the cluster
        doesn't cover it. That resync covers all objects that devices concern.
        """
        if signal != TAILSCALE_SERVICE:
            return []
        return [
            service_object(each.name, label) for each in self._tailnets.values() for label in each.services.labels()
        ]


def device_object(tailnet: str, device: Device) -> Object:
    """Return *device* as an object of `DEVICE`."""
    metadata = {"namespace": tailnet, "name": device.node_id}
    return {"kind": DEVICE.kind, "metadata": metadata, "aliases": sorted(lookup_names(device))}


def service_object(tailnet: str, label: str) -> Object:
    """Return the Tailscale Service with this *label* in a *tailnet* as an object of `TAILSCALE_SERVICE`."""
    return {"kind": TAILSCALE_SERVICE.kind, "metadata": {"namespace": tailnet, "name": label}}


def _await_lists(tailnets: Iterable[KnownTailnet]) -> None:
    """Request reads of the lists of devices of *tailnets*. Raises Pending if one of the lists has not been read yet."""
    unread = [each.devices.first_try() for each in tailnets if each.devices.is_pending()]
    if unread:
        raise Pending(unread[0])


def _has(devices: Devices, wanted: Iterable[str]) -> bool:
    return any(map(devices.has, wanted))


def _is_home(devices: Devices, wanted: Mapping[str, str]) -> bool:
    """Tell whether the *wanted* devices are certainly in the tailnet whose devices are *devices*.

    *wanted* has their MagicDNS names by ID. Their proxies log in at the URL of that tailnet.
    """
    return _has(devices, wanted) or devices.has_domain_of(wanted.values()) or any(map(_is_headscales, wanted))


def _may_have(tailnet: KnownTailnet, step: DeleteDevice) -> bool:
    """Tell whether the operator is allowed to ask *tailnet* to delete the device of *step*.

    It isn't if *tailnet* possibly has another device with the same ID.
    """
    if tailnet.client.url == step.url:
        return True
    if not step.url:
        return tailnet.name == step.tailnet or (step.tailnet is None and not _is_headscales(step.device))
    known = tailnet.devices.known(step.device)  # the URL of its Tailnet may have been changed
    return known is not None and bool(step.name) and lookup_name(known.name) == lookup_name(step.name)


def _was_in(tailnet: KnownTailnet, step: DeleteDevice) -> bool:
    """Tell whether the device of *step* was certainly in *tailnet*, which doesn't have it any more. Raises Pending.

    Headscale has one tailnet at a URL. Tailscale has many, but each MagicDNS domain belongs to one of them.
    """
    if _is_headscales(step.device) and tailnet.client.url == step.url:
        return True
    _await_lists([tailnet])
    return tailnet.devices.has_domain_of([step.name])


def _is_headscales(device_id: str) -> bool:
    """Tell whether Headscale gave a device this ID: IDs of Headscale are numbers, and IDs of Tailscale never are."""
    return device_id.isdecimal()


def _object_listener(tailnet: str, listener: Listener) -> Callable[[Device | None, Device | None], None]:
    def tell(old: Device | None, new: Device | None) -> None:
        listener(*(device_object(tailnet, each) if each else None for each in (old, new)))

    return tell


def _label_listener(tailnet: str, listener: Listener) -> Callable[[str], None]:
    def tell(label: str) -> None:
        obj = service_object(tailnet, label)
        listener(obj, obj)

    return tell
