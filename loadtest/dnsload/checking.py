"""Checks answers.

dnspython parses each distinct right answer only once. Afterwards, the checker recognizes its bytes. In this module,
answers and packets are without their message IDs. Answers that differ only in their TTLs, which caches count down,
count as equal.
"""

from collections import Counter
from collections.abc import Sequence
from enum import Enum, auto
from typing import NamedTuple

import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype

from dnsload.expectations import ABSENT, NOERROR, NXDOMAIN
from dnsload.workload import MISS_LABEL_BYTES, Asked, Question

_QUESTION = 10
"""The offset of the question in a packet without its message ID, after the flags and counts."""
_MAX_KNOWN = 1 << 16
"""The greatest number of answers that the checker remembers, besides two for each packet of the pool."""
_MAX_EXAMPLES = 10
_OPT = 41


class Fate(Enum):
    """The result of checking an answer."""

    RIGHT = auto()
    WRONG = auto()
    TRUNCATED = auto()
    FOREIGN = auto()
    """An answer to another question of the pool. Such an answer can come late, when a new query has the message ID."""


_KEPT = (Fate.RIGHT, Fate.TRUNCATED)


class Verdict(NamedTuple):
    """The verdict on an answer to the query at *place* in the pool. *rcode* is without its EDNS part."""

    place: int
    fate: Fate
    rcode: int


class Checker:
    """Checks answers, and remembers those that are right or truncated, to recognize them when they come again."""

    def __init__(self, pool: Sequence[Asked], *, stream: bool = False, authoritative: bool = True) -> None:
        self._pool = pool
        self._stream = stream
        self._authoritative = authoritative
        self._known: dict[bytes, Verdict] = {}
        self._max_known = 2 * len(pool) + _MAX_KNOWN
        self._absent: dict[bytes, Verdict] = {}
        self._ours: set[bytes] | None = None
        self.reasons: Counter[str] = Counter()
        """The number of wrong answers, by reason."""
        self.examples: list[str] = []
        """Descriptions of the first few wrong answers."""

    def judge(self, place: int, answer: bytes) -> Verdict:
        """Check *answer*, which came for the query at *place* in the pool."""
        if self._pool[place].expected is ABSENT:
            return self._judge_absent(place, answer)
        verdict = self._known.get(answer)
        if verdict is None:
            masked = without_ttls(answer)
            verdict = self._known.get(masked) or self._examine(place, answer)
            if verdict.fate in _KEPT:
                _keep(self._known, self._max_known, answer, masked, verdict)
        return verdict if verdict.place == place else Verdict(place, Fate.FOREIGN, verdict.rcode)

    def _judge_absent(self, place: int, answer: bytes) -> Verdict:
        """Check an answer for an absent name.

        The first label of such a name is random. The rest of the answer is the same for many names, so the checker
        remembers it.
        """
        if not answer.startswith(self._pool[place].wire, _QUESTION):
            return self._examine(place, answer)
        after = _QUESTION + MISS_LABEL_BYTES
        shape = answer[:_QUESTION] + answer[after:]
        verdict = self._absent.get(shape)
        if verdict is None:
            masked = without_ttls(answer)
            masked = masked[:_QUESTION] + masked[after:]
            verdict = self._absent.get(masked) or self._examine(place, answer)
            if verdict.fate in _KEPT:
                _keep(self._absent, _MAX_KNOWN, shape, masked, verdict)
        return verdict

    def _examine(self, place: int, answer: bytes) -> Verdict:
        asked = self._pool[place]
        rcode = answer[1] & 0xF if len(answer) >= _QUESTION else -1
        if answer[2:4] != b"\x00\x01" or not answer.startswith(asked.wire, _QUESTION):
            if self._is_ours(answer):
                return Verdict(place, Fate.FOREIGN, rcode)
            return self._wrong(place, rcode, "question", "the question is not echoed")
        try:
            message = dns.message.from_wire(b"\x00\x00" + answer)
        except dns.exception.DNSException as error:
            return self._wrong(place, rcode, "malformed", f"malformed: {error}")
        fault = self._fault(asked, message)
        if fault is not None:
            return self._wrong(place, rcode, *fault)
        truncated = bool(message.flags & dns.flags.TC)
        return Verdict(place, Fate.TRUNCATED if truncated else Fate.RIGHT, rcode)

    def _fault(self, asked: Asked, message: dns.message.Message) -> tuple[str, str] | None:
        """Return the fault of *message* in two forms: the reason under which it is counted, and a description.

        Return None if *message* is right.
        """
        rcode, text = message.rcode(), dns.rcode.to_text(message.rcode())
        expected = asked.expected
        if not message.flags & dns.flags.QR:
            return "not a response", "it is no response"
        if expected.rcode is None:
            return None if rcode in {NOERROR, NXDOMAIN} else ("rcode", text)
        if rcode != expected.rcode:
            return "rcode", f"{text} instead of {dns.rcode.to_text(dns.rcode.Rcode.make(expected.rcode))}"
        if self._authoritative and not message.flags & dns.flags.AA:
            return "not authoritative", "AA is not set"
        if message.flags & dns.flags.TC:
            return ("truncated", "TC is set over TCP") if self._stream else None
        if asked.question is None or expected.addresses is None:
            return None
        found = _addresses(message, asked.question)
        if found != expected.addresses:
            return "addresses", f"{_listed(found)} instead of {_listed(expected.addresses)}"
        return None

    def _wrong(self, place: int, rcode: int, kind: str, words: str) -> Verdict:
        self.reasons[kind] += 1
        if len(self.examples) < _MAX_EXAMPLES:
            self.examples.append(f"{self._pool[place].question}: {words}")
        return Verdict(place, Fate.WRONG, rcode)

    def _is_ours(self, answer: bytes) -> bool:
        """Tell whether the question in *answer* is that of a packet in the pool."""
        if self._ours is None:
            self._ours = {asked.wire for asked in self._pool if asked.question is not None}
        end = _question_end(answer)
        return answer[2:4] == b"\x00\x01" and answer[_QUESTION:end] in self._ours


