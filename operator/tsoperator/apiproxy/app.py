"""The start of the API server proxy: makes its parts from the settings, and runs them."""

import asyncio
import contextlib
import logging
import os
import resource
import socket
from collections.abc import Iterator, Sequence
from typing import Final

from tsoperator.apiproxy.counts import ProxyCounts
from tsoperator.apiproxy.greeting import Greeter
from tsoperator.apiproxy.health import HealthPages
from tsoperator.apiproxy.impersonation import AccessMode
from tsoperator.apiproxy.localapi import LocalApi
from tsoperator.apiproxy.notes import Notes
from tsoperator.apiproxy.recording.recordings import Recordings
from tsoperator.apiproxy.server import ConnectionLimits, ProxyServer
from tsoperator.apiproxy.session import SessionLimits, Shared
from tsoperator.apiproxy.settings import ProxySettings
from tsoperator.apiproxy.tls import ApiServer

log = logging.getLogger("tsoperator.apiproxy")

_LISTEN: Final = "127.0.0.2"
"""The address on which we listen for tailscaled. On 127.0.0.1, anybody could send us a forged PROXY header: a userspace
tailscaled forwards to 127.0.0.1 each port that it doesn't serve itself, and so does `kubectl port-forward`."""
_BACKLOG: Final = 1024


class CannotListen(Exception):
    """An error: the proxy can't listen on one of its addresses."""


async def run(settings: ProxySettings) -> None:
    """Run the proxy until cancelled. Raises CannotListen, or OSError if no connection can be accepted any more."""
    most = most_connections(allow_many_files())
    is_auth = settings.mode is AccessMode.AUTH
    token = settings.token_file if is_auth else None
    api_server = ApiServer(settings.api_host, settings.api_port, settings.ca_file, token)
    local_api = LocalApi(settings.socket)
    counts = ProxyCounts("auth" if is_auth else "noauth")
    shared = Shared(
        settings.mode,
        local_api,
        api_server,
        counts,
        SessionLimits(),
        Notes(),
        Recordings(local_api.dial, counts.recordings),
    )

    async def problem() -> str:
        return api_server.problem() or await local_api.problem()

    ports = (settings.tls_port, settings.http_port) if settings.http else (settings.tls_port,)
    with (
        _listening([(_LISTEN, port) for port in ports]) as (listener, *plain),
        _listening([(settings.pod_ip, settings.health_port)]) as (health,),
    ):
        where = " and ".join(f"{_LISTEN}:{port}" for port in ports)
        log.info("serving callers in mode %s on %s", counts.mode, where)
        async with asyncio.TaskGroup() as group:
            group.create_task(HealthPages(problem, counts.text).serve(health))
            group.create_task(Greeter(local_api, shared.callers).run())
            group.create_task(ProxyServer(shared, ConnectionLimits(all=most)).serve(listener, plain))


def allow_many_files() -> int:
    """Raise the limit on open files as far as the system allows, as programs in Go do. Return the new limit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def most_connections(files: int) -> int:
    """Return the greatest number of connections that a process can accept if it is allowed to open *files* files.

    A connection needs up to three files. A hundred files are left for the probes and other needs: a probe that gets no
    file fails, and then Kubernetes ends the process.
    """
    most = ConnectionLimits().all
    return most if files == resource.RLIM_INFINITY else max(1, min(most, (files - 100) // 3))


@contextlib.contextmanager
def _listening(addresses: Sequence[tuple[str, int]]) -> Iterator[Sequence[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(_listener(*address)) for address in addresses]


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        words = os.strerror(error.errno) if error.errno else str(error)
        raise CannotListen(f"cannot listen on {host} port {port}: {words}") from error
