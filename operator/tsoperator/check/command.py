"""The command ``tsoperator check``: says whether an installed operator works, and what to do if it doesn't.

`helm test` runs it with ``--operator`` in a Pod that has no rights in the cluster. It then asks the operator's Pods and
the nameserver. A person runs it with a kubeconfig.
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Callable
from typing import Final

from tsoperator.check.asking import Endpoint, Installation, ask, endpoint, in_cluster
from tsoperator.check.cluster.look import look
from tsoperator.check.findings import HEALTHY, Finding, as_json, as_text, exit_code
from tsoperator.settings import resolv_conf

_PAUSE: Final = 1.0  # s between two rounds of checks
_TEXT: Final = """\
See whether an installed operator works, and what to do if it doesn't. With a kubeconfig this looks at the operator, its
kinds and rights, webhooks, Pod security, the cluster's DNS, the status of your objects, and each proxy and its device.
It changes nothing.
"""
_EPILOG: Final = "exit status: 0 all is well, 1 something isn't, 2 something could not be looked at"


def add_arguments(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command ``check`` to the command line of the operator."""
    parser = commands.add_parser(
        "check",
        help="see whether an installed operator works, and what to do if it doesn't",
        description=_TEXT,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--namespace", default="tailscale", help="the operator's namespace (default tailscale)")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument(
        "--seconds", type=float, help="look again until all is well, or for so long (default 0; 60 with --operator)"
    )
    parser.add_argument(
        "--kubeconfig",
        default="",
        metavar="FILE",
        help="how to reach the cluster (default KUBECONFIG, or ~/.kube/config)",
    )
    asked = parser.add_argument_group("without rights in the cluster, as `helm test` does")
    asked.add_argument(
        "--operator",
        type=endpoint,
        metavar="HOST:PORT",
        help="ask the operator's probes and metrics there; HOST may be a Service of the namespace",
    )
    asked.add_argument("--zone", default="ts.net", help="a zone that the nameserver must serve (default ts.net)")
    asked.add_argument(
        "--nameserver",
        type=endpoint,
        metavar="ADDRESS:PORT",
        help="the nameserver (default: that of NAMESERVER_SERVICE_HOST, which a cluster sets where it has one)",
    )


def run_check(arguments: argparse.Namespace) -> int:
    """Check whether the operator works, print the findings, and return the exit code."""
    if arguments.operator:
        installation = _installation(arguments)
        seconds = 60.0 if arguments.seconds is None else arguments.seconds
        findings = repeat(lambda: ask(installation), seconds)
    else:
        kubeconfig = arguments.kubeconfig or os.environ.get("KUBECONFIG", "")
        findings = repeat(lambda: asyncio.run(look(kubeconfig, arguments.namespace, _say)), arguments.seconds or 0)
    sys.stdout.write(f"{as_json(findings) if arguments.json else as_text(findings)}\n")
    return exit_code(findings)


def repeat(look: Callable[[], list[Finding]], seconds: float) -> list[Finding]:
    """Repeat *look* until all is well or *seconds* have passed, and return the last findings.

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


def _say(words: str) -> None:
    """Show a person at a terminal the present step of the check."""
    if sys.stderr.isatty():
        sys.stderr.write(f"looking at {words} ...\n")
