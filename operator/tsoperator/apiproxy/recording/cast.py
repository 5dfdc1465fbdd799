"""Recordings as asciicast v2: a header and events, each of which is a line of JSON."""

import codecs
from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import to_json

from tsoperator.apiproxy.recording.frames import Size
from tsoperator.apiproxy.recording.requestinfo import SessionRequest
from tsoperator.apiproxy.recording.source import SourceDevice

NO_TERMINAL: Final = Size(0, 0)
DEFAULT_SIZE: Final = Size(80, 24)
"""The size of the terminal in the recording if the client doesn't send one."""


class Cast:
    """Makes the lines of a recording.

    Each line after the first has a time, in *seconds* since the start of the recording. If the bytes of a character
    come in two pieces of output, the character is in the line for the second piece.
    """

    def __init__(self, device: SourceDevice, session: SessionRequest, timestamp: int) -> None:
        self._device = device
        self._session = session
        self._timestamp = timestamp
        self._decoders: dict[int, codecs.IncrementalDecoder] = {}

    def header(self, size: Size) -> bytes:
        """Return the first line of the recording, which describes the session and its caller."""
        device, session = self._device, self._session
        user = {"srcNodeUserID": device.owner_id, "srcNodeUser": device.login}
        source = {"srcNodeTags": device.tags} if device.tags else {key: value for key, value in user.items() if value}
        return _line(
            {
                "version": 2,
                "width": size.width,
                "height": size.height,
                "timestamp": self._timestamp,
                **({"command": session.command} if session.command else {}),
                "srcNode": device.name,
                "srcNodeID": device.stable_id,
                **source,
                "env": None,
                "sshUser": "",
                "localUser": "",
                "connectionID": "",
                "kubernetes": {
                    "PodName": session.pod,
                    "Namespace": session.namespace,
                    "Container": session.container,
                    "SessionType": session.kind,
                },
            }
        )

    def output(self, seconds: float, stream: int, data: bytes) -> bytes:
        """Return the line for output of a *stream*; empty if *data* completes no character. Bad bytes become U+FFFD."""
        decoder = self._decoders.get(stream)
        if decoder is None:
            decoder = self._decoders[stream] = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(data)
        return _line((seconds, "o", text)) if text else b""

    def resize(self, seconds: float, size: Size) -> bytes:
        """Return the line for a new size of the terminal."""
        return _line((seconds, "r", f"{size.width}x{size.height}"))

    def end(self, seconds: float) -> bytes:
        """Return the lines for characters whose last bytes never came, as U+FFFD; empty if there are none."""
        rests = [decoder.decode(b"", final=True) for decoder in self._decoders.values()]
        return b"".join(_line((seconds, "o", rest)) for rest in rests if rest)


def _line(value: Mapping[str, Any] | tuple[float, str, str]) -> bytes:
    return to_json(value) + b"\n"
