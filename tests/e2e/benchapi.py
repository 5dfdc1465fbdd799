"""Compares the API server proxy with that of the Go operator, on the bed: `make bench-apiserver`."""

import json
import signal
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from dnsbench.process import Server
from operatorbench.goals import Goal, Measured, Verdict
from operatorbench.process import busy_seconds
from operatorbench.report import verdicts as table

from tests.e2e import apiload, apiproxy, go_operator, product
from tests.e2e.apiproxy import HOST
from tests.e2e.apiusers import ApiUser
from tests.e2e.cluster import Cluster, Object
from tests.e2e.containers import process_in
from tests.e2e.recorders import RecorderDevice
from tests.e2e.testbed import network
from tests.e2e.testbed.bed import Bed, brought_up
from tests.e2e.testbed.control import DOMAIN, URL, acme_root
from tests.e2e.testbed.isolation import only_child, spawn
from tests.e2e.testbed.management import CLIENT_ID, CLIENT_SECRET, Management
from tests.e2e.testbed.paths import Paths
from tests.e2e.testbed.peer import Peer
from tests.e2e.testbed.progress import Progress
from tests.e2e.waiting import eventually
from tests.e2e.workloads import web
from tests.support.manifests import recorder

OURS, GO, DIRECT = "ours", "Go", "direct"
GO_HOST = "go-operator"
PROGRAM, DEVICE = "apiproxy", "tailscale"  # the containers of our API server proxy
SPACE = "bench"
FULL = "bench-full"
USER = "bench@example.org"
MASTERS = "system:masters"
VERSIONS = 400  # requests for /version to each target
PAIRS = 3
EXEC_MB = 200
LIST_MB = 100
WATCHES = 500
IDLE = 20.0  # seconds
SLOW = 200
LISTED = f"/api/v1/namespaces/{FULL}/configmaps"
TEXT_MB = 200
KEYS = 200
SESSIONS = 100  # idle ones
EXEC = f"/api/v1/namespaces/{SPACE}/pods/web/exec"
TAG = "tag:recorder"
RECORDER = recorder("bench", tags=[TAG])
WATCHED = f"/api/v1/namespaces/{SPACE}/secrets?watch=1&timeoutSeconds=3600"
"""The path of a watch without events: no object matches, and the API server sends bookmarks only on request."""


class Costs(NamedTuple):
    """The idle costs of a proxy, for each container: its memory in 10⁶ bytes, and its CPU time in ms a second."""

    memory: Mapping[str, float]
    cpu: Mapping[str, float]


class Sessions(NamedTuple):
    """The costs of sessions through one API server proxy."""

    cpu: float
    """The CPU seconds of all containers for `exec cat`."""
    program: float
    """The CPU seconds of the container with the program that forwards the session."""
    key: float
    """The milliseconds until a pressed key is echoed."""
    memory: float
    """The bytes of memory that an idle session costs in all containers."""


class Seen(NamedTuple):
    """The measured figures of one proxy."""

    version: float
    over_direct: float
    exec: float
    list: float
    slow: float
    idle: Costs
    watching: Costs
    plain: Sessions
    recorded: Sessions


GOALS: Sequence[Goal[Any]] = (
    Goal("GET /version, median", "ms", lambda seen: seen.version, 1.5),
    Goal("the same, over a direct request", "ms", lambda seen: seen.over_direct, 3, relative=False),
    Goal(f"{EXEC_MB} MB by kubectl exec", "s", lambda seen: seen.exec, 2),
    Goal(f"a list of {LIST_MB} MB", "s", lambda seen: seen.list, 2),
    Goal(f"a request beside {SLOW} slow connections", "ms", lambda seen: seen.slow, 50, relative=False),
    Goal(
        f"CPU of a recorded exec of {TEXT_MB} MB, over an unrecorded one",
        "times",
        lambda seen: seen.recorded.cpu / seen.plain.cpu,
        3,
        relative=False,
    ),
    Goal(
        "a key press if recorded, over one if not",
        "ms",
        lambda seen: seen.recorded.key - seen.plain.key,
        5,
        relative=False,
    ),
    Goal("memory of a recorded idle session", "KB", lambda seen: seen.recorded.memory / 1e3, 400, relative=False),
)
OWN_GOALS: Sequence[Goal[Any]] = (
    Goal(
        "the CPU of a recorded exec, apiproxy alone",
        "times",
        lambda seen: seen.recorded.program / seen.plain.program,
        3,
        relative=False,
    ),
    Goal("memory of apiproxy", "MB", lambda seen: seen.idle.memory[PROGRAM], 50, relative=False),
    Goal("memory of tailscale", "MB", lambda seen: seen.idle.memory[DEVICE], 60, relative=False),
    Goal(f"memory of apiproxy for {WATCHES} watches", "MB", lambda seen: _more(seen, "memory"), 40, relative=False),
    Goal(f"CPU of apiproxy for {WATCHES} idle watches", "ms/s", lambda seen: _more(seen, "cpu"), 2, relative=False),
)
"""The goals without a comparison. It would be unfair, since the Go operator has its device in the same process.

CPU time is known in units of 10 ms.
"""


