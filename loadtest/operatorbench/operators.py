"""The operators that are compared: for each, the objects that it needs in the cluster, and the command to start it."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dnsbench.servers import free_port

from operatorbench.ground import NAMESPACE, PROXY_IMAGE, GoOperator, Ground, Program, Word
from operatorbench.measure import Kind

NAME = "operator"
SECRET = "operator"  # noqa: S105  its name
"""The name of the Secret from which our operator reads the ID of its own device."""

_PROFILED = """
import cProfile, sys, time
from tsoperator.__main__ import main
file, profile = sys.argv.pop(), cProfile.Profile(time.process_time)
try:
    profile.runcall(main)
finally:
    profile.dump_stats(file)
"""
"""A program that runs our operator under a profiler of CPU time, so times in which the operator waits don't count."""


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator: its CRDs, its command, and the environment variables that the other operator doesn't get."""

    kind: Kind
    crds: Path
    argv: tuple[Word, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    name: str = NAME
    """The name of the operator's program. It must be unique on the ground."""

    def install(self, ground: Ground) -> None:
        """Create the objects that have to exist before the operator starts."""
        ground.kubectl("create", "namespace", NAMESPACE)
        ground.kubectl("create", "-f", self.crds)
        ground.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", self.crds)

    def start(self, ground: Ground, login_server: str) -> Program:
        """Start the operator, with its files in a new folder."""
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
            "HOME": str(folder),  # the folder in which the Go operator stores the state of its own device
        }
        return ground.start(self.name, self.argv, {**environment, **self.environment})


def ours(crds: Path, profile: Path | None = None, name: str = NAME) -> Operator:
    """Return our operator, which runs as in its image. With *profile*, cProfile writes its profile into this file."""
    words: tuple[Word, ...] = ("-c", _PROFILED, profile) if profile else ("-m", "tsoperator")
    return Operator(
        Kind.OURS,
        crds,
        (sys.executable, *words),
        {"OPERATOR_HEALTH_ADDR": f"127.0.0.1:{free_port()}", "OPERATOR_SECRET": SECRET},
        name,
    )


def theirs(go: GoOperator) -> Operator:
    """Return the Go operator.

    Here, it stores the state of its own device in a folder. In a real cluster, it writes that state into a Secret, so
    it makes more requests there.
    """
    environment = {**go.environment, "XDG_CONFIG_HOME": "", "XDG_CACHE_HOME": ""}
    return Operator(Kind.GO, go.crds, (go.program,), environment)
