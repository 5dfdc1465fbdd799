"""Tests of the compiled client, which the DNS benchmark runs on a CPU core of its own."""

from dataclasses import replace
from pathlib import Path

import pytest
from dnsbench.client import Client, read_reports
from dnsbench.errors import BenchError
from dnsbench.process import Server
from dnsbench.queries import DOMAIN, Hostile, Mix, make, miss
from dnsload.client import Load, Seen, encoded, steady

from tests.loadtest.dnsbench.conftest import CLIENT_CORE, NAMES
from tests.loadtest.dnsload.samples import LINE

SORTS = Mix(NAMES, deep=0.2, cookies=0.2, outside=0.2, hostile=(Hostile.DEEP, Hostile.COOKIES), hostility=0.2)
LOADS = {
    "saturated": Load(0.1),
    "paced": Load(0.1, steady(5000)),
    "tcp": Load(0.1, outstanding=20, connections=4, each=100),
    "a connection each": Load(0.2, outstanding=4, connections=4, each=1),
}


def written(folder: Path, mix: Mix) -> Path:
    path = folder / "some.queries"
    path.write_bytes(b"".join(encoded(make(mix))))
    return path


@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS)
@pytest.mark.parametrize("mix", [Mix(NAMES), SORTS], ids=["plain", "every sort"])
def test_the_compiled_client_counts_every_answer_of_our_nameserver_as_right(
    client: Client, ours: Server, tmp_path: Path, load: Load, mix: Mix
) -> None:
    for times in (1, 10, 100):
        seen = client.run(written(tmp_path, mix), ours.port, replace(load, seconds=times * load.seconds))
        tally = seen.tally
        if tally.sent > 100:  # otherwise the machine was too busy
            break
    assert 100 < tally.sent == tally.right == tally.latency.count
    assert (tally.connections_failed, tally.unexpected, seen.examples) == (0, 0, [])
    assert tally.malformed_sent == pytest.approx(0.25 * mix.hostility / 0.2 * tally.sent, rel=0.5)
    if mix is not SORTS:
        assert tally.rcodes[3] == pytest.approx(0.1 * tally.sent, rel=0.5)


def test_the_compiled_client_prints_reports_while_it_runs(client: Client, ours: Server, tmp_path: Path) -> None:
    ticks: list[Seen] = []
    load = Load(0.5, steady(1000), every=0.1)
    seen = client.run(written(tmp_path, Mix(NAMES)), ours.port, load, lambda at: ticks.append(read_reports(at)))
    assert any(0 < each.tally.sent < seen.tally.sent and not each.last for each in ticks)


def test_an_incomplete_last_line_of_the_compiled_clients_reports_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "reports").write_bytes(LINE + LINE + LINE[:-1])
    assert read_reports(tmp_path / "reports").tally.sent == 6


def test_the_compiled_client_starts_with_its_target_and_rate_on_its_own_core(tmp_path: Path) -> None:
    program = tmp_path / "client"
    commands = "echo $@ > words", "cat > asked", "taskset -p $$ > core", f"echo '{LINE.decode().strip()}'"
    program.write_text("\n".join(["#!/bin/sh", f"cd {tmp_path}", *commands]))
    program.chmod(0o755)
    queries = tmp_path / "some.queries"
    queries.write_bytes(b"queries")
    load = Load(0.5, steady(70), connections=9)
    assert Client(program, CLIENT_CORE).run(queries, 1053, load).tally.sent == 3
    assert (tmp_path / "words").read_text().split() == load.words("127.0.0.1", 1053)
    assert (tmp_path / "asked").read_bytes() == b"queries"
    assert int((tmp_path / "core").read_text().split()[-1], 16) == 1 << CLIENT_CORE


def test_the_error_about_a_failed_compiled_client_has_the_reason(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "bad.queries"
    path.write_bytes(miss(f"a.{DOMAIN}").encode()[:-1])
    with pytest.raises(BenchError, match=r"code 1: the queries: malformed"):
        client.run(path, 9, Load(0.1))
