"""Events about requests: makes them, and sends them to a recorder in the tailnet."""

import asyncio
import base64
from collections.abc import Iterator, Sequence
from typing import Final

import h11
from pydantic_core import to_json

from tsoperator.apiproxy.errors import RecordingFailed
from tsoperator.apiproxy.head import RequestHead
from tsoperator.apiproxy.recording.dialling import Dial, RecorderLimits, dialled, one_line, words
from tsoperator.apiproxy.recording.http1 import Http1Connection
from tsoperator.apiproxy.recording.requestinfo import query_parameters, request_info
from tsoperator.apiproxy.recording.source import SourceDevice

MOST_BODY: Final = 3 << 20
"""The most bytes of a body that becomes part of an event. The API server has the same limit for its requests."""

_PATH: Final = "/v2/event"
_PIECE: Final = 48 << 10
"""The number of bytes of a body that are encoded in base64 at once. It can be divided by three, because base64 makes
four characters of three bytes."""


class EventsUnsupported(RecordingFailed):
    """An error: a recorder accepts no events. Older recorders accept sessions only."""


class RequestEvent:
    """An event about a request with this *head* and *body*. To save memory, we encode the body only as we send it."""

    def __init__(self, head: RequestHead, body: bytes, device: SourceDevice, timestamp: int) -> None:
        agents = [value for name, value in head.headers if name.lower() == b"user-agent"]
        user = {"nodeUserID": device.profile_id, "nodeUser": device.login}
        source = {"nodeTags": device.tags} if device.tags else {key: value for key, value in user.items() if value}
        start = {
            "type": "kubernetes-api-request",
            "id": "",
            "timestamp": timestamp,
            "userAgent": agents[0].decode("latin-1") if agents else "",
            "request": {"method": head.method, "path": head.target},
        }
        end = {
            "kubernetes": request_info(head.method, head.target).as_event(),
            "source": {"node": device.name, "nodeID": device.stable_id, **source},
            "destination": {"node": "", "nodeID": ""},
        }
        parameters = to_json(query_parameters(head.target))
        self._before = to_json(start)[:-2] + b',"body":"'
        self._body = body
        self._after = b'","queryParameters":' + parameters + b"}," + to_json(end)[1:] + b"\n"

    def __len__(self) -> int:
        return len(self._before) + 4 * ((len(self._body) + 2) // 3) + len(self._after)

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes of the event, piece by piece."""
        yield self._before
        with memoryview(self._body) as view:
            for start in range(0, len(view), _PIECE):
                yield base64.b64encode(view[start : start + _PIECE])
        yield self._after


async def send_event(event: RequestEvent, dial: Dial, addresses: Sequence[str], limits: RecorderLimits) -> None:
    """Send *event* to the first recorder that takes it.

    If no recorder takes the event, raises RecordingFailed with the reasons of all recorders. The error is an
    EventsUnsupported if the reason of every recorder is that it accepts no events.
    """
    failures: list[str] = []
    unsupported = 0
    try:
        async with asyncio.timeout(limits.search):
            for address in addresses:
                try:
                    await _send(event, dial, address, limits)
                except (OSError, RecordingFailed) as error:
                    unsupported += isinstance(error, EventsUnsupported)
                    failures.append(f"{address}: {words(error)}")
                else:
                    return
    except TimeoutError:
        failures.append(f"no recorder has taken the event within {limits.search:g} s")
    kind = EventsUnsupported if failures and unsupported == len(failures) else RecordingFailed
    raise kind("; ".join(failures) or "there is no recorder")


async def _send(event: RequestEvent, dial: Dial, address: str, limits: RecorderLimits) -> None:
    """Send *event* to the recorder at *address*. Raises OSError and RecordingFailed."""
    connection = await _supporting(dial, address, limits)
    try:
        headers = [("Host", address), ("Content-Type", "application/json"), ("Content-Length", str(len(event)))]
        await connection.send(h11.Request(method="POST", target=_PATH, headers=[*headers, ("Connection", "close")]))
        for piece in event.pieces():
            await connection.send(h11.Data(data=piece))
        await connection.send(h11.EndOfMessage())
        status, body = await connection.answer()
    finally:
        connection.close()
    if status != 200:
        raise RecordingFailed(_refusal(status, body))


async def _supporting(dial: Dial, address: str, limits: RecorderLimits) -> Http1Connection:
    """Return a connection to the recorder at *address* if the recorder takes events.

    If it takes none, raises EventsUnsupported. Raises OSError and RecordingFailed.
    """
    connection = Http1Connection(*await dialled(dial, address, limits))
    try:
        async with asyncio.timeout(limits.probe):
            await connection.send(h11.Request(method="HEAD", target=_PATH, headers=[("Host", address)]))
            await connection.send(h11.EndOfMessage())
            status, body = await connection.answer()
    except TimeoutError:
        connection.close()
        raise RecordingFailed(f"it hasn't answered within {limits.probe:g} s") from None
    except BaseException:
        connection.close()
        raise
    if status == 200 and connection.begin_next():
        return connection
    connection.close()
    if status == 200:
        return Http1Connection(*await dialled(dial, address, limits))
    if status == 404:
        raise EventsUnsupported("it takes no events")
    raise RecordingFailed(_refusal(status, body))


def _refusal(status: int, body: bytes) -> str:
    text = one_line(body.decode(errors="replace"))
    return f"it answers with status {status}{f': {text}' if text else ''}"
