"""Tests of the judgement on answers."""

from collections.abc import Callable
from typing import NamedTuple

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest
from dnsload.checking import Checker, Fate, without_ttls
from dnsload.expectations import KnownNames
from dnsload.workload import Mix, QueryForm, Question, Workload

DB = "db.tail1234.ts.net"
OTHER = "other.tail1234.ts.net"
KNOWN = KnownNames({DB: {"A": frozenset({"100.64.0.1", "100.64.0.2"})}, OTHER: {"A": frozenset({"100.64.0.3"})}})
SOA = "ts.net. {} IN SOA ns.ts.net. hostmaster.ts.net. 1 2 3 4 5"


def workload(miss: float = 0.0) -> Workload:
    return Workload(
        [Question(DB, "A"), Question(OTHER, "A")], KNOWN, QueryForm(edns=1232), Mix(miss=miss, absent_names=60)
    )


def response(packet: bytes) -> dns.message.Message:
    """Return a response that is right but for its records."""
    reply = dns.message.make_response(dns.message.from_wire(b"\x00\x00" + packet))
    reply.flags |= dns.flags.AA
    return reply


def right(packet: bytes, ttl: int = 5, *addresses: str) -> dns.message.Message:
    reply = response(packet)
    texts = addresses or ("100.64.0.1", "100.64.0.2")
    reply.answer.append(dns.rrset.from_text(reply.question[0].name, ttl, "IN", "A", *texts))
    return reply


def wire(message: dns.message.Message) -> bytes:
    return message.to_wire()[2:]


def truncated(packet: bytes) -> bytes:
    reply = response(packet)
    reply.flags |= dns.flags.TC
    return wire(reply)


def rcode(packet: bytes, code: dns.rcode.Rcode) -> bytes:
    reply = response(packet)
    reply.set_rcode(code)
    return wire(reply)


def not_authoritative(packet: bytes) -> bytes:
    reply = right(packet)
    reply.flags &= ~dns.flags.AA
    return wire(reply)


def alias(packet: bytes) -> bytes:
    reply = response(packet)
    reply.answer.append(dns.rrset.from_text(reply.question[0].name, 5, "IN", "CNAME", "x.ts.net."))
    reply.answer.append(dns.rrset.from_text("x.ts.net.", 5, "IN", "A", "100.64.0.1", "100.64.0.2"))
    return wire(reply)


class Case(NamedTuple):
    name: str
    make: Callable[[bytes], bytes]
    fate: Fate
    reason: str | None = None


