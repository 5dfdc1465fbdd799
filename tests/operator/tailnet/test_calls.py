"""The calls to a control server: their callers, the number that run at once, and a server that doesn't answer."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar
from weakref import WeakSet

import pytest
from tsoperator.api.objects import Key
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.result import Pending
from tsoperator.tailnet.calls import Calls, NotAsked
from tsoperator.tsclient.errors import BadRequest, ControlError, CredentialsUnreadable, RateLimited, Unavailable

from tests.support.cluster import running
from tests.support.virtual_time import in_virtual_time, now

A, B, C, D = (Owner("svc", Key("default", name)) for name in "abcd")
REFUSED = BadRequest("no", 400, "no")

Value = TypeVar("Value")


class Server:
    """A control server with the queue of calls to it. It records the time of each call.

    At most *at_once* of the calls run together.
    """

    def __init__(self, at_once: int = 16) -> None:
        self.calls = Calls(at_once)
        self.asked: list[tuple[float, str]] = []
        self.given_up: list[ControlError] = []
        self.remembered: WeakSet[Callable[[], Awaitable[str]]] = WeakSet()

    def make(self, name: str, seconds: float, error: Exception | None = None) -> Callable[[], Awaitable[str]]:
        """Return a call that is answered with *name*, or fails, after *seconds*."""

        async def call() -> str:
            self.asked.append((now(), name))
            await asyncio.sleep(seconds)
            if error is not None:
                raise error
            return name

        self.remembered.add(call)
        return call

    def start(self, owner: Owner, name: str, seconds: float = 0.0) -> None:
        """Start a call whose result nobody waits for."""
        make = self.make(name, seconds)

        async def call() -> None:
            await make()

        self.calls.start(owner, "name", name, call, self.given_up.append)

    async def ask(self, owner: Owner, name: str, seconds: float = 0.0, error: Exception | None = None) -> str:
        return await self.calls.result(owner, "key", name, self.make(name, seconds, error))

    async def wait_for(self, owner: Owner, name: str, seconds: float = 0.0, error: Exception | None = None) -> str:
        """Ask for a result again and again until it is there, as the reconciles of a key do."""
        while True:
            try:
                return await self.ask(owner, name, seconds, error)
            except Pending as pending:
                await asyncio.wait({pending.until})

    async def begin(self, owner: Owner, name: str, seconds: float = 0.0, error: Exception | None = None) -> Pending:
        """Ask for a result that takes longer than a caller waits, and return the caller's exception."""
        with pytest.raises(Pending) as raised:
            await self.ask(owner, name, seconds, error)
        return raised.value

    async def stop_answering(self) -> Unavailable:
        """Make a call that fails because the control server doesn't answer, and return its error."""
        error = Unavailable("away")
        with pytest.raises(Unavailable):
            await self.wait_for(A, "unanswered", error=error)
        self.asked.clear()
        return error


@asynccontextmanager
async def serving(at_once: int = 16) -> AsyncIterator[Server]:
    """Yield a control server whose calls are made until the end of the block."""
    server = Server(at_once)
    async with running(server.calls.run()):
        yield server


@in_virtual_time
async def test_a_caller_waits_for_a_quick_answer_and_asks_again_for_a_slow_answer_without_a_second_call() -> None:
    async with serving() as server:
        assert await server.ask(B, "quick", 0.2) == "quick"
        pending = [await server.begin(A, "x", 10) for _ in range(3)]
        assert now() == 0.2 + 3 * 0.25
        await pending[0].until
        assert (now(), await server.ask(A, "x")) == (10.2, "x")
        await server.wait_for(A, "x")
    assert server.asked == [(0, "quick"), (0.2, "x"), (10.2, "x")]


@pytest.mark.parametrize("error", [REFUSED, Unavailable("away"), CredentialsUnreadable("no file"), KeyError("x")])
@pytest.mark.parametrize("seconds", [0.0, 10.0])
@in_virtual_time
async def test_the_caller_gets_the_error_with_which_its_call_ends(error: Exception, seconds: float) -> None:
    async with serving() as server:
        with pytest.raises(type(error)) as raised:
            await server.wait_for(A, "x", seconds, error)
        assert raised.value is error
    assert server.asked == [(0, "x")]


