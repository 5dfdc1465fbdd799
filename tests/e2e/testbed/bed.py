"""The bed, which tests use through `Bed`: starts the programs in their order, and removes everything at the end."""

import os
import shutil
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.testbed import balancers, control, network, parts, peer, preflight, registry
from tests.e2e.testbed.build import build
from tests.e2e.testbed.commands import Word
from tests.e2e.testbed.controlplane import LOOPBACK, ControlPlane, Ports
from tests.e2e.testbed.credentials import write_kubeconfig
from tests.e2e.testbed.daemons import Daemons, strays
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.images import Images
from tests.e2e.testbed.isolation import Isolation
from tests.e2e.testbed.leftovers import Snapshot, leftovers, remove_cgroups, restore_sysctls
from tests.e2e.testbed.lock import locked
from tests.e2e.testbed.management import Management
from tests.e2e.testbed.node import Node
from tests.e2e.testbed.paths import MANIFESTS, Paths
from tests.e2e.testbed.processes import wait_until
from tests.e2e.testbed.progress import Progress

RELAY = Path(__file__).parent / "relay.py"


@dataclass(frozen=True, slots=True)
class Bed:
    """A bed with its files in one folder.

    It is a whole cluster with two tailnets. With *api_only* it has only etcd, the API server and the controller
    manager.
    """

    paths: Paths
    api_only: bool = False
    is_oldest: bool = False
    """True to run the API server and the controller manager of the oldest Kubernetes. Only `up` reads it."""
    controller_flags: Mapping[str, Word] = field(default_factory=dict)
    """Flags of the controller manager that replace the usual ones. Only `up` reads them."""

    @property
    def folder(self) -> Path:
        """The folder with the bed's files."""
        return self.paths.work / ("api" if self.api_only else "cluster")

    @property
    def daemons(self) -> Daemons:
        """The programs of the bed, whose logs stay after `down`."""
        return Daemons(self.folder / "daemons", self.paths.work / "logs" / self.folder.name)

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig, for use from the machine itself."""
        return self.folder / "kubeconfig.json"

    @property
    def machines(self) -> Mapping[str, Isolation]:
        """The machines of the bed, by their names in `network`. There are none with *api_only*."""
        found = (Isolation.load(self.folder / name) for name in network.NAMES)
        return {machine.name: machine for machine in found if machine}

    @property
    def images(self) -> Images:
        """The `Images` of the bed, which builds images and pushes them to the bed's registry."""
        return Images(self.paths, self.machines["node"], self.folder / "images")

    @property
    def plane(self) -> ControlPlane:
        """The control plane of the bed, read from the files in the bed's folder."""
        inside = self.machines.get("node")
        flags = self.controller_flags
        return ControlPlane(self.paths, self.folder, self.daemons, self._ports(), inside, flags, self.is_oldest)

    @property
    def runs(self) -> bool:
        """Tell whether any program of the bed runs."""
        return any(daemon.process.alive for daemon in self.daemons.all()) or any(
            machine.alive for machine in self.machines.values()
        )

    def kubectl(self, *words: Word, stdin: str | None = None, timeout: float = 60) -> str:
        """Run kubectl as admin and return its output."""
        return self.plane.kubectl(*words, stdin=stdin, timeout=timeout)

    def helm(self, *words: Word, timeout: float = 60) -> str:
        """Run helm as admin and return its output."""
        return self.plane.helm(*words, timeout=timeout)

    def up(self, progress: Progress) -> None:
        """Build the missing parts, and start the bed. If a program doesn't start, stop the bed again.

        If an earlier bed was killed, remove its leftovers first.

        Raises: BedError: the bed runs already, or a program didn't start. The error has the end of the program's log.
        """
        if self.runs:
            raise BedError(f"a bed runs already: {self.folder}. Run `down` first")
        if self.folder.exists():
            progress.say(f"removing a bed that was killed: {self.folder}")
            for line in self.down(progress):
                progress.say(f"left behind: {line}")
        if not self.api_only:
            preflight.check_cluster(self.paths.work)
        wanted = [parts.named(name) for name in parts.API_ONLY] if self.api_only else parts.ALL
        build(self.paths, progress, [*wanted, *([parts.OLDEST] if self.is_oldest else [])], whole=not self.api_only)
        self._prepare()
        try:
            if self.api_only:
                self._start_api(progress)
            else:
                self._start_cluster(progress)
        except BaseException:
            progress.say("it did not come up: taking it down again")
            self.down(progress)
            raise

    def down(self, progress: Progress) -> list[str]:
        """Stop the bed, and return a line for each leftover on the machine."""
        before = Snapshot.load(self._before)
        for machine in self.machines.values():
            machine.remove()
        for daemon in self.daemons.all():
            daemon.process.end(grace=0)
        if before:
            remove_cgroups()
            restore_sysctls(before)
        shutil.rmtree(self.folder, ignore_errors=True)
        return self._left(before)

    def _left(self, before: Snapshot | None) -> list[str]:
        """Return the leftovers on the machine. A bed without a node can leave only processes behind."""

        def left() -> list[str]:
            return leftovers(before, self.folder) if before else strays(self.folder)

        wait_until(lambda: not left(), 3)  # killed processes may be listed for another moment
        return left()

    @property
    def _before(self) -> Path:
        """The snapshot that the bed took of the machine before its start. A bed with *api_only* has none."""
        return self.folder / "before.json"

    def _prepare(self) -> None:
        before = None if self.api_only else Snapshot.take(self.folder)
        self.folder.mkdir(parents=True, mode=0o700)
        if before:
            before.save(self._before)
        shutil.rmtree(self.daemons.logs, ignore_errors=True)

    def _start_api(self, progress: Progress) -> None:
        ports = Ports.free()
        (self.folder / "ports").write_text(" ".join(map(str, ports)))
        plane = self.plane
        with progress.step("API server"):
            plane.start()
            plane.wait()
        with progress.step("controllers"):
            plane.wait_for_controllers()
        write_kubeconfig(self.kubeconfig, plane.url, plane.pki.ca, plane.token("admin"))

    def _start_cluster(self, progress: Progress) -> None:
        machines = network.make(self.folder)
        progress.say(f"namespaces: {', '.join(machines)}")
        plane = self.plane
        node = Node(plane, machines["node"], self.folder / "node")
        plane.start()
        node.start_runtime()
        with progress.step("registry and images"):
            registry.start(self.paths, self.daemons, machines["node"], self.folder / "registry")
            self.images.push_standard()
        with progress.step("control server"):
            control.start(self.paths, self.daemons, machines["wan"], self.folder / "control")
        with progress.step("API server"):
            plane.wait()
        with progress.step("node Ready"):
            node.start()
            plane.start_scheduler()
            node.wait()
        with progress.step("cluster DNS"):
            plane.wait_for_controllers()
            self._start_dns()
            balancers.start(plane, machines["node"])
        with progress.step("tailnet devices outside the cluster"):
            self._start_peers()
        self._open_to_the_machine()

    @contextmanager
    def second_node(self) -> Iterator[Node]:
        """Add a second node with the taint `node.TAINT` during the block.

        At the end, the node and its Pods are removed. During the block, the controllers wait for the default time of
        Kubernetes before they take a silent node for dead.
        """
        with ExitStack() as stack:
            machine = network.make_second_node(self.folder, self.machines)
            node = Node(self.plane, machine, self.folder / machine.name, network.SECOND_NODE)
            stack.callback(node.remove)
            node.start_runtime()
            node.start()
            node.wait()
            stack.enter_context(self.plane.kubernetes_patience())
            yield node

    @contextmanager
    def third_peer(self, user: str = "") -> Iterator[peer.Peer]:
        """Add another device outside the cluster to the first tailnet during the block.

        The device belongs to the user with the login name *user*. Without *user*, it has a tag, like the other devices
        outside the cluster.
        """
        machine = network.make_third_peer(self.folder, self.machines)
        added = peer.Peer.at(self.paths, machine, self.folder, machine.name)
        management = Management.log_in(self.machines["wan"])
        try:
            key = management.create_user_key(user) if user else management.create_key(["tag:peer"])
            peer.start(self.paths, self.daemons, added, key)
            yield added
        finally:
            machine.remove()
            shutil.rmtree(machine.folder)
            if device := management.device(added.name):
                management.delete(device["nodeId"])

    def _start_dns(self) -> None:
        self.kubectl("apply", "-f", MANIFESTS / "coredns.yaml")
        self.kubectl("-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=60s", timeout=70)

    def peers(self) -> tuple[peer.Peer, peer.Peer, peer.Peer]:
        """Return the devices outside the cluster: two in the first tailnet, and one in the second."""
        machines = self.machines
        return (
            peer.Peer.at(self.paths, machines["peer"], self.folder),
            peer.Peer.at(self.paths, machines["peer2"], self.folder, "peer2"),
            peer.Peer.at(self.paths, machines["second"], self.folder, "second", control.SECOND),
        )

    def _start_peers(self) -> None:
        wan = self.machines["wan"]
        for outside in self.peers():
            key = Management.log_in(wan, outside.tailnet).create_key(["tag:peer"])
            peer.start(self.paths, self.daemons, outside, key)

    def _open_to_the_machine(self) -> None:
        """Make the API server reachable from the machine itself, by a TCP relay on loopback."""
        plane = self.plane
        with socket.create_server((LOOPBACK, 0)) as listener:
            port = listener.getsockname()[1]
            argv: list[Word] = [sys.executable, RELAY, LOOPBACK, str(plane.ports.api)]
            self.daemons.start("relay", argv, self.machines["node"], descriptor=listener.fileno())
        url = f"https://{LOOPBACK}:{port}"
        write_kubeconfig(self.kubeconfig, url, plane.pki.ca, plane.token("admin"))

    def _ports(self) -> Ports:
        file = self.folder / "ports"
        return Ports(*(int(port) for port in file.read_text().split())) if file.exists() else Ports()

    def environment(self) -> dict[str, str]:
        """Return the environment of a shell for this bed, with kubectl and the other programs on the PATH."""
        folders = [str(part.output(self.paths)) for part in parts.ALL]
        path = os.pathsep.join([*folders, os.environ.get("PATH", os.defpath)])
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig), "PATH": path}


@contextmanager
def brought_up(bed: Bed) -> Iterator[None]:
    """Run *bed* during the block, and stop it at the end, even after SIGTERM.

    If *bed* runs already, leave it running.
    """
    if bed.runs:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    progress = Progress()
    with locked(bed.paths.work, "up"):
        bed.up(progress)
    try:
        yield
    finally:
        with locked(bed.paths.work, "down"):
            left = bed.down(progress)
    assert not left, f"the bed left something behind: {left}"
