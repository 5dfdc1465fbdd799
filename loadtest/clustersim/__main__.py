"""The command line: runs a simulated cluster, or the demo on one."""

import argparse
import asyncio
import signal
import sys
from importlib import import_module
from pathlib import Path

from clustersim.nodes import MONITOR_GRACE, NODE_NAME
from clustersim.programs import Program
from clustersim.sim import ClusterSim, SimOptions, cluster_sim

FAULTS = ("policy", "credentials", "dns", "node")
"""The faults that the demo can show, by the names that its option `--fail` takes."""


def main() -> int:
    """Run the command that the command line names, and return its exit code."""
    arguments = _parser().parse_args()
    if arguments.command == "demo":
        demo = import_module("clustersim.demo")  # `serve` doesn't need the modules of the demo
        return int(demo.main(keep=arguments.keep, fail=arguments.fail))
    options = SimOptions(
        listen=arguments.listen,
        control_listen=arguments.control_listen,
        health_listen=arguments.health_listen,
        partner_listen=arguments.partner_listen,
        dns_listen=arguments.dns_listen,
        programs=tuple(map(Program.parse, arguments.program)),
        devices=tuple(arguments.device),
        policy_tags=frozenset(arguments.policy_tag) or None,
        nodes=tuple(arguments.node) or (NODE_NAME,),
        monitor_grace=arguments.monitor_grace,
    )
    asyncio.run(_serve(options, arguments.kubeconfig))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="clustersim", description="A simulated Kubernetes cluster and tailnet.")
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="run a cluster until interrupted")
    serve.add_argument("--listen", default="127.0.0.1:0", metavar="HOST:PORT", help="API server (default: a free port)")
    serve.add_argument("--control-listen", default="127.0.0.1:0", metavar="HOST:PORT", help="control server")
    serve.add_argument(
        "--health-listen", default="127.0.0.1:0", metavar="HOST:PORT", help="HTTP proxy to the Pods' health ports"
    )
    serve.add_argument(
        "--partner-listen", default="", metavar="HOST:PORT", help="control server of a second tailnet (default: none)"
    )
    serve.add_argument("--dns-listen", default="", metavar="HOST:PORT", help="the cluster's DNS (default: none)")
    serve.add_argument(
        "--program",
        action="append",
        default=[],
        metavar="JSON",
        help='a program that plays the Pods with label app=NAME: {"name": NAME, "log": FILE, "ports": {"80": 8080}}',
    )
    serve.add_argument(
        "--device", action="append", default=[], metavar="NAME[=ADDRESS]", help="a device of the tailnet, by its name"
    )
    serve.add_argument(
        "--policy-tag", action="append", default=[], metavar="TAG", help="a tag in the tailnet's policy (default: all)"
    )
    serve.add_argument("--node", action="append", default=[], metavar="NAME", help="a node (default: one, node1)")
    serve.add_argument(
        "--monitor-grace",
        type=float,
        default=MONITOR_GRACE,
        metavar="SECONDS",
        help=f"how long a node may be silent until it isn't ready (default {MONITOR_GRACE:g})",
    )
    serve.add_argument("--kubeconfig", type=Path, metavar="PATH", help="write a kubeconfig there")
    demo = commands.add_parser("demo", help="run the product on a simulated cluster")
    demo.add_argument(
        "--fail", choices=FAULTS, default="", help="show what a fault looks like, and what to do about it"
    )
    demo.add_argument("--keep", action="store_true", help="stay up afterwards, until interrupted")
    return parser


async def _serve(options: SimOptions, kubeconfig: Path | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with cluster_sim(options) as sim:
        _announce(sim, kubeconfig)
        await stop.wait()


def _announce(sim: ClusterSim, kubeconfig: Path | None) -> None:
    print(f"API server      {sim.api_url}")
    print(f"control server  {sim.control_url}")
    print(f"health proxy    {sim.health_proxy_url}")
    if kubeconfig:
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(sim.kubeconfig())
        print(f"kubeconfig      {kubeconfig}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
