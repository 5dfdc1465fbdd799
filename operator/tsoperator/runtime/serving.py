"""An HTTP server of the operator, which listens while a context is open."""

import os

from aiohttp import web


class ListenError(Exception):
    """An error: the operator can't listen on the address of one of its servers."""


class HttpServer:
    """Serves *app* on *listen* while the context is open. An empty *listen* turns it off.

    *purpose* describes the server in the error if it can't listen.
    """

    def __init__(self, listen: str, app: web.Application, purpose: str) -> None:
        self._listen = listen
        self._app = app
        self._purpose = purpose
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> str:
        """Listen, and return the bound ``ADDR:PORT``, empty if turned off.

        Raises:
            ListenError: the address to listen on is not valid, or we can't listen there.
        """
        if not self._listen:
            return ""
        host, port = parse_listen(self._listen)
        self._runner = web.AppRunner(self._app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host or None, port).start()
        except (OSError, UnicodeError) as error:  # a UnicodeError is about a label of the host
            await self._close()
            errno = getattr(error, "errno", None) or 0
            words = os.strerror(errno) if errno > 0 else str(error)
            raise ListenError(f"cannot serve {self._purpose} on {self._listen}: {words}") from error
        bound_host, bound_port = self._runner.addresses[0][:2]
        return f"[{bound_host}]:{bound_port}" if ":" in bound_host else f"{bound_host}:{bound_port}"

    async def __aexit__(self, *_exc: object) -> None:
        await self._close()

    async def _close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None


def parse_listen(listen: str) -> tuple[str, int]:
    """Return host and port of ``ADDR:PORT``, ``[ADDR]:PORT`` or ``:PORT``; no host means every address.

    Raises:
        ListenError: it is none of these.
    """
    host, colon, port = listen.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535 or (":" in host and not bracketed):
        raise ListenError(f"{listen!r} is not ADDR:PORT, [ADDR]:PORT or :PORT")
    return (host[1:-1] if bracketed else host), int(port)
