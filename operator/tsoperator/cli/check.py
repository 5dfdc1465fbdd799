"""The command ``tsoperator check``: says whether an installed operator works, and what to do if it doesn't.

`helm test` runs it with ``--operator`` in a Pod that has no rights in the cluster. It then asks the operator's Pods and
the nameserver. A person runs it with a kubeconfig.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from typing import Final

from tsoperator.cli.asking import Endpoint, Installation, ask, endpoint, in_cluster
from tsoperator.cli.findings import HEALTHY, Finding, as_json, as_text, exit_code
from tsoperator.settings import resolv_conf

_PAUSE: Final = 1.0  # s between two rounds of checks
_EPILOG: Final = "exit status: 0 all is well, 1 something isn't, 2 it could not be looked at"


def add_arguments(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    text = "see whether an installed operator works, and what to do if it doesn't: what `helm test` does"
    parser = commands.add_parser("check", help=text, description=text, epilog=_EPILOG)
    parser.add_argument("--namespace", default="tailscale", help="the operator's namespace (default tailscale)")
    parser.add_argument(
        "--operator",
        required=True,
        type=endpoint,
        metavar="HOST:PORT",
        help="the operator's probes; HOST may be a Service of that namespace",
    )
    parser.add_argument("--zone", default="ts.net", help="a zone that the nameserver must serve (default ts.net)")
    parser.add_argument(
        "--nameserver",
        type=endpoint,
        metavar="ADDRESS:PORT",
        help="the nameserver (default: that of NAMESERVER_SERVICE_HOST, which a cluster sets where it has one)",
    )
    parser.add_argument("--seconds", type=float, default=60, help="how long to look until all is well (default 60)")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run_check(arguments: argparse.Namespace) -> int:
    """Check, print the findings, and return the exit code."""
    installation = _installation(arguments)
    findings = repeat(lambda: ask(installation), arguments.seconds)
    sys.stdout.write(f"{as_json(findings) if arguments.json else as_text(findings)}\n")
    return exit_code(findings)


def repeat(look: Callable[[], list[Finding]], seconds: float) -> list[Finding]:
    """Look until all is well or *seconds* have passed, and return the last findings.

    A look that has begun is always completed.
    """
    deadline = time.monotonic() + seconds
    while True:
        findings = look()
        if exit_code(findings) == HEALTHY or time.monotonic() >= deadline:
            return findings
        time.sleep(_PAUSE)


def _installation(arguments: argparse.Namespace) -> Installation:
    operator, nameserver = arguments.operator, arguments.nameserver
    if not {".", ":"} & {*operator.host}:
        operator = Endpoint(in_cluster(operator.host, arguments.namespace, resolv_conf()), operator.port)
    if nameserver is None and (host := os.environ.get("NAMESERVER_SERVICE_HOST")):
        nameserver = Endpoint(host, 53)
    return Installation(arguments.namespace, operator, nameserver, arguments.zone)
