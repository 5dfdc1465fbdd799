"""Tailnets on a cluster with a running operator and a second control server: the tests check the resulting state."""

from collections.abc import AsyncIterator

import pytest
from clustersim import objects
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import Object, uid
from tsoperator.kube.client import USER_AGENT

from tests.operator.contract.memory import remembered
from tests.support.manifests import DOMAIN, connector, proxy_group, recorder
from tests.support.operator import World, running_operator
from tests.support.othertailnet import NAME, OTHER_DOMAIN, OtherTailnet, one_url, other_tailnet

READY, CONNECTOR_READY = "TailnetReady", "ConnectorReady"
GATE = connector("gate", exitNode=True, tailnet=NAME)
JOINED = f"gate-connector.{OTHER_DOMAIN}"


@pytest.fixture
async def lab(world: World) -> AsyncIterator[OtherTailnet]:
    """Another tailnet with its control server, before a Tailnet object describes it."""
    async with other_tailnet(world) as made:
        yield made


@pytest.fixture
async def joined(world: World, lab: OtherTailnet) -> OtherTailnet:
    """The other tailnet, after a Connector's device has joined it."""
    await world.apply(lab.secret(), lab.tailnet(), GATE)
    await has_devices(world, lab, JOINED)
    await world.settled()
    return lab


async def has_devices(world: World, lab: OtherTailnet, *names: str) -> None:
    async def found() -> list[str]:
        return lab.device_names()

    await world.becomes(found, [*names])


async def test_a_connector_joins_the_tailnet_that_it_names(world: World, joined: OtherTailnet) -> None:
    assert await world.reason(joined.tailnet(), READY) == "TailnetValid"
    assert await world.reason(GATE, CONNECTOR_READY) == "ConnectorCreated"
    assert FINALIZER in (await world.look(joined.tailnet()))["metadata"]["finalizers"]
    assert await world.device_names() == []
    assert not await world.writes_when_left_alone()
    await world.delete(GATE)
    await world.eventually(lambda: world.gone(GATE))
    assert joined.device_names() == []
    await world.delete(joined.tailnet())
    await world.eventually(lambda: world.gone(joined.tailnet()))


@pytest.mark.simulated
async def test_the_operator_forgets_a_deleted_tailnet_object_and_its_credentials(cluster: World) -> None:
    async with other_tailnet(cluster) as lab, running_operator(cluster) as operator:
        await cluster.apply(lab.secret(), lab.tailnet())
        await cluster.becomes(lambda: cluster.reason(lab.tailnet(), READY), "TailnetValid")
        words = uid(await cluster.look(lab.tailnet())), lab.control.client_secret
        assert len(remembered(operator, *words)) > len(words)
        await cluster.delete(lab.tailnet())

        async def paths() -> list[str]:
            return remembered(operator, *words)

        await cluster.becomes(paths, [])


async def test_a_connector_waits_until_its_tailnet_object_is_valid(world: World, lab: OtherTailnet) -> None:
    await world.apply(GATE)
    await world.becomes(lambda: world.reason(GATE, CONNECTOR_READY), "ConnectorCreationFailed")
    await world.apply(lab.tailnet())
    await world.becomes(lambda: world.reason(lab.tailnet(), READY), "InvalidSecret")
    await world.apply(lab.secret(client_id="k"))
    await world.change(lab.secret(), {"data": lab.secret()["data"]})
    await has_devices(world, lab, JOINED)


async def test_a_tailnet_object_stays_while_its_tailnet_has_devices_of_a_connector_that_left(
    world: World, joined: OtherTailnet
) -> None:
    await world.change(GATE, {"spec": {"tailnet": None}})
    await world.delete(joined.tailnet())
    await world.becomes(lambda: world.reason(joined.tailnet(), READY), "TailnetInUse")
    await world.becomes(lambda: world.reason(GATE, CONNECTOR_READY), "ConnectorCreationFailed")
    await world.apply(other := connector("other", exitNode=True))
    await world.becomes(lambda: world.reason(other, CONNECTOR_READY), "ConnectorCreated")
    assert "use it: Connector gate. Delete" in (await world.events(joined.tailnet()))["TailnetInUse"]
    await world.delete(GATE)
    await world.eventually(lambda: world.gone(joined.tailnet()))
    assert joined.device_names() == []