def _more(seen: Seen, what: str) -> float:
    """Return how much more memory or CPU time (*what*) our program needs with open watches than without any."""
    return float(getattr(seen.watching, what)[PROGRAM] - getattr(seen.idle, what)[PROGRAM])


def go_pod() -> list[Object]:
    """Return the Pod of the Go operator with its API server proxy, and the objects that the Pod needs.

    The Pod runs beside the release of our operator, and has no objects to reconcile.
    """
    space = {"namespace": GO_HOST, "name": "operator"}
    variables = {
        "OPERATOR_INITIAL_TAGS": apiproxy.TAG,
        "OPERATOR_HOSTNAME": GO_HOST,
        "OPERATOR_SECRET": "operator",
        "OPERATOR_NAMESPACE": GO_HOST,
        "OPERATOR_LOGIN_SERVER": URL,
        "OPERATOR_INGRESS_CLASS_NAME": GO_HOST,
        "CLIENT_ID_FILE": "/oauth/id",
        "CLIENT_SECRET_FILE": "/oauth/secret",
        "PROXY_IMAGE": product.PROXY_IMAGE,
        "PROXY_TAGS": "tag:k8s",
        "PROXY_FIREWALL_MODE": "auto",
        "APISERVER_PROXY": "true",
        "POD_NAME": "operator",
        "POD_UID": "operator",
    }
    container = {
        "name": "operator",
        "image": go_operator.OPERATOR_IMAGE,
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "volumeMounts": [{"name": "oauth", "mountPath": "/oauth"}],
    }
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": GO_HOST}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": space},
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"namespace": GO_HOST, "name": "oauth"},
            "stringData": {"id": CLIENT_ID, "secret": CLIENT_SECRET},
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": GO_HOST},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", **space}],
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": space,
            "spec": {
                "serviceAccountName": "operator",
                "containers": [container],
                "volumes": [{"name": "oauth", "secret": {"secretName": "oauth"}}],
            },
        },
    ]


@dataclass(frozen=True, slots=True)
class Proxy:
    """One measured proxy: its target, a person with a kubeconfig for it, its Pod, and the process of each container."""

    target: apiload.Target
    user: ApiUser
    pod: Object
    processes: Mapping[str, Server]

    @property
    def cpu_seconds(self) -> dict[str, float]:
        """The CPU seconds that each container has used so far."""
        return {name: server.cpu_seconds for name, server in self.processes.items()}

    def memory(self, cluster: Cluster) -> dict[str, float]:
        """Wait until the kubelet has measured the containers again, and return their memory in 10⁶ bytes."""
        since, uid = datetime.now(UTC), self.pod["metadata"]["uid"]
        path = f"/api/v1/nodes/{self.pod['spec']['nodeName']}/proxy/stats/summary"

        def seen() -> dict[str, float]:
            summary = json.loads(cluster.bed.kubectl("get", "--raw", path))
            (found,) = [each["containers"] for each in summary["pods"] if each["podRef"]["uid"] == uid]
            assert all(datetime.fromisoformat(each["memory"]["time"]) > since for each in found)
            return {each["name"]: each["memory"]["workingSetBytes"] / 1e6 for each in found}

        return eventually(seen, "a look of the kubelet", 60)


