"""The interface to the ground: a fresh API server for each run, a control server, and the programs to measure.

The testbed of the end-to-end tests implements the interface. `tests/e2e/benchground.py` starts the benchmark there.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

Word = str | Path  # a word of a command line

USER = "operatorbench"  # the user as whom an operator makes requests
NAMESPACE = "tailscale"
"""The namespace of the operators."""
DOMAIN = "tail1234.ts.net"
PROXY_IMAGE = "tailscale/tailscale:v1.102.5"
"""The image that operators write into the Pods of proxies. None of these Pods runs."""


class Servers(NamedTuple):
    """The URLs of a tailnet's servers: the control server, and the keeper, which stores the devices.

    Operators know only the control server. The benchmark tells the keeper about the devices that it simulates, and asks
    the keeper for the number of requests to the control server's API.
    """

    control: str
    keeper: str


class Process(Protocol):
    """A process of this machine, which is the first of its session."""

    @property
    def pid(self) -> int:
        """The process ID."""

    @property
    def alive(self) -> bool:
        """True if the process still runs."""

    def end(self, grace: float) -> None:
        """Ask the process to stop, and kill it if it still runs after *grace* seconds."""


class Program(Protocol):
    """A program that was started."""

    @property
    def name(self) -> str:
        """The name of the program, unique on the machine."""

    @property
    def process(self) -> Process:
        """The first process of the program."""

    @property
    def log(self) -> Path:
        """The file with the output of the program."""


@dataclass(frozen=True, slots=True)
class GoOperator:
    """The Go operator: its program, the folder of its CRDs, and the environment that the control server requires."""

    program: Path
    crds: Path
    environment: Mapping[str, str]


class Ground(Protocol):
    """An API server with its controllers but no node, and a control server; both run during the block of `up`."""

    @property
    def versions(self) -> Mapping[str, str]:
        """The versions of the Go operator ("Go") and of the API server ("API server")."""

    @property
    def folder(self) -> Path:
        """A folder for files of a run. It is deleted at the end of `up`."""

    @property
    def kubeconfig(self) -> Path:
        """The path of the admin's kubeconfig."""

    @property
    def operator_kubeconfig(self) -> Path:
        """The path of the kubeconfig of `USER`."""

    @property
    def audit_log(self) -> Path:
        """The path of the API server's audit log."""

    @property
    def credentials(self) -> tuple[str, str]:
        """The client ID and the client secret that the control server accepts."""

    @property
    def crds(self) -> Path:
        """The folder of our CRDs."""

    @property
    def programs(self) -> Sequence[Program]:
        """All programs that the ground has started: servers and operators."""

    def go_operator(self) -> GoOperator:
        """Return the Go operator; build its program if it doesn't exist yet."""

    def up(self) -> AbstractContextManager[Servers]:
        """Start the servers, and stop them after the block. Yield the URLs of the tailnet's servers."""

    def kubectl(self, *words: Word, stdin: str | None = None) -> str:
        """Run kubectl as admin and return its output."""

    def wait_for_namespace(self, name: str) -> None:
        """Wait until a namespace has the objects that the controllers create in every namespace."""

    def start(self, name: str, argv: Sequence[Word], env: Mapping[str, str]) -> Program:
        """Start the command *argv* as the program called *name*."""

    def wait_for(self, name: str, holds: Callable[[], object], seconds: float, what: str) -> None:
        """Wait until *holds* returns a true value; fail after *seconds*, or if the program called *name* ends before.

        *what* names the awaited thing in the error.
        """
