"""The known suffixes of MagicDNS names: their sources, and the announcements of changes."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from functools import partial

import pytest
from clustersim import objects as kinds
from clustersim.control import Control
from clustersim.sim import ClusterSim
from tsoperator.api.objects import SERVICE, SUFFIXES, Object, key_of
from tsoperator.kube.client import KubeClient
from tsoperator.reconcilers.service.ask import BY_DESTINATION, by_destination
from tsoperator.runtime.cache import Cache
from tsoperator.sources import sources
from tsoperator.tailnet.devices import ListPace
from tsoperator.tailnet.known import KnownTailnet
from tsoperator.tailnet.suffixes import KnownSuffixes
from tsoperator.tailnet.tailnet import Tailnets
from tsoperator.tailnet.zones import Suffixes

from tests.support.cluster import running, until
from tests.support.manifests import egress
from tests.support.objects import OPERATOR_NAMESPACE, settings, whole_secret
from tests.support.tailnets import join, running_tailnets, tailnet_client, tailnet_of

OWN, OTHER = "tail1234.ts.net", "tail5678.ts.net"
LIST = "/api/v2/tailnet/-/devices"
QUICK = ListPace(first=0.01, longest=0.01, interval=0.01)


@dataclass
class Scene:
    """A cluster, its tailnets, their known suffixes, and the number of announced changes."""

    sim: ClusterSim
    cache: Cache
    kube: KubeClient
    tailnets: Tailnets
    suffixes: KnownSuffixes
    told: int = 0

    async def knows(
        self, *known: str, complete: bool = True, anywhere: bool = False, shared: tuple[str, ...] = ()
    ) -> None:
        """Wait until the current `Suffixes` have exactly the fields in the arguments, and aren't pending."""
        wanted = Suffixes(known, complete, anywhere, shared)
        await until(lambda: self.suffixes.current() == wanted)

    def twin(self, pace: ListPace = QUICK) -> KnownTailnet:
        """Register a new object for the operator's own tailnet in place of the old object, and return the new one."""
        made = tailnet_of(self.tailnets.at("").client, self.kube, self.cache, settings(), pace=pace)
        self.tailnets.register(made)
        return made

    def tell(self, old: Object | None, new: Object | None) -> None:
        assert (old, new) == (None, {"kind": "Suffixes", "metadata": {"name": ""}})
        self.told += 1


@pytest.fixture
async def scene(sim: ClusterSim, client: KubeClient) -> AsyncIterator[Scene]:
    cache = Cache(sources(OPERATOR_NAMESPACE))
    cache.index(SERVICE, {BY_DESTINATION: by_destination})
    async with (
        tailnet_client(sim.control, sim.control_url) as opened,
        running_tailnets(opened, client, cache, settings(), QUICK) as tailnets,
        running(cache.follow(client)),
    ):
        await cache.synced()
        led_to = partial(cache.indexed, SERVICE, BY_DESTINATION)
        made = Scene(sim, cache, client, tailnets, KnownSuffixes(cache, tailnets, lambda name: bool(led_to(name))))
        made.suffixes.feed.listen(SUFFIXES, made.tell)
        yield made


def report(scene: Scene, name: str, fqdn: str, url: str = "") -> None:
    """Let a proxy, which has its Secret already, report the name of its device."""
    config = {"cap-107.hujson": {"ServerURL": url or scene.sim.control_url}}
    scene.sim.store.create(kinds.SECRET, whole_secret(name, config, {"tailscale.com/managed": "true"}))
    data = whole_secret(name, {"device_id": name, "device_fqdn": fqdn})["data"]
    scene.sim.store.merge(kinds.SECRET, OPERATOR_NAMESPACE, name, {"data": data})


async def test_the_suffix_of_a_tailnet_is_that_of_its_devices_and_is_announced_once(scene: Scene) -> None:
    join(scene.sim.control)
    await scene.knows(OWN)
    join(scene.sim.control, "web")
    await until(lambda: scene.tailnets.at("").devices.at("web"))
    assert scene.told == 1
    for device in [*scene.sim.control.devices.values()]:
        scene.sim.control.update(replace(device, name=f"{device.node_id}.{OTHER}"))
    await scene.knows(OTHER)
    assert scene.told == 2
    scene.twin()  # the suffix of the new object is unknown until its devices are listed
    assert scene.told == 3
    await scene.knows(OTHER)
    assert scene.told == 4


