"""The log on stderr: text for people, or one JSON object a line for machines, in the form of the Go operator's log."""

import json
import logging
import sys
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Literal

_OURS: Final = "tsoperator"
DEV: Final = "dev"  # the Go operator's name of the level DEBUG, with a log in text
LOG_LEVELS: Final = {
    "info": "INFO",
    "debug": "DEBUG",
    DEV: "DEBUG",
    "warn": "WARNING",
    "error": "ERROR",
}
"""The values of OPERATOR_LOGGING, and Python's names of these levels."""
LOG_FORMATS: Final = ("text", "json")

_LEVELS: Final = {"WARNING": "warn", "CRITICAL": "fatal"}  # the Go operator's names, where they differ from Python's


class TextFormatter(logging.Formatter):
    """Writes a log record as a line for people: time, level, the part of the operator that logs it, and message."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03d %(levelname)-7s %(message)s", "%Y-%m-%d %H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging calls it so)
        """Return the log line for *record*. A line about an object names no part of the operator."""
        if record.name != _OURS:
            record.message = f"{record.name.removeprefix(f'{_OURS}.')}: {record.message}"
        return super().formatMessage(record)


class JsonFormatter(logging.Formatter):
    """Writes a log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the JSON text for *record*.

        The text has ``level``, ``ts`` (RFC 3339), ``logger`` and ``msg``. If the record has the attribute ``fields``,
        its items follow; in a line about an object, they identify the object. The exception comes last, if the record
        has one.
        """
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "level": _LEVELS.get(record.levelname, record.levelname.lower()),
            "ts": when.replace("+00:00", "Z"),
            "logger": record.name,
            "msg": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["error"] = str(record.exc_info[1])
            line["stacktrace"] = self.formatException(record.exc_info)
        return json.dumps(line, separators=(",", ":"))


def start_logging(level: str, log_format: Literal["text", "json"]) -> None:
    """Start to log, including Python's warnings and an exception that ends the process.

    *level* is that of the operator's own lines. Libraries log at INFO and above only, because their DEBUG lines can
    contain secrets from requests.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(level=max(logging.INFO, logging.getLevelNamesMapping()[level]), handlers=[handler])
    logging.getLogger(_OURS).setLevel(level)
    logging.captureWarnings(True)
    sys.excepthook = _log_crash


def _log_crash(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    logging.getLogger(_OURS).critical("cannot go on: %s", error, exc_info=(kind, error, traceback))
