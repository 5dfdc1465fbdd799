"""The times at which the operator tries the credentials of a Tailnet, and the credentials that it uses afterwards."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass

import aiohttp
import pytest
from clustersim.control import Control
from clustersim.faults import Ban
from clustersim.sim import ClusterSim
from clustersim.tailnetservices import TailscaleService
from pydantic import SecretStr
from tsoperator.api.device import Device
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import (
    CONNECTOR,
    PEERRELAY,
    PROXYGROUP,
    RECORDER,
    SECRET,
    SECRET_METADATA,
    TAILNET,
    TAILSCALE_SERVICE,
    Key,
    Object,
    Resource,
    is_deleting,
    key_of,
    resource_of,
)
from tsoperator.api.owners import joined
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import Denied
from tsoperator.proxy.secret import by_device
from tsoperator.reconcilers.tailnet.reconciler import tailnet_kind
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.events import EventRecorder
from tsoperator.runtime.kind import KindReconciler
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import DeleteService
from tsoperator.runtime.result import Pending, Result
from tsoperator.sources import sources
from tsoperator.tailnet.factory import TailnetFactory
from tsoperator.tailnet.known import KnownTailnet
from tsoperator.tailnet.tailnet import Tailnets, service_object
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.oauth import ClientCredentials, Credentials
from tsoperator.tsclient.transport import Retry

from tests.support.cluster import put, running, until
from tests.support.manifests import connector
from tests.support.objects import HOLD, OPERATOR_NAMESPACE, settings, whole_secret
from tests.support.othertailnet import NAME, OtherTailnet, encoded
from tests.support.tailnets import applier, join, tailnet_of
from tests.support.virtual_time import Clock

KEY, LISTS = Key("", NAME), "/api/v2/tailnet/-/keys"
GATE = connector("gate", exitNode=True, tailnet=NAME)


@dataclass
class Ground:
    """A cluster with a Tailnet, and a reconciler of Tailnets that runs only when a test calls it."""

    client: KubeClient
    session: aiohttp.ClientSession
    clock: Clock
    cache: Cache
    lab: OtherTailnet

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Replace the reconciler by a new one without its memory, as if the operator had just been started."""

        def connect(url: str, credentials: ClientCredentials, secret: str) -> TailnetClient:
            return TailnetClient(self.session, url, credentials, retry=Retry(tries=1), secret=secret)

        self.tailnets = Tailnets([], lambda name: True)
        factory = TailnetFactory(connect, self.client, self.cache, EventRecorder(self.client), settings())
        acting = applier(self.client, self.cache, self.tailnets)
        kind = tailnet_kind(self.cache, self.tailnets, factory, lambda: "nUS", self.clock)
        self.reconciler = KindReconciler(kind, self.cache, acting)

    async def reason_after(self, seconds: float = 0) -> str:
        """Reconcile the Tailnet *seconds* later, and return the reason of its condition."""
        self.clock.now += seconds
        self.wait = (await self.reconciler.reconcile(KEY)).requeue_after
        live = await self.client.get(TAILNET, KEY)
        return str(live["status"]["conditions"][0]["reason"])

    async def message(self) -> str:
        """Return the message of the Tailnet's condition."""
        live = await self.client.get(TAILNET, KEY)
        return str(live["status"]["conditions"][0]["message"])

    async def proved(self) -> KnownTailnet:
        """Reconcile the Tailnet, which must become valid, and return the tailnet that the operator uses for it."""
        assert await self.reason_after() == "TailnetValid"
        assert self.used is not None
        return self.used

    @property
    def used(self) -> KnownTailnet | None:
        return self.tailnets.registered(NAME)

    async def change_secret(self, **data: str) -> None:
        await self.change(self.lab.secret(), {"data": encoded(data)})

    async def move_to(self, host: str, **changes: object) -> None:
        """Change the Tailnet's URL so that it names the same server by this *host*, and apply the other *changes*."""
        url = self.lab.url.replace("127.0.0.1", host)
        await self.change(self.lab.tailnet(), {"spec": {"loginUrl": url}, **changes})

    async def change(self, obj: Object, patch: Object) -> None:
        """Patch *obj*, and wait until the cache has the change."""
        resource, key = resource_of(obj), key_of(obj)
        stored = await self.client.patch(resource, key, patch)
        seen = TAILNET if resource == TAILNET else SECRET_METADATA
        await until(lambda: self.version(seen, key) == stored["metadata"]["resourceVersion"])

    def version(self, resource: Resource, key: Key) -> str:
        found = self.cache.get(resource, key)
        return str(found["metadata"]["resourceVersion"]) if found else ""

    @property
    def proofs(self) -> int:
        """The number of times that credentials were tried."""
        return self.lab.control.requests["GET", LISTS]


