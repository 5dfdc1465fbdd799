"""People who use the cluster's API over the tailnet: kubectl on a device, with the kubeconfig that tailscale writes."""

import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.cluster import Object
from tests.e2e.testbed.commands import Word
from tests.e2e.testbed.isolation import only_child, spawn
from tests.e2e.testbed.parts import program
from tests.e2e.testbed.paths import Paths
from tests.e2e.testbed.peer import Peer
from tests.e2e.testbed.processes import Process

SPDY = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}
"""The environment in which kubectl streams by SPDY. By default it uses WebSockets."""


BROKEN = "broken"
"""The line that `ApiUser.repeating` writes into the output whenever kubectl has ended."""


@dataclass(frozen=True, slots=True)
class Running:
    """A kubectl command that runs in the background, and the file that gets its output."""

    process: Process
    log: Path

    @property
    def output(self) -> str:
        """The output so far."""
        return self.log.read_text()


@dataclass(frozen=True, slots=True)
class ApiUser:
    """A person at *device*, whose programs trust the certificates in *root*. *folder* has the person's files."""

    device: Peer
    kubectl: Path
    root: Path
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def at(cls, paths: Paths, device: Peer, root: Path, folder: Path) -> "ApiUser":
        """Return a person at *device*, and let the programs on this device resolve MagicDNS names from now on."""
        device.ask_magic_dns()
        folder.mkdir(exist_ok=True)
        return cls(device, program(paths, "kubectl"), root, folder)

    def by(self, environment: Mapping[str, str]) -> "ApiUser":
        """Return the same person with more environment variables."""
        return ApiUser(self.device, self.kubectl, self.root, self.folder, {**self.environment, **environment})

    def elsewhere(self, name: str) -> "ApiUser":
        """Return the same person with another kubeconfig, in a folder called *name*."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return ApiUser(self.device, self.kubectl, self.root, folder, self.environment)

    def configure(self, *words: Word) -> str:
        """Run `tailscale configure kubeconfig` with *words*, which writes a new kubeconfig, and return its output."""
        (self.folder / "kubeconfig").unlink(missing_ok=True)
        tailscale: list[Word] = [self.device.program, f"--socket={self.device.socket}", "configure", "kubeconfig"]
        return self.device.machine.run([*self._with_environment(), *tailscale, *words])

    def run(self, *words: Word, stdin: str | None = None, timeout: float = 60) -> str:
        """Run kubectl until it ends, and return its output. Raises BedError if kubectl fails."""
        return self.device.machine.run(self._command(words), timeout=timeout, stdin=stdin)

    def drop(self, *words: Word, timeout: float = 60) -> None:
        """Run kubectl until it ends, and discard its output. Raises BedError if kubectl fails."""
        self.device.machine.run(["sh", "-c", 'exec "$@" > /dev/null', "sh", *self._command(words)], timeout=timeout)

    def run_on_terminal(self, *words: Word, grows: bool = False, timeout: float = 60) -> str:
        """Run kubectl on a terminal of `ROWS` and `COLUMNS`, and return the output on the terminal.

        If the terminal *grows*, it gets one more row and one more column after a second. Raises BedError if kubectl
        fails.
        """
        return self.device.machine.run(self._on_terminal(words, grows), timeout)

    @contextmanager
    def running_on_terminal(self, name: str, *words: Word) -> Iterator[Running]:
        """Run kubectl on a terminal in the background during the block.

        A file called *name* gets the output of the terminal.
        """
        with self._running(name, self._on_terminal(words)) as running:
            yield running

    def apply(self, *objs: Object) -> None:
        """Apply manifests."""
        self.run("apply", "--filename=-", stdin=yaml.safe_dump_all(objs))

    def get(self, *words: Word) -> dict[str, Any]:
        """Return the JSON that kubectl prints for *words* with `--output=json`."""
        found: dict[str, Any] = json.loads(self.run(*words, "--output=json"))
        return found

    def whoami(self, *words: Word) -> tuple[str, set[str]]:
        """Return the name and the groups of the person, according to the API server."""
        user = self.get("auth", "whoami", *words)["status"]["userInfo"]
        return user["username"], {*user["groups"]}

    def certificate(self, name: str) -> str:
        """Return the serial number of the certificate of the HTTPS server called *name*."""
        words: list[Word] = ["curl", "-sS", "--max-time", "10", "--cacert", self.root, "--output", "/dev/null"]
        shown = self.device.machine.run([*words, "--write-out", "%{certs}", f"https://{name}/version"])
        return next(line for line in shown.splitlines() if line.startswith("Serial Number:"))

    @contextmanager
    def running(self, name: str, *words: Word) -> Iterator[Running]:
        """Run kubectl in the background during the block, with its output in a file called *name*."""
        with self._running(name, self._command(words)) as running:
            yield running

    @contextmanager
    def repeating(self, name: str, *words: Word) -> Iterator[Running]:
        """Run kubectl in the background during the block, and start it again each time when it ends.

        A file called *name* gets the output, with a line `BROKEN` after each end of kubectl.
        """
        script = f'trap "kill \\$!; exit" TERM; while :; do "$@" & wait; echo {BROKEN}; sleep 0.1; done'
        with self._running(name, ["sh", "-c", script, "sh", *self._command(words)]) as running:
            yield running

    @contextmanager
    def _running(self, name: str, argv: list[Word]) -> Iterator[Running]:
        log = self.folder / name
        log.unlink(missing_ok=True)
        process = only_child(spawn(self.device.machine.command(argv), log), log)
        try:
            yield Running(process, log)
        finally:
            process.end(5)

    def _on_terminal(self, words: tuple[Word, ...], grows: bool = False) -> list[Word]:
        growth = f"(sleep 1; stty rows {ROWS + 1} cols {COLUMNS + 1} < /dev/tty) & " if grows else ""
        command = f"stty rows {ROWS} cols {COLUMNS}; {growth}exec {shlex.join(map(str, self._command(words)))}"
        return ["script", "--quiet", "--return", "--flush", "--command", command, "/dev/null"]

    def _command(self, words: tuple[Word, ...]) -> list[Word]:
        return [*self._with_environment(), self.kubectl, *words]

    def _with_environment(self) -> list[Word]:
        files = {"KUBECONFIG": self.folder / "kubeconfig", "SSL_CERT_FILE": self.root, "HOME": self.folder}
        return ["env", *(f"{name}={value}" for name, value in {**files, **self.environment}.items())]


ROWS, COLUMNS = 33, 111
