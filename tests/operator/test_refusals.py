"""Calls that a control server refuses or lacks: the object reports what to set up, and no call is made in a loop."""

import asyncio
from functools import partial
from typing import NamedTuple

import pytest
from clustersim.faults import Failure
from clustersim.sim import SimOptions
from tsoperator.api.objects import Object
from tsoperator.app import PATIENCE
from tsoperator.tsclient.errors import BadRequest, CredentialsUnreadable, Forbidden, NotSupported, Unauthorized
from tsoperator.tsclient.transport import Retry

from tests.support.lanes import cases
from tests.support.manifests import backend, connector, egress, exposed, ingress, load_balancer
from tests.support.operator import World, new_world, running_operator
from tests.support.othertailnet import NAME, other_tailnet

pytestmark = pytest.mark.full

KEYS = ("POST", "/api/v2/tailnet/-/keys")
PLAIN = {"Content-Type": "text/plain"}
OWNERS = '"tagOwners": {"tag:k8s-operator": [], "tag:k8s": ["tag:k8s-operator"]}'
UNSUPPORTED = "UnsupportedByControlServer"
REFUSED_FOR = 515.0
"""Seconds after which the pauses between retries have their full length."""
SEEN_BY_PREFLIGHT = 65.0


class Parent(NamedTuple):
    """An object, and the type of its condition; empty if it has none."""

    obj: Object
    condition: str = "TailscaleProxyReady"


PUBLIC = Parent(load_balancer("lb", 443, funnel="true"))
PARENTS = {
    "egress": Parent(egress()),
    "exposed": Parent(exposed()),
    "ingress": Parent(ingress(), ""),
    "connector": Parent(connector(), "ConnectorReady"),
}


async def said(world: World, parent: Parent, reason: str) -> str:
    """Return the message of the Event with *reason* on *parent*, if the condition has the same reason and message.

    Otherwise, return an empty text. A parent without a condition needs only the Event.
    """
    message = (await world.events(parent.obj)).get(reason, "")
    if not parent.condition:
        return message
    condition = await world.condition(parent.obj, parent.condition)
    return message if condition == ("False", reason, message) else ""


@pytest.mark.parametrize("parent", cases(PARENTS, "ingress"))
async def test_a_call_that_the_control_server_lacks_is_reported_and_is_not_made_in_a_loop(
    world: World, parent: Parent
) -> None:
    for _ in range(20):
        world.control.answer("404 page not found\n", status=404, path="/keys", headers=PLAIN)
    await world.apply(backend(), parent.obj)
    assert "OPERATOR_LOGIN_SERVER" in await world.eventually(lambda: said(world, parent, UNSUPPORTED))
    await world.settled()
    before = world.control.requests[KEYS]
    assert not await world.writes_when_left_alone()
    assert world.control.requests[KEYS] == before < 20
    world.control.heal()
    await world.annotate(parent.obj, {"example.org/look": "again"})
    await world.eventually(lambda: world.proxy(parent.obj))


@pytest.mark.parametrize(
    ("error", "first", "longest"),
    [
        (BadRequest, 1, 300),
        (Forbidden, 1, 300),
        (Unauthorized, 1, 60),
        (CredentialsUnreadable, 1, 60),
        (NotSupported, 60, 86_400),
    ],
)
def test_a_refused_call_is_made_again_within_five_minutes_and_an_unsupported_call_within_a_day(
    error: type[Exception], first: float, longest: float
) -> None:
    waits = [PATIENCE[error].delay(failures) for failures in (0, 1, 100)]
    assert waits == [pytest.approx(wait, rel=0.1) for wait in (first, 2 * first, longest)]


@pytest.mark.simulated
@pytest.mark.parametrize("write", cases({"Event": ("create", "events"), "status": ("update", "services")}, "Event"))
async def test_a_refusal_of_the_control_server_that_could_not_be_reported_at_once_is_reported_later(
    world: World, write: tuple[str, str]
) -> None:
    world.control.policy_tags = set()
    for status in (500, 409):
        world.sim.faults.fail(Failure(status, verb=write[0], plural=write[1]))
    await world.apply(egress())
    assert OWNERS in await world.eventually(lambda: said(world, PARENTS["egress"], "ProxyFailed"))
    assert world.sim.faults.to_json()["fail"] == []
    await world.delete(egress())
    await world.eventually(lambda: world.gone(egress()))