CASES = [
    Case("right", lambda packet: wire(right(packet)), Fate.RIGHT),
    Case("another order", lambda packet: wire(right(packet, 5, "100.64.0.2", "100.64.0.1")), Fate.RIGHT),
    Case("an alias", alias, Fate.RIGHT),
    Case("one address is missing", lambda packet: wire(right(packet, 5, "100.64.0.1")), Fate.WRONG, "addresses"),
    Case("another address", lambda packet: wire(right(packet, 5, "192.0.2.1")), Fate.WRONG, "addresses"),
    Case("no address", lambda packet: wire(response(packet)), Fate.WRONG, "addresses"),
    Case("NXDOMAIN", lambda packet: rcode(packet, dns.rcode.NXDOMAIN), Fate.WRONG, "rcode"),
    Case("BADVERS", lambda packet: rcode(packet, dns.rcode.BADVERS), Fate.WRONG, "rcode"),
    Case("no AA", not_authoritative, Fate.WRONG, "not authoritative"),
    Case("truncated", truncated, Fate.TRUNCATED),
    Case("the query itself", lambda packet: packet, Fate.WRONG, "not a response"),
    Case("another name", lambda packet: wire(right(packet)).replace(b"\x02db", b"\x02dc"), Fate.WRONG, "question"),
    Case("another case", lambda packet: wire(right(packet)).replace(b"\x02db", b"\x02dB"), Fate.WRONG, "question"),
    Case("cut short", lambda packet: wire(right(packet))[:-12], Fate.WRONG, "malformed"),
    Case("a header only", lambda packet: wire(right(packet))[:10], Fate.WRONG, "question"),
    Case("nothing", lambda _: b"", Fate.WRONG, "question"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_answer_is_judged(case: Case) -> None:
    load = workload()
    checker = Checker(load.pool)
    answer = case.make(load.pool[0].packet)
    for _ in range(2):
        assert checker.judge(0, answer).fate is case.fate
    assert [*checker.reasons] == ([case.reason] if case.reason else [])


def test_an_answer_to_another_of_our_questions_is_foreign() -> None:
    load = workload()
    checker = Checker(load.pool)
    answer = wire(right(load.pool[1].packet, 5, "100.64.0.3"))
    assert checker.judge(0, answer).fate is Fate.FOREIGN
    assert checker.judge(1, answer).fate is Fate.RIGHT
    assert checker.judge(0, answer).fate is Fate.FOREIGN
    assert not checker.reasons


def test_an_answer_by_tcp_may_not_be_truncated() -> None:
    load = workload()
    assert Checker(load.pool, stream=True).judge(0, truncated(load.pool[0].packet)).fate is Fate.WRONG


def test_a_resolver_need_not_be_authoritative() -> None:
    load = workload()
    checker = Checker(load.pool, authoritative=False)
    assert checker.judge(0, not_authoritative(load.pool[0].packet)).fate is Fate.RIGHT


def test_the_rcode_is_all_that_counts_without_records() -> None:
    load = Workload([Question(DB, "A")], None, QueryForm(), Mix())
    checker = Checker(load.pool)
    assert checker.judge(0, wire(right(load.pool[0].packet, 5, "192.0.2.1"))).fate is Fate.RIGHT
    assert checker.judge(0, rcode(load.pool[0].packet, dns.rcode.NXDOMAIN)).fate is Fate.RIGHT
    assert checker.judge(0, rcode(load.pool[0].packet, dns.rcode.SERVFAIL)).fate is Fate.WRONG


def absent(packet: bytes, code: dns.rcode.Rcode = dns.rcode.NXDOMAIN, ttl: int = 5) -> bytes:
    reply = response(packet)
    reply.set_rcode(code)
    reply.authority.append(dns.rrset.from_text("ts.net.", ttl, "IN", "SOA", SOA.split("SOA ")[1]))
    return wire(reply)


def test_absent_names_are_judged_by_what_they_share() -> None:
    load = workload(miss=1)
    checker = Checker(load.pool)
    for place in range(2, 50):
        assert checker.judge(place, absent(load.pool[place].packet, ttl=place)).fate is Fate.RIGHT
        assert checker.judge(place, absent(load.pool[place].packet, dns.rcode.NOERROR)).fate is Fate.WRONG
        assert checker.judge(place, absent(load.pool[place + 1].packet)).fate is Fate.FOREIGN
    assert checker.reasons == {"rcode": 48}


def test_ttls_that_count_down_do_not_make_another_answer() -> None:
    load = workload()
    first, second = (wire(right(load.pool[1].packet, ttl, "100.64.0.3")) for ttl in (300, 299))
    assert first != second
    assert without_ttls(first) == without_ttls(second)
    other = wire(right(load.pool[1].packet, 300, "192.0.2.1"))
    assert without_ttls(other) != without_ttls(first)


def test_the_flags_of_an_opt_record_are_no_ttl() -> None:
    load = workload()
    assert without_ttls(rcode(load.pool[0].packet, dns.rcode.BADVERS)) != without_ttls(
        wire(response(load.pool[0].packet))
    )


def test_the_first_wrong_answers_are_told_in_words() -> None:
    load = workload()
    checker = Checker(load.pool)
    for last in range(1, 30):
        checker.judge(0, wire(right(load.pool[0].packet, 5, f"192.0.2.{last}")))
    assert checker.examples[0] == f"{DB} A: 192.0.2.1 instead of 100.64.0.1, 100.64.0.2"
    assert (len(checker.examples), checker.reasons["addresses"]) == (10, 29)
