"""The tailnets that the operator knows, each as one object: its control server, devices, auth keys and upkeep."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from tsoperator.api.device import Device, lookup_names
from tsoperator.api.objects import DEVICE, Object, Resource
from tsoperator.desired.children import Owner
from tsoperator.desired.devices import Destination, TailnetView
from tsoperator.desired.login import Keys, Login
from tsoperator.desired.plan import ControlStep
from tsoperator.kube.client import KubeClient
from tsoperator.runtime.cache import Cache, Listener
from tsoperator.tailnet.authkeys import AuthKeys
from tsoperator.tailnet.calls import Calls
from tsoperator.tailnet.devices import Devices
from tsoperator.tailnet.preflight import Preflight
from tsoperator.tailnet.upkeep import DeviceUpkeep
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.errors import ControlError

OWN: Final = ""
"""The name of the operator's own tailnet."""


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
        self._login_url = client.url
        self._preflight = preflight
        self._calls = Calls()
        self._auth_keys = AuthKeys(kube, client, self._calls)
        self._upkeep = DeviceUpkeep(client, self.devices, self._calls, cache)

    async def run(self) -> None:
        """Follow the devices, make calls, and look whether the tailnet is set up, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._preflight.run())
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
            self._login_url,
            found,
            self._upkeep.failures(owner),
            self._upkeep.news(owner),
            self._destination(destination) if destination else None,
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

    def _destination(self, text: str) -> Destination:
        departed = self.devices.departed(text)
        moved = self.devices.known(departed.node_id) if departed else None
        return Destination(text, self.devices.at(text), departed, moved)


class Tailnets:
    """The tailnets by name; a change of a device in one is a watch event of `DEVICE`."""

    def __init__(self, tailnets: Iterable[Tailnet]) -> None:
        self._tailnets = {each.name: each for each in tailnets}

    def at(self, name: str) -> Tailnet:
        """Return the tailnet called *name*, `OWN` for the operator's. Raises UnknownTailnet."""
        if name not in self._tailnets:
            raise UnknownTailnet(f"this version of the operator can't use Tailnet {name!r}")
        return self._tailnets[name]

    async def run(self) -> None:
        """Follow all of them until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for each in self._tailnets.values():
                tasks.create_task(each.run())

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
        for each in self._tailnets.values() if resource == DEVICE else ():
            each.devices.listen(_telling(each.name, listener))

    def all(self, resource: Resource) -> list[Object]:
        """Return nothing. A resync enqueues the objects that devices concern by their own kinds."""
        del resource
        return []


def device_object(tailnet: str, device: Device) -> Object:
    """Return *device* as an object of `DEVICE`."""
    metadata = {"namespace": tailnet, "name": device.node_id}
    return {"kind": DEVICE.kind, "metadata": metadata, "aliases": sorted(lookup_names(device))}


def _telling(tailnet: str, listener: Listener) -> Callable[[Device | None, Device | None], None]:
    def tell(old: Device | None, new: Device | None) -> None:
        listener(*(device_object(tailnet, each) if each else None for each in (old, new)))

    return tell
