"""The log's two formats: JSON for machines, and text for people."""

import json
import logging
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from tsoperator.logs import JsonFormatter, TextFormatter


def record(message: str, level: int = logging.WARNING, name: str = "some.logger") -> logging.LogRecord:
    return logging.LogRecord(name, level, "", 1, "on %s", (message,), None)


@pytest.mark.parametrize("message", ['"quoted"\nand \\ broken', "ünïcode ✓", "\x00\x1b[1m", "half a pair: \ud83d", ""])
def test_every_message_in_the_json_log_is_one_line_of_json(message: str) -> None:
    text = JsonFormatter().format(record(message))
    assert ("\n" in text, json.loads(text)["msg"]) == (False, f"on {message}")


@pytest.mark.parametrize(("level", "name"), [(10, "debug"), (20, "info"), (30, "warn"), (40, "error"), (50, "fatal")])
def test_a_json_line_has_the_fields_ts_level_logger_and_msg_of_the_go_operators_log(level: int, name: str) -> None:
    before = datetime.now(UTC)
    said = json.loads(JsonFormatter().format(record("this", level)))
    when = said.pop("ts")
    assert said == {"level": name, "logger": "some.logger", "msg": "on this"}
    assert when.endswith("Z")
    assert abs((datetime.fromisoformat(when) - before).total_seconds()) < 5


def test_a_json_log_line_has_the_fields_about_an_object_at_its_end_without_spaces() -> None:
    made = record("this")
    made.fields = {"kind": "Service", "namespace": "default", "name": "db"}
    assert JsonFormatter().format(made).endswith(',"msg":"on this","kind":"Service","namespace":"default","name":"db"}')


@pytest.mark.parametrize(
    ("logger", "said"),
    [
        ("tsoperator", "on this"),
        ("tsoperator.kube.watch", "kube.watch: on this"),
        ("aiohttp.access", "aiohttp.access: on this"),
    ],
)
def test_a_line_of_the_text_log_names_its_logger_unless_it_is_about_objects(logger: str, said: str) -> None:
    assert TextFormatter().format(record("this", name=logger)).endswith(f" WARNING {said}")


def logged(log_format: str, program: str, level: str = "INFO") -> tuple[int, list[str]]:
    """Return the exit code and the lines on stderr of a process that starts its log and runs *program*."""
    start = f"import logging, warnings; from tsoperator import logs; logs.start_logging({level!r}, {log_format!r})"
    done = subprocess.run(
        [sys.executable, "-c", f"{start}\n{program}"], stderr=subprocess.PIPE, text=True, timeout=20, check=False
    )
    return done.returncode, done.stderr.splitlines()


def test_a_warning_and_the_error_that_ends_the_process_are_lines_of_the_json_log_too() -> None:
    code, lines = logged("json", "logging.info('well')\nwarnings.warn('soon gone')\nraise ValueError('two\\nlines')")
    well, warning, crash = map(json.loads, lines)
    assert code == 1
    assert (well["level"], warning["level"], crash["level"]) == ("info", "warn", "fatal")
    assert "soon gone" in warning["msg"]
    assert (crash["msg"], crash["error"]) == ("cannot go on: two\nlines", "two\nlines")
    assert crash["stacktrace"].startswith("Traceback (most recent call last):\n")
    assert crash["stacktrace"].endswith("ValueError: two\nlines")


@pytest.mark.parametrize(
    ("level", "said"), [("DEBUG", ["a", "b", "d"]), ("INFO", ["b", "d"]), ("WARNING", []), ("ERROR", [])]
)
def test_the_log_has_no_debug_lines_of_libraries(level: str, said: list[str]) -> None:
    ours, theirs = "logging.getLogger('tsoperator.x')", "logging.getLogger('kubernetes')"
    program = f"{ours}.debug('a'); {ours}.info('b'); {theirs}.debug('c'); {theirs}.info('d')"
    assert [line[-1] for line in logged("text", program, level)[1]] == said


def test_a_line_of_the_text_log_has_the_level_and_the_message_and_a_traceback_follows_it() -> None:
    code, lines = logged("text", "logging.getLogger('some.logger').warning('on %s', 'this')\nraise ValueError('wrong')")
    assert code == 1
    assert (lines[0].endswith(" WARNING some.logger: on this"), lines[-1]) == (True, "ValueError: wrong")
    assert lines[1].endswith(" CRITICAL cannot go on: wrong")