@pytest.fixture
async def ground(sim: ClusterSim, client: KubeClient) -> AsyncIterator[Ground]:
    """A Ground with a Tailnet whose credentials are good, and with a Connector that has a device there."""
    cache, control = Cache(sources(OPERATOR_NAMESPACE)), Control("tail5678.ts.net")
    async with control.serve() as url, aiohttp.ClientSession() as session:
        lab = OtherTailnet(control, url)
        device = join(control, "gate")
        config: dict[str, str | Object] = {"device_id": device.node_id, "device_fqdn": device.name}
        config["cap-107.hujson"] = {"ServerURL": url}
        child = whole_secret("ts-gate-0", config, Owner("connector", Key("", "gate")).labels)
        await put(client, lab.secret(), lab.tailnet(), GATE, child)
        async with running(cache.follow(client)):
            await cache.synced()
            yield Ground(client, session, Clock(), cache, lab)


async def test_a_tailnet_object_stays_while_the_operator_owns_a_tailscale_service_in_its_tailnet(
    ground: Ground,
) -> None:
    await ground.proved()
    ground.lab.control.services.put(TailscaleService("svc:web", annotations=joined({}, "nUS")))

    def owned() -> bool:
        ground.tailnets.service(NAME, "web")  # the first look reads the list
        return bool(ground.tailnets.owned_services(NAME, "nUS"))

    async with running(ground.tailnets.run()):
        await until(owned)
        for each in (GATE, ground.lab.tailnet()):
            await ground.client.delete(resource_of(each), key_of(each))
        await until(lambda: not ground.cache.all(CONNECTOR) and is_deleting(ground.cache.all(TAILNET)[0]))
        assert await ground.reason_after() == "TailnetInUse"
        assert "use it: Tailscale Service svc:web." in await ground.message()
        assert [*ground.reconciler.watches[TAILSCALE_SERVICE](service_object(NAME, "web"))] == [KEY]
        service = ground.tailnets.service(NAME, "web").service
        assert service is not None
        with suppress(Pending):
            await ground.tailnets.carry_out(DeleteService(NAME, Owner("", KEY), service))
        await until(lambda: not owned())
        await ground.reconciler.reconcile(KEY)
        await until(lambda: not ground.cache.all(TAILNET))


async def test_good_credentials_of_a_tailnet_are_tried_again_once_a_day(ground: Ground) -> None:
    seen = [(await ground.reason_after(each), ground.wait, ground.proofs) for each in (0, 0, 86_399, 1)]
    good = "TailnetValid"
    assert seen == [(good, 86_400, 1), (good, 86_400, 1), (good, 1, 1), (good, 86_400, 2)]


async def test_bad_credentials_of_a_tailnet_are_tried_again_after_half_a_minute(ground: Ground) -> None:
    ground.lab.control.scopes.remove("services")
    seen = [(await ground.reason_after(each), ground.wait, ground.proofs) for each in (0, 29)]
    ground.lab.control.scopes.add("services")
    seen += [(await ground.reason_after(1), ground.wait, ground.proofs)]
    assert seen == [("InvalidOAuth", 30, 1), ("InvalidOAuth", 1, 1), ("TailnetValid", 86_400, 2)]


