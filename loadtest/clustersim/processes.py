"""Runs Python modules as processes, each with a log of its own, until the end of an ``async with`` block."""

import asyncio
import contextlib
import os
import random
import socket
import sys
from asyncio.subprocess import DEVNULL, STDOUT, Process
from collections.abc import Mapping
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals
from types import TracebackType
from typing import Self

LOG_LINES = 25
_PORTS = range(20_000, 32_000)  # below the ports that the kernel gives to connections


class ProcessError(Exception):
    """A process has ended although it should still run."""


class Processes:
    """Starts Python modules as processes, with logs in *folder*, and ends all at the end of its ``async with`` block.

    It kills a process that hasn't ended *stop_seconds* after SIGTERM.
    """

    def __init__(self, folder: Path, stop_seconds: float = 5) -> None:
        self._folder = folder
        self._stop_seconds = stop_seconds
        self._running: dict[str, Process] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._signal(SIGTERM)
        try:
            with contextlib.suppress(TimeoutError):  # the processes that still run are killed
                async with asyncio.timeout(self._stop_seconds):
                    await self._end()
        finally:  # a second signal can cancel the wait
            self._signal(SIGKILL)
        await self._end()

    async def start(self, name: str, *command: str, environment: Mapping[str, str] | None = None) -> None:
        """Start ``python -m`` *command* in its own session, under the name *name*.

        Because of the session, Ctrl-C in a terminal reaches only this program, which then stops the command.
        """
        with self._log(name).open("wb") as log:
            self._running[name] = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", *command),
                stdin=DEVNULL,
                stdout=log,
                stderr=STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )

    async def stop(self, name: str) -> None:
        """End one process."""
        process = self._running.pop(name)
        try:
            async with asyncio.timeout(self._stop_seconds):
                with contextlib.suppress(ProcessLookupError):  # the process has ended
                    os.kill(process.pid, SIGTERM)
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    def check(self) -> None:
        """Raise ProcessError if a process has ended."""
        for name, process in self._running.items():
            if process.returncode is not None:
                raise ProcessError(f"{name} ended with code {process.returncode}")

    def tails(self) -> dict[str, list[str]]:
        """Return the last lines of each log, by the name of the process."""
        logs = {name: self._log(name).read_text(errors="replace") for name in self._running}
        return {name: text.splitlines()[-LOG_LINES:] for name, text in logs.items()}

    def _alive(self) -> list[Process]:
        return [process for process in self._running.values() if process.returncode is None]

    def _signal(self, number: Signals) -> None:
        """Send a signal to all running processes.

        Use os.kill for that: the methods of asyncio's Process would reap a child that has just ended, before asyncio's
        own watcher of children can reap it.
        """
        for process in self._alive():
            with contextlib.suppress(ProcessLookupError):  # the process was reaped a moment ago
                os.kill(process.pid, number)

    async def _end(self) -> None:
        for process in self._running.values():
            await process.wait()

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"


def free_port() -> int:
    """Return a free port of loopback, for UDP and TCP, that the kernel doesn't use for outgoing connections."""
    while True:
        port = random.choice(_PORTS)  # noqa: S311 - no secret
        try:
            with socket.create_server(("127.0.0.1", port)), socket.socket(type=socket.SOCK_DGRAM) as udp:
                udp.bind(("127.0.0.1", port))
        except OSError:
            continue
        return port
