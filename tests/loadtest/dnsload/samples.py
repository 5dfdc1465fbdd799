"""A line of the compiled client's output, and a made-up run, for tests of reports."""

from collections import Counter

from dnsload.app import make_session, make_workload
from dnsload.recording import Recording
from dnsload.report import About, Report, make_report
from dnsload.schedule import SECOND
from dnsload.settings import Settings, read_settings

LINE = (
    b'{"last":true,"elapsed":0.5,"seconds":0.5,"cpu_seconds":0.4,"idle_seconds":0.1,"gap_ns":5,"own_gap_ns":7,'
    b'"counts":{"sent":3,"right":2,"wrong":1},"rcodes":{"0":2,"3":1},"reasons":{"rcode":1},'
    b'"latency":[[500,2],[511,1]],"lag":[[1,3]],"examples":[[4,"00ff"]]}\n'
)
"""A line of the compiled client's output."""


def settings_for(*arguments: str) -> Settings:
    return read_settings(["--target", "192.0.2.53", "--name", "a.ts.net", "--quiet", *arguments])


def record(recording: Recording, seconds: int, **counts: int) -> None:
    """Record *seconds* of a run. Each has a hundred right answers in 1 to 100 ms, and *counts* of other results."""
    start = recording.next_turn - SECOND
    recording.begin(start)
    for number in range(1, seconds + 1):
        tally = recording.tally
        tally.sent, tally.right, tally.rcodes = 100, 100, Counter({0: 100})
        tally.latencies += [each * 1_000_000 for each in range(1, 101)]
        tally.lags += [10_000] * 100
        for name, count in counts.items():
            setattr(tally, name, count)
        recording.turn(start + number * SECOND)
    recording.end(start + seconds * SECOND)


def report_on(*arguments: str, seconds: int = 3, **counts: int) -> Report:
    """Return the report on a run of *seconds*, which `record` makes up."""
    settings = settings_for(*arguments)
    session = make_session(settings, make_workload(settings))
    record(session.recording, seconds, **counts)
    exchanges = [session.exchange(target) for target in settings.targets]
    return make_report(settings, session, exchanges, About("2026-01-02T03:04:05+00:00", "compiled", interrupted=False))
