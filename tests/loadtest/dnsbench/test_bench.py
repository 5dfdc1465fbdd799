"""Tests of measuring: our server alone, in short rounds."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from dnsbench.bench import Bench, Writer
from dnsbench.client import Client, Load
from dnsbench.dnsperf import Dnsperf
from dnsbench.process import Server
from dnsbench.progress import Progress
from dnsbench.queries import Mix, addresses
from dnsbench.records import Changes
from dnsbench.scenarios import Contestant, Scenario, Writes
from dnsbench.servers import Installed, Kind, answers

from tests.loadtest.dnsbench.test_dnsperf import SAID

HITS = Contestant("ours, hits", Kind.OURS, Mix(20, 0.0))
MISSES = Contestant("ours, misses", Kind.OURS, Mix(20, 1.0))
CHANGES = Contestant("ours, changes", Kind.OURS, Mix(20), Writes.SERVED)
ASIDE = Contestant("ours, no changes", Kind.OURS, Mix(20), Writes.ASIDE)


@pytest.fixture
def bench(client: Client, tmp_path: Path) -> Bench:
    return Bench(Installed.find({Kind.OURS}, None), client, min(os.sched_getaffinity(0)), tmp_path, Progress())


def test_contestants_are_measured_round_after_round(bench: Bench) -> None:
    rows = bench.run(Scenario("flood", "Flood", Load(0.3), 2, (HITS, MISSES)))
    assert [(row.scenario, row.label, len(row.rounds)) for row in rows] == [
        ("flood", "ours, hits", 2),
        ("flood", "ours, misses", 2),
    ]
    assert all(row.best.cpu_us > 0 and row.best.sent > 100 and row.best.wrong == 0 for row in rows)


def test_nothing_is_left_running(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.run(Scenario("flood", "Flood", Load(0.1), 1, (HITS,)))
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [command for command in commands if str(bench.folder).encode() in command]
    assert "round 1 of 1: ours, hits" in capsys.readouterr().err


def test_dnsperf_asks_where_it_is_told_to(bench: Bench, tmp_path: Path) -> None:
    program = tmp_path / "dnsperf"
    program.write_text(f"#!/bin/sh\ncat <<END\n{SAID}\nEND\n")
    program.chmod(0o755)
    measuring = replace(bench, dnsperf=Dnsperf(str(program), bench.core))
    rows = measuring.run(Scenario("dnsperf", "dnsperf", Load(0.1), 1, (HITS,), by_dnsperf=True))
    assert rows[0].best.sent == 1010


def test_changes_are_made_and_seen_to_be_served(bench: Bench) -> None:
    rows = bench.run(Scenario("reload", "Reload", Load(3.5, rate=200), 1, (CHANGES,)))
    assert rows[0].best.changes > 0


def test_writes_aside_change_nothing(bench: Bench) -> None:
    rows = bench.run(Scenario("reload", "Reload", Load(2.5, rate=200), 1, (ASIDE,)))
    assert rows[0].best.changes == 0
    assert (bench.folder / "records.json").exists()


def test_the_last_change_is_served_when_a_measurement_ends(bench: Bench) -> None:
    with bench.serve(Kind.OURS, 10) as (server, folder):
        writer = Writer(Changes.of(folder, addresses(10)), server.port)
        writer.write()
        writer.settle()
        assert answers(server.port, writer.changes.owed)


def test_a_change_that_is_not_served_does_not_count(ours: Server, tmp_path: Path) -> None:
    writer = Writer(Changes.of(tmp_path, addresses(1)), ours.port)
    for _ in range(3):
        writer.write()
    assert (writer.changes.made, writer.served) == (3, 0)
