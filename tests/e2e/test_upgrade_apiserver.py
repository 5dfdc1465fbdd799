"""The API server proxy moves from the Go operator's chart to ours and back, with the same device and kubeconfig."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest
from tsoperator.api.names import CONFIG_SUFFIX

from tests.e2e import apiproxy, go_operator, product
from tests.e2e.apiproxy import FQDN, HOST, grant
from tests.e2e.apiusers import BROKEN, ApiUser, Running
from tests.e2e.changeover import seen_pods, watched_pods
from tests.e2e.cluster import Cluster, Object, identity
from tests.e2e.product import NAMESPACE, ProductImages
from tests.e2e.testbed.management import Management
from tests.e2e.testbed.peer import Peer
from tests.e2e.waiting import eventually
from tests.e2e.workloads import egress_service

pytestmark = [pytest.mark.full, pytest.mark.timeout(600, func_only=True)]

VALUES = {**product.CREDENTIALS, "apiServerProxyConfig": {"mode": "true"}}
ALICE = "alice@example.org"
MASTERS = "system:masters"
KNOWN = (ALICE, {MASTERS, "system:authenticated"})


class Standing(NamedTuple):
    """Properties that must not change in a move: the proxy's device and certificate, and the Pod of another proxy."""

    device: object
    certificate: str
    pod: tuple[str, int]
    devices: Mapping[str, str]


class Run(NamedTuple):
    """The time during which a container ran."""

    began: datetime
    ended: datetime


class Stage(NamedTuple):
    """A move: the `Standing` before and after it, and the observations during it.

    *broken* is the number of Alice's sessions that broke. *runs* has a `Run` for each container that had the proxy's
    device.
    """

    before: Standing
    after: Standing
    broken: int
    runs: list[Run]


class Mover:
    """An admin who moves the proxy while Alice uses it."""

    def __init__(self, cluster: Cluster, management: Management, alice: ApiUser, service: Object, folder: Path) -> None:
        self.cluster = cluster
        self.alice = alice
        self.pod = cluster.device_proxy(service)
        self._management = management
        self.folder = folder
        self._space = service["metadata"]["namespace"]

    def move(self, name: str, step: Callable[[], None]) -> Stage:
        """Call *step*, which moves the proxy to the chart called *name*, and return the observations of this move."""
        before, pods = self.standing(), self.folder / f"{name}.json"
        with watched_pods(self.cluster.bed, pods), self._watching(name) as sessions:
            step()
            eventually(lambda: self.alice.whoami() == KNOWN, "an answer of the API server", 120)
            self._sees(sessions, f"{name}-arrived")
            after = self.standing()
            self._sees(sessions, f"{name}-settled")
        return Stage(before, after, broken_in(sessions.output), runs_of(pods.read_text()))

    @contextmanager
    def _watching(self, name: str) -> Iterator[Running]:
        """Watch ConfigMaps as Alice during the block, and start the watch again each time when it breaks.

        The name of the file with the output contains *name*.
        """
        with self.alice.repeating(f"watch-{name}", *self._watch()) as running:
            eventually(lambda: "kube-root-ca.crt" in running.output, "the first object of the watch", 20)
            yield running

    def _watch(self) -> tuple[str, ...]:
        return ("-n", self._space, "get", "configmaps", "--watch", "--output=name")

    def _sees(self, sessions: Running, name: str) -> None:
        """Make a ConfigMap, and wait until Alice's present watch shows it."""
        metadata = {"namespace": self._space, "name": name}
        self.cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        eventually(lambda: f"configmap/{name}" in sessions.output, f"{name} in the watch", 60)

    def standing(self) -> Standing:
        """Return the present `Standing`."""
        return Standing(
            apiproxy.identity(self._management),
            self.alice.certificate(FQDN),
            identity(self.cluster.look(self.pod)),
            {device["name"]: device["nodeId"] for device in self._management.devices()},
        )


def broken_in(output: str) -> int:
    """Return the number of sessions that broke after they had shown an object."""
    sessions = output.split(f"{BROKEN}\n")[:-1]
    return sum("configmap/" in each for each in sessions)


