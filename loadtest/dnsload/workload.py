"""The queries of a run: a pool of packets, and an endless choice from the pool, random or in order.

The packets are made before the run. A packet is a query without its message ID, which it gets when it is sent.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import dns.edns
import dns.exception
import dns.name
import dns.rdatatype
import numpy as np

from dnsload.errors import InputError
from dnsload.expectations import ABSENT, UNKNOWN, Expectation, KnownNames, fold

_CHOSEN_AHEAD = 8192
_MISS_PREFIX = "dnsload-"
MISS_LABEL_BYTES = 1 + len(_MISS_PREFIX) + 16
"""The number of bytes of the first label of an absent name in a packet, including the label's length byte."""
_MALFORMED = 2048
_FLAGS_RECURSE = b"\x01\x00"
_FLAGS_PLAIN = b"\x00\x00"
_CLASS_IN = b"\x00\x01"


@dataclass(frozen=True, slots=True)
class Question:
    """A name, which `fold` has normalized, and the name of a record type."""

    name: str
    qtype: str

    def __str__(self) -> str:
        return f"{self.name} {self.qtype}"


@dataclass(frozen=True, slots=True)
class Asked:
    """A packet of the pool, with its question and the expected answer."""

    packet: bytes
    question: Question | None
    """The question, or None for a malformed packet."""
    wire: bytes
    """The question in wire format."""
    expected: Expectation


@dataclass(frozen=True, slots=True)
class QueryForm:
    """The properties of a query besides its question."""

    edns: int | None = None
    """The UDP payload size to offer by EDNS, in bytes. With None, the query has no EDNS."""
    dnssec_ok: bool = False
    recursion_desired: bool = False
    options: tuple[dns.edns.Option, ...] = ()

    def asked(self, question: Question, expected: Expectation) -> Asked:
        """Return the query for *question*; raises InputError."""
        flags = _FLAGS_RECURSE if self.recursion_desired else _FLAGS_PLAIN
        counts = b"\x00\x01\x00\x00\x00\x00" + (b"\x00\x00" if self.edns is None else b"\x00\x01")
        wire = question_wire(question)
        return Asked(flags + counts + wire + self._opt(), question, wire, expected)

    def _opt(self) -> bytes:
        if self.edns is None:
            return b""
        flags = b"\x80\x00" if self.dnssec_ok else b"\x00\x00"
        options = b""
        for option in self.options:
            data = option.to_wire() or b""
            options += int(option.otype).to_bytes(2) + len(data).to_bytes(2) + data
        return b"\x00\x00\x29" + self.edns.to_bytes(2) + b"\x00\x00" + flags + len(options).to_bytes(2) + options


@dataclass(frozen=True, slots=True)
class Mix:
    """The share of queries for absent names, the share of malformed packets, and the seed of the random choice."""

    miss: float = 0.0
    malformed: float = 0.0
    seed: int = 0
    absent_names: int = 1 << 16
    """The number of different absent names.

    It is so large that a cache has forgotten the negative answer for a name before the name is asked for again.
    """
    in_order: bool = False
    """True if the questions are asked in their order, and not at random.

    A question that is listed twice is asked twice.
    """


