"""The machine as the benchmark needs it: a fresh API server for each run, a control server, and its programs.

The testbed of the end-to-end tests is one, and `tests/e2e/benchground.py` starts the benchmark on it.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

Word = str | Path  # of a command line

USER = "operatorbench"  # whom the API server takes an operator for
NAMESPACE = "tailscale"
"""The operator's namespace."""
DOMAIN = "tail1234.ts.net"
PROXY_IMAGE = "tailscale/tailscale:v1.102.5"
"""The image that operators write into Pods, none of which runs."""


class Process(Protocol):
    """A process of this machine, the first of its session."""

    @property
    def pid(self) -> int:
        """Its pid."""

    @property
    def alive(self) -> bool:
        """Tell whether it still runs."""

    def end(self, grace: float) -> None:
        """Ask it to stop, and kill it if it still runs after *grace* seconds."""


class Program(Protocol):
    """A program that was started."""

    @property
    def name(self) -> str:
        """Its name, unique on the machine."""

    @property
    def process(self) -> Process:
        """Its first process."""

    @property
    def log(self) -> Path:
        """The file of all that it prints."""


@dataclass(frozen=True, slots=True)
class GoOperator:
    """The Go operator: its program, the folder of its CRDs, and the environment that the control server requires."""

    program: Path
    crds: Path
    environment: Mapping[str, str]


class Ground(Protocol):
    """An API server with its controllers but no node, and a control server, both up while `up` lasts."""

    @property
    def versions(self) -> Mapping[str, str]:
        """The versions of the Go operator ("Go") and of the API server ("API server")."""

    @property
    def folder(self) -> Path:
        """A folder for files that are gone when it is down."""

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig."""

    @property
    def operator_kubeconfig(self) -> Path:
        """The kubeconfig of `USER`."""

    @property
    def audit_log(self) -> Path:
        """The API server's audit log."""

    @property
    def credentials(self) -> tuple[str, str]:
        """The client ID and the client secret that the control server accepts."""

    @property
    def crds(self) -> Path:
        """The folder of our CRDs."""

    @property
    def programs(self) -> Sequence[Program]:
        """All programs that were started: servers and operators."""

    def go_operator(self) -> GoOperator:
        """Build the Go operator if it isn't there."""

    def up(self) -> AbstractContextManager[str]:
        """Bring it up, and take it down at the end; yield the URL of the control server."""

    def kubectl(self, *words: Word, stdin: str | None = None) -> str:
        """Run kubectl as admin and return its output."""

    def wait_for_namespace(self, name: str) -> None:
        """Wait until a namespace has the objects that the controllers put into each."""

    def start(self, name: str, argv: Sequence[Word], env: Mapping[str, str]) -> Program:
        """Start a program."""

    def wait_for(self, name: str, holds: Callable[[], object], seconds: float, what: str) -> None:
        """Wait until *holds*, but not longer than the program called *name* lives."""
