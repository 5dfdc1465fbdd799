"""Tests of the scenarios in which servers are compared."""

from dnsbench.goals import GOALS, Table, judged
from dnsbench.queries import FEWEST, make
from dnsbench.scenarios import SCENARIOS, Writes
from dnsbench.soak import mix

from tests.loadtest.dnsbench.figures import row


def test_each_mix_of_the_scenarios_has_the_minimum_number_of_queries_even_for_one_name() -> None:
    mixes = {each.mix for scenario in SCENARIOS for each in scenario.contestants} | {mix(raw=True)}
    assert all(len(make(each)) == FEWEST for each in {each._replace(names=1) for each in mixes})


def test_every_contestant_of_a_scenario_has_a_different_label() -> None:
    for scenario in SCENARIOS:
        assert len({each.label for each in scenario.contestants}) == len(scenario.contestants), scenario.name


def test_the_scenarios_measure_every_goal() -> None:
    rows = [row(scenario.name, each.label) for scenario in SCENARIOS for each in scenario.contestants]
    assert [verdict.text for verdict in judged(Table(rows), GOALS) if verdict.figure is None] == []


def test_a_scenario_compares_changes_of_the_records_with_writes_that_change_no_records() -> None:
    reload = next(scenario for scenario in SCENARIOS if scenario.name == "reload")
    assert [each.writes for each in reload.contestants] == [Writes.ASIDE, Writes.SERVED]
