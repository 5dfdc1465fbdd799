"""The nameserver's command: it reads the settings, sets up the log, runs the server and returns the exit code."""

import asyncio
import json
import logging
import os
import resource
import sys
from contextlib import suppress
from datetime import UTC, datetime

from tsnameserver.app import run
from tsnameserver.errors import ListenError, SettingsError
from tsnameserver.settings import misspelt, read_settings

log = logging.getLogger("tsnameserver")  # __name__ is "__main__"

_TEXT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_LEVELS = {
    "WARNING": "warn",
    "CRITICAL": "fatal",
}  # levels whose names differ in the operator's log


class JsonFormatter(logging.Formatter):
    """Writes each log record as one line of JSON, with the same fields as the operator's log."""

    def format(self, record: logging.LogRecord) -> str:
        """Return ``level``, ``ts`` (RFC 3339), ``logger``, ``msg`` and, if the record has one, the exception."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "level": _LEVELS.get(record.levelname, record.levelname.lower()),
            "ts": when.replace("+00:00", "Z"),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = str(record.exc_info[1])
            line["stacktrace"] = self.formatException(record.exc_info)
        return json.dumps(line, separators=(",", ":"))


def main() -> int:
    """Serve until a signal, and return 0; return 1 if an address can't be listened on, and 2 for a wrong setting."""
    try:
        settings = read_settings(sys.argv[1:], os.environ)
    except SettingsError as error:
        print(f"tsnameserver: {error}", file=sys.stderr)
        return 2
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(level=settings.log_level, handlers=[handler])
    for warning in misspelt(os.environ):
        log.warning("%s", warning)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError):  # macOS refuses its own hard limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a process gets only 1024 unless it asks
    try:
        asyncio.run(run(settings))
    except ListenError as error:
        print(f"tsnameserver: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
