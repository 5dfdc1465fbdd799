"""The tailnets that the operator knows, each as one object: its control server, devices, auth keys and upkeep."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from tsoperator.api.device import Device, lookup_names
from tsoperator.api.objects import DEVICE, Object, Resource
from tsoperator.desired.children import Owner
from tsoperator.desired.devices import Destination, Holder, TailnetView
from tsoperator.desired.login import Keys, Login
from tsoperator.desired.plan import ControlStep
from tsoperator.kube.client import KubeClient
from tsoperator.runtime.cache import Cache, Listener
from tsoperator.runtime.result import Pending
from tsoperator.tailnet.authkeys import AuthKeys
from tsoperator.tailnet.calls import Calls
from tsoperator.tailnet.devices import Devices
from tsoperator.tailnet.preflight import Findings, Preflight
from tsoperator.tailnet.upkeep import DeviceUpkeep
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.errors import ControlError

log = logging.getLogger(__name__)

OWN: Final = ""
"""The name of the operator's own tailnet."""

_PAUSE: Final = 10.0  # s until a tailnet whose run has failed is followed again


class UnknownTailnet(ControlError):
    """There is no such Tailnet, or it can't be used."""


class Tailnet:
    """One tailnet, for the proxies that join it."""

    def __init__(
        self,
        client: TailnetClient,
        kube: KubeClient,
        cache: Cache,
        preflight: Preflight,
        name: str = OWN,
        devices: Devices | None = None,
    ) -> None:
        """*kube* reads Secrets of proxies live; *cache* finds them by device."""
        self.name = name
        self.devices = devices or Devices(client)
        self.client = client
        self.preflight = preflight
        self._calls = Calls()
        self._auth_keys = AuthKeys(kube, client, self._calls)
        self._upkeep = DeviceUpkeep(client, self.devices, self._calls, cache)

    async def run(self) -> None:
        """Follow the devices, make calls, and look whether the tailnet is set up, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.preflight.run())
            tasks.create_task(self._calls.run())
            tasks.create_task(self.devices.follow())

    def view(self, owner: Owner, device_ids: Iterable[str], destination: str = "") -> TailnetView:
        """Return what the proxies of *owner* have to know of the tailnet.

        *device_ids* are the IDs of their devices. *destination* is the MagicDNS name or address that an egress proxy
        leads to.
        """
        found = {node_id: device for node_id in device_ids if (device := self.devices.get(node_id)) is not None}
        return TailnetView(
            self.name,
            self.client.url,
            found,
            self._upkeep.failures(owner),
            self._upkeep.news(owner),
            self._destination(destination) if destination else None,
            holders=self._holders(found),
        )

    async def auth_keys(self, login: Login) -> Keys:
        """Return the auth keys that replicas need, minted if need be. Raises KubeError, ControlError, Pending."""
        return await self._auth_keys.obtain(login)

    async def carry_out(self, step: ControlStep) -> None:
        """Ask the control server for what *step* says. Raises ControlError, Pending."""
        await self._upkeep.carry_out(step)

    def news_told(self, owner: Owner) -> None:
        """Forget the news that `view` returned last to *owner*, because *owner* has reported them."""
        self._upkeep.news_told(owner)

    def forget(self, owner: Owner) -> None:
        """Forget the proxies of *owner*, which has none any more."""
        self._auth_keys.forget(owner)
        self._upkeep.forget(owner)
        self._calls.forget(owner)

    def _holders(self, found: Mapping[str, Device]) -> dict[str, Holder]:
        """Return which devices have the names that those *found* asked for, where these got others."""
        asked = {node_id: each.hostname.lower() for node_id, each in found.items()}
        others = {node_id: name for node_id, name in asked.items() if name != found[node_id].short_name.lower()}
        holders = ((node_id, self.devices.at(name)) for node_id, name in others.items())
        return {node_id: self._upkeep.holder(device) for node_id, device in holders if device is not None}

    def _destination(self, text: str) -> Destination:
        departed = self.devices.departed(text)
        moved = self.devices.known(departed.node_id) if departed else None
        return Destination(text, self.devices.at(text), departed, moved)


class Tailnets:
    """The tailnets by name; a change of a device in one is a watch event of `DEVICE`.

    Each is followed from its registration to its end, and what was remembered of it ends with it. A Tailnet may be
    registered and refused to newcomers: then what already runs in it goes on.
    """

    def __init__(
        self, tailnets: Iterable[Tailnet], exists: Callable[[str], bool] = lambda name: False, pause: float = _PAUSE
    ) -> None:
        """*exists* tells whether there is a Tailnet with that name.

        A tailnet is followed again *pause* seconds after that has failed; a failure of the operator's own is raised.
        """
        self._tailnets = {each.name: each for each in tailnets}
        self._exists = exists
        self._pause = pause
        self._refusals: dict[str, str] = {}
        self._awaited: dict[str, asyncio.Future[None]] = {}
        self._listeners: list[Listener] = []
        self._name_listeners: list[Callable[[], None]] = []
        self._tasks: asyncio.TaskGroup | None = None
        self._running: dict[str, asyncio.Task[Any]] = {}

    def at(self, name: str) -> Tailnet:
        """Return the tailnet called *name*, `OWN` for the operator's.

        Raises UnknownTailnet if there is none that can be used, and Pending if nobody has looked at it yet.
        """
        if name != OWN and not self._exists(name):
            raise UnknownTailnet(f"there is no Tailnet {name!r}: create it, with credentials for the tailnet")
        if (found := self._tailnets.get(name)) is not None:
            return found
        if name != OWN and name not in self._refusals:
            raise Pending(self._awaited.setdefault(name, asyncio.get_running_loop().create_future()))
        raise UnknownTailnet(self.refusal(name) or "the operator has no tailnet of its own")

    def refusal(self, name: str) -> str:
        """Return why no newcomer may use the tailnet called *name*; empty if it may."""
        why = self._refusals.get(name)
        return f"Tailnet {name!r} can't be used: {why}" if why else ""

    def registered(self, name: str) -> Tailnet | None:
        """Return the tailnet that is registered as *name*."""
        return self._tailnets.get(name)

    def is_pending(self, name: str) -> bool:
        """Tell whether nobody has looked at the tailnet called *name* yet, or read the list of its devices."""
        found = self._tailnets.get(name)
        return found.devices.is_pending() if found else name != OWN and name not in self._refusals

    def all_registered(self) -> list[Tailnet]:
        """Return the tailnets that are registered."""
        return [*self._tailnets.values()]

    def home(self, name: str, url: str, devices: Mapping[str, str]) -> str:
        """Return the name of the tailnet that has *devices*, whose proxies should be in the one called *name*.

        *devices* are their MagicDNS names by ID, and *url* is where the proxies log in. At one URL there may be several
        tailnets, and several Tailnets may be for the same one. Devices of different servers may have the same ID. So
        the answer is *name* unless the devices are certainly elsewhere.
        """
        there = {each.name: each.devices for each in self._tailnets.values() if each.client.url == url}
        named = there.pop(name, None)
        if named is None and len(there) == 1:
            return next(iter(there))
        if named is not None and (_knows(named, devices) or not named.lacks_domains_of(devices.values())):
            return name
        return next((other for other, known in there.items() if _knows(known, devices)), name)

    async def find(self, url: str, device_ids: Iterable[str]) -> str:
        """Return the name of the tailnet that has devices with these IDs, whose proxies log in at *url*.

        If the devices are gone, this is any tailnet at that URL. Raises ControlError if a list of devices can't be
        read, and UnknownTailnet if there is no tailnet at that URL.
        """
        there = [each for each in self._tailnets.values() if each.client.url == url]
        if not there:
            raise UnknownTailnet(
                f"no Tailnet is for the control server {url}: make one, so that devices can be deleted"
            )
        for each in there if len(there) > 1 else ():
            await each.devices.refresh()
        wanted = [*device_ids]
        return next((each for each in there if _knows(each.devices, wanted)), there[0]).name

    def findings(self) -> Mapping[str, Findings]:
        """Return what was last found missing in each tailnet."""
        return {name: each.preflight.findings for name, each in self._tailnets.items()}

    def register(self, tailnet: Tailnet) -> None:
        """Follow *tailnet* from now on, in place of the one that has its name."""
        self._end(tailnet.name)
        self._tailnets[tailnet.name] = tailnet
        for listener in self._listeners:
            tailnet.devices.listen(_telling(tailnet.name, listener))
        for tell in self._name_listeners:
            tailnet.devices.listen_to_names(tell)
            tell()
        self._start(tailnet)

    def refuse(self, name: str, why: str) -> None:
        """Refuse the tailnet called *name* to newcomers, or let them use it if *why* is empty."""
        self._refusals[name] = why
        if (awaited := self._awaited.pop(name, None)) is not None and not awaited.done():
            awaited.set_result(None)

    def unregister(self, name: str) -> None:
        """Forget the tailnet called *name*, and end what follows it."""
        self._end(name)
        for tell in self._name_listeners:
            tell()
        self.refuse(name, "")  # nobody waits for it any more
        del self._refusals[name]

    async def run(self) -> None:
        """Follow all of them, and those that are registered later, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                for each in self._tailnets.values():
                    self._start(each)
                await asyncio.Event().wait()
            finally:
                self._tasks = None
                self._running.clear()

    def _start(self, tailnet: Tailnet) -> None:
        if self._tasks is not None:
            following = tailnet.run() if tailnet.name == OWN else self._follow(tailnet)
            self._running[tailnet.name] = self._tasks.create_task(following, name=f"tailnet {tailnet.name}")

    async def _follow(self, tailnet: Tailnet) -> None:
        """Follow *tailnet* until cancelled, whatever goes wrong with it: the others must go on."""
        while True:
            try:
                await tailnet.run()
            except Exception:
                log.exception("Tailnet %s can't be followed; it is tried again in %g s", tailnet.name, self._pause)
            await asyncio.sleep(self._pause)

    def _end(self, name: str) -> None:
        self._tailnets.pop(name, None)
        if (task := self._running.pop(name, None)) is not None:
            task.cancel()

    async def carry_out(self, step: ControlStep) -> None:
        """Ask the control server of the tailnet that *step* names. Raises ControlError, Pending."""
        await self.at(step.tailnet).carry_out(step)

    def news_told(self, owner: Owner) -> None:
        """Forget the news that `Tailnet.view` returned last to *owner*, because *owner* has reported them."""
        for each in self._tailnets.values():
            each.news_told(owner)

    def forget(self, owner: Owner) -> None:
        """Forget the proxies of *owner* in every tailnet."""
        for each in self._tailnets.values():
            each.forget(owner)

    def listen(self, resource: Resource, listener: Listener) -> None:
        """Call *listener* at every change of a device, with the old and the new one as objects of `DEVICE`."""
        if resource != DEVICE:
            return
        self._listeners.append(listener)
        for each in self._tailnets.values():
            each.devices.listen(_telling(each.name, listener))

    def listen_to_names(self, listener: Callable[[], None]) -> None:
        """Call *listener* when a tailnet comes or goes, and when the names of a tailnet's devices change."""
        self._name_listeners.append(listener)
        for each in self._tailnets.values():
            each.devices.listen_to_names(listener)

    def all(self, resource: Resource) -> list[Object]:
        """Return nothing. A resync enqueues the objects that devices concern by their own kinds."""
        del resource
        return []


def device_object(tailnet: str, device: Device) -> Object:
    """Return *device* as an object of `DEVICE`."""
    metadata = {"namespace": tailnet, "name": device.node_id}
    return {"kind": DEVICE.kind, "metadata": metadata, "aliases": sorted(lookup_names(device))}


def _knows(devices: Devices, wanted: Iterable[str]) -> bool:
    return any(map(devices.known, wanted))


def _telling(tailnet: str, listener: Listener) -> Callable[[Device | None, Device | None], None]:
    def tell(old: Device | None, new: Device | None) -> None:
        listener(*(device_object(tailnet, each) if each else None for each in (old, new)))

    return tell
