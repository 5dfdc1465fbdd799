"""Tests of counts that add up."""

from collections import Counter

import pytest
from dnsload.tally import Counts, Tally


def test_tallies_add_up() -> None:
    total = Tally(sent=1, right=1, rcodes=Counter({0: 1}))
    other = Tally(sent=2, wrong=1, lost=1, rcodes=Counter({0: 1, 3: 2}), latencies=[10, 20], lags=[1])
    other.flush()
    total.add(other)
    assert (total.sent, total.right, total.wrong, total.lost, total.answered) == (3, 1, 1, 1, 2)
    assert total.rcodes == {0: 2, 3: 2}
    assert (total.latency.count, total.lag.count) == (2, 1)


def test_durations_wait_until_there_are_enough() -> None:
    tally = Tally(latencies=[1] * 4095)
    tally.flush_some()
    assert tally.latency.count == 0
    tally.latencies.append(1)
    tally.flush_some()
    assert (tally.latency.count, tally.latencies) == (4096, [])


@pytest.mark.parametrize(
    ("counts", "loss"),
    [
        (Counts(), 0),
        (Counts(sent=10, lost=1), 0.1),
        (Counts(sent=10, lost=2, client_drops=1), 0.1),
        (Counts(sent=9, client_drops=1), 0),
    ],
)
def test_loss_is_without_what_the_client_dropped(counts: Counts, loss: float) -> None:
    assert counts.loss == loss
