"""Tests of the report on a run: tables, verdicts and JSON."""

import json
from pathlib import Path

from dnsbench.goals import Verdict
from dnsbench.report import document, measurements, soak_document, soaked, summary, verdicts
from dnsbench.scenarios import SCENARIOS
from dnsbench.soak import Soaked

from tests.loadtest.dnsbench.figures import figures, row, seen

SATURATED = SCENARIOS[0]
MET, MISSED, UNMEASURED, COMPARED = (
    Verdict("a", 1.4, "x", 1.2, (1.5, 1.2)),
    Verdict("b", 10, "ms", 10.5),
    Verdict("c", 0, "", None),
    Verdict("d", None, "x", 0.45),
)


def test_the_benchmark_report_warns_if_the_client_was_too_busy_to_measure_the_server() -> None:
    busy, idle = row("saturated", "Knot", client_busy=0.99), row("saturated", "ours", client_busy=0.8)
    assert "The client was the limit with Knot:" in measurements(SATURATED, [busy, idle])
    assert "limit" not in measurements(SATURATED, [idle])


def test_the_benchmark_report_has_the_share_of_answered_queries_and_the_worst_cpu_time_of_all_rounds() -> None:
    two = row("saturated", "ours", sent=300, lost=1)
    two = two.model_copy(update={"rounds": [*two.rounds, figures(cpu_us=99.5)]})
    cells = [cell.strip() for cell in measurements(SATURATED, [two]).splitlines()[-1].split("|")]
    assert (cells[3], cells[11]) == ("99.50", "99.67")


def test_the_benchmark_report_shows_a_dash_for_an_unknown_figure() -> None:
    attacked = row("gone", "ours, UDP", cpu_us=0.0, client_cpu_us=0.0, client_stall_us=0.0)
    gone = next(each for each in SCENARIOS if each.name == "gone")
    cells = [cell.strip() for cell in measurements(gone, [attacked]).splitlines()[-1].split("|")]
    assert [cells[place] for place in (2, 3, 14, 16)] == ["-"] * 4


def test_the_verdicts_in_the_benchmark_report_say_whether_each_goal_is_met() -> None:
    lines = verdicts([MET, MISSED, UNMEASURED, COMPARED]).splitlines()[-4:]
    assert [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines] == [
        ["a", "≤ 1.4 x", "1.20 x", "1.20 to 1.50", "met"],
        ["b", "≤ 10 ms", "10.50 ms", "", "MISSED"],
        ["c", "≤ 0", "not measured", "", "-"],
        ["d", "none", "0.45 x", "", "-"],
    ]


def test_the_result_file_is_json_with_goals_and_figures() -> None:
    all_ = [MET, MISSED, UNMEASURED, COMPARED]
    kept = json.loads(json.dumps(document({"cores": 2}, [row("saturated", "ours", cpu_us=4.12345)], all_)))
    assert [goal["met"] for goal in kept["goals"]] == [True, False, None, None]
    assert kept["goals"][0]["rounds"] == [1.5, 1.2]
    assert kept["machine"] == {"cores": 2}
    assert kept["measurements"][0]["best"]["cpu_us"] == 4.123
    assert kept["measurements"][0]["rounds"]["cpu_us"] == [4.123]


def test_the_table_in_the_readme_is_made_from_the_stored_results() -> None:
    root = Path(__file__).resolve().parents[3]
    results = json.loads((root / "loadtest" / "results" / "nameserver.json").read_text())
    assert summary(results) in (root / "README.md").read_text()


def test_the_result_file_of_a_soak_is_json_with_the_memory_of_each_minute() -> None:
    kept = json.loads(json.dumps(soak_document({}, Soaked(seen(), 10, 9, 20.0, [50.0] * 121), [MET])))
    assert (kept["memory_mb_each_minute"], kept["client"]["lost"], kept["goals"][0]["met"]) == ([50.0] * 3, 2, True)


def test_the_report_on_a_soak_has_its_losses() -> None:
    text = soaked(Soaked(seen(), changes=10, served=9, cpu_us=20.0, memory=[50.0, 52.0, 51.0]))
    lines = {cells[1].strip(): cells[2].strip() for line in text.splitlines()[2:] if (cells := line.split("|"))}
    assert lines["lost, of which dropped by the client's socket"] == "2, 0"
    assert lines["memory: first, last, most, MB"] == "50.0, 51.0, 52.0"
    assert lines["changes made, seen within a second"] == "10, 9"
