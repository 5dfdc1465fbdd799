"""An event loop whose clock jumps to the next timer when nothing else is left to do, and clocks that tests move."""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Clock:
    """A clock that only a test moves, in seconds."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Pauses:
    """A replacement for sleep that records the seconds of each call instead of waiting."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)


class _JumpingSelector(selectors.SelectSelector):
    """A selector that advances a clock instead of waiting."""

    def __init__(self, advance: Callable[[float], None]) -> None:
        super().__init__()
        self._advance = advance

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("no timer is set: nothing would ever happen again")
            self._advance(max(timeout, 0))
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock starts at second 0, and whose timers take no real time."""

    def __init__(self) -> None:
        self._now = 0.0
        self.errors: list[str] = []
        super().__init__(_JumpingSelector(self._advance))

    def time(self) -> float:
        return self._now

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.errors.append(f"{context['message']}: {context.get('exception')!r}")

    def _advance(self, seconds: float) -> None:
        self._now += seconds


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run *main* in virtual time. Fail if the loop's exception handler was called."""
    loop = VirtualTimeLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        result = runner.run(main)
    assert loop.errors == []
    return result


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Turn a coroutine function into a test that runs in virtual time."""

    @functools.wraps(test)
    def in_loop(*args: P.args, **kwargs: P.kwargs) -> None:
        run(test(*args, **kwargs))

    return in_loop


def now() -> float:
    """Return the running loop's time in seconds."""
    return asyncio.get_running_loop().time()


def wall() -> datetime:
    """Return a date and time that advances with the clock of the running loop."""
    return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=now())