@dataclass(frozen=True, slots=True)
class Bench:
    """The benchmark: the two proxies, the direct way to the API server, and the device that sends the requests."""

    cluster: Cluster
    device: Peer
    proxies: Sequence[Proxy]
    direct: apiload.Target
    progress: Progress
    folder: Path
    management: Management

    def run(self) -> dict[str, Seen]:
        """Run all measurements, and return the figures of both proxies."""
        idle = {proxy.target.name: self._costs(proxy, "idle") for proxy in self.proxies}
        version, execs, lists = self._version(), self._execs(), self._lists()
        watching = {proxy.target.name: self._watching(proxy) for proxy in self.proxies}
        slow = {proxy.target.name: self._slow(proxy) for proxy in self.proxies}
        plain = self._sessions("unrecorded")
        with self._recording():
            recorded = self._sessions("recorded")
        return {
            name: Seen(
                version[name],
                version[name] - version[DIRECT],
                execs[name],
                lists[name],
                slow[name],
                idle[name],
                watching[name],
                plain[name],
                recorded[name],
            )
            for name in idle
        }

    def _version(self) -> dict[str, float]:
        """Return the median time of a request for /version in ms, for each target."""
        targets = [*(proxy.target for proxy in self.proxies), self.direct]
        with self._busy("GET /version"):
            (found,) = self._load(apiload.Plan("fetch", targets, "/version", VERSIONS))
        self._say(
            "GET /version, quartiles in ms",
            {
                name: [round(1e3 * each, 2) for each in statistics.quantiles(taken)]
                for name, taken in found["seconds"].items()
            },
        )
        return {name: 1e3 * statistics.median(taken) for name, taken in found["seconds"].items()}

    def _lists(self) -> dict[str, float]:
        targets = [*(proxy.target for proxy in self.proxies), self.direct]
        with self._busy("list"):
            (found,) = self._load(apiload.Plan("fetch", targets, LISTED, PAIRS))
        self._say("list, s", found)
        assert len({*found["bytes"].values()}) == 1, found["bytes"]
        return {name: min(taken) for name, taken in found["seconds"].items()}

    def _execs(self) -> dict[str, float]:
        """Return the shortest time of `kubectl exec cat` in seconds, for each proxy."""
        taken: dict[str, list[float]] = {proxy.target.name: [] for proxy in self.proxies}
        with self._busy("exec"):
            for _ in range(PAIRS):
                for proxy in self.proxies:
                    began = time.monotonic()
                    words = ["-n", SPACE, "exec", "web", "--", "cat", "/tmp/large"]
                    proxy.user.drop(*words, timeout=120)
                    taken[proxy.target.name].append(time.monotonic() - began)
        self._say("exec, s", taken)
        return {name: min(seconds) for name, seconds in taken.items()}

    def _watching(self, proxy: Proxy) -> Costs:
        plan = apiload.Plan("watch", [proxy.target], WATCHED, WATCHES)
        with self._running(plan, "watches") as log:
            eventually(lambda: '"open"' in log.read_text(), f"{WATCHES} watches", 120)
            return self._costs(proxy, f"{WATCHES} watches")

    @contextmanager
    def _recording(self) -> Iterator[None]:
        """Make both proxies record all sessions during the block. At the end, the recorder deletes the recordings."""
        bench = RecorderDevice(self.device, f"{RECORDER['metadata']['name']}-0.{DOMAIN}")
        self.cluster.apply(RECORDER)
        eventually(lambda: bench.files() == [], "the recorder", 120)
        self.management.replace_grants(apiproxy.grant(USER, MASTERS, recorder=[TAG], enforceRecorder=True))

        def records(proxy: Proxy) -> bool:
            before = len(bench.files())
            proxy.user.run("-n", SPACE, "exec", "web", "--", "true")
            return len(bench.files()) > before

        for proxy in self.proxies:
            eventually(partial(records, proxy), f"a recording by {proxy.target.name}", 60)
        with bench.faulty(drops=True):
            yield

    def _sessions(self, what: str) -> dict[str, Sessions]:
        (found,) = self._load(apiload.Plan("keys", [proxy.target for proxy in self.proxies], EXEC, KEYS))
        costs = {}
        for proxy in self.proxies:
            name = proxy.target.name
            spent = [self._cat(proxy) for _ in range(PAIRS)]
            program = next(iter(proxy.processes))
            seconds = found["seconds"][name]
            costs[name] = Sessions(
                min(sum(each.values()) for each in spent),
                min(each[program] for each in spent),
                1e3 * statistics.median(seconds),
                self._held(proxy),
            )
            quartiles = [round(1e3 * each, 2) for each in statistics.quantiles(seconds)]
            self._say(f"{name}, {what}", f"{costs[name]}, quartiles of keys in ms: {quartiles}, CPU: {spent}")
        return costs

    def _cat(self, proxy: Proxy) -> dict[str, float]:
        """Return the CPU seconds of each container for `kubectl exec cat` of `TEXT_MB` MB of text."""
        spent = proxy.cpu_seconds
        proxy.user.drop("-n", SPACE, "exec", "web", "--", "cat", "/tmp/text", timeout=120)
        return {name: seconds - spent[name] for name, seconds in proxy.cpu_seconds.items()}

    def _held(self, proxy: Proxy) -> float:
        """Return the bytes of memory that an idle session costs in all containers of *proxy*."""
        before = sum(proxy.memory(self.cluster).values())
        with self._running(apiload.Plan("hold", [proxy.target], EXEC, SESSIONS), "sessions") as log:
            eventually(lambda: '"open"' in log.read_text(), f"{SESSIONS} sessions", 120)
            return 1e6 * (sum(proxy.memory(self.cluster).values()) - before) / SESSIONS

    def _costs(self, proxy: Proxy, what: str) -> Costs:
        """Return the memory and the CPU time that *proxy* needs while nobody sends requests.

        Also print them, with *what* to describe the state of the proxy.
        """
        began, spent = time.monotonic(), proxy.cpu_seconds
        time.sleep(IDLE)
        took = time.monotonic() - began
        cpu = {name: 1e3 * (seconds - spent[name]) / took for name, seconds in proxy.cpu_seconds.items()}
        resident = {name: server.rss_bytes / 1e6 for name, server in proxy.processes.items()}
        costs = Costs(proxy.memory(self.cluster), cpu)
        self._say(f"{proxy.target.name}, {what}", f"{costs}, resident, with pages that others have, too: {resident}")
        return costs

    def _slow(self, proxy: Proxy) -> float:
        with self._busy("slow"):
            (found,) = self._load(apiload.Plan("slow", [proxy.target], f"{LISTED}?limit=4", SLOW))
        self._say(f"{proxy.target.name} beside {found['hanging']} slow connections, s", found["seconds"])
        assert found["hanging"] == SLOW
        return statistics.median(1e3 * float(each) for each in found["seconds"])

    def _load(self, plan: apiload.Plan) -> list[dict[str, Any]]:
        said = self.device.machine.run(_argv(plan), timeout=600)
        return [json.loads(line) for line in said.splitlines()]

    @contextmanager
    def _running(self, plan: apiload.Plan, name: str) -> Iterator[Path]:
        log = self.folder / name
        log.unlink(missing_ok=True)
        process = only_child(spawn(self.device.machine.command(_argv(plan)), log), log)
        try:
            yield log
        finally:
            process.end(5)

    @contextmanager
    def _busy(self, what: str) -> Iterator[None]:
        """Print the length of the block, the CPU cores that the machine kept busy, and the CPU time of the proxies.

        The printed line begins with *what*, the name of the measurement.
        """
        began, spent = time.monotonic(), busy_seconds(Path("/proc/stat").read_text())
        mine = self._cpu_seconds()
        yield
        took = time.monotonic() - began
        cores = (busy_seconds(Path("/proc/stat").read_text()) - spent) / took
        theirs = {name: round(seconds - mine[name], 2) for name, seconds in self._cpu_seconds().items()}
        self.progress.say(f"{what}: {took:.1f} s, {cores:.1f} cores busy, CPU seconds of the proxies: {theirs}")

    def _cpu_seconds(self) -> dict[str, float]:
        return {proxy.target.name: sum(proxy.cpu_seconds.values()) for proxy in self.proxies}

    def _say(self, what: str, figures: object) -> None:
        self.progress.say(f"{what}: {figures}")


