"""The operators that are compared: what each needs in the cluster, and how it is started."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dnsbench.servers import free_port

from tests.e2e.go_operator import deployed_from
from tests.e2e.operatorbench.measure import Kind
from tests.e2e.product import NAMESPACE, PROXY_IMAGE, TREE
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.commands import Word
from tests.e2e.testbed.control import TAILSCALED_ENV
from tests.e2e.testbed.daemons import Daemon
from tests.e2e.testbed.management import CLIENT_ID, CLIENT_SECRET

USER = "operatorbench"  # whom the API server takes an operator for
NAME = "operator"

_PROFILED = """
import cProfile, sys, time
from tsoperator.__main__ import main
file, profile = sys.argv.pop(), cProfile.Profile(time.process_time)
try:
    profile.runcall(main)
finally:
    profile.dump_stats(file)
"""
"""Runs ours under a profiler that counts CPU time, so that waiting is not in it."""


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator: its CRDs, its command, and what only it is told."""

    kind: Kind
    crds: Path
    argv: tuple[Word, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    name: str = NAME
    """Of its process, unique on a bed."""

    def install(self, bed: Bed) -> None:
        """Create what has to be there before it starts."""
        bed.kubectl("create", "namespace", NAMESPACE)
        bed.kubectl("create", "-f", self.crds)
        bed.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", self.crds)

    def start(self, bed: Bed, login_server: str) -> Daemon:
        """Start it, with files in a folder of its own.

        Raises:
            BedError: it ended at once.
        """
        folder = bed.folder / self.name
        folder.mkdir()
        (folder / "client_id").write_text(CLIENT_ID)
        (folder / "client_secret").write_text(CLIENT_SECRET)
        environment = {
            "KUBECONFIG": str(bed.plane.kubeconfig(USER)),
            "OPERATOR_NAMESPACE": NAMESPACE,
            "OPERATOR_LOGIN_SERVER": login_server,
            "CLIENT_ID_FILE": str(folder / "client_id"),
            "CLIENT_SECRET_FILE": str(folder / "client_secret"),
            "PROXY_IMAGE": PROXY_IMAGE,
            "PROXY_FIREWALL_MODE": "auto",
            "HOME": str(folder),  # the Go one keeps the state of its own device in it
        }
        return bed.daemons.start(self.name, self.argv, env={**environment, **self.environment})


def ours(profile: Path | None = None, name: str = NAME) -> Operator:
    """Return ours as the image runs it, or under cProfile, which writes *profile* when it stops."""
    words: tuple[Word, ...] = ("-c", _PROFILED, profile) if profile else ("-m", "tsoperator")
    return Operator(
        Kind.OURS,
        TREE / "charts" / "tailscale-operator" / "files" / "crds",
        (sys.executable, *words),
        {"OPERATOR_HEALTH_ADDR": f"127.0.0.1:{free_port()}"},
        name,
    )


def theirs(program: Path) -> Operator:
    """Return the Go one, with the state of its device in a folder: less for it to write than in a cluster."""
    environment = {**TAILSCALED_ENV, "XDG_CONFIG_HOME": "", "XDG_CACHE_HOME": ""}
    return Operator(Kind.GO, deployed_from() / "crds", (program,), environment)
