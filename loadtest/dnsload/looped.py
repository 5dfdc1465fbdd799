"""The engine for low rates, on asyncio. It is also the only engine that sends malformed packets by TCP."""

import asyncio
import contextlib
import selectors
from collections.abc import Callable, Sequence

from dnsload.channels import Channel
from dnsload.exchange import Exchange
from dnsload.schedule import SECOND, Pacing
from dnsload.session import Session, clock, over, sending_over
from dnsload.targets import Target

_LONGEST_SLEEP = 0.02
_SENDS_A_TURN = 4
"""The number of queries that are sent in one turn of the event loop, in which each socket reads only one answer.

The number is small, so that a client that lags behind its schedule still reads its answers.
"""
MakeChannel = Callable[[Session, Target, Callable[[], None]], Channel]


def fine_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop that sleeps with microsecond precision. The default, epoll, rounds up to milliseconds."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


class LoopedEngine:
    """The engine: sends queries and receives answers until the run is over.

    If it is cancelled, the recording has the results until then.
    """

    def __init__(self, session: Session, targets: Sequence[Target], make_channel: MakeChannel) -> None:
        self._session = session
        self._recording = session.recording
        self._targets = targets
        self._make_channel = make_channel
        self._woken = asyncio.Event()
        self._channels: list[Channel] = []
        self._apart: list[Channel] = []
        """Channels for malformed packets only, because a server can close the connection that brought one."""
        self._turn = 0
        self.exchanges: list[Exchange] = []

    async def run(self) -> None:
        """Send queries and receive answers until the run is over."""
        self._make_channels()
        async with asyncio.TaskGroup() as group:
            serving = [group.create_task(channel.serve()) for channel in self._every_channel]
            await self._connect()
            start = clock()
            self._recording.begin(start)
            pacing = self._session.pacing(start)
            housekeeping = group.create_task(self._housekeep())
            try:
                await self._generate(pacing)
            finally:
                now = clock()
                self._recording.tally.unsent += pacing.unsent(min(now, pacing.ends))
                self._count_drops()
                self._recording.end(now)
                for task in (housekeeping, *serving):
                    task.cancel()

    def _make_channels(self) -> None:
        def make(target: Target) -> Channel:
            return self._make_channel(self._session, target, self._woken.set)

        self._channels = [make(target) for target in self._targets]
        if self._session.workload.has_malformed:
            self._apart = [make(target) for target in dict.fromkeys(self._targets)]
        self.exchanges += (channel.exchange for channel in self._every_channel)

    @property
    def _every_channel(self) -> Sequence[Channel]:
        return self._channels + self._apart

    async def _connect(self) -> None:
        """Wait until all channels are open, but not longer than the time-out of a query."""
        with contextlib.suppress(TimeoutError):  # a query on a channel that isn't open yet is lost
            async with asyncio.timeout(self._session.timeout):
                for channel in self._every_channel:
                    await channel.ready.wait()

    async def _generate(self, pacing: Pacing) -> None:
        while not over(pacing, self.exchanges, clock()):
            self._woken.clear()
            await self._send(pacing)
            self._expire()
            await self._wait(pacing)

    async def _send(self, pacing: Pacing) -> None:
        now = clock()
        if sending_over(pacing, now):
            return
        outstanding = sum(exchange.outstanding for exchange in self.exchanges)
        for intended in pacing.due(now, outstanding, self._room()):
            places = self._session.workload.choose(1)
            asked = self._session.workload.pool[places[0]]
            channel = self._next_channel(self._channels if asked.question else self._apart)
            exchange = channel.exchange
            number = exchange.next_id
            exchange.open(places, [intended], clock(), self._recording.tally)
            if channel.ready.is_set():
                await channel.send(number.to_bytes(2) + asked.packet)
            else:
                exchange.abandon(self._recording.tally)

    def _room(self) -> int:
        """Return the number of queries that can be sent now on any channel."""
        return min(_SENDS_A_TURN, *(exchange.room for exchange in self.exchanges))

    def _next_channel(self, channels: Sequence[Channel]) -> Channel:
        """Return the next of *channels* in turn. Channels that aren't ready are left out if others are ready."""
        ready = [channel for channel in channels if channel.ready.is_set()] or channels
        self._turn += 1
        return ready[self._turn % len(ready)]

    async def _wait(self, pacing: Pacing) -> None:
        due = pacing.next_due()
        seconds = _LONGEST_SLEEP if due is None else min(max((due - clock()) / SECOND, 0), _LONGEST_SLEEP)
        if due is not None:
            await asyncio.sleep(seconds)
            return
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return

    def _expire(self) -> None:
        now = clock()
        for exchange in self.exchanges:
            exchange.expire(now, self._recording.tally)
        self._recording.tally.flush_some()

    async def _housekeep(self) -> None:
        """Once a second, end the recording's current second."""
        while True:
            await asyncio.sleep(max(self._recording.next_turn - clock(), 0) / SECOND)
            self._count_drops()
            self._recording.turn(clock())

    def _count_drops(self) -> None:
        self._recording.tally.client_drops += sum(channel.new_drops() for channel in self._every_channel)