def _argv(plan: apiload.Plan) -> list[str]:
    told = plan._asdict() | {"targets": [target._asdict() for target in plan.targets]}
    return [sys.executable, apiload.__file__, json.dumps(told)]


def fill(cluster: Cluster) -> None:
    """Make the objects that the benchmark reads: a Pod with two large files, and ConfigMaps of a megabyte each."""
    for name in (SPACE, FULL):
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        cluster.bed.plane.wait_for_namespace(name)
    cluster.apply(*web(SPACE, "web"))
    cluster.bed.kubectl("-n", SPACE, "wait", "pod/web", "--for=condition=Ready", "--timeout=60s", timeout=70)
    large = ["sh", "-c", f"head -c {EXEC_MB * 10**6} /dev/urandom > /tmp/large"]
    cluster.bed.kubectl("-n", SPACE, "exec", "web", "--", *large, timeout=60)
    text = ["sh", "-c", f"base64 /dev/urandom | head -c {TEXT_MB * 10**6} > /tmp/text"]
    cluster.bed.kubectl("-n", SPACE, "exec", "web", "--", *text, timeout=60)
    items = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"namespace": FULL, "name": f"large-{number}"},
            "data": {"text": "x" * 10**6},
        }
        for number in range(LIST_MB)
    ]
    listed = {"apiVersion": "v1", "kind": "List", "items": items}
    cluster.bed.kubectl("create", "-f", "-", stdin=json.dumps(listed), timeout=300)