@in_virtual_time
async def test_a_new_call_of_an_owner_replaces_a_waiting_call_but_not_a_call_that_has_begun() -> None:
    async with serving(at_once=1) as server:
        await server.begin(A, "busy", 10)
        await server.begin(B, "x")
        await server.begin(B, "y")
        assert [*await asyncio.gather(server.wait_for(B, "y"), server.wait_for(A, "z"))] == ["y", "z"]
    assert server.asked == [(0, "busy"), (10, "y"), (10, "z")]


@in_virtual_time
async def test_each_owner_has_a_call_of_its_own_for_each_subject() -> None:
    async with serving() as server:
        await asyncio.gather(
            *(server.calls.result(owner, about, None, server.make(f"{owner.key.name} {about}", 0.1))
              for owner in (A, B) for about in ("key", "device"))
        )  # fmt: skip
    assert server.asked == [(0, "a key"), (0, "a device"), (0, "b key"), (0, "b device")]


@in_virtual_time
async def test_calls_run_in_the_order_of_their_requests_and_callers_do_not_wait_for_their_turn() -> None:
    async with serving(at_once=2) as server:
        for owner in (A, B):
            await server.begin(owner, owner.key.name, 10)
        for owner in (C, D):
            await server.begin(owner, owner.key.name, 10)
        assert now() == 0.5  # nobody waits for a call before its turn
        await server.wait_for(D, "d")
    assert server.asked == [(0, "a"), (0.25, "b"), (10, "c"), (10.25, "d")]


@pytest.mark.parametrize("error", [Unavailable("away"), RateLimited("slow down")], ids=["away", "rate limited"])
@in_virtual_time
async def test_a_call_without_an_answer_ends_all_waiting_calls_with_its_error(error: Exception) -> None:
    async with serving(at_once=1) as server:
        pending = [await server.begin(owner, "x", 10, error) for owner in (A, B, C)]
        await asyncio.wait({each.until for each in pending})
        assert now() == 10
        for owner in (B, C):
            with pytest.raises(type(error)) as raised:
                await server.ask(owner, "x")
            assert raised.value is error
    assert server.asked == [(0, "x")]


@in_virtual_time
async def test_a_control_server_that_does_not_answer_gets_one_call_at_a_time() -> None:
    async with serving() as server:
        error = await server.stop_answering()
        await server.begin(A, "first", 10, Unavailable("still away"))
        for owner in (B, C):
            with pytest.raises(Unavailable) as raised:
                await server.ask(owner, "x")
            assert raised.value is error
        assert now() == 0.25  # the callers get the error at once
        await server.begin(A, "first")
        await asyncio.sleep(10)
        await server.begin(B, "second", 10)
    assert [name for _, name in server.asked] == ["first", "second"]


@pytest.mark.parametrize("answer", [None, REFUSED], ids=["success", "refusal"])
@in_virtual_time
async def test_all_owners_can_make_calls_again_after_the_first_answer_of_the_control_server(
    answer: Exception | None,
) -> None:
    async with serving() as server:
        await server.stop_answering()
        await asyncio.gather(server.wait_for(A, "a", 1, answer), return_exceptions=True)
        for owner in (B, C, D):
            await server.begin(owner, owner.key.name, 10)
    assert [name for _, name in server.asked] == ["a", "b", "c", "d"]


@in_virtual_time
async def test_unreadable_credentials_do_not_count_as_a_missing_answer_of_the_control_server() -> None:
    async with serving() as server:
        await asyncio.gather(server.ask(A, "a", 0, CredentialsUnreadable("no file")), return_exceptions=True)
        for owner in (B, C):
            await server.begin(owner, owner.key.name, 10)
        await asyncio.sleep(10)
        await server.stop_answering()
        await asyncio.gather(server.ask(A, "a", 0, CredentialsUnreadable("no file")), return_exceptions=True)
        await server.begin(D, "d", 10)
        with pytest.raises(Unavailable):
            await server.ask(A, "b")


