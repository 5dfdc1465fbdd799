"""The operator's identity: the reads of its Secret, and the announcements of its changes."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from clustersim import objects as kinds
from clustersim.faults import Ban
from clustersim.sim import ClusterSim
from tsoperator.api.objects import IDENTITY, SECRET, SECRET_METADATA, Object
from tsoperator.kube.client import KubeClient
from tsoperator.runtime.cache import Cache
from tsoperator.sources import sources
from tsoperator.tailnet.identity import KnownIdentity
from tsoperator.tailnet.operatorid import OperatorIdentity

from tests.support.cluster import running, until
from tests.support.objects import OPERATOR_NAMESPACE, whole_secret

NAME = "operator"
MANAGED = {"tailscale.com/managed": "true"}
DAMAGED = (
    "Secret tailscale/operator (OPERATOR_SECRET) doesn't say which device is the operator's: its key profile-1a2b "
    "isn't a login profile of tailscaled. Restore the Secret, or delete it: then the operator registers a new device, "
    "and no longer owns the Tailscale Services of the old one"
)
READS = ("tsoperator", "get", "secrets")


@dataclass
class Scene:
    """A cluster, the identity of the operator in it, and the number of announced changes."""

    sim: ClusterSim
    cache: Cache
    identity: KnownIdentity
    told: int = 0

    def tell(self, old: Object | None, new: Object | None) -> None:
        assert (old, new) == (None, {"kind": "Identity", "metadata": {"name": ""}})
        self.told += 1

    async def put(self, node_id: str = "nABC", labels: dict[str, str] | None = None) -> None:
        """Let a tailscaled store its state, and wait until the cache has the state."""
        self.sim.store.create(kinds.SECRET, state(node_id, labels))
        await until(lambda: any(map(self.cache.all, (SECRET, SECRET_METADATA))))

    def edit(self, patch: Object) -> None:
        self.sim.store.merge(kinds.SECRET, OPERATOR_NAMESPACE, NAME, patch)

    async def becomes(self, node_id: str = "", problem: str = "") -> None:
        await until(lambda: self.identity.current() == OperatorIdentity(node_id, is_known=True, problem=problem))


def state(node_id: str, labels: dict[str, str] | None = None) -> Object:
    profile = {"Config": {"NodeID": node_id, "PrivateNodeKey": "privkey:00"}}
    return whole_secret(NAME, {"_current-profile": "profile-1a2b", "profile-1a2b": profile}, labels)


@pytest.fixture
async def scene(sim: ClusterSim, client: KubeClient) -> AsyncIterator[Scene]:
    cache = Cache(sources(OPERATOR_NAMESPACE))
    identity = KnownIdentity(client, cache, OPERATOR_NAMESPACE, NAME, pause=0.01)
    made = Scene(sim, cache, identity)
    identity.feed.listen(IDENTITY, made.tell)
    async with running(cache.follow(client), identity.run()):
        await cache.synced()
        yield made


async def test_the_first_query_for_the_operators_id_does_not_wait_and_the_id_is_announced_once_after_its_read(
    scene: Scene,
) -> None:
    await scene.put()
    assert (scene.identity.current(), scene.sim.requests[READS]) == (OperatorIdentity(), 0)
    await scene.becomes("nABC")
    assert (scene.told, scene.sim.requests[READS]) == (1, 1)
    assert "privkey" not in str(scene.identity.state())


async def test_an_edit_of_the_operators_secret_that_does_not_concern_the_id_is_not_announced(scene: Scene) -> None:
    await scene.put()
    await scene.becomes("nABC")
    reads = scene.sim.requests[READS]
    scene.edit({"data": {"device_ips": "W10="}})
    await until(lambda: scene.sim.requests[READS] > reads)
    scene.edit({"data": state("nDEF")["data"]})
    await scene.becomes("nDEF")
    assert scene.told == 2


@pytest.mark.parametrize("labels", [{}, MANAGED], ids=["unlabelled", "labelled"])
async def test_the_operator_has_an_id_only_while_its_secret_exists(scene: Scene, labels: dict[str, str]) -> None:
    await scene.becomes()
    assert scene.sim.requests[READS] == 0
    await scene.put(labels=labels)
    await scene.becomes("nABC")
    scene.sim.store.delete(kinds.SECRET, OPERATOR_NAMESPACE, NAME)
    await scene.becomes()


async def test_a_request_of_the_operators_device_for_another_auth_key_is_announced(scene: Scene) -> None:
    await scene.put("")
    await scene.becomes()
    told = scene.told
    scene.edit({"data": {"reissue_authkey": "a2V5"}})
    await until(lambda: scene.told == told + 1)


async def test_the_operator_keeps_its_id_while_its_secret_cannot_be_read(scene: Scene) -> None:
    await scene.put()
    await scene.becomes("nABC")
    scene.sim.faults.forbid(Ban("secrets", OPERATOR_NAMESPACE, "get"))
    scene.edit({"data": state("nDEF")["data"]})
    await until(lambda: "can't be read" in scene.identity.current().problem)
    assert scene.identity.current().node_id == "nABC"
    scene.sim.faults.clear()
    await scene.becomes("nDEF")


async def test_the_problem_of_a_damaged_operator_secret_has_its_cure(scene: Scene) -> None:
    await scene.put()
    await scene.becomes("nABC")
    scene.edit({"data": {"profile-1a2b": "W10="}})
    await until(lambda: scene.identity.current().problem)
    assert scene.identity.current() == OperatorIdentity(is_known=True, problem=DAMAGED)


async def test_an_obstacle_to_the_registration_of_the_device_is_a_problem_while_the_operator_has_no_id(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    await scene.becomes()
    for _ in range(2):
        scene.identity.hindered("tags refused")
    await scene.becomes(problem="tags refused")
    assert caplog.text.count("tags refused") == 1
    await scene.put()
    await scene.becomes("nABC")
    assert scene.told == 3


async def test_without_the_setting_operator_secret_the_operator_has_no_id(scene: Scene, client: KubeClient) -> None:
    found = KnownIdentity(client, Cache(sources(OPERATOR_NAMESPACE)), OPERATOR_NAMESPACE, "").current()
    assert (found.node_id, found.is_known) == ("", True)
    assert "OPERATOR_SECRET is not set" in found.problem