@pytest.mark.parametrize(
    ("parent", "words"), [(PARENTS["ingress"], ""), (PUBLIC, "Funnel is not supported by this control server")]
)
async def test_an_object_reports_once_that_headscale_has_no_https_and_no_funnel(parent: Parent, words: str) -> None:
    async with new_world(SimOptions(headscale=True)) as world, running_operator(world):
        await world.apply(backend(), parent.obj)
        assert words in await world.eventually(lambda: said(world, parent, UNSUPPORTED))
        assert "HTTPSNotEnabled" not in await world.events(parent.obj)
        assert not await world.writes_when_left_alone()
        await world.delete(parent.obj)
        await world.eventually(lambda: world.gone(parent.obj))


MANY = [egress(f"db-{number}") for number in range(24)]
AT_ONCE = 16  # calls to the control server


async def keys_asked_for_at_first(world: World) -> int:
    """Bring up a proxy, so that the operator has an access token; return the requests for keys so far."""
    await world.apply(egress())
    await world.eventually(lambda: world.proxy(egress()))
    await world.settled()
    return world.control.requests[KEYS]


async def asked(world: World, before: int) -> int:
    return world.control.requests[KEYS] - before


async def test_a_control_server_that_hangs_delays_only_the_objects_that_need_it(world: World) -> None:
    before = await keys_asked_for_at_first(world)
    world.control.latency = 3600
    await world.apply(*MANY)
    await world.becomes(lambda: asked(world, before), AT_ONCE)
    invalid = egress("invalid", "not a name")
    await world.apply(invalid)
    await world.becomes(lambda: world.reason(invalid), "ProxyInvalid", timeout=5)
    assert await asked(world, before) == AT_ONCE
    world.control.heal()


async def test_a_failing_control_server_does_not_get_a_call_for_every_waiting_parent(world: World) -> None:
    before = await keys_asked_for_at_first(world)
    world.control.fail(503, count=10_000)
    await world.apply(*MANY)
    for each in MANY:
        await world.becomes(partial(world.reason, each), "ProxyFailed")
    assert await asked(world, before) <= (AT_ONCE + 1) * Retry().tries
    world.control.heal()


async def test_a_parent_can_be_deleted_while_the_control_server_refuses_its_tags(world: World) -> None:
    parent = PARENTS["connector"]
    world.control.policy_tags = set()
    await world.apply(parent.obj)
    await world.eventually(lambda: said(world, parent, "ConnectorCreationFailed"))
    await world.delete(parent.obj)
    await world.eventually(lambda: world.gone(parent.obj))
    assert await world.leftovers(parent.obj) == []


async def test_egress_services_exposed_services_and_connectors_get_proxies_on_headscale() -> None:
    async with new_world(SimOptions(headscale=True)) as world, running_operator(world):
        for parent in (PARENTS[name] for name in ("egress", "exposed", "connector")):
            await world.apply(parent.obj)
            await world.eventually(partial(world.proxy, parent.obj))
            assert UNSUPPORTED not in await world.events(parent.obj)


async def test_an_object_reports_a_missing_scope_and_gets_its_proxy_without_a_restart_once_the_scope_is_granted(
    world: World,
) -> None:
    parent = PARENTS["exposed"]
    world.control.scopes.remove("auth_keys")
    await world.apply(parent.obj)
    assert "scope Auth Keys (auth_keys)" in await world.eventually(lambda: said(world, parent, "ProxyFailed"))
    world.control.scopes.add("auth_keys")
    await world.eventually(lambda: world.proxy(parent.obj))


@pytest.mark.simulated
async def test_calls_that_were_refused_many_times_work_soon_after_the_scope_is_granted(cluster: World) -> None:
    cluster.control.scopes.remove("auth_keys")
    async with running_operator(cluster):
        await cluster.apply(egress())
        await asyncio.sleep(REFUSED_FOR)
        cluster.control.scopes.add("auth_keys")
        await cluster.becomes(lambda: cluster.reason(egress()), "ProxyCreated", SEEN_BY_PREFLIGHT)


@pytest.mark.simulated
async def test_calls_that_another_tailnet_refused_many_times_work_soon_after_it_grants_the_scope(world: World) -> None:
    async with other_tailnet(world) as lab:
        await world.apply(lab.secret(), lab.tailnet())
        await world.becomes(lambda: world.reason(lab.tailnet(), "TailnetReady"), "TailnetValid")
        await world.settled()
        lab.control.scopes.remove("auth_keys")
        lab.control.revoke_tokens()
        await world.apply(gate := connector("gate", exitNode=True, tailnet=NAME))
        await asyncio.sleep(REFUSED_FOR)
        lab.control.scopes.add("auth_keys")
        await world.becomes(lambda: world.reason(gate, "ConnectorReady"), "ConnectorCreated", SEEN_BY_PREFLIGHT)