@in_virtual_time
async def test_the_calls_of_a_forgotten_owner_are_neither_made_nor_awaited() -> None:
    async with serving(at_once=1) as server:
        running = await server.begin(A, "a", 10)
        waiting = await server.begin(B, "b", 10)
        for owner in (A, B):
            server.calls.forget(owner)
        assert (running.until.cancelled(), waiting.until.cancelled()) == (True, True)
        await asyncio.sleep(20)
        assert await server.wait_for(A, "a") == "a"
    assert server.asked == [(0, "a"), (20.25, "a")]


@in_virtual_time
async def test_a_waiting_caller_whose_owner_is_forgotten_learns_that_its_call_was_not_made() -> None:
    async with serving() as server:
        waiting = asyncio.create_task(server.ask(A, "a", 10))
        await asyncio.sleep(0.1)
        server.calls.forget(A)
        with pytest.raises(NotAsked) as raised:
            await waiting
        assert raised.value.until.done()  # the key is reconciled again at once
        assert await server.ask(A, "b") == "b"


@in_virtual_time
async def test_no_call_is_made_to_a_control_server_after_the_registration_of_its_tailnet_has_ended() -> None:
    async with serving() as server:
        pending = await server.begin(A, "a", 10)
        server.calls.end()
        assert pending.until.done()
        with pytest.raises(NotAsked):
            await server.ask(A, "b")
        with pytest.raises(NotAsked):
            server.start(A, "c")
    assert (server.asked, server.given_up) == ([(0, "a")], [])


@in_virtual_time
async def test_an_owner_that_starts_a_call_does_not_wait_and_starts_no_other_call_until_the_call_has_ended() -> None:
    async with serving() as server:
        for name in ("x", "x", "y"):
            server.start(A, name, 10)
        assert now() == 0
        await asyncio.sleep(20)
        server.start(A, "y", 10)
        await asyncio.sleep(20)
    assert server.asked == [(0, "x"), (20, "y")]


@in_virtual_time
async def test_a_started_call_is_given_up_while_the_control_server_does_not_answer_other_calls() -> None:
    async with serving(at_once=1) as server:
        error = Unavailable("away")
        await server.begin(A, "unanswered", 10, error)
        server.start(B, "x")
        await asyncio.sleep(20)
        assert server.given_up == [error]
        await server.begin(C, "probe", 10)
        server.start(B, "x")
        assert server.given_up == [error, error]
    assert [name for _, name in server.asked] == ["unanswered", "probe"]


@in_virtual_time
async def test_an_owner_that_was_forgotten_and_has_come_back_can_start_a_call_once() -> None:
    async with serving() as server:
        server.start(A, "x", 10)
        await asyncio.sleep(5)
        server.calls.forget(A)
        for seconds in (6, 20):  # the first call has ended, the second one has not; then both have
            server.start(A, "y", 10)
            await asyncio.sleep(seconds)
    assert server.asked == [(0, "x"), (5, "y")]


@dataclass(frozen=True)
class Parent(Owner):
    """An owner to which a test can keep a weak reference, to see whether it is still remembered."""


@in_virtual_time
async def test_calls_that_have_ended_and_their_owners_are_not_remembered() -> None:
    parents = WeakSet[Parent]()

    def parent(name: str) -> Owner:
        owner = Parent("svc", Key("default", name))
        parents.add(owner)
        return owner

    async with serving() as server:
        for error in (BadRequest("no", 400, "no"), Unavailable("away"), None):
            await asyncio.gather(server.wait_for(parent("a"), "a", 10, error), return_exceptions=True)
        server.start(parent("b"), "b", 10)
        await server.begin(gone := parent("c"), "c", 10)
        server.calls.forget(gone)
        del gone
        await asyncio.sleep(20)
        gc.collect()
        assert [*server.remembered, *parents] == []


@in_virtual_time
async def test_nobody_waits_any_longer_for_calls_that_the_end_of_a_tailnets_registration_interrupts() -> None:
    server = Server(at_once=1)
    async with running(server.calls.run()):
        pending = [await server.begin(owner, "x", 10) for owner in (A, B)]
    assert [each.until.cancelled() for each in pending] == [True, True]
    async with running(server.calls.run()):
        await server.stop_answering()
    async with running(server.calls.run()):
        await server.begin(A, "x", 10)
        assert await server.wait_for(B, "y") == "y"
