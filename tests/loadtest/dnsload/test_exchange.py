"""Tests of message IDs, and of the results of queries: answered, late or lost."""

import pytest
from dnsload.checking import Checker
from dnsload.exchange import IDS, Exchange
from dnsload.tally import Tally
from dnsload.targets import Target
from dnsload.workload import Mix, QueryForm, Question, Workload

QUESTIONS = [Question("a.ts.net", "A"), Question("b.ts.net", "A")]
LOAD = Workload(QUESTIONS, None, QueryForm(), Mix(malformed=0.5))
MALFORMED = next(place for place, asked in enumerate(LOAD.pool) if asked.question is None)
TIMEOUT = 1000


@pytest.fixture
def exchange() -> Exchange:
    return Exchange(Target("127.0.0.1", 53), LOAD.pool, Checker(LOAD.pool), TIMEOUT)


@pytest.fixture
def tally() -> Tally:
    return Tally()


def answer(place: int, rcode: int = 0) -> bytes:
    packet = LOAD.pool[place].packet
    return bytes((0x80, rcode)) + packet[2:]


def test_the_latency_of_a_query_begins_at_its_scheduled_time(exchange: Exchange, tally: Tally) -> None:
    exchange.open([0, 1], [100, 150], 200, tally)
    exchange.close(tally, 1, answer(1), 260)
    exchange.close(tally, 0, answer(0, 3), 300)
    assert (tally.latencies, tally.lags) == ([110, 200], [100, 50])
    assert (tally.sent, tally.right, exchange.outstanding) == (2, 2, 0)
    assert tally.rcodes == {0: 1, 3: 1}


def test_a_second_answer_to_a_query_counts_as_unexpected(exchange: Exchange, tally: Tally) -> None:
    exchange.open([0], [0], 0, tally)
    for _ in range(3):
        exchange.close(tally, 0, answer(0), 5)
    exchange.close(tally, 77, answer(0), 5)
    assert (tally.right, tally.unexpected, len(tally.latencies)) == (1, 3, 1)


def test_a_query_stays_open_after_an_answer_to_another_question(exchange: Exchange, tally: Tally) -> None:
    exchange.open([0], [0], 0, tally)
    exchange.close(tally, 0, answer(1), 5)
    assert (tally.unexpected, exchange.outstanding) == (1, 1)
    exchange.close(tally, 0, answer(0), 6)
    assert (tally.right, exchange.outstanding) == (1, 0)


def test_a_query_is_lost_after_its_timeout_and_an_answer_after_that_is_late(exchange: Exchange, tally: Tally) -> None:
    exchange.open([0], [0], 50, tally)
    exchange.expire(50 + TIMEOUT - 1, tally)
    assert (tally.lost, exchange.outstanding) == (0, 1)
    exchange.expire(50 + TIMEOUT, tally)
    assert (tally.lost, exchange.outstanding) == (1, 0)
    exchange.close(tally, 0, answer(0), 50 + TIMEOUT + 1)
    exchange.close(tally, 0, answer(0), 50 + TIMEOUT + 2)
    assert (tally.late, tally.unexpected, tally.loss) == (1, 1, 1.0)
    assert (tally.right, tally.latencies) == (0, [50 + TIMEOUT + 1])


def test_malformed_packets_have_no_verdict_and_never_count_as_lost(exchange: Exchange, tally: Tally) -> None:
    exchange.open([MALFORMED, MALFORMED], [0, 0], 0, tally)
    exchange.close(tally, 0, b"\x80", 5)
    exchange.expire(TIMEOUT, tally)
    assert (tally.malformed_sent, tally.malformed_answered, exchange.outstanding) == (2, 1, 0)
    assert (tally.sent, tally.lost, tally.wrong, tally.latencies) == (0, 0, 0, [])


def test_a_message_id_is_not_reused_while_its_query_is_outstanding(exchange: Exchange, tally: Tally) -> None:
    exchange.open([0] * IDS, [0] * IDS, 0, tally)
    assert (exchange.room, exchange.outstanding) == (0, IDS)
    exchange.close(tally, 5, answer(0), 1)
    assert exchange.room == 0
    exchange.close(tally, 0, answer(0), 1)
    exchange.expire(1, tally)
    assert (exchange.room, exchange.next_id) == (1, 0)


def test_message_ids_start_again_at_0_after_the_last_one(exchange: Exchange, tally: Tally) -> None:
    exchange.open([0] * (IDS - 10), [0] * (IDS - 10), 0, Tally())
    exchange.abandon(Tally())
    for number in range(IDS - 10, IDS + 10):
        assert exchange.next_id == number % IDS
        exchange.open([number % 2], [number], number, tally)
        exchange.close(tally, number % IDS, answer(number % 2), number)
        exchange.expire(number, tally)
    assert (tally.right, tally.unexpected, exchange.room) == (20, 0, IDS)
