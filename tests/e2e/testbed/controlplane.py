"""The control plane of the bed: etcd, the API server, the controller manager and the scheduler."""

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tests.e2e.testbed import network
from tests.e2e.testbed.commands import Word, run
from tests.e2e.testbed.credentials import make_tokens, write_kubeconfig
from tests.e2e.testbed.daemons import Daemon, Daemons
from tests.e2e.testbed.isolation import Isolation
from tests.e2e.testbed.parts import program
from tests.e2e.testbed.paths import Paths
from tests.e2e.testbed.pki import Pki

LOOPBACK = "127.0.0.1"
API_SERVER = "kube-apiserver"

_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {"level": "Request", "users": ["operatorbench"], "resources": [{"resources": ["configmaps"]}]},
        {"level": "Metadata", "users": ["operatorbench", "system:serviceaccount:tailscale:operator"]},
        {"level": "Metadata", "userGroups": ["system:serviceaccounts:tailscale"]},
        {"level": "None"},
    ],
}


class Ports(NamedTuple):
    """The loopback ports that the control plane listens on."""

    etcd: int = 2379
    etcd_peers: int = 2380
    api: int = 6443
    controllers: int = 10257

    @classmethod
    def free(cls) -> "Ports":
        """Return ports on which nothing listens now."""
        return cls(*free_ports(4))


def free_ports(count: int) -> list[int]:
    """Return *count* loopback ports on which nothing listens now."""
    sockets = [socket.create_server((LOOPBACK, 0)) for _ in range(count)]
    numbers = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return numbers