async def test_suffixes_are_pending_until_the_first_try_to_read_the_list_of_devices_has_ended(
    scene: Scene,
) -> None:
    assert scene.suffixes.current() == Suffixes(pending=True)
    await until(lambda: scene.told)
    await scene.knows(complete=False)
    scene.sim.control.fail(403, count=10**6)
    scene.twin()
    assert scene.suffixes.current() == Suffixes(pending=True)
    told = scene.told
    await until(lambda: scene.told > told)
    assert scene.suffixes.current() == Suffixes()


async def test_suffixes_do_not_stay_pending_if_the_list_of_devices_does_not_arrive(scene: Scene) -> None:
    scene.sim.control.latency = 3600
    impatient = KnownSuffixes(scene.cache, scene.tailnets, patience=0.01)
    assert impatient.current() == Suffixes(pending=True)
    await until(lambda: impatient.current() == Suffixes())


async def test_the_list_of_devices_is_read_only_when_somebody_asks_for_the_suffix(scene: Scene) -> None:
    join(scene.sim.control)
    report(scene, "a", "a.tail1234.ts.net.")
    await until(lambda: scene.told)
    assert scene.tailnets.at("").devices.names() is None
    await scene.knows(OWN)
    assert scene.told == 2


async def test_the_list_of_devices_of_an_empty_tailnet_is_read_again_until_the_suffix_is_known(scene: Scene) -> None:
    slow = scene.twin(ListPace(first=0.01))
    await until(lambda: not scene.suffixes.current().known and slow.devices.names())
    join(scene.sim.control)
    await scene.knows(OWN)


async def test_the_suffix_that_a_proxy_reports_is_known_while_the_proxy_exists(scene: Scene) -> None:
    scene.sim.control.fail(403, count=10**6)
    report(scene, "a", f"A.{OTHER}.")
    report(scene, "b", f"b.{OTHER}")
    report(scene, "c", "short")
    await scene.knows(OTHER, complete=False)
    scene.sim.store.delete(kinds.SECRET, OPERATOR_NAMESPACE, "a")
    report(scene, "d", f"d.{OWN}")
    await scene.knows(OWN, OTHER, complete=False)
    scene.sim.store.delete(kinds.SECRET, OPERATOR_NAMESPACE, "b")
    await scene.knows(OWN, complete=False)
    assert scene.told == 4


async def test_the_suffix_of_a_headscale_tailnet_is_known_from_the_report_of_a_proxy_in_the_tailnet(
    scene: Scene,
) -> None:
    scene.sim.control.headscale = True
    join(scene.sim.control)
    await scene.knows(complete=False, anywhere=True)
    report(scene, "elsewhere", f"db.{OTHER}", "https://controlplane.tailscale.com")
    await scene.knows(OTHER, complete=False, anywhere=True)
    report(scene, "here", "db.tail.example.org")
    await scene.knows("tail.example.org", OTHER)


async def test_suffixes_are_pending_from_the_creation_of_a_tailnet_until_its_credentials_have_been_checked(
    scene: Scene,
) -> None:
    join(scene.sim.control)
    await scene.knows(OWN)
    scene.sim.store.create(kinds.TAILNET, {"metadata": {"name": "lab"}, "spec": {}})
    await until(lambda: scene.told == 2)
    assert scene.suffixes.current() == Suffixes((OWN,), pending=True)
    scene.tailnets.refuse("lab", "its Secret isn't there")
    await scene.knows(OWN, complete=False)
    other = Control(OTHER)
    join(other)
    async with other.serve() as url, tailnet_client(other, url) as opened:
        scene.tailnets.register(tailnet_of(opened, scene.kube, scene.cache, settings(), "lab", QUICK))
        await scene.knows(OWN, OTHER)
        told = scene.told
        scene.tailnets.unregister("lab")
        assert scene.told == told + 1


async def test_the_suffix_of_a_shared_device_is_known_while_a_service_leads_to_it(scene: Scene) -> None:
    join(scene.sim.control)
    shared = {"id": "7", "nodeId": "n7", "name": f"Db.{OTHER}", "isExternal": True}
    own = {"id": "8", "nodeId": "n8", "name": f"web.{OWN}"}
    text = json.dumps({"devices": [shared, own]}, separators=(",", ":"))
    for _ in range(1000):
        scene.sim.control.answer(text, path=LIST)
    await scene.knows(OWN)
    service = egress(target=f"DB.{OTHER}.")
    scene.sim.store.create(kinds.SERVICE, service)
    await scene.knows(OWN, shared=(f"db.{OTHER}",))
    scene.sim.store.delete(kinds.SERVICE, *key_of(service))
    await scene.knows(OWN)
    assert scene.told == 3
