"""Puts the server together: it binds the sockets, follows the records, and answers queries until a signal."""

import asyncio
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit

from tsnameserver.compiled import COMPILED
from tsnameserver.compiler import empty_zone
from tsnameserver.configmaps import ConfigMaps
from tsnameserver.metrics import Metrics, metrics_pages
from tsnameserver.pages import probe_pages, serving_pages
from tsnameserver.querylog import QueryLog
from tsnameserver.restarts import Restarts
from tsnameserver.settings import Settings
from tsnameserver.snapshot import Snapshot
from tsnameserver.sockets import bind
from tsnameserver.source import Follower, Source, follow_file
from tsnameserver.tcp import TcpLimits, TcpServer
from tsnameserver.udp import UdpServer
from tsnameserver.zone import Serving

log = logging.getLogger(__name__)

_Parts = list[tuple[str, Callable[[], Awaitable[None]]]]
"""The parts of the server that run beside the UDP threads, by the names that metrics give them."""

_SWITCH_SECONDS = 0.0005
"""The seconds for which a thread can keep the interpreter's lock, as during a reload, while a packet waits."""
_JOIN_SECONDS = 0.5
_OTHER_DESCRIPTORS = 256
"""The number of file descriptors that clients' connections leave free for probes, metrics, records and sockets."""


async def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, and read the records again at SIGHUP. Raises ListenError."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    stopping, rereading = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number, event in ((signal.SIGTERM, stopping), (signal.SIGINT, stopping), (signal.SIGHUP, rereading)):
        loop.add_signal_handler(number, event.set)
    serving = Serving(empty_zone(settings.zone))
    snapshot = Snapshot(settings.snapshot) if settings.snapshot else None
    follower = Follower(serving, settings.zone, snapshot.keep if snapshot else None)
    configmaps = None
    if settings.api is not None:
        configmaps = ConfigMaps(settings.api, partial(follower.offer, Source.API), follower.lose_api)
    restarts = Restarts()
    async with AsyncExitStack() as stack:
        sockets = stack.enter_context(closing(bind(settings.listen, settings.health, settings.metrics)))
        compiled = COMPILED and settings.udp_loop == "auto"
        queries = QueryLog(settings.log_queries)
        udp = [UdpServer(pair.udp, serving, queries, compiled=compiled) for pair in sockets.pairs]
        tcp = [TcpServer(pair.tcp, serving, tcp_limits(len(sockets.pairs)), queries) for pair in sockets.pairs]
        if sockets.health is not None:
            probes = probe_pages(
                healthy=lambda: all(server.alive for server in udp),
                ready=lambda: serving.zone.loaded and not stopping.is_set(),
            )
            await stack.enter_async_context(serving_pages(sockets.health, probes))
        if sockets.metrics is not None:
            watched = configmaps.watched if configmaps else None
            pages = metrics_pages(Metrics(udp, tcp, follower.reloads, watched, restarts.counts, snapshot))
            await stack.enter_async_context(serving_pages(sockets.metrics, pages))
        stack.enter_context(_running(udp))
        log.info("listening on %s", sockets)
        log.info("the UDP loop is %s", "compiled" if compiled else "Python's")
        parts: _Parts = [("tcp", server.serve) for server in tcp]
        file = partial(follow_file, settings.records, follower.offer, optional=configmaps is not None)
        sources: _Parts = [("file", file)]
        if configmaps is not None:
            sources.append(("api", configmaps.follow))
        if snapshot is not None:
            restore = partial(snapshot.offer, follower.has_none, partial(follower.offer, Source.SNAPSHOT))
            parts += [("snapshot", snapshot.write_changes), ("snapshot", restore)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(restarts.keep_running(part, work)) for part, work in parts]
            tasks.append(group.create_task(_follow(sources, restarts, rereading, follower.forget)))
            await stopping.wait()
            log.info("stopping")
            await asyncio.sleep(settings.drain)
            for task in tasks:
                task.cancel()


def tcp_limits(servers: int) -> TcpLimits:
    """Return the limits of each of *servers* TCP servers. They leave enough file descriptors for all other purposes."""
    limits, (allowed, _) = TcpLimits(), getrlimit(RLIMIT_NOFILE)
    if allowed == RLIM_INFINITY:
        return limits
    return replace(limits, connections=max(1, min(limits.connections, (allowed - _OTHER_DESCRIPTORS) // servers)))


async def _follow(sources: _Parts, restarts: Restarts, rereading: asyncio.Event, forget: Callable[[], None]) -> None:
    """Run *sources*. Each time *rereading* is set, call *forget* and restart the sources."""
    while True:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(restarts.keep_running(part, work)) for part, work in sources]
            await rereading.wait()
            rereading.clear()
            log.info("SIGHUP: reading the records again")
            forget()
            for task in tasks:
                task.cancel()


@contextmanager
def _running(servers: Sequence[UdpServer]) -> Iterator[None]:
    """Run the threads of *servers* until the end of the block."""
    for server in servers:
        server.start()
    try:
        yield
    finally:
        for server in servers:
            server.stop()
        for server in servers:
            server.join(_JOIN_SECONDS)
