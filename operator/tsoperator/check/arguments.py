"""The options of ``tsoperator list`` and ``tsoperator check``.

This module imports little, so that ``--help`` and the completion of words in a shell are quick. The commands are
imported when one of them runs.
"""

import argparse
from typing import Final

from tsoperator.check.endpoint import endpoint

_LIST: Final = """\
Show the objects that the operator serves: their names in the tailnet, how Pods reach them, their proxies, and whether
they work. The operator's leader is asked, through the API server. Without -n and -A, this shows the objects in the
current namespace of your kubeconfig, and those that are in no namespace.
"""
_LIST_EPILOG: Final = "exit status: 0 the list is printed, 1 the operator can't be asked"
_CHECK: Final = """\
See whether an installed operator works, and what to do if it doesn't. The operator's leader is asked what it knows. If
it doesn't answer, this looks at the status of your objects itself. As far as you may see them, this also looks at each
proxy and its device, the operator's Pods, kinds and rights, webhooks and Pod security. It changes nothing.
"""
_CHECK_EPILOG: Final = "exit status: 0 all is well, 1 something isn't, 2 something could not be looked at"
_AS_IS: Final = argparse.RawDescriptionHelpFormatter


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands ``list`` and ``check`` to a command line."""
    _add_list(commands)
    _add_check(commands)


def run_command(arguments: argparse.Namespace) -> int:
    """Run the command that the user has given, and return its exit code."""
    if arguments.command == "list":
        from tsoperator.check.listcommand import run_list  # noqa: PLC0415

        return run_list(arguments)
    from tsoperator.check.command import run_check  # noqa: PLC0415

    return run_check(arguments)


def _add_list(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    summary = "show the objects that the operator serves, and how they are reached"
    parser = commands.add_parser("list", help=summary, description=_LIST, epilog=_LIST_EPILOG, formatter_class=_AS_IS)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("-n", "--namespace", default="", help="show the objects in this namespace")
    which.add_argument("-A", "--all-namespaces", action="store_true", help="show the objects in all namespaces")
    parser.add_argument(
        "-o",
        "--output",
        choices=["wide", "json", "yaml", "name"],
        default="table",
        help="print more columns, JSON or YAML with all that is known, or only the names (default: a table)",
    )
    parser.add_argument("-w", "--watch", action="store_true", help="go on, and show changes as they happen")
    _add_place(parser)


def _add_check(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    summary = "see whether an installed operator works, and what to do if it doesn't"
    parser = commands.add_parser(
        "check", help=summary, description=_CHECK, epilog=_CHECK_EPILOG, formatter_class=_AS_IS
    )
    parser.add_argument(
        "-n",
        "--namespace",
        default="",
        help="leave out the objects in other namespaces than this. The operator's namespace stands for all",
    )
    parser.add_argument(
        "-o", "--output", choices=["json"], default="text", help="print the findings as JSON (default: as text)"
    )
    parser.add_argument("--json", action="store_const", const="json", dest="output", help="the same as -o json")
    parser.add_argument(
        "--seconds", type=float, help="look again until all is well, or for so long (default 0; 60 with --operator)"
    )
    _add_place(parser)
    asked = parser.add_argument_group("without rights in the cluster, as `helm test` does")
    asked.add_argument(
        "--operator",
        type=endpoint,
        metavar="HOST:PORT",
        help="ask the operator's probes and metrics there; HOST may be a Service of its namespace",
    )
    asked.add_argument("--zone", default="ts.net", help="a zone that the nameserver must serve (default ts.net)")
    asked.add_argument(
        "--nameserver",
        type=endpoint,
        metavar="ADDRESS:PORT",
        help="the nameserver (default: that of NAMESERVER_SERVICE_HOST, which a cluster sets where it has one)",
    )


def _add_place(parser: argparse.ArgumentParser) -> None:
    place = parser.add_argument_group("where the operator is")
    place.add_argument(
        "--kubeconfig",
        default="",
        metavar="FILE",
        help="how to reach the cluster (default KUBECONFIG, or ~/.kube/config)",
    )
    place.add_argument("--context", default="", help="the context of the kubeconfig (default: its current one)")
    place.add_argument(
        "--operator-namespace",
        default="",
        metavar="NAMESPACE",
        help="the operator's namespace (default: tailscale, or the one that has the operator's Lease)",
    )
