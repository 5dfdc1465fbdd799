"""Makes the calls to a control server for which reconciles ask, without blocking a worker for long.

A worker waits for a call for a quarter of a second. A call that takes longer goes on in the background, and the
operator reconciles the key again when the call has ended. So a control server that accepts connections and never
answers delays no other key.

If the server hasn't answered a call, we make only one call at a time, and any other call fails at once with the same
error. This ends with the server's next answer.

A call can be forgotten before it has ended. In that case nobody knows whether the server has carried it out, so a
reconcile that waits for the call gets the exception `NotAsked` in place of an answer.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.result import Pending
from tsoperator.tsclient.errors import ControlError, CredentialsUnreadable, RateLimited, Unavailable

Answer = TypeVar("Answer")


class NotAsked(Pending):
    """An exception: the operator has forgotten the call, or the tailnet of the call is no longer registered.

    The reconcile that wanted the call has to start again.
    """


@dataclass(slots=True)
class _Call:
    """A call to the control server that waits for its turn, runs, or has ended.

    *wanted* is the value that the call sets or asks about. A call that has ended has an *answer* or an *error*. If the
    call has a function *give_up*, no reconcile waits for it, and `Calls` drops it when it ends. `Calls` keeps any other
    call until a reconcile takes its result.
    """

    owner: Owner
    about: Hashable
    wanted: Hashable
    make: Callable[[], Awaitable[Any]]
    give_up: Callable[[ControlError], None] | None
    ended: "asyncio.Future[None]"
    started: bool = False
    answer: Any = None
    error: Exception | None = None


class Calls:
    """Makes the calls to one control server in the background, while `run` runs."""

    def __init__(self, at_once: int = 16, patience: float = 0.25) -> None:
        """Run at most *at_once* calls at the same time. A reconcile waits for a call for *patience* seconds."""
        self._at_once = at_once
        self._patience = patience
        self._of_owner: dict[Owner, dict[Hashable, _Call]] = defaultdict(dict)
        self._waiting: deque[_Call] = deque()
        self._running = 0
        self._failure: ControlError | None = None
        self._turns: asyncio.Queue[_Call] = asyncio.Queue()
        self._has_ended = False

    async def run(self) -> None:
        """Make calls until cancelled.

        When cancelled, end all calls without an answer, so that no reconcile goes on waiting for them.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                while True:
                    tasks.create_task(self._make(await self._turns.get()))
        finally:
            self._forget_all()
            self._turns, self._running, self._failure = asyncio.Queue(), 0, None

    async def result(
        self, owner: Owner, about: Hashable, wanted: Hashable, make: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        """Return the result of *make*, which is called once for each *wanted* value.

        *owner* and *about* identify the call. Raises what *make* raises, Pending while the call hasn't ended, NotAsked
        if the call is forgotten, and the most recent failure while the control server gives no answer.
        """
        call = self._call(owner, about, wanted, make)
        if not call.ended.done() and call.started:
            await asyncio.wait({call.ended}, timeout=self._patience)
        if not call.ended.done():
            raise Pending(call.ended)
        if call.ended.cancelled():
            raise NotAsked(call.ended)
        self._drop(call)
        if call.wanted != wanted:  # the call was for a value that the reconcile no longer wants
            return await self.result(owner, about, wanted, make)
        if call.error is not None:
            raise call.error.with_traceback(None)
        return cast("Answer", call.answer)

    def start(
        self,
        owner: Owner,
        about: Hashable,
        wanted: Hashable,
        make: Callable[[], Awaitable[None]],
        give_up: Callable[[ControlError], None],
    ) -> None:
        """Call *make* soon, unless a call with the same *owner* and *about* is under way.

        If the control server fails to answer other calls before it is the turn of *make*, call *give_up* with their
        error instead. Raises NotAsked.
        """
        try:
            self._call(owner, about, wanted, make, give_up)
        except ControlError as error:
            give_up(error)

    def forget(self, owner: Owner) -> None:
        """Forget the calls for *owner*. A call that runs already goes on, but nobody gets its result."""
        for call in self._of_owner.pop(owner, {}).values():
            if call in self._waiting:
                self._waiting.remove(call)
            if not call.ended.done():
                call.ended.cancel()

    def end(self) -> None:
        """Forget all calls, and refuse further ones, because the registration of the tailnet has ended."""
        self._has_ended = True
        self._forget_all()

    def _forget_all(self) -> None:
        for owner in [*self._of_owner]:
            self.forget(owner)

    def _call(
        self,
        owner: Owner,
        about: Hashable,
        wanted: Hashable,
        make: Callable[[], Awaitable[Any]],
        give_up: Callable[[ControlError], None] | None = None,
    ) -> _Call:
        """Return the call that *owner* and *about* identify, or a new one. Raises ControlError, NotAsked."""
        if self._has_ended:
            over = asyncio.get_running_loop().create_future()
            over.cancel()
            raise NotAsked(over)
        there = self._of_owner.get(owner, {}).get(about)
        if there is not None and not there.started and there.wanted != wanted:
            there.wanted, there.make = wanted, make
        if there is not None:
            return there
        if self._failure is not None and self._running:
            raise self._failure.with_traceback(None)
        call = _Call(owner, about, wanted, make, give_up, asyncio.get_running_loop().create_future())
        self._of_owner[owner][about] = call
        self._waiting.append(call)
        self._give_turns()
        return call

    def _drop(self, call: _Call) -> None:
        calls = self._of_owner.get(call.owner, {})
        if calls.get(call.about) is call:
            del calls[call.about]
        if not calls:
            self._of_owner.pop(call.owner, None)

    def _give_turns(self) -> None:
        """Start the calls that have waited longest, but at most as many as are allowed to run at the same time."""
        while self._waiting and self._running < self._at_once:
            call = self._waiting.popleft()
            call.started = True
            self._running += 1
            self._turns.put_nowait(call)

    async def _make(self, call: _Call) -> None:
        try:
            call.answer = await call.make()
        except Exception as error:  # noqa: BLE001 (whoever asked for the call gets the error)
            call.error = error
        self._running -= 1
        self._note(call.error)
        self._end(call)
        self._give_turns()

    def _end(self, call: _Call) -> None:
        if call.give_up is not None:
            self._drop(call)
        if not call.ended.done():
            call.ended.set_result(None)

    def _note(self, error: Exception | None) -> None:
        """Note whether the control server answers. If it doesn't, end all waiting calls with this *error*."""
        if isinstance(error, CredentialsUnreadable):
            return  # the control server was not asked
        self._failure = error if isinstance(error, Unavailable | RateLimited) else None
        if self._failure is None:
            return
        while self._waiting:
            call = self._waiting.popleft()
            call.error = self._failure
            self._end(call)
            if call.give_up is not None:
                call.give_up(self._failure)