async def test_the_credentials_of_a_tailnet_are_tried_at_once_when_its_secret_or_its_object_changes(
    ground: Ground,
) -> None:
    await ground.reason_after()
    await ground.change_secret(note="")
    assert (await ground.reason_after(), ground.proofs) == ("TailnetValid", 2)
    await ground.change(ground.lab.tailnet(), {"spec": {"loginUrl": f"{ground.lab.url}/"}})
    assert (await ground.reason_after(), ground.proofs) == ("TailnetValid", 2)
    await ground.change(ground.lab.tailnet(), {"spec": {"credentials": {"secretName": "other"}}})
    assert (await ground.reason_after(), ground.wait) == ("InvalidSecret", None)


async def test_the_cache_keeps_the_secrets_of_users_without_their_data(ground: Ground) -> None:
    (kept,) = ground.cache.all(SECRET_METADATA)
    metadata = {name: kept["metadata"][name] for name in ("namespace", "name", "uid", "resourceVersion")}
    assert kept == {"apiVersion": kept["apiVersion"], "kind": kept["kind"], "metadata": metadata}
    watch = ground.reconciler.watches[SECRET_METADATA]
    assert ([*watch(kept)], [*watch({"metadata": {"name": "other"}})]) == ([KEY], [])


async def test_the_condition_names_each_new_fault_of_a_tailnet_at_once(ground: Ground) -> None:
    told = []
    for url in ("ftp://a", "ftp://a/"):
        await ground.change(ground.lab.tailnet(), {"spec": {"loginUrl": url}})
        told.append((await ground.reason_after(), url in ground.tailnets.refusal(NAME)))
    assert told == [("TailnetInvalid", True)] * 2
    assert ground.wait is None


def move(control: Control) -> None:
    """Turn *control* into the server of another tailnet, which has none of the devices of the old tailnet."""
    for device in [*control.devices.values()]:
        control.delete_device(device)
    control.domain = "tail9999.ts.net"


Spoil = Callable[[Control], object]
UNTRIED = "ControlServerUnreachable"
TROUBLES: dict[str, tuple[Spoil, str]] = {
    "refused": (lambda control: setattr(control, "client_secret", "another"), "InvalidOAuth"),
    "a scope": (lambda control: control.scopes.remove("services"), "InvalidOAuth"),
    "away": (lambda control: control.refuse(count=99), UNTRIED),
    "a web page": (lambda control: control.answer_nonsense(count=99), UNTRIED),
    "other devices": (move, "TailnetChanged"),
}


@pytest.mark.parametrize(("spoil", "reason"), TROUBLES.values(), ids=TROUBLES)
async def test_credentials_that_were_good_stay_in_use_when_a_fault_appears_later(
    ground: Ground, spoil: Spoil, reason: str
) -> None:
    used = await ground.proved()
    spoil(ground.lab.control)
    await ground.change_secret(note="")
    assert (await ground.reason_after(), ground.used) == (reason, used)
    assert "Tailnet 'lab' can't be used" in ground.tailnets.refusal(NAME)


@pytest.mark.parametrize(("spoil", "reason"), TROUBLES.values(), ids=TROUBLES)
async def test_a_restarted_operator_uses_credentials_that_it_cannot_try_yet_but_not_credentials_that_failed(
    ground: Ground, spoil: Spoil, reason: str
) -> None:
    await ground.proved()
    spoil(ground.lab.control)
    ground.start()
    await ground.change_secret(note="")
    assert await ground.reason_after() == reason
    assert (ground.used is not None) == (reason == UNTRIED)
    assert ground.tailnets.refusal(NAME)


async def test_untried_credentials_are_dropped_when_they_turn_out_to_be_for_another_tailnet(ground: Ground) -> None:
    await ground.proved()
    ground.start()
    ground.lab.control.refuse(count=1)
    assert await ground.reason_after() == UNTRIED
    move(ground.lab.control)
    assert await ground.reason_after(30) == "TailnetChanged"
    assert ground.used is None


