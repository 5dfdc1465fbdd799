# PYTHON_ARGCOMPLETE_OK
"""The command line: runs the operator, or one of the commands for people.

The modules of a command are imported only when it runs, so that ``--help`` and the completion of words in a shell are
quick.
"""

import argparse
import io
import logging
import os
import sys
from typing import Final, NoReturn

from tsnameserver import __version__

from tsoperator.check.arguments import add_commands, run_command
from tsoperator.variables import help_lines

_EPILOG = f"""\
environment (an empty variable counts as unset):
{help_lines()}

Requests to the control server go through a proxy if HTTPS_PROXY and NO_PROXY say so. HTTP_PROXY counts only outside of
the cluster, for the health checks of ProxyGroups. The TLS library trusts the certificates in SSL_CERT_FILE.

exit status: 0 stopped by SIGTERM or SIGINT, 1 cannot go on, 2 a setting is wrong
"""

_INTERRUPTED: Final = 130
"""The exit code that shells give a program which SIGINT has ended."""


def main() -> NoReturn:
    """Run the operator, or the command of ``tsoperator`` that the command line names."""
    parser = argparse.ArgumentParser(
        prog="tsoperator",
        description="Kubernetes operator for tailnets. It takes its settings from the environment.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tsoperator {__version__}")
    add_commands(parser.add_subparsers(dest="command", title="instead of running it"))
    arguments = _parse(parser)
    if arguments.command:
        _run_command(arguments)
    from tsoperator.process import run_operator  # noqa: PLC0415

    sys.exit(run_operator())


def kubectl_plugin() -> NoReturn:
    """Run the command of ``kubectl tailnet`` that the command line names."""
    parser = plugin_parser()
    _run_command(_parse(parser))


def kubectl_completion() -> NoReturn:
    """Print completions for a command line of ``kubectl tailnet``, in the form that kubectl reads."""
    from tsoperator.check.completion import kubectl_words  # noqa: PLC0415

    sys.stdout.write(kubectl_words(plugin_parser(), sys.argv[1:]))
    sys.exit()


def plugin_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line of ``kubectl tailnet``."""
    parser = argparse.ArgumentParser(
        prog="kubectl tailnet", description="See what the operator for tailnets does in the cluster."
    )
    parser.add_argument("--version", action="version", version=f"kubectl-tailnet {__version__}")
    add_commands(parser.add_subparsers(dest="command", title="commands", required=True))
    return parser


def _parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Return the command line's arguments. If a shell asks for completions, print them and end the process instead."""
    if "_ARGCOMPLETE" in os.environ:
        from tsoperator.check.completion import complete  # noqa: PLC0415

        complete(parser)
    return parser.parse_args()


def _run_command(arguments: argparse.Namespace) -> NoReturn:
    logging.getLogger("tsoperator").addHandler(logging.NullHandler())  # a command prints its findings, and no log
    if isinstance(sys.stdout, io.TextIOWrapper):  # a console can lack characters that users write: escape these
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        sys.exit(run_command(arguments))
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
