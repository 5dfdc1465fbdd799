"""Candidates for the Lease in virtual time, and a diary that fails if two of them lead at once."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta

from tsoperator.runtime.holder import Process
from tsoperator.runtime.leader import LeaderElector

from tests.operator.runtime.lease_server import KEY, Fate, LeaseServer, Link, OperatorPod
from tests.support.virtual_time import now, wall


class Diary:
    """A record of the times for which each candidate led, and of the processes that electors had to abort."""

    def __init__(self) -> None:
        self.leading: list[str] = []
        self.terms: list[tuple[str, float, float]] = []
        self.aborted: list[tuple[str, float]] = []

    def work(self, name: str, seconds: float = 1e6, slow_stop: float = 0) -> Callable[[], Awaitable[None]]:
        async def work() -> None:
            start = now()
            self.leading.append(name)
            assert self.leading == [name], "two lead at once"
            try:
                await asyncio.sleep(seconds)
            finally:
                await linger(slow_stop)
                self.leading.remove(name)
                self.terms.append((name, start, now()))

        return work

    def elector(self, link: Link, process: Process, skew: float = 0) -> LeaderElector:
        """Return the elector of *process*. It uses *link*, and the clock of its machine is *skew* seconds fast."""
        return LeaderElector(
            link,
            KEY,
            process,
            wall=lambda: wall() + timedelta(seconds=skew),
            abort=lambda: self.aborted.append((process.identity, now())),
        )


async def linger(seconds: float) -> None:
    """Sleep for *seconds* in spite of cancellations, like work that cleans up and is cancelled again."""
    end = now() + seconds
    while now() < end:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(end - now())


class Candidate:
    """An elector, and its link to a server. Its work continues until somebody stops the candidate."""

    def __init__(
        self,
        server: LeaseServer,
        diary: Diary,
        name: str,
        fates: Iterable[Fate] = (),
        pod: OperatorPod | None = None,
    ) -> None:
        """Create a candidate that runs in the newest container of *pod*, or outside Pods if *pod* is None."""
        process = Process(name, pod.name, pod.bound_to) if pod else Process(name)
        self.link = Link(server, fates, pod.bound_to if pod else "")
        self.elector = diary.elector(self.link, process, pod.skew if pod else 0)
        self._diary = diary
        self._name = name

    async def lead(self, until: float, slow_stop: float = 0) -> None:
        """Take part in the election, lead if elected, and shut down at the time *until*.

        After that, the work takes *slow_stop* seconds to stop.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self.elector.lead(self._diary.work(self._name, slow_stop=slow_stop))