async def test_the_credentials_of_a_tailnet_that_was_never_valid_can_be_for_any_tailnet(ground: Ground) -> None:
    move(ground.lab.control)
    await ground.proved()


async def test_an_unreachable_new_server_does_not_replace_the_server_that_was_good(ground: Ground) -> None:
    used = await ground.proved()
    ground.lab.control.refuse(count=99)
    await ground.move_to("localhost")
    assert (await ground.reason_after(), ground.used) == (UNTRIED, used)


async def test_devices_that_another_tailnet_shares_do_not_prove_that_credentials_are_for_the_same_tailnet(
    ground: Ground,
) -> None:
    await ground.reason_after()
    ground.start()
    shared = {"id": "9", "nodeId": "n9", "name": "x.tail5678.ts.net"}
    for is_external, reason in ((True, "TailnetChanged"), (False, "TailnetValid")):
        device = {**shared, "isExternal": is_external}
        ground.lab.control.answer(json.dumps({"devices": [device]}), path="/devices")
        assert await ground.reason_after(30) == reason


async def test_a_tailnet_whose_devices_were_deleted_by_hand_is_still_the_same_tailnet(ground: Ground) -> None:
    await ground.proved()
    move(ground.lab.control)
    assert await ground.reason_after(86_400) == "TailnetValid"


async def test_the_url_of_a_tailnets_control_server_can_change_if_the_server_is_the_same(ground: Ground) -> None:
    used = await ground.proved()
    await ground.move_to("localhost")
    now = await ground.proved()
    assert (now is used, now.client.url) == (False, ground.lab.url.replace("127.0.0.1", "localhost"))


@pytest.mark.parametrize(("is_rotated", "reason"), [(True, "TailnetValid"), (False, "InvalidOAuth")])
async def test_only_good_credentials_replace_the_credentials_that_the_operator_uses_for_a_tailnet(
    ground: Ground, is_rotated: bool, reason: str
) -> None:
    used = await ground.proved()
    if is_rotated:
        ground.lab.control.client_secret = "rotated"
    await ground.change_secret(client_secret="rotated")
    assert (await ground.reason_after(), ground.used) == (reason, used)
    ground.lab.control.revoke_tokens()
    assert await used.client.devices()


async def test_the_operator_no_longer_uses_a_tailnet_whose_object_has_vanished(ground: Ground) -> None:
    await ground.reason_after()
    await ground.change(ground.lab.tailnet(), {"metadata": {"finalizers": None}})
    await ground.client.delete(TAILNET, KEY)
    await until(lambda: not ground.version(TAILNET, KEY))
    await ground.reconciler.reconcile(KEY)
    assert ground.used is None


GATE_KEY = key_of(GATE)


async def test_the_tailnet_of_a_released_object_that_another_finalizer_keeps_is_not_used_again(ground: Ground) -> None:
    await ground.proved()
    finalizers = [FINALIZER, *HOLD["metadata"]["finalizers"]]
    await ground.change(ground.lab.tailnet(), {"metadata": {"finalizers": finalizers}})
    for resource, key in ((CONNECTOR, GATE_KEY), (TAILNET, KEY)):
        await ground.client.delete(resource, key)
    await until(lambda: is_deleting(ground.cache.get(TAILNET, KEY) or GATE) and not ground.version(CONNECTOR, GATE_KEY))
    used: list[KnownTailnet | None] = []
    ground.tailnets.listen_to_names(lambda: used.append(ground.used))
    for _ in range(2):
        assert await ground.reconciler.reconcile(KEY) == Result()
    assert (ground.version(TAILNET, KEY) != "", {*used}) == (True, {None})


