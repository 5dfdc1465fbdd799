"""Tests of the query log: which queries get a line, and the content of a line."""

import itertools
import logging
import random

import pytest
from tsnameserver.answer import answer
from tsnameserver.querylog import QueryLog

from tests.nameserver.random_queries import ZONES, random_query
from tests.nameserver.samples import sample_zone, wire

DB = wire("db.tail1234.ts.net")
LINES = {
    "qname=db.tail1234.ts.net. qtype=A rcode=NOERROR": DB,
    "qname=DB.tail1234.ts.net. qtype=AAAA rcode=NOERROR": wire("DB.tail1234.ts.net", "AAAA", use_edns=0),
    "qname=no.ts.net. qtype=TYPE65280 rcode=NXDOMAIN": wire("no.ts.net", "TYPE65280"),
    "qname=. qtype=A rcode=REFUSED": wire("."),
    "qname=ts.net. qtype=A rcode=BADVERS": wire("ts.net", use_edns=1),
    "qname=many.tail1234.ts.net. qtype=A rcode=NOERROR": wire("many.tail1234.ts.net", use_edns=0),
    r"qname=a\046b\034\092\010\032\127~.ts.net. qtype=A rcode=NXDOMAIN": wire(r"a\.b\"\\\010\032\127\~.ts.net"),
    "qname=- qtype=- rcode=FORMERR": DB[:4] + bytes(2) + DB[6:],
    "qname=- qtype=- rcode=NOTIMP": DB[:2] + b"\x78" + DB[3:],
    "qname=- qtype=- rcode=-": b"",
}


@pytest.fixture(autouse=True)
def _logging(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


@pytest.mark.parametrize(("said", "query"), LINES.items(), ids=LINES)
def test_a_line_of_the_query_log_has_the_client_the_question_and_the_rcode(
    said: str, query: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    QueryLog(1).note("192.0.2.1", "tcp", answer(query, sample_zone()))
    assert caplog.messages == [f"client=192.0.2.1 transport=tcp {said}"]


def test_the_query_log_has_a_printable_line_for_each_response_if_it_logs_every_query(
    caplog: pytest.LogCaptureFixture,
) -> None:
    chance, queries = random.Random(7), QueryLog(1, clock=itertools.count().__next__)
    for _ in range(2000):
        queries.note("192.0.2.1", "udp", answer(random_query(chance), ZONES[0]))
    assert len(caplog.messages) == 2000
    assert all(message.isascii() and message.isprintable() for message in caplog.messages)


def test_the_query_log_has_a_limit_of_lines_a_second_and_says_how_many_were_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    times = [4.0] * 100 + [5.0] * 130 + [5.9, 6.0, 7.0]
    queries = QueryLog(1, clock=iter(times).__next__)
    for _ in times:
        queries.note("192.0.2.1", "udp", None)
    left_out = "31 more were left out: a second has 100 lines"
    assert [message == left_out for message in caplog.messages] == [False] * 200 + [True, False, False]


@pytest.mark.parametrize(("every", "least", "most"), [(0, 0, 0), (1, 1000, 1000), (10, 70, 130)])
def test_a_sampled_query_log_has_the_first_query_and_then_the_requested_share_at_irregular_steps(
    every: int, least: int, most: int
) -> None:
    queries = QueryLog(every)
    chosen = [number for number in range(1000) if queries.sample()]
    assert least <= len(chosen) <= most
    assert chosen[:1] == [0] * (every > 0)
    assert every < 10 or len({after - before for before, after in itertools.pairwise(chosen)}) > 5