class Excuse(NamedTuple):
    """A span of time in which the API server can deny requests that it normally allows, and the reason for that."""

    why: str
    began: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """The programs of the control plane.

    They run *inside* an isolation that has the node's address. If *inside* is None, they run on the machine's loopback.
    """

    paths: Paths
    folder: Path
    daemons: Daemons
    ports: Ports
    inside: Isolation | None
    controller_flags: Mapping[str, Word] = field(default_factory=dict)
    """Flags of the controller manager that replace the usual ones."""
    is_oldest: bool = False
    """True to run the programs of the oldest Kubernetes."""

    @property
    def pki(self) -> Pki:
        """The certificates of the control plane."""
        return Pki(self.folder / "pki")

    @property
    def url(self) -> str:
        """The API server's URL for programs of the cluster, on any node."""
        return f"https://{network.NODE if self.inside else LOOPBACK}:{self.ports.api}"

    def kubeconfig(self, user: str) -> Path:
        """Return the path of the kubeconfig with which *user* reaches the API server from inside the cluster."""
        return self.folder / "kubeconfigs" / f"{user.replace(':', '-')}.json"

    @property
    def audit_log(self) -> Path:
        """The path of the API server's audit log, in JSON Lines.

        It has the requests of all ServiceAccounts in the operator's namespace, and of the operator that the benchmark
        measures. The API server writes it without a buffer.
        """
        return self.folder / "audit.log"

    def start(self) -> None:
        """Start etcd and the API server. Call `wait` to wait until they serve."""
        self.pki.make_cluster([LOOPBACK, network.API_SERVICE, network.NODE])
        for user, token in make_tokens(self.folder / "tokens.csv").items():
            write_kubeconfig(self.kubeconfig(user), self.url, self.pki.ca, token)
        self._start_etcd()
        self._start_api_server()

    def wait(self) -> None:
        """Wait until the API server is ready, and start the controller manager."""
        self._wait_for_api_server()
        self._start_controller_manager()

    def start_scheduler(self) -> None:
        """Start the scheduler."""
        kubeconfig = self.kubeconfig("system:kube-scheduler")
        self._start("kube-scheduler", {"kubeconfig": kubeconfig, "leader-elect": "false", "bind-address": LOOPBACK})

    @contextmanager
    def kubernetes_patience(self) -> Iterator[None]:
        """Let the controllers take a silent node for dead after 50 s during the block, as is the default.

        Outside the block, they do so after 2 minutes.
        """
        name = "kube-controller-manager"
        self.daemons.stop(name)
        self._start_controller_manager({"node-monitor-grace-period": "50s"})
        try:
            yield
        finally:
            self.daemons.stop(name)
            self._start_controller_manager()

    def wait_for_controllers(self) -> None:
        """Wait until the controllers have put their objects into the namespace `default`."""
        self.wait_for_namespace("default")

    def wait_for_namespace(self, name: str) -> None:
        """Wait until a namespace has the objects that Pods need and that controllers create in each namespace."""
        made = (
            f"/api/v1/namespaces/{name}/serviceaccounts/default",
            f"/api/v1/namespaces/{name}/configmaps/kube-root-ca.crt",
        )
        what = f"the default ServiceAccount and kube-root-ca.crt in {name}"
        self.daemons.wait_for("kube-controller-manager", lambda: all(map(self._get, made)), 60, what)

    @contextmanager
    def away(self) -> Iterator[None]:
        """Kill the API server at the start of the block, as in a crash.

        At the end of the block, start it again, and wait until it is ready.
        """
        self.daemons.stop(API_SERVER, grace=0)
        try:
            yield
        finally:
            # The API server answers before it is ready. Until it knows the roles, it denies requests that are allowed.
            with self.excused("the API server started"):
                self.daemons.restart(API_SERVER, self.inside)
                self._wait_for_api_server()

    @contextmanager
    def excused(self, why: str) -> Iterator[None]:
        """Record the time of the block as an `Excuse` with the reason *why*.

        No test fails because of requests that the API server denies during this time.
        """
        began = datetime.now(UTC)
        try:
            yield
        finally:
            with self._excuses.open("a") as notes:
                notes.write(json.dumps([why, began.isoformat(), datetime.now(UTC).isoformat()]) + "\n")

    @property
    def excuses(self) -> list[Excuse]:
        """The excuses that were recorded so far."""
        notes = self._excuses.read_text().splitlines() if self._excuses.exists() else []
        found = map(json.loads, notes)
        return [Excuse(why, datetime.fromisoformat(began), datetime.fromisoformat(end)) for why, began, end in found]

    @property
    def _excuses(self) -> Path:
        return self.folder / "excuses.jsonl"

    def token(self, user: str) -> str:
        """Return the token of *user*."""
        content = json.loads(self.kubeconfig(user).read_text())
        return str(content["users"][0]["user"]["token"])

    def kubectl(self, *words: Word, stdin: str | None = None, timeout: float = 60) -> str:
        """Run kubectl as admin in the network of the API server."""
        return self._beside("kubectl", *words, stdin=stdin, timeout=timeout)

    def helm(self, *words: Word, timeout: float = 60) -> str:
        """Run helm as admin in the network of the API server."""
        return self._beside("helm", *words, timeout=timeout)

    def _beside(self, name: str, *words: Word, stdin: str | None = None, timeout: float = 60) -> str:
        argv = [program(self.paths, name), f"--kubeconfig={self.kubeconfig('admin')}", *words]
        if self.inside:
            return self.inside.run(argv, timeout=timeout, stdin=stdin)
        return run(argv, timeout=timeout, stdin=stdin)

    def _wait_for_api_server(self) -> None:
        self.daemons.wait_for(API_SERVER, lambda: self._get("/readyz"), 90, "/readyz")

    def _get(self, path: str) -> str:
        return self.kubectl("get", "--raw", path, "--request-timeout=2s", timeout=10)

    def _start_etcd(self) -> None:
        client, peers = f"http://{LOOPBACK}:{self.ports.etcd}", f"http://{LOOPBACK}:{self.ports.etcd_peers}"
        flags: dict[str, Word] = {
            "name": "testbed",
            "data-dir": self.folder / "etcd",
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peers,
            "initial-advertise-peer-urls": peers,
            "initial-cluster": f"testbed={peers}",
            "unsafe-no-fsync": "true",
            "log-level": "warn",
        }
        self._start("etcd", flags)

    def _start_api_server(self) -> None:
        pki = self.pki
        policy = self.folder / "audit-policy.json"
        policy.write_text(json.dumps(_AUDIT_POLICY))
        flags: dict[str, Word] = {
            "audit-policy-file": policy,
            "audit-log-path": self.audit_log,
            "audit-log-maxsize": "0",  # no size limit, so that the log stays in one file
            "enable-admission-plugins": "OwnerReferencesPermissionEnforcement",  # OpenShift enables this plugin, too
            "etcd-servers": f"http://{LOOPBACK}:{self.ports.etcd}",
            "secure-port": str(self.ports.api),
            "service-cluster-ip-range": network.SERVICE_CIDR,
            "tls-cert-file": pki.certificate("apiserver"),
            "tls-private-key-file": pki.key("apiserver"),
            "client-ca-file": pki.ca,
            "kubelet-client-certificate": pki.certificate("kubelet-client"),
            "kubelet-client-key": pki.key("kubelet-client"),
            "kubelet-preferred-address-types": "InternalIP",
            "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
            "service-account-key-file": pki.service_accounts,
            "service-account-signing-key-file": pki.service_accounts,
            "token-auth-file": self.folder / "tokens.csv",
            "authorization-mode": "Node,RBAC",
            "allow-privileged": "true",
            "profiling": "false",
        }
        if self.inside:
            flags["advertise-address"] = network.NODE
        else:
            # The address of the `kubernetes` Service can't be a loopback one, and nothing here asks for it.
            flags |= {"bind-address": LOOPBACK, "endpoint-reconciler-type": "none"}
        self._start(API_SERVER, flags)

    def _start_controller_manager(self, changes: Mapping[str, Word] | None = None) -> None:
        flags: dict[str, Word] = {
            "kubeconfig": self.kubeconfig("kube-controller-manager"),
            "bind-address": LOOPBACK,
            "secure-port": str(self.ports.controllers),
            "service-account-private-key-file": self.pki.service_accounts,
            "root-ca-file": self.pki.ca,
            "leader-elect": "false",
            "node-monitor-grace-period": "2m",  # longer than an outage of the API server
        }
        if not self.inside:
            # Without an isolation, no kubelet renews the Lease of a node. So this controller would evict its Pods.
            flags["controllers"] = "*,-node-lifecycle-controller"
        self._start("kube-controller-manager", {**flags, **self.controller_flags, **(changes or {})})

    def _start(self, name: str, flags: dict[str, Word]) -> Daemon:
        started = program(self.paths, name, oldest=self.is_oldest)
        argv: list[Word] = [started, *(f"--{flag}={value}" for flag, value in flags.items())]
        return self.daemons.start(name, argv, self.inside)
