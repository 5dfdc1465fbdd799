"""Tests of the verdict on each answer."""

from collections.abc import Callable

import dns.message
import dns.rrset
import pytest
from dns.flags import AA, TC
from dns.rcode import BADVERS, NOERROR, NXDOMAIN, SERVFAIL, Rcode
from dnsload.checking import Checker, Fate, without_ttls
from dnsload.expectations import KnownNames
from dnsload.workload import Mix, QueryForm, Question, Workload

DB = "db.tail1234.ts.net"
OTHER = "other.tail1234.ts.net"
FIRST, SECOND, OTHERS = "100.64.0.1", "100.64.0.2", "100.64.0.3"
KNOWN = KnownNames({DB: {"A": frozenset({FIRST, SECOND})}, OTHER: {"A": frozenset({OTHERS})}})
SOA = "ns.ts.net. hostmaster.ts.net. 1 2 3 4 5"


def workload(miss: float = 0.0, known: KnownNames | None = KNOWN) -> Workload:
    questions = [Question(DB, "A"), Question(OTHER, "A")]
    return Workload(questions, known, QueryForm(edns=1232), Mix(miss=miss, absent_names=60))


def response(packet: bytes, rcode: Rcode = NOERROR, flags: int = AA) -> dns.message.Message:
    reply = dns.message.make_response(dns.message.from_wire(b"\x00\x00" + packet))
    reply.flags |= flags
    reply.set_rcode(rcode)
    return reply


def wire(message: dns.message.Message) -> bytes:
    return message.to_wire()[2:]


def empty(packet: bytes, rcode: Rcode = NOERROR, flags: int = AA) -> bytes:
    return wire(response(packet, rcode, flags))


def addresses(packet: bytes, *texts: str, ttl: int = 5, flags: int = AA) -> bytes:
    reply = response(packet, flags=flags)
    reply.answer.append(dns.rrset.from_text(reply.question[0].name, ttl, "IN", "A", *texts))
    return wire(reply)


def right(packet: bytes) -> bytes:
    return addresses(packet, FIRST, SECOND)


def alias(packet: bytes) -> bytes:
    reply = response(packet)
    reply.answer.append(dns.rrset.from_text(reply.question[0].name, 5, "IN", "CNAME", "x.ts.net."))
    reply.answer.append(dns.rrset.from_text("x.ts.net.", 5, "IN", "A", FIRST, SECOND))
    return wire(reply)


CASES: dict[str, tuple[Callable[[bytes], bytes], Fate, str | None]] = {
    "right": (right, Fate.RIGHT, None),
    "another order": (lambda packet: addresses(packet, SECOND, FIRST), Fate.RIGHT, None),
    "an alias": (alias, Fate.RIGHT, None),
    "one address is missing": (lambda packet: addresses(packet, FIRST), Fate.WRONG, "addresses"),
    "another address": (lambda packet: addresses(packet, "192.0.2.1"), Fate.WRONG, "addresses"),
    "no address": (empty, Fate.WRONG, "addresses"),
    "NXDOMAIN": (lambda packet: empty(packet, NXDOMAIN), Fate.WRONG, "rcode"),
    "BADVERS": (lambda packet: empty(packet, BADVERS), Fate.WRONG, "rcode"),
    "no AA": (lambda packet: addresses(packet, FIRST, SECOND, flags=0), Fate.WRONG, "not authoritative"),
    "truncated": (lambda packet: empty(packet, flags=AA | TC), Fate.TRUNCATED, None),
    "the query itself": (lambda packet: packet, Fate.WRONG, "not a response"),
    "another name": (lambda packet: right(packet).replace(b"\x02db", b"\x02dc"), Fate.WRONG, "question"),
    "another case": (lambda packet: right(packet).replace(b"\x02db", b"\x02dB"), Fate.WRONG, "question"),
    "cut short": (lambda packet: right(packet)[:-12], Fate.WRONG, "malformed"),
    "a header only": (lambda packet: right(packet)[:10], Fate.WRONG, "question"),
    "nothing": (lambda _: b"", Fate.WRONG, "question"),
}


@pytest.mark.parametrize(("make", "fate", "reason"), CASES.values(), ids=CASES)
def test_the_checker_of_answers_detects_each_sort_of_wrong_answer(
    make: Callable[[bytes], bytes], fate: Fate, reason: str | None
) -> None:
    load = workload()
    checker = Checker(load.pool)
    answer = make(load.pool[0].packet)
    for _ in range(2):
        assert checker.judge(0, answer).fate is fate
    assert [*checker.reasons] == ([reason] if reason else [])


def test_an_answer_to_another_question_than_the_querys_counts_as_foreign() -> None:
    load = workload()
    checker = Checker(load.pool)
    answer = addresses(load.pool[1].packet, OTHERS)
    assert checker.judge(0, answer).fate is Fate.FOREIGN
    assert checker.judge(1, answer).fate is Fate.RIGHT
    assert checker.judge(0, answer).fate is Fate.FOREIGN
    assert not checker.reasons


def test_without_records_only_the_rcode_decides_whether_an_answer_is_right() -> None:
    load = workload(known=None)
    checker = Checker(load.pool)
    assert checker.judge(0, addresses(load.pool[0].packet, "192.0.2.1")).fate is Fate.RIGHT
    assert checker.judge(0, empty(load.pool[0].packet, NXDOMAIN)).fate is Fate.RIGHT
    assert checker.judge(0, empty(load.pool[0].packet, SERVFAIL)).fate is Fate.WRONG


def absent(packet: bytes, rcode: Rcode = NXDOMAIN, ttl: int = 5) -> bytes:
    reply = response(packet, rcode)
    reply.authority.append(dns.rrset.from_text("ts.net.", ttl, "IN", "SOA", SOA))
    return wire(reply)


def test_an_answer_for_an_absent_name_is_right_if_it_is_nxdomain_and_repeats_the_question() -> None:
    load = workload(miss=1)
    checker = Checker(load.pool)
    for place in range(2, 50):
        assert checker.judge(place, absent(load.pool[place].packet, ttl=place)).fate is Fate.RIGHT
        assert checker.judge(place, absent(load.pool[place].packet, NOERROR)).fate is Fate.WRONG
        assert checker.judge(place, absent(load.pool[place + 1].packet)).fate is Fate.FOREIGN
    assert checker.reasons == {"rcode": 48}


def test_a_ttl_that_counts_down_does_not_make_an_answer_different() -> None:
    packet = workload().pool[1].packet
    first, second = (addresses(packet, OTHERS, ttl=ttl) for ttl in (300, 299))
    assert first != second
    assert without_ttls(first) == without_ttls(second)
    assert without_ttls(addresses(packet, "192.0.2.1", ttl=300)) != without_ttls(first)


def test_the_report_describes_the_first_wrong_answers_in_words() -> None:
    load = workload()
    checker = Checker(load.pool)
    for last in range(1, 30):
        checker.judge(0, addresses(load.pool[0].packet, f"192.0.2.{last}"))
    assert checker.examples[0] == f"{DB} A: 192.0.2.1 instead of 100.64.0.1, 100.64.0.2"
    assert (len(checker.examples), checker.reasons["addresses"]) == (10, 29)
