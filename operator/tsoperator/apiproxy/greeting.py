"""Pings callers after tailscaled has restarted, so that they needn't wait until their devices notice the restart.

The device of a caller still has a WireGuard session with the tailscaled that ended. The device sends the first packet
of a new session too early, and tries again only after five seconds. A ping from our side begins a new session at once.
"""

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from tsoperator.apiproxy.errors import CallerUnknown
from tsoperator.apiproxy.localapi import LocalApi

log = logging.getLogger(__name__)

MOST_GREETED: Final = 100
"""The greatest number of devices that we ping after a start of tailscaled."""
_RECENT: Final = 600.0
"""The seconds for which a caller counts as recent."""
_LONGEST_PAUSE: Final = 2.0
"""The most seconds between two questions whether tailscaled is connected. It can take long until somebody approves the
device of tailscaled."""
_RUNNING: Final = "Running"


class RecentCallers:
    """The addresses of recent callers, the latest one first; at most as many as we ping."""

    def __init__(self) -> None:
        self._called: OrderedDict[str, float] = OrderedDict()

    def note(self, address: str, now: float) -> None:
        """Remember that a caller with *address* has sent a request at the time *now*."""
        self._called[address] = now
        self._called.move_to_end(address)
        if len(self._called) > MOST_GREETED:
            self._called.popitem(last=False)

    def since(self, now: float) -> Sequence[str]:
        """Return the addresses of the callers in the ten minutes before *now*."""
        return [address for address, when in reversed(self._called.items()) if when > now - _RECENT]


def online_peers(status: bytes) -> Sequence[str]:
    """Return an address of each peer that is online; devices of users come first, and at most `MOST_GREETED` in all.

    *status* is tailscaled's status as JSON. Raises ValueError if *status* can't be read.
    """
    try:
        peers = (json.loads(status).get("Peer") or {}).values()
        online = [peer for peer in peers if peer.get("Online") and peer.get("TailscaleIPs")]
        online.sort(key=lambda peer: bool(peer.get("Tags")))
        return [str(peer["TailscaleIPs"][0]) for peer in online[:MOST_GREETED]]
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise ValueError("the status of tailscaled can't be read") from error


def is_running(status: bytes) -> bool:
    """Tell whether tailscaled is connected to its tailnet, by its *status*."""
    try:
        return bool(json.loads(status)["BackendState"] == _RUNNING)
    except (LookupError, TypeError, ValueError, RecursionError):
        return False


class Greeter:
    """Pings devices after each start of tailscaled. The proxy works even if the pings fail.

    The greeter keeps a connection to tailscaled open: the end of the connection shows that tailscaled has ended. After
    that, the greeter asks again and again whether tailscaled is back; *pause* is the first pause between two questions,
    in seconds.
    """

    def __init__(self, local_api: LocalApi, callers: RecentCallers, pause: float = 0.1) -> None:
        self._local_api = local_api
        self._callers = callers
        self._pause = pause

    async def run(self) -> None:
        """Ping the devices after each start of tailscaled, until cancelled."""
        while True:
            await self._until_running()
            try:
                await self._greet()
            except (CallerUnknown, ValueError) as error:
                log.debug("no greetings: %s", error)
            await self._local_api.until_it_ends()
            await asyncio.sleep(self._pause)

    async def _until_running(self) -> None:
        pause = self._pause
        while True:
            try:
                if is_running(await self._local_api.status()):
                    return
            except CallerUnknown:
                log.debug("tailscaled isn't back yet")
            await asyncio.sleep(pause)
            pause = min(pause * 1.1, _LONGEST_PAUSE)

    async def _greet(self) -> None:
        """Ping the recent callers. If there are none, as in a new Pod, ping the peers that are online."""
        recent = self._callers.since(asyncio.get_running_loop().time())
        addresses = recent or online_peers(await self._local_api.status(peers=True))
        async with asyncio.TaskGroup() as group:
            for address in addresses:
                group.create_task(self._ping(address))

    async def _ping(self, address: str) -> None:
        for _ in range(2):
            try:
                await self._local_api.ping(address)
            except CallerUnknown as error:
                log.debug("%s doesn't answer a greeting: %s", address, error)
            else:
                return