async def has_device(ground: Ground, device: str) -> None:
    """Let the Connector's proxy report that it has this *device*."""
    key = Key(OPERATOR_NAMESPACE, "ts-gate-0")
    await ground.client.patch(SECRET, key, {"data": encoded({"device_id": device})})
    await until(lambda: [*by_device(ground.cache.get(SECRET, key) or {})] == [device])


@pytest.mark.parametrize(("host", "reason"), [("127.0.0.1", "TailnetValid"), ("localhost", "TailnetChanged")])
async def test_with_headscale_a_tailnet_is_the_same_only_if_its_url_is_the_same(
    ground: Ground, host: str, reason: str
) -> None:
    await ground.reason_after()
    ground.lab.control.headscale = True
    move(ground.lab.control)
    await has_device(ground, "5")
    ground.start()
    await ground.move_to(host, status=None)
    assert await ground.reason_after() == reason


async def test_a_device_that_is_known_in_another_tailnet_does_not_make_good_credentials_invalid(
    ground: Ground,
) -> None:
    await ground.reason_after()
    ground.start()
    client = TailnetClient(ground.session, "https://example.org", lambda: Credentials("", SecretStr("")))
    own = tailnet_of(client, ground.client, ground.cache, settings())
    ground.tailnets.register(own)
    await has_device(ground, "nOwn")
    own.devices.put(Device("nOwn", "gate.tail1234.ts.net"))
    assert await ground.reason_after() == "TailnetValid"


USER = Key("", "user")
NAMING: dict[Resource, Object] = {
    CONNECTOR: {"exitNode": True},
    PROXYGROUP: {"type": "egress"},
    RECORDER: {"enableUI": True},
    PEERRELAY: {},
}


@pytest.mark.parametrize("resource", NAMING, ids=lambda each: each.kind)
async def test_a_tailnet_object_stays_while_an_object_of_any_kind_names_it(ground: Ground, resource: Resource) -> None:
    head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "user"}}
    await ground.client.delete(CONNECTOR, key_of(GATE))
    await put(ground.client, {**head, "spec": {**NAMING[resource], "tailnet": NAME}})
    await until(lambda: ground.cache.get(resource, USER) and not ground.version(CONNECTOR, key_of(GATE)))
    await ground.proved()
    await ground.client.delete(TAILNET, KEY)
    await until(lambda: is_deleting(ground.cache.get(TAILNET, KEY) or GATE))
    assert await ground.reason_after() == "TailnetInUse"
    assert list(ground.reconciler.watches[resource](ground.cache.get(resource, USER) or {})) == [KEY]
    await ground.client.delete(resource, USER)
    await until(lambda: not ground.version(resource, USER))
    assert (await ground.reconciler.reconcile(KEY), ground.used) == (Result(), None)
    await until(lambda: not ground.version(TAILNET, KEY))


async def test_a_change_of_an_object_causes_no_reconcile_of_its_tailnet_object_unless_that_is_being_deleted(
    ground: Ground,
) -> None:
    user = ground.cache.get(CONNECTOR, key_of(GATE))
    assert user is not None
    assert [*ground.reconciler.watches[CONNECTOR](user)] == []


@pytest.mark.parametrize(
    ("is_proved", "finalizers", "is_refused"),
    [(False, [], True), (True, [], True), (False, [FINALIZER], False)],
    ids=["new", "lost", "there"],
)
async def test_a_tailnet_object_is_unusable_only_if_the_operator_cannot_put_its_finalizer_on_it(
    sim: ClusterSim, ground: Ground, is_proved: bool, finalizers: list[str], is_refused: bool
) -> None:
    if is_proved:
        await ground.proved()
    await ground.change(ground.lab.tailnet(), {"metadata": {"finalizers": finalizers}})
    sim.faults.forbid(Ban("tailnets", "", "update"))  # this also forbids writes of the status
    with pytest.raises(Denied):
        await ground.reconciler.reconcile(KEY)
    assert (ground.used is None) == (is_refused and not is_proved)
    assert ("Tailnet 'lab' can't be used" in ground.tailnets.refusal(NAME)) == is_refused
