"""Tests of dnsload's output on the terminal."""

from dnsload.app import make_session, make_workload
from dnsload.report import Report
from dnsload.text import progress_line, table

from tests.loadtest.dnsload.samples import record, report_on, settings_for


def lines(report: Report) -> dict[str, str]:
    """Return the lines of the report's table. The key of a line is its first word."""
    return {line.split()[0]: line for line in table(report).splitlines() if line.split()}


def test_the_table_on_the_terminal_has_counts_and_percentiles_in_columns() -> None:
    said = lines(report_on())
    assert said["sent"].split() == ["sent", "300"]
    assert "NOERROR 300" in said["answered"]
    assert said["answer"].split()[1:5] == ["50.500", "28.866", "1.000", "50.004"]
    assert [*said][-1] == "ok"
    assert len({len(said[word]) for word in ("latency,", "answer", "send")}) == 1


def test_the_last_lines_of_the_output_say_why_the_run_failed_and_whether_the_client_was_the_limit() -> None:
    last = table(report_on(wrong=1, unsent=5)).splitlines()[-2:]
    assert last[0].startswith("LIMITED BY THE CLIENT: 15 queries were due")
    assert last[1] == "FAILED: 3 answers were wrong"
    assert table(report_on(unsent=5)).splitlines()[-1].startswith("dnsload was the limit")


def test_the_footnote_of_a_report_says_at_which_moment_a_latency_begins() -> None:
    assert "from when the query was meant to be sent" in table(report_on())
    closed = table(report_on("--concurrency", "5"))
    assert "from when the query was sent. A stall shows only in the queries that were outstanding" in closed
    assert "A query without an answer counts with the time-out, 2 s." in closed
    assert [table(report_on(unsent=count)).count("never sent are not in these figures") for count in (0, 1)] == [0, 1]


def test_the_output_of_dnsload_has_a_table_for_steps_for_targets_and_for_a_soak() -> None:
    steps = table(report_on("--steps", "100,2000", "--step-seconds", "2"))
    assert "100/s" in steps
    assert "2,000/s" in steps
    assert "[2001:db8::1]:53" in table(report_on("--target", "2001:db8::1"))
    assert "first 2 windows" in table(report_on("--soak", seconds=200))


def test_dnsload_prints_its_progress_as_one_line_a_second() -> None:
    recording = make_session(settings_for(), make_workload(settings_for())).recording
    record(recording, 2, lost=3)
    line = progress_line(recording.rows[1])
    assert line.split()[:4] == ["2", "s", "sent", "100/s"]
    assert "p50   51.970 ms" in line
    assert "lost 3" in line
