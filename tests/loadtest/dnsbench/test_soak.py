"""Tests of a soak: its work in each second, and the verdict on it."""

from dataclasses import replace
from pathlib import Path

import pytest
from dnsbench import soak
from dnsbench.bench import Bench
from dnsbench.client import Client
from dnsbench.progress import Progress
from dnsbench.queries import Hostile
from dnsbench.servers import Installed, Kind
from dnsbench.soak import Soaked, growth, slope, verdicts

from tests.loadtest.dnsbench.conftest import SERVER_CORE
from tests.loadtest.dnsbench.figures import seen

FLAT = [50.0] * 600


@pytest.mark.parametrize(
    ("memory", "gained", "a_second"),
    [
        (FLAT, 0, 0),
        ([50 + 0.01 * second for second in range(600)], 0.01 * (600 - 10 - 60), 0.01),
        ([20.0] * 10 + FLAT, 0, 0),  # what is loaded in the first seconds is no growth
        (FLAT[:12], None, 0),
    ],
)
def test_growth_and_slope_of_memory_show_a_leak(memory: list[float], gained: float | None, a_second: float) -> None:
    assert growth(memory) == (gained if gained is None else pytest.approx(gained))
    assert slope(memory) == pytest.approx(a_second)


def soaked(served: int = 599, memory: list[float] = FLAT, **changes: int) -> Soaked:
    return Soaked(seen(**({"sent": 10_000_000, "lost": 0, "wrong": 0} | changes)), 600, served, 20.0, memory)


@pytest.mark.parametrize(
    ("run", "missed"),
    [
        (soaked(), []),
        (soaked(lost=10), []),
        (soaked(lost=11), ["queries lost by the server, of a million"]),
        (soaked(lost=500, client_drops=500), []),
        (soaked(wrong=1), ["wrong answers"]),
        (soaked(served=590), ["changes not served within a second, of a hundred"]),
        (soaked(memory=FLAT[:300] + [54.0] * 300), ["memory gained from the first minute to the last"]),
        (
            soaked(memory=[50 + second / 150 for second in range(600)]),
            [
                "memory gained from the first minute to the last",
                "memory gained an hour, by the slope",
            ],
        ),
    ],
)
def test_the_verdict_on_a_soak_depends_on_losses_wrong_answers_changes_and_memory(
    run: Soaked, missed: list[str]
) -> None:
    assert [verdict.text for verdict in verdicts(run) if verdict.missed] == missed


def test_packets_from_port_0_are_left_out_if_the_system_cannot_send_them() -> None:
    assert set(soak.mix(raw=True).hostile) - set(soak.mix(raw=False).hostile) == {Hostile.PORTLESS}


@pytest.mark.thorough
def test_in_a_short_soak_our_nameserver_loses_no_query_and_serves_all_changes(client: Client, tmp_path: Path) -> None:
    often = replace(client, tick_seconds=0.5)
    bench = Bench(Installed.find({Kind.OURS}, None), often, SERVER_CORE, tmp_path, Progress())
    run = soak.soak(bench, minutes=1.7 / 60, rate=1000)
    tally = run.seen.tally
    assert tally.right + tally.lost == tally.sent
    assert tally.malformed_sent == pytest.approx(0.05 * (tally.malformed_sent + tally.sent), rel=0.5)
    assert run.changes == len(run.memory) >= 3
    assert all(10 < each < 500 for each in run.memory)
    assert run.served > 0