def _keep(known: dict[bytes, Verdict], most: int, answer: bytes, masked: bytes, verdict: Verdict) -> None:
    if len(known) >= most:
        known.clear()
    known[answer] = known[masked] = verdict


def _question_end(message: bytes) -> int:
    """Return the offset at which the first question of *message* ends, or the length of an incomplete message."""
    place = _QUESTION
    while place < len(message) and 0 < message[place] < 64:
        place += message[place] + 1
    return min(place + 5, len(message))


def _addresses(message: dns.message.Message, question: Question) -> frozenset[str]:
    """Return the texts of the records that answer *question* in *message*, directly or through CNAME records."""
    qtype = dns.rdatatype.from_text(question.qtype)
    if not isinstance(message, dns.message.QueryMessage) or not message.answer:
        return frozenset()
    try:
        found = message.resolve_chaining().answer
    except dns.exception.DNSException:
        found = None
    if found is None:
        return frozenset({"an answer for another name or type"})
    return frozenset(record.to_text() for record in found if record.rdtype == qtype)


def _listed(addresses: frozenset[str]) -> str:
    return ", ".join(sorted(addresses)) or "no address"


def without_ttls(answer: bytes) -> bytes:
    """Return *answer* with its TTLs set to zero, as far as its records can be parsed. OPT records have no TTL."""
    masked = bytearray(answer)
    place = _question_end(answer)
    end = len(answer)
    while place + 11 <= end:
        while place < end and 0 < answer[place] < 64:
            place += answer[place] + 1
        if place + 11 > end:
            break
        place += 2 if answer[place] >= 0xC0 else 1
        if answer[place : place + 2] != _OPT.to_bytes(2):
            masked[place + 4 : place + 8] = bytes(4)
        place += 10 + int.from_bytes(answer[place + 8 : place + 10])
    return bytes(masked)
