"""Tests of the log of queries: which are logged, and what a line says."""

import itertools
import logging
import random
from typing import NamedTuple

import pytest
from tsnameserver.answer import answer
from tsnameserver.querylog import QueryLog

from tests.nameserver.random_queries import ZONES, random_query
from tests.nameserver.samples import sample_zone, wire


class Case(NamedTuple):
    query: bytes
    said: str


DB = wire("db.tail1234.ts.net")
CASES = [
    Case(DB, "qname=db.tail1234.ts.net. qtype=A rcode=NOERROR"),
    Case(wire("DB.tail1234.ts.net", "AAAA", use_edns=0), "qname=DB.tail1234.ts.net. qtype=AAAA rcode=NOERROR"),
    Case(wire("no.ts.net", "TYPE65280"), "qname=no.ts.net. qtype=TYPE65280 rcode=NXDOMAIN"),
    Case(wire("."), "qname=. qtype=A rcode=REFUSED"),
    Case(wire("ts.net", use_edns=1), "qname=ts.net. qtype=A rcode=BADVERS"),
    Case(wire("many.tail1234.ts.net", use_edns=0), "qname=many.tail1234.ts.net. qtype=A rcode=NOERROR"),
    Case(wire(r"a\.b\"\\\010\127\~.ts.net"), r"qname=a\046b\034\092\010\127~.ts.net. qtype=A rcode=NXDOMAIN"),
    Case(DB[:4] + bytes(2) + DB[6:], "qname=- qtype=- rcode=FORMERR"),
    Case(DB[:2] + b"\x78" + DB[3:], "qname=- qtype=- rcode=NOTIMP"),
    Case(b"", "qname=- qtype=- rcode=-"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.said)
def test_a_line_says_who_asked_for_what_and_the_rcode(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    QueryLog(1).note("192.0.2.1", "tcp", answer(case.query, sample_zone()))
    assert caplog.messages == [f"client=192.0.2.1 transport=tcp {case.said}"]


def test_each_response_can_be_logged_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    chance, queries = random.Random(7), QueryLog(1, clock=itertools.count().__next__)
    for _ in range(2000):
        queries.note("192.0.2.1", "udp", answer(random_query(chance), ZONES[0]))
    assert len(caplog.messages) == 2000
    assert all(message.isascii() and message.isprintable() for message in caplog.messages)


def test_a_second_has_so_many_lines_and_the_next_says_how_many_were_left_out(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    times = [5.0] * 130 + [5.9, 6.0, 7.0]
    queries = QueryLog(1, clock=iter(times).__next__)
    for _ in times:
        queries.note("192.0.2.1", "udp", None)
    left_out = "31 more were left out: a second has 100 lines"
    assert [message == left_out for message in caplog.messages] == [False] * 100 + [True, False, False]


@pytest.mark.parametrize(("every", "least", "most"), [(0, 0, 0), (1, 1000, 1000), (10, 70, 130)])
def test_about_one_of_so_many_is_logged(every: int, least: int, most: int) -> None:
    queries = QueryLog(every)
    assert least <= sum(queries.sample() for _ in range(1000)) <= most


def test_the_first_query_is_logged_and_the_rest_at_no_fixed_step() -> None:
    queries = QueryLog(10)
    chosen = [number for number in range(1000) if queries.sample()]
    assert chosen[0] == 0
    assert len({after - before for before, after in itertools.pairwise(chosen)}) > 5
