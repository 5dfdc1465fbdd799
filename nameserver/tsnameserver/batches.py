"""Datagrams received and sent many at a time, by Linux's recvmmsg and sendmmsg.

A foreign call costs more than one of the socket module, and a structure's field more than an attribute. So all memory
is laid out once, and the fields that change are columns: strided views over the array of headers, read and written for
a whole batch at a time. A response takes the place of its query, and goes out with the addresses that the query came
with.
"""

import ctypes
import os
import socket
import sys
from array import array
from collections.abc import Callable, Mapping
from ctypes import c_int, c_size_t, c_uint, c_void_p
from errno import EAGAIN, EINTR
from typing import Any

MAX_BATCH = 64
MAX_QUERY = 4096
"""Bytes; no query is longer, and what is cut off here is malformed."""

_LINE = 64
"""Bytes of a line of the processor's cache."""
_PACKET_STRIDE = MAX_QUERY + _LINE
"""Bytes from one packet to the next: a power of two would put the starts of all in the same few lines."""
_CONTROL_STRIDE = _LINE
_ADDRESS_SIZES: Mapping[int, int] = {socket.AF_INET: 16, socket.AF_INET6: 28}
"""Bytes of sockaddr_in and sockaddr_in6."""
_INFO: Mapping[int, tuple[int, int]] = {socket.AF_INET: (12, 0), socket.AF_INET6: (20, 16)}
"""Bytes of in_pktinfo and in6_pktinfo, and where in them the index of the interface is."""


_PACKET_STARTS = range(0, _PACKET_STRIDE * MAX_BATCH, _PACKET_STRIDE)


class _Vector(ctypes.Structure):
    """A struct iovec."""

    _fields_ = (("start", c_void_p), ("size", c_size_t))


class _Message(ctypes.Structure):
    """A struct msghdr."""

    _fields_ = (
        ("address", c_void_p),
        ("address_size", c_uint),
        ("vectors", c_void_p),
        ("vector_count", c_size_t),
        ("control", c_void_p),
        ("control_size", c_size_t),
        ("flags", c_int),
    )


class _Header(ctypes.Structure):
    """A struct mmsghdr."""

    _fields_ = (("message", _Message), ("size", c_uint))