async def test_a_tailnet_accepts_tokens_of_our_service_account_for_the_audience_in_its_secret(
    world: World, lab: OtherTailnet
) -> None:
    lab.control.audience = "lab.example.org"
    await world.apply(lab.secret(client_id=lab.control.client_id, audience="lab.example.org"), lab.tailnet(), GATE)
    await has_devices(world, lab, JOINED)
    assert world.requests()[USER_AGENT, "create", "serviceaccounts"] <= 2


async def test_a_tailnet_of_headscale_works_and_an_event_says_that_it_has_no_tailscale_services(world: World) -> None:
    async with other_tailnet(world, "tail.example.org", headscale=True) as lab:
        await world.apply(lab.secret(), lab.tailnet(), GATE)
        await has_devices(world, lab, "gate-connector.tail.example.org")
        assert await world.reason(lab.tailnet(), READY) == "TailnetValid"
        events = await world.eventually(lambda: world.events(lab.tailnet()))
        assert "highly available Ingresses" in events["UnsupportedByControlServer"]
        await world.delete(GATE)
        await has_devices(world, lab)


async def test_an_event_on_a_tailnet_reports_a_scope_that_its_oauth_client_lacks(
    world: World, lab: OtherTailnet
) -> None:
    lab.control.scopes = {"auth_keys", "devices:core:read", "services"}
    await world.apply(lab.secret(), lab.tailnet())
    events = await world.eventually(lambda: world.events(lab.tailnet()))
    assert "the OAuth client of Tailnet lab has not the scope Devices Core" in events["PreflightFailed"]


async def test_an_operator_that_starts_again_changes_nothing_in_its_tailnets(
    world: World, joined: OtherTailnet
) -> None:
    assert not await world.writes_during(world.restart())
    assert await world.reason(GATE, CONNECTOR_READY) == "ConnectorCreated"


@pytest.mark.simulated
async def test_a_deleted_connector_says_that_its_tailnet_object_is_missing_and_is_released_when_it_is_back(
    world: World, joined: OtherTailnet
) -> None:
    await world.delete(GATE)
    world.sim.store.disown(objects.TAILNET, "", NAME)

    async def said() -> bool:
        told = await world.condition(GATE, CONNECTOR_READY)
        return told is not None and "there is no Tailnet 'lab'" in told.message and "by hand" in told.message

    await world.eventually(said)
    assert "by hand" in (await world.events(GATE))["ConnectorCreationFailed"]
    await world.restart()
    assert joined.device_names() == [JOINED]
    await world.apply(joined.tailnet())
    await world.eventually(lambda: world.gone(GATE))
    assert joined.device_names() == []


@pytest.mark.simulated
async def test_the_device_of_a_connector_that_is_deleted_during_a_restart_is_deleted_in_its_own_tailnet(
    cluster: World,
) -> None:
    async with other_tailnet(cluster, first=100) as lab, one_url(cluster.control_url, lab.url) as url:
        cluster.tailnets.others[url] = lab.control
        async with running_operator(cluster, login_server=url):
            await cluster.apply(lab.secret(), lab.tailnet(url), GATE)
            await has_devices(cluster, lab, JOINED)
            await cluster.settled()
        await cluster.delete(GATE)
        async with running_operator(cluster, login_server=url):
            await cluster.eventually(lambda: cluster.gone(GATE))
            assert lab.device_names() == []


RESIDENTS: list[tuple[Object, str, str, list[str]]] = [
    (connector("gate", exitNode=True), CONNECTOR_READY, "ConnectorCreationFailed", ["gate-connector"]),
    (proxy_group("gate"), "ProxyGroupReady", "ProxyGroupTailnetUnavailable", ["gate-0", "gate-1"]),
    (recorder("gate"), "RecorderReady", "RecorderTailnetUnavailable", ["gate-0"]),
]


@pytest.mark.parametrize(("own", "kind", "reason", "names"), RESIDENTS, ids=["Connector", "ProxyGroup", "Recorder"])
async def test_proxies_cannot_move_to_another_tailnet(
    world: World, lab: OtherTailnet, own: Object, kind: str, reason: str, names: list[str]
) -> None:
    devices = [f"{name}.{DOMAIN}" for name in names]
    await world.apply(lab.secret(), lab.tailnet(), own)
    await world.becomes(world.device_names, devices)
    await world.settled()
    await world.change(own, {"spec": {"tailnet": NAME}})
    await world.becomes(lambda: world.reason(own, kind), reason)
    await world.settled()
    assert (lab.device_names(), await world.device_names()) == ([], devices)
    await world.delete(own)
    await world.eventually(lambda: world.gone(own))
    assert await world.device_names() == []
