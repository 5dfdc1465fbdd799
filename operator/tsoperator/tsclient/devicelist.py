"""Reads lists of devices, and decodes only the devices that differ from the previous list.

The list of a large tailnet is tens of megabytes of JSON, and little of it changes from one read to the next. So we
split it where one device ends and the next one begins, which is ``},{"`` in compact JSON. We look up each piece by its
hash among the pieces of the previous list, and parse only the pieces that are not found there.

Those characters can also occur inside a device: in a nested list, or where a string ends in ``},{``. A piece that ends
there is not valid JSON, because a brace or a quote is still open. We join it with the following pieces until they are
valid together, which is at the end of the device and not before. If the server does not always write the same white
space between two devices, a piece has several devices. So we parse a piece as a list.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self

from pydantic import TypeAdapter, ValidationError

from tsoperator.api.device import Device
from tsoperator.tsclient.models import DeviceList
from tsoperator.tsclient.timeslice import SECONDS, TimeSlice
from tsoperator.tsclient.transport import Answer

_SPACE: Final = rb"[ \t\r\n]*"
_HEAD: Final = re.compile(rb' \{ "devices" : \[ \{( )"'.replace(b" ", _SPACE))
_BETWEEN: Final = rb"\} , \{".replace(b" ", _SPACE)
_TAIL: Final = re.compile(rb"\} \] \} \Z".replace(b" ", _SPACE))
_COMPACT: Final = b'},{"'
_LONGEST: Final = 1 << 18
"""The largest number of bytes in a piece. If a piece is larger, we parse the whole list at once."""
_VAIN: Final = 1 << 22
"""The number of bytes that we parse without success for one device, in all tries together, before we give up."""
_DEVICES: Final = TypeAdapter(list[Device])


class _NotSplit(Exception):
    """An exception: the body is not a list of devices, or the format isn't the one that the control servers write."""


class DeviceListReader:
    """Reads the lists of devices that a control server sends.

    It decodes only the devices that are new or have changed after the previous list.
    """

    def __init__(self, time_slice: float = SECONDS) -> None:
        """A read blocks the event loop for about *time_slice* seconds at a time; longer if it parses a whole list."""
        self._time_slice = time_slice
        self._known: dict[int, Device] = {}  # the devices of the previous list, by a keyed 64-bit hash of their JSON

    async def read(self, answer: Answer) -> dict[str, Device]:
        """Return the devices by node ID. If several have the same ID, return the last one. Raises ControlError.

        For a device that hasn't changed, the result has the same Python object as the result of the previous read.
        """
        answer.check_status()
        try:
            return await self._read(answer)
        except _NotSplit:
            return {device.node_id: device for device in answer.read(DeviceList).devices}

    async def _read(self, answer: Answer) -> dict[str, Device]:
        known: dict[int, Device] = {}
        found: dict[str, Device] = {}
        count, text, vain = 0, None, 0
        pieces = _Pieces.of(answer.blocks)
        time_slice = TimeSlice(self._time_slice)
        for piece in pieces:
            text = piece if text is None else text + pieces.separator + piece
            device = self._known.get(hash(text))
            devices = [device] if device else _decoded(text, count, answer)
            if devices:
                if len(devices) == 1:
                    known[hash(text)] = devices[0]
                for each in devices:
                    found[each.node_id] = each
                count, text, vain = count + len(devices), None, 0
            elif (vain := vain + len(text)) > _VAIN:
                raise _NotSplit
            await time_slice.pause()
        if text is not None:
            raise _NotSplit
        self._known = known
        return found


@dataclass(frozen=True, slots=True)
class _Pieces:
    """The JSON text of a list of devices, cut into one piece for each device.

    A piece doesn't have the braces around its device. The text is in *blocks*. The first piece begins at *start*, and
    the *separator* is before each further piece.
    """

    blocks: Sequence[bytes]
    start: int
    separator: bytes

    @classmethod
    def of(cls, blocks: Sequence[bytes]) -> Self:
        """Return the pieces in *blocks*. The first block shows how devices are separated. Raises _NotSplit."""
        first = blocks[0] if blocks else b""
        head = _HEAD.match(first)
        if head is None:
            raise _NotSplit
        # In indented JSON the space after the brace tells a device from an object inside it.
        separator = re.compile(_BETWEEN + head[1] + b'"').search(first, head.end())
        return cls(blocks, head.end(), separator[0] if separator else _COMPACT)

    def __iter__(self) -> Iterator[bytes]:
        """Yield the JSON texts of single devices, splitting one block of the body after the other. Raises _NotSplit."""
        *pieces, rest = self.blocks[0][self.start :].split(self.separator)
        yield from pieces
        for block in self.blocks[1:]:
            *pieces, rest = (rest + block).split(self.separator)
            yield from pieces
            if len(rest) > _LONGEST:
                raise _NotSplit
        tail = _TAIL.search(rest)
        if tail is None:
            raise _NotSplit
        yield rest[: tail.start()]


def _decoded(text: bytes, count: int, answer: Answer) -> list[Device]:
    """Return the devices in the JSON *text*; no devices if it is not JSON.

    *count* is the number of devices before *text* in the whole list. Raises UnexpectedAnswer, which gives the number of
    the faulty device in the whole list.
    """
    try:
        return _DEVICES.validate_json(b'[{"' + text + b"}]")
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
        if fault["type"] == "json_invalid":
            return []
        number, *field = fault["loc"]
        raise answer.unexpected(["devices", count + int(number), *field], fault["msg"]) from None
