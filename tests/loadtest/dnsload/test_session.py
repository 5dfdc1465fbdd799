"""Tests of when a run is over."""

from dnsload.checking import Checker
from dnsload.exchange import Exchange
from dnsload.schedule import SECOND, ClosedLoop, OpenLoop, Schedule, Segment
from dnsload.session import over, sending_over
from dnsload.tally import Tally
from dnsload.targets import Target
from dnsload.workload import Mix, QueryForm, Question, Workload


def test_sending_is_over_when_all_is_handed_out_and_the_time_is_up() -> None:
    pacing = OpenLoop(Schedule([Segment(1, 2, 2)]), start=0)
    assert len(pacing.due(SECOND, 0, 10)) == 2
    assert [sending_over(pacing, now) for now in (SECOND - 1, SECOND)] == [False, True]


def test_a_client_that_lags_may_send_a_little_longer() -> None:
    pacing = OpenLoop(Schedule([Segment(1, 2, 2)]), start=0)
    assert [sending_over(pacing, now) for now in (SECOND, SECOND + SECOND // 2)] == [False, True]


def test_a_run_is_over_when_nothing_is_outstanding() -> None:
    load = Workload([Question("a.ts.net", "A")], None, QueryForm(), Mix())
    exchange = Exchange(Target("192.0.2.1", 53), load.pool, Checker(load.pool), timeout_ns=10)
    pacing = ClosedLoop(1, 1.0, start=0)
    exchange.open([0], [SECOND - 1], SECOND - 1, Tally())
    assert not over(pacing, [exchange], SECOND)
    exchange.expire(SECOND + 10, Tally())
    assert over(pacing, [exchange], SECOND + 10)
