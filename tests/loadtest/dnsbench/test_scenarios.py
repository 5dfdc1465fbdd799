"""Tests of the scenarios in which servers are compared."""

from dnsbench.goals import GOALS, Table, judged
from dnsbench.queries import FEWEST, make
from dnsbench.scenarios import SCENARIOS, Writes
from dnsbench.soak import mix

from tests.loadtest.dnsbench.figures import row


def test_the_number_of_queries_of_each_sort_follows_from_their_shares() -> None:
    mixes = {each.mix for scenario in SCENARIOS for each in scenario.contestants} | {mix(raw=True)}
    assert all(len(make(each)) == FEWEST for each in {each._replace(names=1) for each in mixes})


def test_every_contestant_has_a_different_label() -> None:
    for scenario in SCENARIOS:
        assert len({each.label for each in scenario.contestants}) == len(scenario.contestants), scenario.name


def test_the_scenarios_measure_every_goal() -> None:
    rows = [row(scenario.name, each.label) for scenario in SCENARIOS for each in scenario.contestants]
    assert [verdict.text for verdict in judged(Table(rows), GOALS) if verdict.figure is None] == []


def test_the_cost_of_changes_is_compared_with_writes_that_change_nothing() -> None:
    reload = next(scenario for scenario in SCENARIOS if scenario.name == "reload")
    assert [each.writes for each in reload.contestants] == [Writes.ASIDE, Writes.SERVED]
