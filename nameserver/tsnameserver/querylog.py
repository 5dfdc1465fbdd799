"""Logs some of the queries, each in one line: the client, the transport, the name and type, and the rcode."""

import logging
import random
import time
from collections.abc import Callable

from tsnameserver.message import HEADER_SIZE, RCODES, TYPES, question_of

log = logging.getLogger(__name__)

_MOST_LINES = 100
"""The greatest number of lines in one second, so that a flood of queries doesn't fill the log."""
_UNSAID = b'."\\'
"""The bytes that must be escaped in a label: the dot, the backslash (RFC 1035, 5.1) and the quotation mark."""


class QueryLog:
    """Logs about one in *every* queries, or none if *every* is 0. Several threads can use the object."""

    def __init__(self, every: int = 0, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.every = every
        self._clock = clock
        self._left = 1
        self._second = 0
        self._chosen = 0

    def sample(self) -> bool:
        """Tell whether to log the current query.

        The first query is logged; after it, chance decides. Clients ask for A and AAAA in pairs, so with a fixed step,
        the log could have only one of these two types.
        """
        if not self.every:
            return False
        self._left -= 1
        if self._left > 0:
            return False
        self._left = random.randint(1, 2 * self.every - 1)  # noqa: S311 - no secret
        return True

    def note(self, client: str, transport: str, response: bytes | None) -> None:
        """Log the query that has this *response*, unless enough lines have been logged in this second."""
        second = int(self._clock())
        if second != self._second:
            if self._chosen > _MOST_LINES:
                log.info("%d more were left out: a second has %d lines", self._chosen - _MOST_LINES, _MOST_LINES)
            self._second, self._chosen = second, 0
        self._chosen += 1
        if self._chosen <= _MOST_LINES:
            said = (client, transport, *_described(response))
            log.info("client=%s transport=%s qname=%s qtype=%s rcode=%s", *said)


def _described(response: bytes | None) -> tuple[str, str, str]:
    """Return the name, type and rcode in *response*, each as text or "-".

    An unreadable query has neither name nor type. A query without a response has no rcode.
    """
    if response is None:
        return "-", "-", "-"
    qname, qtype = question_of(response)
    if not qname:
        return "-", "-", RCODES[response[3] & 0xF]
    only_opt = response[6:12] == bytes((0, 0, 0, 0, 0, 1))
    more = response[HEADER_SIZE + len(qname) + 9] << 4 if only_opt else 0  # the rcode's upper bits
    return _text(qname), TYPES.get(qtype, f"TYPE{qtype}"), RCODES[more | response[3] & 0xF]


def _text(wire: bytes) -> str:
    """Return a name in the text form of master files (RFC 1035, 5.1), whatever bytes it has."""
    labels = []
    while wire[0]:
        labels.append("".join(map(_character, wire[1 : wire[0] + 1])))
        wire = wire[wire[0] + 1 :]
    return f"{'.'.join(labels)}."


def _character(byte: int) -> str:
    return chr(byte) if 0x20 < byte < 0x7F and byte not in _UNSAID else f"\\{byte:03d}"
