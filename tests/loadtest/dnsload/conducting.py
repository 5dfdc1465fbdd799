"""Runs dnsload with either engine, within the process of a test."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from dnsload.app import client_load, every_target, limited, make_session, make_workload
from dnsload.channels import Alone, Connection, Datagrams
from dnsload.compiled import CompiledEngine, shared
from dnsload.looped import LoopedEngine
from dnsload.report import About, Asker, Report, make_report
from dnsload.session import Session
from dnsload.settings import Settings, read_settings
from dnsload.targets import Target
from tsnameserver.records import Records, render

from tests.loadtest.compiling import client_program
from tests.loadtest.dnsload.responder import ADDRESS

_RUNS = 4
_PATIENCE = ("--timeout", "20")  # s that a responder of a busy machine may need, unless the test is about that
LIMITED = 3
"""The exit code of a run in which the machine was too busy for the client, and nothing else was wrong."""
NAMES = [f"n{number}.tail1234.ts.net" for number in range(5)]


class Ran(NamedTuple):
    """A finished run.

    *runs* is the number of runs, with this one. In all earlier runs, the machine was too busy.
    """

    report: Report
    runs: int


def records_file(folder: Path) -> Path:
    """Write records in which each name has the address ADDRESS."""
    path = folder / "records.json"
    path.write_text(render(Records(ip4={name: [ADDRESS] for name in NAMES})))
    return path


def small(settings: Settings) -> Settings:
    """Return *settings* with few absent names, so that their pool is made at once."""
    return replace(settings, mix=replace(settings.mix, absent_names=100))


def run_settings(target: Target, folder: Path, *arguments: str, seconds: float = 0.1) -> Settings:
    """Return settings for a run that prints nothing.

    By default, the run sends 100 queries in *seconds*. *arguments* change that.
    """
    steady = ("--rate", f"{100 / seconds:g}", "--duration", f"{seconds:g}")
    pace = () if {"--concurrency", "--rate", "--steps"} & {*arguments} else steady
    base = ("--target", str(target), "--records", str(records_file(folder)), "--quiet")
    return small(read_settings([*base, *pace, *arguments]))


async def conduct(engine: str, target: Target, folder: Path, *arguments: str) -> Ran:
    """Run an engine to its end with the settings of `run_settings`.

    If the client fell behind its schedule, the machine was too busy. In that case, repeat the run, a few times at most,
    and send the 100 queries more slowly each time.
    """
    runs = 0
    while True:
        settings = run_settings(target, folder, *_PATIENCE, *arguments, "--engine", engine, seconds=0.1 * 3**runs)
        runs += 1
        workload = make_workload(settings)
        settings = limited(settings, workload.questions)
        session = make_session(settings, workload)
        askers = await _run(engine, session, settings)
        report = make_report(settings, session, askers, About("now", engine, False))
        if not report.totals.unsent or runs == _RUNS:
            return Ran(report, runs)


async def _run(engine: str, session: Session, settings: Settings) -> Sequence[Asker]:
    if engine == "compiled":
        loads = shared(client_load(settings), settings.workers * len(settings.targets))
        compiled = CompiledEngine(session, settings.targets, loads, client_program())
        try:
            await asyncio.to_thread(compiled.run)
        finally:
            compiled.stop()
        return compiled.exchanges
    tcp = Alone if settings.new_connections else Connection
    looped = LoopedEngine(session, every_target(settings), tcp if settings.tcp else Datagrams)
    await looped.run()
    return looped.exchanges
