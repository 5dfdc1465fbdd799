"""Asks tailscaled by HTTP through its socket, and reaches devices through tailscaled."""

import asyncio
import contextlib
import os
import socket
from pathlib import Path
from typing import Final
from urllib.parse import quote

import h11

from tsoperator.apiproxy.errors import CallerUnknown, RecordingFailed
from tsoperator.apiproxy.stream import SocketStream

_HOST: Final = "local-tailscaled.sock"
_MOST_BYTES: Final = 1 << 20
"""The most bytes of an answer that we accept. The answer about a caller has all of the caller's grants."""


class LocalApi:
    """The LocalAPI of the tailscaled that listens on *path*. An answer must come within *patience* seconds."""

    def __init__(self, path: Path, patience: float = 5.0) -> None:
        self._path = path
        self._patience = patience

    async def who_is(self, address: str) -> bytes:
        """Return tailscaled's JSON about the device that has *address*, an `ip:port`. Raises CallerUnknown."""
        status, body = await self._ask(f"/localapi/v0/whois?addr={quote(address, safe='')}")
        if status == 404:
            raise CallerUnknown("unknown", "tailscaled doesn't know the address")
        if status != 200:
            raise CallerUnknown("localapi", f"tailscaled answers with status {status}")
        return body

    async def problem(self) -> str:
        """Describe why tailscaled doesn't answer; empty if it answers."""
        try:
            status, _ = await self._ask("/localapi/v0/status?peers=false")
        except CallerUnknown as error:
            return str(error)
        return "" if status == 200 else f"tailscaled answers with status {status}"

    async def status(self, *, peers: bool = False) -> bytes:
        """Return the state of tailscaled as JSON; with *peers*, also that of its peers. Raises CallerUnknown."""
        status, body = await self._ask(f"/localapi/v0/status?peers={'true' if peers else 'false'}")
        if status != 200:
            raise CallerUnknown("localapi", f"tailscaled answers with status {status}")
        return body

    async def ping(self, address: str, seconds: float = 1.0) -> None:
        """Let tailscaled ping the device with *address*. Raises CallerUnknown if no answer comes within *seconds*.

        The packet goes through WireGuard, which begins a session for it.
        """
        await self._ask(f"/localapi/v0/ping?ip={quote(address, safe='')}&type=TSMP", "POST", seconds)

    async def until_it_ends(self) -> None:
        """Wait until tailscaled ends. Return at once if it isn't running."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connecting:
            stream = SocketStream(connecting)
            await asyncio.get_running_loop().sock_connect(connecting, str(self._path))
            await stream.read()

    async def dial(self, address: str) -> tuple[SocketStream, bytes]:
        """Return a connection to *address*, an `ip:port` in the tailnet, and the bytes that have already come.

        Raises OSError and RecordingFailed.
        """
        with contextlib.ExitStack() as stack:
            connecting = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            stream = SocketStream(connecting)
            await asyncio.get_running_loop().sock_connect(connecting, str(self._path))
            try:
                came = await _switched(stream, address)
            except h11.ProtocolError as error:
                raise RecordingFailed("tailscaled's answer is no HTTP, or too long") from error
            stack.pop_all()
        return stream, came

    async def _ask(self, target: str, method: str = "GET", seconds: float | None = None) -> tuple[int, bytes]:
        """Ask for *target*, and return the status and the body of the answer. Raises CallerUnknown.

        *seconds* is the time limit; None means the *patience* of this object.
        """
        patience = self._patience if seconds is None else seconds
        try:
            async with asyncio.timeout(patience):
                with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connecting:
                    stream = SocketStream(connecting)
                    await asyncio.get_running_loop().sock_connect(connecting, str(self._path))
                    return await _exchanged(stream, method, target)
        except TimeoutError:
            raise CallerUnknown("localapi", f"tailscaled doesn't answer within {patience:g} s") from None
        except OSError as error:
            words = os.strerror(error.errno) if error.errno else str(error)
            raise CallerUnknown("localapi", f"tailscaled can't be asked: {words}") from error
        except h11.ProtocolError as error:
            raise CallerUnknown("localapi", "tailscaled's answer is no HTTP, or too long") from error


async def _exchanged(stream: SocketStream, method: str, target: str) -> tuple[int, bytes]:
    """Ask for *target* over *stream*, and return the answer's status and body. Raises OSError and h11.ProtocolError."""
    connection = h11.Connection(h11.CLIENT)
    request = h11.Request(method=method, target=target, headers=[("Host", _HOST), ("Connection", "close")])
    await stream.write((connection.send(request) or b"") + (connection.send(h11.EndOfMessage()) or b""))
    return await _answer(stream, connection)


async def _switched(stream: SocketStream, address: str) -> bytes:
    """Make tailscaled turn *stream* into a connection to *address*, and return the bytes that have come from there.

    Raises OSError, h11.ProtocolError and RecordingFailed. We refuse an address outside of the tailnet: tailscaled
    would tell us to connect to it outside of the tailnet, and then somebody else could get the recording.
    """
    host, _, port = address.rpartition(":")
    connection = h11.Connection(h11.CLIENT)
    upgrade = [("Host", _HOST), ("Connection", "upgrade"), ("Upgrade", "ts-dial")]
    where = [("Dial-Host", host.strip("[]")), ("Dial-Port", port), ("Dial-Network", "tcp")]
    request = h11.Request(method="POST", target="/localapi/v0/dial", headers=[*upgrade, *where])
    await stream.write((connection.send(request) or b"") + (connection.send(h11.EndOfMessage()) or b""))
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(await stream.read())
    if isinstance(event, h11.InformationalResponse) and event.status_code == 101:
        return bytes(connection.trailing_data[0])
    status = event.status_code if isinstance(event, h11.Response) else 0
    if status == 200:
        raise RecordingFailed("it isn't in the tailnet")
    _, body = await _answer(stream, connection)
    raise RecordingFailed(f"tailscaled answers with status {status}: {body[:200].decode(errors='replace').strip()}")


async def _answer(stream: SocketStream, connection: h11.Connection) -> tuple[int, bytes]:
    """Return the status and the body of the next answer. Raises OSError and h11.ProtocolError."""
    status, body = 0, bytearray()
    while True:
        match event := connection.next_event():
            case h11.NEED_DATA:
                connection.receive_data(await stream.read())
            case h11.Response():
                status = event.status_code
            case h11.Data():
                body += event.data
            case h11.EndOfMessage():
                return status, bytes(body)
        if len(body) > _MOST_BYTES:
            raise h11.RemoteProtocolError("the answer is too long")
