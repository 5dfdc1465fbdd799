"""The operators that are compared: what each needs in the cluster, and how it is started."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dnsbench.servers import free_port

from operatorbench.ground import NAMESPACE, PROXY_IMAGE, GoOperator, Ground, Program, Word
from operatorbench.measure import Kind

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
    """Of its process, unique on the ground."""

    def install(self, ground: Ground) -> None:
        """Create what has to be there before it starts."""
        ground.kubectl("create", "namespace", NAMESPACE)
        ground.kubectl("create", "-f", self.crds)
        ground.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", self.crds)

    def start(self, ground: Ground, login_server: str) -> Program:
        """Start it, with files in a folder of its own."""
        folder = ground.folder / self.name
        folder.mkdir()
        client_id, client_secret = ground.credentials
        (folder / "client_id").write_text(client_id)
        (folder / "client_secret").write_text(client_secret)
        environment = {
            "KUBECONFIG": str(ground.operator_kubeconfig),
            "OPERATOR_NAMESPACE": NAMESPACE,
            "OPERATOR_LOGIN_SERVER": login_server,
            "CLIENT_ID_FILE": str(folder / "client_id"),
            "CLIENT_SECRET_FILE": str(folder / "client_secret"),
            "PROXY_IMAGE": PROXY_IMAGE,
            "PROXY_FIREWALL_MODE": "auto",
            "HOME": str(folder),  # the Go one keeps the state of its own device in it
        }
        return ground.start(self.name, self.argv, {**environment, **self.environment})


def ours(crds: Path, profile: Path | None = None, name: str = NAME) -> Operator:
    """Return ours as the image runs it, or under cProfile, which writes *profile* when it stops."""
    words: tuple[Word, ...] = ("-c", _PROFILED, profile) if profile else ("-m", "tsoperator")
    return Operator(
        Kind.OURS,
        crds,
        (sys.executable, *words),
        {"OPERATOR_HEALTH_ADDR": f"127.0.0.1:{free_port()}"},
        name,
    )


def theirs(go: GoOperator) -> Operator:
    """Return the Go one, with the state of its device in a folder: less for it to write than in a cluster."""
    environment = {**go.environment, "XDG_CONFIG_HOME": "", "XDG_CACHE_HOME": ""}
    return Operator(Kind.GO, go.crds, (go.program,), environment)
