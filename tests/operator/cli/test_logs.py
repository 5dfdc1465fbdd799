"""The log's two formats."""

import json
import logging
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from tsoperator.cli.logs import JsonFormatter


def line(message: str, *arguments: object) -> dict[str, str]:
    record = logging.LogRecord("some.logger", logging.WARNING, "", 1, message, arguments, None)
    text = JsonFormatter().format(record)
    assert "\n" not in text
    parsed: dict[str, str] = json.loads(text)
    return parsed


@pytest.mark.parametrize("message", ['"quoted"\nand \\ broken', "ünïcode ✓", "\x00\x1b[1m", "half a pair: \ud83d", ""])
def test_every_message_is_one_line_of_json(message: str) -> None:
    assert line("%s", message)["message"] == message


def test_a_line_says_when_how_bad_where_and_what() -> None:
    before = datetime.now(UTC)
    said = line("on %s", "this")
    assert (said["level"], said["logger"], said["message"]) == ("warning", "some.logger", "on this")
    when = datetime.fromisoformat(said["time"])
    assert when.utcoffset() == UTC.utcoffset(None)
    assert abs((when - before).total_seconds()) < 5


def logged(log_format: str, program: str) -> tuple[int, list[str]]:
    """Return the exit code and the lines on stderr of a process that starts its log and runs *program*."""
    start = f"import logging, warnings; from tsoperator.cli import logs; logs.start_logging('INFO', {log_format!r})"
    done = subprocess.run(
        [sys.executable, "-c", f"{start}\n{program}"], stderr=subprocess.PIPE, text=True, timeout=20, check=False
    )
    return done.returncode, done.stderr.splitlines()


def test_a_warning_and_what_ends_the_process_are_lines_of_the_json_log_too() -> None:
    code, lines = logged("json", "logging.info('well')\nwarnings.warn('soon gone')\nraise ValueError('two\\nlines')")
    well, warning, crash = map(json.loads, lines)
    assert code == 1
    assert (well["level"], warning["level"], crash["level"]) == ("info", "warning", "critical")
    assert "soon gone" in warning["message"]
    assert crash["message"] == "cannot go on: two\nlines"
    assert crash["exception"].startswith("Traceback (most recent call last):\n")
    assert crash["exception"].endswith("ValueError: two\nlines")


def test_text_is_for_people() -> None:
    code, lines = logged("text", "logging.getLogger('some.logger').warning('on %s', 'this')\nraise ValueError('wrong')")
    assert code == 1
    assert lines[0].endswith(" WARNING some.logger: on this")
    assert lines[1].endswith(" CRITICAL tsoperator: cannot go on: wrong")
    assert lines[-1] == "ValueError: wrong"
