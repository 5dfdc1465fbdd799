"""One tailnet that the operator knows: its control server, devices, Tailscale Services, auth keys and upkeep."""

import asyncio
from collections.abc import Iterable, Mapping

from tsoperator.api.device import Device
from tsoperator.kube.client import KubeClient
from tsoperator.proxy.devices import Destination, Holder, TailnetView
from tsoperator.proxy.login import Keys, Login
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import ControlStep, DeleteDevice, DeleteService, PutService
from tsoperator.tailnet.authkeys import AuthKeys
from tsoperator.tailnet.calls import Calls
from tsoperator.tailnet.devices import Devices
from tsoperator.tailnet.preflight import Preflight
from tsoperator.tailnet.services import Services
from tsoperator.tailnet.upkeep import DeviceUpkeep
from tsoperator.tsclient.client import TailnetClient


class KnownTailnet:
    """A tailnet that the operator knows, with everything that the operator needs for the proxies that join it."""

    def __init__(
        self,
        client: TailnetClient,
        kube: KubeClient,
        cache: Cache,
        preflight: Preflight,
        name: str = "",
        devices: Devices | None = None,
    ) -> None:
        """*name* is empty for the operator's own tailnet.

        *kube* reads Secrets of proxies from the API server, and *cache* finds such Secrets by device.
        """
        self.name = name
        self.devices = devices or Devices(client)
        self.client = client
        self.preflight = preflight
        self._calls = Calls()
        self._auth_keys = AuthKeys(kube, client, self._calls)
        self._upkeep = DeviceUpkeep(client, self.devices, self._calls, cache)
        self.services = Services(client, self._calls, self.devices)
        self.devices.listen(self.services.device_changed)
        preflight.listen(self.devices.retry)
        preflight.listen(self.services.retry)
        preflight.listen(self._upkeep.retry)

    async def run(self) -> None:
        """Follow the devices and the Tailscale Services, and make calls, until cancelled.

        Also check regularly whether the tailnet is set up.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.preflight.run())
            tasks.create_task(self._calls.run())
            tasks.create_task(self.devices.follow())
            tasks.create_task(self.services.follow())

    def view(self, owner: Owner, device_ids: Iterable[str], destination: str = "") -> TailnetView:
        """Return the tailnet as the proxies of *owner* see it.

        *device_ids* are the IDs of these proxies' devices. *destination* is the MagicDNS name or address to which an
        egress proxy leads.
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
            is_listed=self.devices.names() is not None,
        )

    async def auth_keys(self, login: Login) -> Keys:
        """Return the auth keys that replicas of *login* need; mint missing ones. Raises KubeError, ControlError."""
        return await self._auth_keys.obtain(login)

    async def carry_out(self, step: ControlStep) -> None:
        """Make the request of *step* to the control server. Raises ControlError, Pending."""
        if isinstance(step, PutService | DeleteService):
            await self.services.carry_out(step)
        else:
            await self._upkeep.carry_out(step)

    async def delete(self, step: DeleteDevice) -> bool:
        """Delete a device; return False if this tailnet has no such device. Raises ControlError, Pending."""
        return await self._upkeep.delete(step)

    def end(self) -> None:
        """Make no more requests, because the tailnet is no longer registered, and wake everybody who waits."""
        self._calls.end()
        self.devices.wake()
        self.services.end()

    def news_told(self, owner: Owner) -> None:
        """Forget the news that *owner* has reported: those in the most recent `view` for *owner*."""
        self._upkeep.news_told(owner)

    def forget(self, owner: Owner) -> None:
        """Forget all facts about the proxies of *owner*, which has no proxies any more."""
        self._auth_keys.forget(owner)
        self._upkeep.forget(owner)
        self._calls.forget(owner)

    def _holders(self, found: Mapping[str, Device]) -> dict[str, Holder]:
        """Return the devices that have the names for which devices in *found* asked in vain.

        The keys of the result are the IDs of the devices that asked.
        """
        asked = {node_id: each.hostname.lower() for node_id, each in found.items()}
        others = {node_id: name for node_id, name in asked.items() if name != found[node_id].short_name.lower()}
        holders = ((node_id, self.devices.at(name)) for node_id, name in others.items())
        return {node_id: self._upkeep.holder(device) for node_id, device in holders if device is not None}

    def _destination(self, text: str) -> Destination:
        departed = self.devices.departed(text)
        moved = self.devices.known(departed.node_id) if departed else None
        return Destination(text, self.devices.at(text), departed, moved)
