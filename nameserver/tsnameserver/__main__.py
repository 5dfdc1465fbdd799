"""The nameserver's command: settings in, exit code out."""

import asyncio
import logging
import os
import sys

from tsnameserver.app import run
from tsnameserver.errors import ListenError, SettingsError
from tsnameserver.settings import read_settings


def main() -> int:
    """Serve until a signal; returns 0, 1 where an address can't be listened on, 2 for a wrong setting."""
    try:
        settings = read_settings(sys.argv[1:], os.environ)
    except SettingsError as error:
        print(f"tsnameserver: {error}", file=sys.stderr)
        return 2
    logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        asyncio.run(run(settings))
    except ListenError as error:
        print(f"tsnameserver: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
