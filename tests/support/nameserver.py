"""The nameserver as a process of its own, for tests that wait for it in an event loop."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import dns.asyncquery
import dns.message

_ANYWHERE = ("--listen", "127.0.0.1:0", "--health", "127.0.0.1:0", "--metrics", "127.0.0.1:0")


class NameserverProcess:
    """A running nameserver. *log* has the lines of its log that `says` has read so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.log: list[str] = []
        self.port = self.health = self.metrics = 0

    async def says(self, what: str) -> str:
        """Read the nameserver's log up to a line that contains *what*, and return the line."""
        assert self.process.stderr is not None
        while line := (await self.process.stderr.readline()).decode():
            self.log.append(line)
            if what in line:
                return line
        raise AssertionError(f"it never said {what!r}: {self.log}")

    async def ask(self, name: str) -> dns.message.Message:
        """Ask for the A records of *name* over UDP, and return the response."""
        return await dns.asyncquery.udp(dns.message.make_query(name, "A"), "127.0.0.1", port=self.port, timeout=3)

    async def status(self, path: str) -> int:
        """Return the HTTP status of the nameserver's answer to a probe at *path*."""
        async with aiohttp.ClientSession() as client, client.get(f"http://127.0.0.1:{self.health}{path}") as response:
            return response.status

    async def scrape(self) -> str:
        """Return the page with the nameserver's metrics."""
        url = f"http://127.0.0.1:{self.metrics}/metrics"
        async with aiohttp.ClientSession() as client, client.get(url) as response:
            return await response.text()


async def started_nameserver(*arguments: str, **environment: str) -> asyncio.subprocess.Process:
    """Start the nameserver's command with *arguments*, and with additional variables in its *environment*."""
    words = (sys.executable, "-m", "tsnameserver", *arguments)
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*words, env={**os.environ, **environment}, stderr=pipe, stdout=pipe)


@asynccontextmanager
async def nameserver(records: Path, *arguments: str) -> AsyncIterator[NameserverProcess]:
    """Run a nameserver with the file *records* during the block."""
    running = NameserverProcess(await started_nameserver(*_ANYWHERE, "--records", str(records), *arguments))
    try:
        async with asyncio.timeout(30):
            ports = re.findall(r"127\.0\.0\.1:(\d+)", await running.says("listening on"))
            running.port, running.health, running.metrics = map(int, ports)
            yield running
    finally:
        if running.process.returncode is None:
            running.process.kill()
        await running.process.communicate()
