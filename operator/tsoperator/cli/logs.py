"""The log on stderr: text for people, or one JSON object a line for machines, like the nameserver's log."""

import json
import logging
import sys
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Literal

_TEXT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class JsonFormatter(logging.Formatter):
    """Writes a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return time (RFC 3339), level, logger, message and, where there is one, the exception with its traceback."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def start_logging(level: str, log_format: Literal["text", "json"]) -> None:
    """Start to log, including Python's warnings and an exception that ends the process."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(level=level, handlers=[handler])
    logging.captureWarnings(True)
    sys.excepthook = _log_crash


def _log_crash(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    logging.getLogger("tsoperator").critical("cannot go on: %s", error, exc_info=(kind, error, traceback))
