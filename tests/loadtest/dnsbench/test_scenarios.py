"""Tests of the scenarios in which servers are compared."""

from dnsbench.goals import GOALS, Table, judged
from dnsbench.queries import FEWEST, make
from dnsbench.scenarios import SCENARIOS, Writes
from dnsbench.soak import mix

from tests.loadtest.dnsbench.figures import row


def test_the_queries_of_a_contestant_are_as_many_as_their_shares_say() -> None:
    mixes = {each.mix for scenario in SCENARIOS for each in scenario.contestants} | {mix(raw=True)}
    assert all(len(make(each)) == FEWEST for each in {each._replace(names=1) for each in mixes})


def test_contestants_have_labels_of_their_own() -> None:
    for scenario in SCENARIOS:
        assert len({each.label for each in scenario.contestants}) == len(scenario.contestants), scenario.name


def test_every_goal_is_measured_by_the_scenarios() -> None:
    rows = [row(scenario.name, each.label) for scenario in SCENARIOS for each in scenario.contestants]
    assert [verdict.text for verdict in judged(Table(rows), GOALS) if verdict.figure is None] == []


def test_changes_are_compared_with_as_many_writes_that_change_nothing() -> None:
    reload = next(scenario for scenario in SCENARIOS if scenario.name == "reload")
    assert [each.writes for each in reload.contestants] == [Writes.ASIDE, Writes.SERVED]
