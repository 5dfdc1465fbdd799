"""The command line: reads the settings, runs the operator or a check, and returns an exit code."""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys

import uvloop

from tsoperator.app import run
from tsoperator.cli.check import add_arguments, run_check
from tsoperator.cli.logs import start_logging
from tsoperator.kube.errors import KubeError
from tsoperator.runtime.health import ListenError
from tsoperator.runtime.leader import LeadershipLost
from tsoperator.settings import InvalidSetting, Settings, read_settings

_ENVIRONMENT = """\
environment (empty counts as unset):
  CLIENT_ID_FILE, CLIENT_SECRET_FILE   files with the OAuth client's credentials (required without CLIENT_ID)
  CLIENT_ID                            workload identity: the ID of a client that trusts this cluster's ServiceAccount
                                       tokens, in place of those files
  OPERATOR_NAMESPACE                   namespace of the proxies (default: the Pod's own)
  OPERATOR_LOGIN_SERVER                URL of the control server, e.g. of Headscale
  OPERATOR_WATCH_NAMESPACES            namespaces of users' objects besides the operator's own, comma-separated (default
                                       all)
  OPERATOR_LOGGING                     info, debug, warn or error (default info)
  OPERATOR_LOG_FORMAT                  text, or json: one object a line, of the nameserver too (default text)
  OPERATOR_INGRESS_CLASS_NAME          ingress class to serve (default tailscale)
  OPERATOR_DEFAULT_LOAD_BALANCER       true: LoadBalancer Services without a class are ours (default false)
  OPERATOR_TAKE_OVER_NAMES             true: a new proxy takes the name of a device with its tags that is offline, which
                                       is deleted: for clusters that are rebuilt (default false)
  OPERATOR_DNS_ZONES                   zones of MagicDNS names, comma-separated (default ts.net)
  OPERATOR_NAMESERVER_IMAGE            image for a DNSConfig that names none
  OPERATOR_LEADER_ELECTION             true or false (default true)
  OPERATOR_HEALTH_ADDR                 ADDRESS:PORT of probes and metrics (default :9002; set but empty: off)
  PROXY_IMAGE, PROXY_TAGS, PROXY_FIREWALL_MODE, PROXY_PRIORITY_CLASS_NAME, PROXY_DEFAULT_CLASS
                                       how proxies are made
  POD_NAME                             this Pod's name, in its Lease and Events
  OPERATOR_SERVICE_ACCOUNT_NAME        whose tokens Tailnets with workload identity trust (default operator)
  KUBECONFIG                           outside a cluster: how to reach the API server

exit status: 0 stopped by SIGTERM or SIGINT, 1 cannot go on, 2 a setting is wrong
"""


def main() -> None:
    """Run the operator as a process."""
    parser = argparse.ArgumentParser(
        prog="tsoperator",
        description="Kubernetes operator for tailnets. It takes its settings from the environment.",
        epilog=_ENVIRONMENT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser.add_subparsers(dest="command", title="instead of running it"))
    arguments = parser.parse_args()
    sys.exit(run_check(arguments) if arguments.command else _run())


def _run() -> int:
    try:
        settings = read_settings(os.environ)
    except InvalidSetting as error:
        print(f"tsoperator: {error}", file=sys.stderr)
        return 2
    start_logging(settings.log_level, settings.log_format)
    # uvloop spends a third less CPU than asyncio's own loop on watches, because its TLS is compiled.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_until_stopped(settings))


async def _until_stopped(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT, or until an error that the operator can't recover from; return the exit code."""
    log = logging.getLogger("tsoperator")
    operator = asyncio.create_task(run(settings))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, operator.cancel)
    failures: list[BaseException] = []
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await operator
    except* (KubeError, ListenError, LeadershipLost) as group:
        failures += group.exceptions
    for failure in failures:
        log.error("%s", failure)
    if not failures:
        log.info("stopped")
    return 1 if failures else 0


if __name__ == "__main__":
    main()
