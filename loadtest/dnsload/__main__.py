"""The command line: it reads the settings, does the run, writes the report and returns the exit code."""

import sys
from collections.abc import Sequence
from pathlib import Path

from dnsload.app import run
from dnsload.errors import DnsloadError, InputError
from dnsload.settings import Settings, read_settings
from dnsload.text import table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run dnsload, and return the exit code: that of the report, or 2 if the run is impossible.

    By default, *arguments* are those of the command line.
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
        from dnsload.page import page  # noqa: PLC0415 - matplotlib would take a second, and memory during the run

        settings.html.write_text(page(report), encoding="utf-8")
    return report.exit_code


def _check_writable(settings: Settings) -> None:
    """Raise InputError if a report can't be written, so that the user learns of it before a long run."""
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
