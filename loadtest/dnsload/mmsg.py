"""sendmmsg and recvmmsg: many datagrams by one system call. Linux on 64-bit machines; see recvmmsg(2).

The structures are laid out once; what changes between calls is written as 64-bit words.
"""

import ctypes
import os
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

BATCH = 128
_QUERY_BYTES = 512
_ANSWER_BYTES = 4096
_CONTROL_BYTES = 64
_STAMP_BYTES = 32
_SO_TIMESTAMPNS = 35
_WORDS = 8
"""Of a struct mmsghdr: name, its length, iovec, their number, control, its length, flags, length received or sent."""
_CONTROL_LENGTH, _LENGTH = 5, 7
_STEADY_NS = 5_000
_ID = struct.Struct("!H")


def available() -> bool:
    """Tell whether this system has the calls, laid out as here."""
    return sys.platform == "linux" and ctypes.sizeof(ctypes.c_void_p) == 8


class _Slots:
    """Message headers that each point to a slot of one buffer."""

    def __init__(self, slot: int, control: int = 0) -> None:
        self.slot = slot
        self.data = bytearray(BATCH * slot)
        self.control = bytearray(BATCH * control or 1)
        self.headers = (ctypes.c_uint64 * (BATCH * _WORDS))()
        self.iovecs = (ctypes.c_uint64 * (BATCH * 2))()
        data, controls = _address(self.data), _address(self.control)
        for number in range(BATCH):
            self.iovecs[2 * number] = data + number * slot
            self.iovecs[2 * number + 1] = slot
            header = _WORDS * number
            self.headers[header + 2] = ctypes.addressof(self.iovecs) + 16 * number
            self.headers[header + 3] = 1
            self.headers[header + 4] = controls + number * control if control else 0


def _address(buffer: bytearray) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


class Batches:
    """Buffers for sending and receiving, to use with one socket after another."""

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._sendmmsg, self._recvmmsg = libc.sendmmsg, libc.recvmmsg
        self._out = _Slots(_QUERY_BYTES)
        self._in = _Slots(_ANSWER_BYTES, _CONTROL_BYTES)
        self._received = memoryview(self._in.data)
        self._headers = np.frombuffer(memoryview(self._in.headers), np.uint64).reshape(BATCH, _WORDS)
        self._headers[:, _CONTROL_LENGTH] = _CONTROL_BYTES
        self._stamps = np.frombuffer(self._in.control, np.int64).reshape(BATCH, _CONTROL_BYTES // 8)
        self._offset = time.time_ns() - time.monotonic_ns()

    def fill(self, packets: Sequence[bytes], first_id: int) -> None:
        """Write queries into the buffer, with consecutive IDs; at most BATCH of them."""
        data, lengths = self._out.data, self._out.iovecs
        place = 0
        for number, packet in enumerate(packets):
            end = place + 2 + len(packet)
            _ID.pack_into(data, place, (first_id + number) & 0xFFFF)
            data[place + 2 : end] = packet
            lengths[2 * number + 1] = end - place
            place += _QUERY_BYTES

    def send(self, connected: socket.socket, first: int, count: int) -> int:
        """Send *count* queries from number *first* on; returns how many the kernel took. Raises OSError."""
        where = ctypes.addressof(self._out.headers) + 8 * _WORDS * first
        sent: int = self._sendmmsg(connected.fileno(), ctypes.c_void_p(where), count, 0)
        if sent < 0:
            _raise()
        return sent

    def receive(self, connected: socket.socket, take: Callable[[int, bytes, int], None]) -> int:
        """Receive at most BATCH answers and have them taken: the ID, the rest, and when the kernel got it.

        Returns how many there were; raises OSError.
        """
        got: int = self._recvmmsg(connected.fileno(), self._in.headers, BATCH, socket.MSG_DONTWAIT, None)
        if got < 0:
            _raise()
        used = self._headers[:got]
        lengths = (used[:, _LENGTH] & 0xFFFFFFFF).tolist()
        arrivals = self._arrivals(got)
        used[:, _CONTROL_LENGTH] = _CONTROL_BYTES  # the kernel wrote how much of it is used
        start = 0
        for length, arrived in zip(lengths, arrivals, strict=True):
            if length >= 2:
                answer = bytes(self._received[start + 2 : start + length])
                take(_ID.unpack_from(self._in.data, start)[0], answer, arrived)
            start += _ANSWER_BYTES
        return got

    def _arrivals(self, got: int) -> list[int]:
        """Return when each came, by the monotonic clock: the kernel's note, or now where there is none."""
        offset = self._clock_offset()
        stamps = self._stamps[:got, 2:4]  # after the length, level and type of the control message
        stamped = self._headers[:got, _CONTROL_LENGTH] >= _STAMP_BYTES
        times = np.where(stamped, stamps[:, 0] * 1_000_000_000 + stamps[:, 1] - offset, time.monotonic_ns())
        arrivals: list[int] = times.tolist()
        return arrivals

    def _clock_offset(self) -> int:
        """Return the wall clock minus the monotonic one, by a pair of readings that nothing came between."""
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        if after - before < _STEADY_NS:
            self._offset = wall - (before + after) // 2
        return self._offset


def stamp_arrivals(connected: socket.socket) -> None:
    """Have the kernel note when each datagram arrived, so that a client that reads late measures right."""
    connected.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)


def _raise() -> None:
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))
