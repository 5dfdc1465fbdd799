"""Looks up the hostnames of load balancers in the background, so that no worker waits for DNS."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final

from tsoperator.api.objects import Key, Signal
from tsoperator.reconcilers.peerrelay.endpoints import Resolved
from tsoperator.runtime.feeds import Announcer
from tsoperator.runtime.workqueue import Backoff

ADDRESSES: Final = Signal("Addresses")
"""The signal that announces changes of the addresses of load balancers.

Each object has the name of the PeerRelay whose load balancer has other addresses now.
"""

Resolve = Callable[[str], Awaitable[Sequence[str]]]
"""The function that returns the IPv4 addresses of a host. Raises OSError or UnicodeError if there are none."""

_TIMEOUT: Final = 5.0  # s that one look-up may take
_FRESH: Final = 300.0  # s after which a hostname that has addresses is looked up again
_RETRY: Final = Backoff(first=2.0, cap=60.0)
_AT_ONCE: Final = 8  # look-ups, each of which occupies a thread of the platform's resolver


async def resolve_ipv4(host: str) -> Sequence[str]:
    """Return the IPv4 addresses of *host*, as the platform's resolver finds them. Raises OSError, UnicodeError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, None, family=socket.AF_INET, type=socket.SOCK_DGRAM)
    return [str(address[0]) for *_, address in found]


class HostAddresses:
    """Looks up the hostnames of each PeerRelay's load balancers again and again, while `run` runs.

    It keeps the addresses, so that `follow` can return them at once.
    """

    def __init__(self, resolve: Resolve = resolve_ipv4, retry: Backoff = _RETRY) -> None:
        """*resolve* looks up a hostname. *retry* says how long to wait after a failed look-up of a hostname."""
        self._resolve = resolve
        self._retry = retry
        self._followed: dict[Key, frozenset[str]] = {}
        self._known: dict[str, Resolved] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self.feed = Announcer(ADDRESSES)
        """Announces each PeerRelay whose addresses change."""

    def follow(self, relay: Key, hosts: Collection[str]) -> Mapping[str, Resolved]:
        """Look up *hosts*, and no others, for the PeerRelay *relay* from now on. Return the answers known so far."""
        if frozenset(hosts) != self._followed.get(relay, frozenset()):
            self._followed[relay] = frozenset(hosts)
            if not hosts:
                del self._followed[relay]
            self._changed.set()
        return {host: self._known[host] for host in hosts if host in self._known}

    async def run(self) -> None:
        """Look up hostnames until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                while True:
                    wanted = {host for hosts in self._followed.values() for host in hosts}
                    for host in self._running.keys() - wanted:
                        self._running.pop(host).cancel()
                        self._known.pop(host, None)
                    for host in wanted - self._running.keys():
                        self._running[host] = tasks.create_task(self._keep(host))
                    await self._changed.wait()
                    self._changed.clear()
        finally:
            self._followed, self._known, self._running = {}, {}, {}

    async def _keep(self, host: str) -> None:
        """Look up *host* again and again, and remember the latest answer."""
        failures = 0
        while True:
            async with self._turns:
                found = await self._look_up(host)
            failures = failures + 1 if found.failure else 0
            if found != self._known.get(host):
                self._known[host] = found
                self._announce(host)
            await asyncio.sleep(self._retry.delay(failures - 1) if failures else _FRESH)

    async def _look_up(self, host: str) -> Resolved:
        try:
            async with asyncio.timeout(_TIMEOUT):
                found = await self._resolve(host)
        except TimeoutError:
            return Resolved(failure=f"no answer within {_TIMEOUT:g} s")
        except OSError as error:
            return Resolved(failure=error.strerror or str(error))
        except UnicodeError:
            return Resolved(failure="it is no hostname")
        return Resolved(tuple(sorted({*found}))) if found else Resolved(failure="no address")

    def _announce(self, host: str) -> None:
        for relay in [name for name, hosts in self._followed.items() if host in hosts]:
            self.feed.announce(relay.name)