class _Buffers:
    """What packets are received into and sent from: their bytes, addresses of clients, and ancillary data."""

    def __init__(self, family: int, *, sources: bool) -> None:
        self.address_size = _ADDRESS_SIZES[family]
        info_size, index_at = _INFO[family]
        self.control_size = socket.CMSG_SPACE(info_size) if sources else 0
        self.packets: Any = ctypes.create_string_buffer(_PACKET_STRIDE * MAX_BATCH)
        self.addresses = ctypes.create_string_buffer(self.address_size * MAX_BATCH)
        self.controls = ctypes.create_string_buffer(_CONTROL_STRIDE * MAX_BATCH)
        index = (socket.CMSG_LEN(0) + index_at) // 4
        self.interfaces = memoryview(self.controls).cast("B").cast("I")[index :: _CONTROL_STRIDE // 4]


class _Headers:
    """Headers of MAX_BATCH packets, each of one buffer, and their fields that change."""

    def __init__(self, buffers: _Buffers) -> None:
        self.array = (_Header * MAX_BATCH)()
        self._vectors = (_Vector * MAX_BATCH)()
        vectors, packets = ctypes.addressof(self._vectors), ctypes.addressof(buffers.packets)
        addresses, controls = ctypes.addressof(buffers.addresses), ctypes.addressof(buffers.controls)
        for number in range(MAX_BATCH):
            self._vectors[number] = _Vector(packets + number * _PACKET_STRIDE, MAX_QUERY)
            self.array[number].message = _Message(
                addresses + number * buffers.address_size,
                buffers.address_size,
                vectors + number * ctypes.sizeof(_Vector),
                1,
                controls + number * _CONTROL_STRIDE if buffers.control_size else None,
                buffers.control_size,
            )
        self.sizes = _column(self.array, _Header.size, "I")
        self.control_sizes = _column(self.array, _Message.control_size, "L")
        self.vector_sizes = _column(self._vectors, _Vector.size, "L")


class Batches:
    """The packets of one bound socket, in batches; nothing here waits for one."""

    def __init__(self, bound: socket.socket, *, sources: bool) -> None:
        """Lay out the memory; where *sources*, packets come with IP_PKTINFO or IPV6_PKTINFO; raises OSError."""
        self._socket = bound
        libc = ctypes.CDLL(None, use_errno=True)
        self._recvmmsg, self._sendmmsg = libc.recvmmsg, libc.sendmmsg
        self._recvmmsg.argtypes = (c_int, c_void_p, c_uint, c_int, c_void_p)
        self._sendmmsg.argtypes = (c_int, c_void_p, c_uint, c_int)
        self._buffers = _Buffers(bound.family, sources=sources)
        self._packets = memoryview(self._buffers.packets).cast("B")
        self._queries, self._responses = _Headers(self._buffers), _Headers(self._buffers)
        self._control_sizes = memoryview(array("L", [self._buffers.control_size] * MAX_BATCH))
        self._no_interfaces = memoryview(array("I", [0] * MAX_BATCH))
        if self._recvmmsg(bound.fileno(), None, 0, socket.MSG_DONTWAIT, None) or self._sendmmsg(
            bound.fileno(), None, 0, 0
        ):
            raise _last_error()

    def exchange(self, respond: Callable[[bytes], bytes | None], failed: Callable[[OSError], object]) -> int:
        """Answer up to MAX_BATCH packets that have come, and return how many; raises OSError if none can be received.

        A response that can't be sent is told to *failed*, and the next goes out.
        """
        count = self._received()
        queries, packets = self._buffers.packets, self._packets
        sizes = []
        for start, size in zip(_PACKET_STARTS, self._queries.sizes[:count].tolist(), strict=False):
            response = respond(queries[start : start + size])
            if response is None:
                sizes.append(0)
                continue
            packets[start : start + len(response)] = response
            sizes.append(len(response))
        if count:
            self._send(sizes, failed)
        return count

    def _received(self) -> int:
        """Receive what is there."""
        count: int = self._recvmmsg(self._socket.fileno(), self._queries.array, MAX_BATCH, socket.MSG_DONTWAIT, None)
        if count < 0:
            error = _last_error()
            if error.errno in {EAGAIN, EINTR}:
                return 0
            raise error
        if self._buffers.control_size:  # the route, not the interface that a query came by, chooses the answer's way
            self._responses.control_sizes[:count] = self._queries.control_sizes[:count]
            self._queries.control_sizes[:count] = self._control_sizes[:count]
            self._buffers.interfaces[:count] = self._no_interfaces[:count]
        return count

    def _send(self, sizes: list[int], failed: Callable[[OSError], object]) -> None:
        """Send the responses of *sizes*, of which those of none are left out."""
        count = len(sizes)
        self._responses.vector_sizes[:count] = memoryview(array("L", sizes))
        sizes.append(0)  # so that the last run has an end, too
        first = 0
        while first < count:
            end = sizes.index(0, first)
            while first < end:
                first += self._sent(first, end, failed)
            first = end + 1

    def _sent(self, first: int, end: int, failed: Callable[[OSError], object]) -> int:
        """Send some of the responses from *first* to before *end*; returns how many are done with."""
        headers = ctypes.byref(self._responses.array, first * ctypes.sizeof(_Header))
        count: int = self._sendmmsg(self._socket.fileno(), headers, end - first, 0)
        if count >= 0:
            return count
        error = _last_error()
        if error.errno == EINTR:
            return 0
        failed(error)
        return 1


def batches_of(bound: socket.socket, *, sources: bool) -> Batches | None:
    """Return the Batches of *bound*, or None where the platform has or allows no such calls."""
    if sys.platform != "linux":
        return None
    try:
        return Batches(bound, sources=sources)
    except (AttributeError, OSError):  # an older libc; a sandbox
        return None


def _column(structures: Any, field: Any, kind: str) -> memoryview:
    """Return *field*, of a type of the array module, of each of an array of *structures*."""
    cells = memoryview(structures).cast("B").cast(kind)  # type: ignore[call-overload]  # the format is an argument
    width = ctypes.sizeof(structures) // len(structures) // cells.itemsize
    column: memoryview = cells[field.offset // cells.itemsize :: width]
    return column


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
