"""Tests of the DNS benchmark's measurements, with our nameserver alone and in short rounds."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from dnsbench.attacks import Attack, attacked
from dnsbench.bench import Bench, Writer
from dnsbench.client import Client
from dnsbench.errors import BenchError
from dnsbench.process import Server
from dnsbench.progress import Progress
from dnsbench.queries import Mix, addresses, hit
from dnsbench.records import Changes
from dnsbench.scenarios import ECHO, Contestant, Scenario, Writes
from dnsbench.servers import Installed, Kind, answers, free_port
from dnsbench.victims import Victim, watch
from dnsload.client import Load, steady

from tests.loadtest.dnsbench.conftest import NAMES, SERVER_CORE

HITS = Contestant("ours, hits", Kind.OURS, Mix(20, 0.0))
MISSES = Contestant("ours, misses", Kind.OURS, Mix(20, 1.0))
CHANGES = Contestant("ours, changes", Kind.OURS, Mix(20), Writes.SERVED)
ASIDE = Contestant("ours, no changes", Kind.OURS, Mix(20), Writes.ASIDE)


@pytest.fixture
def bench(client: Client, tmp_path: Path) -> Bench:
    installed = Installed.find({Kind.OURS}, None)
    return Bench(installed, client, SERVER_CORE, tmp_path, Progress(), warm_seconds=0.05)


def test_the_dns_benchmark_measures_each_contestant_in_each_round(bench: Bench) -> None:
    rows = bench.run(Scenario("flood", "Flood", Load(0.1), 2, (HITS, MISSES)))
    assert [(row.label, len(row.rounds)) for row in rows] == [("ours, hits", 2), ("ours, misses", 2)]
    assert all(row.best.sent > 100 and row.best.wrong == 0 and row.best.changes == 0 for row in rows)
    spent = [each.cpu_us * each.sent / 1e6 for row in rows for each in row.rounds]  # seconds, counted in ticks
    assert sum(spent) > 0
    assert max(spent) < 0.2  # the CPU time from before the round isn't counted
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [command for command in commands if str(bench.folder).encode() in command]


def test_in_the_dns_benchmark_the_answers_of_the_echo_server_count_as_right(bench: Bench) -> None:
    measuring = replace(bench, installed=Installed.find({Kind.ECHO}, None))
    (row,) = measuring.run(Scenario("saturated", "Saturated", Load(0.1), 1, (ECHO,)))
    assert (row.best.sent > 0, row.best.wrong, row.best.lost) == (True, 0, 0)


FLOOD, GONE = (
    Scenario("attack", "Attack", Load(0.3), 1, tuple(victims), attack=attack)
    for attack, victims in (
        (Attack.FLOOD, [Contestant(each, Kind.OURS, Mix(20), victim=each) for each in (Victim.PROBE, Victim.TCP)]),
        (Attack.GONE, [Contestant(Victim.UDP, Kind.OURS, Mix(20), victim=Victim.UDP)]),
    )
)


@pytest.mark.parametrize(
    "scenario",
    [FLOOD, pytest.param(GONE, marks=pytest.mark.skipif(os.geteuid() != 0, reason="it needs root"))],
    ids=lambda scenario: scenario.attack,
)
def test_during_an_attack_the_dns_benchmark_measures_the_answers_to_a_well_behaved_client(
    bench: Bench, scenario: Scenario
) -> None:
    for row in bench.run(scenario):
        assert (row.best.sent > 0, row.best.wrong, row.best.lost) == (True, 0, 0)
        assert 0 < row.best.p50_us <= row.best.longest_us
        assert row.best.longest_us <= 1.002 * row.best.stall_us  # latencies are known to 0.2 %, stalls exactly


def test_the_dns_benchmark_fails_if_the_attack_does_not_start() -> None:
    with pytest.raises(BenchError, match="doesn't start"), attacked(Attack.FLOOD, free_port(), SERVER_CORE):
        pass


def test_the_dns_benchmark_counts_every_query_to_a_silent_server_as_lost(tmp_path: Path) -> None:
    query = hit(*next(iter(addresses(1).items())))
    seen = watch(Victim.TCP, query, free_port(), tmp_path, 0.05).tally
    assert seen.sent == seen.lost == seen.latency.count > 0


@pytest.mark.thorough
def test_the_dns_benchmark_counts_the_changes_of_the_records_that_the_server_serves(bench: Bench) -> None:
    measuring = replace(bench, client=replace(bench.client, tick_seconds=0.5))
    rows = measuring.run(Scenario("reload", "Reload", Load(1.7, rates=steady(200)), 1, (CHANGES, ASIDE)))
    assert rows[0].best.changes > 0
    assert rows[1].best.changes == 0
    assert (bench.folder / "records.json").exists()


def test_the_newest_change_of_the_records_is_served_at_the_end_of_a_measurement(
    ours: Server, folder_of_ours: Path
) -> None:
    writer = Writer(Changes.of(folder_of_ours, addresses(NAMES)), ours.port)
    writer.write()
    writer.settle()
    assert answers(ours.port, writer.changes.owed)
    writer.write()
    assert (writer.changes.made, writer.served) == (2, 1)


def test_a_change_of_the_records_that_is_never_served_is_not_counted(ours: Server, tmp_path: Path) -> None:
    writer = Writer(replace(Changes.of(tmp_path, addresses(1)), made=100), ours.port)
    for _ in range(2):
        writer.write()
    assert (writer.changes.made, writer.served) == (102, 0)
