"""Starts the benchmark of the operators on the testbed's API server: `make bench-operator ARGS=--help`."""

import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from operatorbench.command import main
from operatorbench.ground import USER, GoOperator, Program, Servers

from tests.e2e.go_operator import deployed_from
from tests.e2e.product import TREE
from tests.e2e.testbed import preflight
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.build import build, build_program
from tests.e2e.testbed.commands import Word
from tests.e2e.testbed.control import TAILSCALED_ENV, Listening, start_tailnet
from tests.e2e.testbed.controlplane import LOOPBACK, free_ports
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.lock import locked
from tests.e2e.testbed.management import CLIENT_ID, CLIENT_SECRET
from tests.e2e.testbed.parts import KUBERNETES, TAILSCALE, named
from tests.e2e.testbed.paths import Paths
from tests.e2e.testbed.progress import Progress

CONTROLLERS = {"controllers": "*,-statefulset-controller,-node-lifecycle-controller"}
"""Flags of the controller manager: it runs no controller of StatefulSets, so there are no Pods."""


@dataclass(frozen=True, slots=True)
class BedGround:
    """A bed that has only an API server. It implements `operatorbench.ground.Ground`."""

    bed: Bed
    progress: Progress
    versions: Mapping[str, str]
    credentials: tuple[str, str] = (CLIENT_ID, CLIENT_SECRET)
    crds: Path = TREE / "charts" / "tailscale-operator" / "files" / "crds"

    @property
    def folder(self) -> Path:
        return self.bed.folder

    @property
    def kubeconfig(self) -> Path:
        return self.bed.kubeconfig

    @property
    def operator_kubeconfig(self) -> Path:
        return self.bed.plane.kubeconfig(USER)

    @property
    def audit_log(self) -> Path:
        return self.bed.plane.audit_log

    @property
    def programs(self) -> Sequence[Program]:
        return self.bed.daemons.all()

    def go_operator(self) -> GoOperator:
        preflight.check_builds()  # the program go is also needed to find the Go operator's CRDs
        program = build_program("k8s-operator", self.bed.paths, self.progress)
        return GoOperator(program, deployed_from() / "crds", TAILSCALED_ENV)

    @contextmanager
    def up(self) -> Iterator[Servers]:
        paths = self.bed.paths
        build(paths, self.progress, [named(name) for name in ("kubernetes", "control")], whole=False)
        with locked(paths.work, "up"):
            self.bed.up(self.progress)
        try:
            keeper, acme, port = free_ports(3)
            listening = Listening(f"{LOOPBACK}:{port}", f"{LOOPBACK}:{acme}", keeper)
            start_tailnet(paths, self.bed.daemons, listening)
            yield Servers(f"http://{listening.control}", f"http://{LOOPBACK}:{keeper}")
        finally:
            with locked(paths.work, "down"):
                self.bed.down(self.progress)

    def kubectl(self, *words: Word, stdin: str | None = None) -> str:
        return self.bed.kubectl(*words, stdin=stdin)

    def wait_for_namespace(self, name: str) -> None:
        self.bed.plane.wait_for_namespace(name)

    def start(self, name: str, argv: Sequence[Word], env: Mapping[str, str]) -> Program:
        return self.bed.daemons.start(name, argv, env=env)

    def wait_for(self, name: str, holds: Callable[[], object], seconds: float, what: str) -> None:
        self.bed.daemons.wait_for(name, holds, seconds, what)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM stops the programs as Ctrl-C does
    bed = Bed(Paths.from_environment(), api_only=True, controller_flags=CONTROLLERS)
    versions = {"Go": f"k8s-operator {TAILSCALE}", "API server": KUBERNETES}
    try:
        sys.exit(main(BedGround(bed, Progress(), versions)))
    except BedError as problem:
        sys.stderr.write(f"operatorbench: {problem}\n")
        sys.exit(2)