@contextmanager
def prepared(bed: Bed, progress: Progress) -> Iterator[Bench]:
    """Install both proxies on a bed that is up, add a device that uses them, and yield the benchmark."""
    with progress.step("images"):
        images = product.push_images(bed)
        go_operator.push_operator(bed)
    with progress.step("both proxies"):
        values = {**product.CREDENTIALS, **product.image_values(images), "apiServerProxyConfig": {"mode": "true"}}
        product.install(bed, product.CHART, values)
        cluster = Cluster(bed)
        cluster.apply(*go_pod())
        ours = apiproxy.ready_pod(cluster)
    management = Management.log_in(bed.machines["wan"])
    management.replace_grants(apiproxy.grant(USER, MASTERS))
    with progress.step("objects"):
        fill(cluster)
    root = bed.folder / "acme-root.pem"
    root.write_text(acme_root(bed.paths, bed.machines["wan"]))
    with bed.third_peer(USER) as device:
        folder = bed.folder / "bench"
        folder.mkdir(exist_ok=True)
        theirs = cluster.look(go_pod()[-1])
        found = {
            OURS: (HOST, ours, {PROGRAM: "tsoperator.apiproxy", DEVICE: "containerboot"}),
            GO: (GO_HOST, theirs, {"operator": "operator"}),
        }
        proxies = [
            Proxy(_target(name, host, root), _user(bed, device, root, folder / host), pod, _servers(pod, programs))
            for name, (host, pod, programs) in found.items()
        ]
        ca = folder / "ca.crt"
        ca.write_bytes(bed.plane.pki.ca.read_bytes())
        headers = {"Authorization": f"Bearer {bed.plane.token('admin')}"}
        direct = apiload.Target(DIRECT, network.NODE, bed.plane.ports.api, str(ca), headers)
        yield Bench(cluster, device, proxies, direct, progress, folder, management)


def _servers(pod: Object, programs: Mapping[str, str]) -> dict[str, Server]:
    """Return the process in each container of *pod*. *programs* has the name of each container's program."""
    return {name: Server(process_in(pod, name, program).pid, 0) for name, program in programs.items()}


def _target(name: str, host: str, root: Path) -> apiload.Target:
    return apiload.Target(name, f"{host}.{DOMAIN}", 443, str(root), {})


def _user(bed: Bed, device: Peer, root: Path, folder: Path) -> ApiUser:
    """Wait until the proxy that has the name of *folder* serves HTTPS, and return a person who uses it."""
    user = ApiUser.at(bed.paths, device, root, folder)
    eventually(lambda: user.configure(folder.name), f"the device {folder.name}", 60)
    eventually(user.whoami, f"an answer of {folder.name}", 60)
    return user


def judged(seen: Mapping[str, Seen]) -> list[Verdict]:
    """Return the verdict on each goal."""
    ours, theirs = seen[OURS], seen[GO]
    return [
        *(Verdict(goal, Measured(goal.figure(ours), 1), Measured(goal.figure(theirs), 1)) for goal in GOALS),
        *(Verdict(goal, Measured(goal.figure(ours), 1), None) for goal in OWN_GOALS),
    ]


def main() -> int:
    """Run the benchmark, print a table, and return the exit code: 1 if a goal is missed."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    bed, progress = Bed(Paths.from_environment()), Progress()
    with brought_up(bed), prepared(bed, progress) as bench:
        verdicts = judged(bench.run())
    sys.stdout.write(f"\n{table(verdicts)}\n")
    return 1 if any(verdict.missed for verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