def runs_of(events: str) -> list[Run]:
    """Return when each container with the proxy's device ran, in whole seconds, according to watch events."""
    runs: dict[str, Run] = {}
    for pod in seen_pods(events):
        for status in pod["status"].get("containerStatuses") or ():
            for state in status["state"].values():
                if _has_device(pod, status["name"]) and "startedAt" in state:
                    runs[status["containerID"]] = Run(
                        *(_moment(state.get(name)) for name in ("startedAt", "finishedAt"))
                    )
    return sorted(runs.values())


def _has_device(pod: Object, container: str) -> bool:
    if pod["spec"]["serviceAccountName"] == apiproxy.NAME:
        return container == "tailscale"
    return bool(pod["spec"]["containers"][0]["image"] == go_operator.OPERATOR_IMAGE)


def _moment(text: str | None) -> datetime:
    return datetime.fromisoformat(text) if text else datetime.max.replace(tzinfo=UTC)


@pytest.fixture(scope="module")
def mover(
    cluster: Cluster,
    images: ProductImages,
    shared_namespace: str,
    management: Management,
    outside: Peer,
    acme_root: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Mover]:
    """An admin with the Go operator, which serves the API server to Alice. At the end our operator runs again."""
    bed, folder = cluster.bed, tmp_path_factory.mktemp("moves")
    go_operator.take_over(bed, folder, VALUES)
    management.replace_grants(grant(ALICE, MASTERS))
    service = egress_service(shared_namespace, "db", tailnet_ip=outside.address)
    cluster.apply(service)
    with bed.third_peer(ALICE) as device:
        alice = ApiUser.at(bed.paths, device, acme_root, folder / "alice")
        eventually(lambda: alice.configure(HOST), "the device of the proxy", 60)
        eventually(lambda: alice.whoami() == KNOWN, "an answer of the API server", 60)
        yield Mover(cluster, management, alice, service, folder)
    apiproxy.switch(cluster, images, "false")
    cluster.scale_operator(2)  # the chart leaves it with as many Pods as the Go operator had
    cluster.remove(service)
    go_operator.forget(cluster, management)
    management.replace_grants()


@pytest.fixture(scope="module")
def ours(mover: Mover, images: ProductImages) -> Stage:
    """The upgrade of the release to our chart, with the same values and the names of our images."""

    def upgrade() -> None:
        product.install(mover.cluster.bed, product.CHART, {**VALUES, **product.image_values(images)})
        apiproxy.ready_pod(mover.cluster)

    return mover.move("ours", upgrade)


def check(stage: Stage) -> None:
    """Check that a move changed nothing in the `Standing`, and broke one session of Alice.

    Also check that the old container with the proxy's device ended before the new one began.
    """
    assert stage.after == stage.before
    assert stage.broken == 1
    before, after = stage.runs
    assert before.ended <= after.began < after.ended


def test_our_operator_takes_over_the_api_server_proxy_of_the_go_operator(ours: Stage) -> None:
    check(ours)


@pytest.fixture(scope="module")
def back(mover: Mover, ours: Stage) -> Stage:
    """The upgrade of the release to the Go operator's chart."""
    bed = mover.cluster.bed

    def upgrade() -> None:
        with bed.plane.excused("the release went back to the Go operator's roles"):
            product.install(bed, mover.folder / "go-operator", VALUES)

    return mover.move("go", upgrade)


def test_the_go_operator_takes_over_the_api_server_proxy_of_our_operator(back: Stage) -> None:
    check(back)


def test_nothing_of_our_api_server_proxy_remains_after_the_go_operator_has_taken_over(
    cluster: Cluster, back: Stage
) -> None:
    kinds = ("deployment", "serviceaccount", "role", "rolebinding")
    names = [(kind, apiproxy.NAME) for kind in kinds]
    names.append(("secret", f"{apiproxy.SECRET}{CONFIG_SUFFIX}"))
    eventually(lambda: not any(cluster.get(*each, NAMESPACE) for each in names), "the end of our objects", 30)
    assert apiproxy.pods(cluster) == []
