"""Virtual time for a World: the clock jumps to the next timer once sockets and threads have had a moment to act."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

_MOMENT = 0.001  # s of real time: the longest wait for data that was sent, which costs no CPU


class _PatientSelector(selectors.DefaultSelector):
    """A selector that waits a moment for real events, and advances a clock if there are none."""

    def __init__(self, elapse: Callable[[float], None]) -> None:
        super().__init__()
        self._elapse = elapse

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        ready = super().select(_MOMENT)
        if not ready:
            self._elapse(timeout or 0.0)
        return ready


class PatientLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer, after a moment of real time for sockets and threads."""

    def __init__(self) -> None:
        self._now = 0.0
        self._threads = 0
        super().__init__(_PatientSelector(self._elapse))

    def time(self) -> float:
        return self._now

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Arguments], T], *args: *Arguments
    ) -> asyncio.Future[T]:
        """Run *func* in a thread; the clock stands still until *func* has ended."""
        future = super().run_in_executor(executor, func, *args)
        self._threads += 1
        future.add_done_callback(self._ended)
        return future

    def _ended(self, _: Any) -> None:
        self._threads -= 1

    def _elapse(self, seconds: float) -> None:
        if not self._threads:
            self._now += seconds


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run *main* on a PatientLoop."""
    with asyncio.Runner(loop_factory=PatientLoop) as runner:
        return runner.run(main)
