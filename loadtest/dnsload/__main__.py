"""The command: settings in, report out, exit code."""

import sys
from collections.abc import Sequence
from pathlib import Path

from dnsload.app import run
from dnsload.errors import DnsloadError, InputError
from dnsload.settings import Settings, read_settings
from dnsload.text import table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the load; returns 0, 1 for wrong answers or too much loss, 2 for what can't be run.

    The *arguments* are those of the command line unless others are given.
    """
    try:
        settings = read_settings(sys.argv[1:] if arguments is None else arguments)
        _check_writable(settings)
        report = run(settings)
    except DnsloadError as error:
        print(f"dnsload: {error}", file=sys.stderr)
        return 2
    print(table(report))
    if settings.json is not None:
        settings.json.write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
    if settings.html is not None:
        from dnsload.page import page  # noqa: PLC0415 - matplotlib takes a second, and memory during the run

        settings.html.write_text(page(report), encoding="utf-8")
    return 1 if report.failures else 0


def _check_writable(settings: Settings) -> None:
    """Find out before a long run, not after it, that a report can't be written; raises InputError."""
    for path in (settings.json, settings.html):
        if path is not None:
            _touch(path)


def _touch(path: Path) -> None:
    try:
        path.touch()
    except OSError as error:
        raise InputError(f"{path} can't be written: {error.strerror}") from error


if __name__ == "__main__":
    sys.exit(main())