class Workload:
    """The pool of packets, and the choice of the packets to send."""

    def __init__(self, questions: Sequence[Question], known: KnownNames | None, form: QueryForm, mix: Mix) -> None:
        self._random = np.random.default_rng(mix.seed)
        self._mix = mix
        unique = list(dict.fromkeys(questions))
        places = {question: place for place, question in enumerate(unique)}
        self._hits = np.array([places[question] for question in questions], np.int64)
        self.pool = [form.asked(question, _expectation(question, known)) for question in unique]
        self._misses = self._grow(self._absent(unique, form) if mix.miss else [])
        self._malformed = self._grow(self._mutated() if mix.malformed else [])
        self._chosen: list[int] = []
        self._used = self._drawn = 0

    @property
    def questions(self) -> int:
        """The number of questions. A question that is listed twice counts twice."""
        return len(self._hits)

    @property
    def is_in_order(self) -> bool:
        """True if the questions are asked in their order."""
        return self._mix.in_order

    @property
    def has_malformed(self) -> bool:
        """True if some of the chosen packets are malformed."""
        return bool(len(self._malformed))

    def choose(self, count: int) -> list[int]:
        """Choose the next *count* packets, at random or in order, and return their positions in the pool."""
        end = self._used + count
        if end > len(self._chosen):
            self._chosen = self._chosen[self._used :] + self._draw(max(_CHOSEN_AHEAD, count))
            self._used, end = 0, count
        taken = self._chosen[self._used : end]
        self._used = end
        return taken

    def _draw(self, count: int) -> list[int]:
        if self._mix.in_order:
            ahead: list[int] = self._hits[np.arange(self._drawn, self._drawn + count) % len(self._hits)].tolist()
            self._drawn += count
            return ahead
        places = self._hits[self._random.integers(len(self._hits), size=count)]
        chance = self._random.random(count)
        for share, candidates, below in (
            (self._mix.malformed, self._malformed, 0.0),
            (self._mix.miss, self._misses, self._mix.malformed),
        ):
            chosen = (chance >= below) & (chance < below + share)
            if chosen.any():
                places[chosen] = candidates[self._random.integers(len(candidates), size=int(chosen.sum()))]
        result: list[int] = places.tolist()
        return result

    def _grow(self, more: Iterable[Asked]) -> np.ndarray:
        start = len(self.pool)
        self.pool += more
        return np.arange(start, len(self.pool))

    def _absent(self, questions: Sequence[Question], form: QueryForm) -> Iterable[Asked]:
        """Yield queries for absent names: each has a random first label, under the parent of an existing name."""
        labels = self._random.integers(1 << 62, size=self._mix.absent_names).tolist()
        for number, label in enumerate(labels):
            like = questions[number % len(questions)]
            parent = like.name.partition(".")[2] or like.name
            question = Question(f"{_MISS_PREFIX}{label:016x}.{parent}", like.qtype)
            yield form.asked(question, ABSENT)

    def _mutated(self) -> Iterable[Asked]:
        """Yield damaged packets of the pool: with some bytes overwritten, and half of the packets also cut short."""
        for number in range(_MALFORMED):
            packet = bytearray(self.pool[int(self._random.choice(self._hits))].packet)
            for place in self._random.integers(len(packet), size=1 + number % 4):
                packet[place] = int(self._random.integers(256))
            if number % 2:
                del packet[int(self._random.integers(len(packet))) :]
            yield Asked(bytes(packet), None, b"", UNKNOWN)


def _expectation(question: Question, known: KnownNames | None) -> Expectation:
    return UNKNOWN if known is None else known.expectation(question.name, question.qtype)


def question_wire(question: Question) -> bytes:
    """Return *question* in wire format; raises InputError."""
    try:
        name = dns.name.from_text(question.name).to_wire() or b""
        qtype = dns.rdatatype.from_text(question.qtype)
    except dns.rdatatype.UnknownRdatatype as error:
        raise InputError(f"{question.qtype!r} is no type of record") from error
    except (dns.exception.DNSException, UnicodeError) as error:
        raise InputError(f"{question.name!r} is no DNS name: {error}") from error
    return name + int(qtype).to_bytes(2) + _CLASS_IN


def parse_questions(lines: Iterable[str], types: Sequence[str]) -> list[Question]:
    """Parse lines `name [type]`. A name without a type is asked for each of *types*. Raises InputError."""
    questions = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if len(words) > 2:
            raise InputError(f"line {number} is not a name and at most a type: {line.strip()!r}")
        if words:
            questions += [Question(fold(words[0]), qtype.upper()) for qtype in words[1:] or types]
    return questions


def read_questions(path: Path, types: Sequence[str]) -> list[Question]:
    """Read a file with lines `name [type]`. A name without a type is asked for each of *types*. Raises InputError."""
    try:
        with path.open(encoding="utf-8") as lines:
            return parse_questions(lines, types)
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}") from error
    except UnicodeError as error:
        raise InputError(f"{path} is not text: {error}") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
