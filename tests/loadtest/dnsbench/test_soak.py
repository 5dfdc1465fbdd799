"""Tests of a long run: what it does each second, and how it is judged."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from dnsbench import soak
from dnsbench.bench import Bench
from dnsbench.client import Client
from dnsbench.progress import Progress
from dnsbench.servers import Installed, Kind
from dnsbench.soak import Soaked, growth, slope, verdicts

from tests.loadtest.dnsbench.conftest import SERVER_CORE
from tests.loadtest.dnsbench.figures import answers

FLAT = [50.0] * 600
FINE = answers(sent=10_000_000, lost=0, wrong=0)


def test_memory_that_stays_has_neither_growth_nor_slope() -> None:
    assert (growth(FLAT), slope(FLAT)) == (0, 0)


def test_a_leak_is_growth_and_slope() -> None:
    leaking = [50 + 0.01 * second for second in range(600)]
    assert growth(leaking) == pytest.approx(0.01 * (600 - 10 - 60))
    assert slope(leaking) == pytest.approx(0.01)


def test_memory_of_the_first_seconds_is_no_growth() -> None:
    assert growth([20.0] * 10 + FLAT) == 0


def test_a_run_too_short_has_no_growth() -> None:
    assert growth(FLAT[:12]) is None


class Case(NamedTuple):
    soaked: Soaked
    missed: list[str]


@pytest.mark.parametrize(
    "case",
    [
        Case(Soaked(FINE, 600, 599, 20.0, FLAT), []),
        Case(Soaked(FINE.model_copy(update={"lost": 10}), 600, 599, 20.0, FLAT), []),
        Case(
            Soaked(FINE.model_copy(update={"lost": 11}), 600, 599, 20.0, FLAT),
            ["queries lost by the server, of a million"],
        ),
        Case(Soaked(FINE.model_copy(update={"lost": 500, "dropped": 500}), 600, 599, 20.0, FLAT), []),
        Case(Soaked(FINE.model_copy(update={"wrong": 1}), 600, 599, 20.0, FLAT), ["wrong answers"]),
        Case(Soaked(FINE, 600, 590, 20.0, FLAT), ["changes not served within a second, of a hundred"]),
        Case(
            Soaked(FINE, 600, 599, 20.0, FLAT[:300] + [54.0] * 300), ["memory gained from the first minute to the last"]
        ),
    ],
)
def test_a_soak_is_judged_by_loss_wrong_answers_changes_and_memory(case: Case) -> None:
    assert [verdict.text for verdict in verdicts(case.soaked) if verdict.missed] == case.missed


@pytest.mark.thorough
def test_a_short_soak_loses_nothing_and_serves_its_changes(client: Client, tmp_path: Path) -> None:
    often = replace(client, tick_seconds=0.5)
    bench = Bench(Installed.find({Kind.OURS}, None), often, SERVER_CORE, tmp_path, Progress())
    soaked = soak.soak(bench, minutes=1.7 / 60, rate=1000)
    assert soaked.answers.hits + soaked.answers.misses + soaked.answers.lost == soaked.answers.sent
    assert soaked.answers.junk > 0
    assert soaked.changes == len(soaked.memory) >= 3
    assert soaked.served > 0
