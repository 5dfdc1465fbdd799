"""Preflight finds settings that a tailnet lacks before anything else fails, and reports them."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
import pytest
from clustersim.control import Control
from clustersim.sim import SimOptions
from pydantic import SecretStr
from tsoperator.api.objects import Object
from tsoperator.runtime.events import EventRecorder
from tsoperator.tailnet.preflight import Findings, Preflight, PreflightMetrics, own_pod
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.oauth import Credentials
from tsoperator.tsclient.transport import Retry

from tests.support.cluster import until
from tests.support.manifests import proxy_group
from tests.support.objects import settings
from tests.support.operator import NAMESPACE, World, new_world, running_operator

pytestmark = pytest.mark.full

OPERATOR = "operator-5c9f"
POD_OF_OURS: Object = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"namespace": NAMESPACE, "name": OPERATOR},
    "spec": {"containers": [{"name": "operator", "image": "registry.example.org/operator:1"}]},
}
LIST = ("GET", "/api/v2/tailnet/-/devices")
WELL = {"api": True, "credentials": True, "auth_keys": True, "devices": True, "tags": True}


class Nap:
    """A replacement for `asyncio.sleep` that records the seconds of each call, and waits until it is cancelled.

    The first *left* calls return at once. The first of all calls also runs *meanwhile*.
    """

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.begun = asyncio.Event()
        self.left = 0
        self.meanwhile: Callable[[], object] = lambda: None

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        if len(self.seconds) == 1:
            self.meanwhile()
        if len(self.seconds) <= self.left:
            return
        self.begun.set()
        await asyncio.Event().wait()


@dataclass(frozen=True)
class Ground:
    world: World
    preflight: Preflight
    nap: Nap

    @property
    def control(self) -> Control:
        return self.world.control

    async def run_a_while(self) -> None:
        """Run preflight until a nap waits."""
        async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
            running = tasks.create_task(self.preflight.run())
            await self.nap.begun.wait()
            self.nap.begun.clear()
            running.cancel()

    def metrics(self) -> dict[str, float]:
        """Return the value of each check's gauge, and 1 for the kind of the control server."""
        metrics = PreflightMetrics(lambda: {"": self.preflight.findings}).collect()
        samples = [sample for metric in metrics for sample in metric.samples]
        return {next(iter(sample.labels.values())): sample.value for sample in samples}


@asynccontextmanager
async def ground_of(world: World) -> AsyncIterator[Ground]:
    """Yield the preflight of *world*, whose Events are about the Pod `OPERATOR`. It doesn't repeat failed requests."""
    credentials = Credentials(world.control.client_id, SecretStr(world.control.client_secret))
    async with aiohttp.ClientSession() as session:
        client = TailnetClient(
            session,
            world.control_url,
            lambda: credentials,
            retry=Retry(tries=1),
        )
        nap, pod = Nap(), own_pod(world.api, settings(pod_name=OPERATOR))
        preflight = Preflight(client, EventRecorder(world.api), pod, sleep=nap)
        yield Ground(world, preflight, nap)


@pytest.fixture
async def ground(cluster: World) -> AsyncIterator[Ground]:
    async with ground_of(cluster) as made:
        yield made


@pytest.fixture(params=[False, True], ids=["tailscale", "headscale"])
async def either(request: pytest.FixtureRequest) -> AsyncIterator[Ground]:
    """A preflight for Tailscale's control server, and one for Headscale, in a cluster without an operator."""
    async with new_world(SimOptions(headscale=request.param)) as world, ground_of(world) as made:
        yield made


async def test_a_tailnet_with_all_settings_passes_every_check_without_a_write(either: Ground) -> None:
    findings = await either.preflight.look()
    headscale = either.control.headscale
    assert findings.passed == {check: True for check in WELL if check != "tags" or not headscale}
    assert (findings.server, findings.complete) == ("headscale" if headscale else "tailscale", True)
    told = [(note.type, note.reason) for note in findings.notes]
    assert told == [("Normal", "UnsupportedByControlServer")] * headscale
    for note in findings.notes:
        assert [word for word in ("ProxyGroup", "HTTPS", "Funnel", "Connectors") if word not in note.message] == []
    assert {method for method, path in either.control.requests if "oauth" not in path} == {"GET"}
    assert not either.control.keys


MISSING = {
    "auth_keys": (lambda control: control.scopes.remove("auth_keys"), ["auth_keys"], "Auth Keys (auth_keys)"),
    "devices": (lambda control: control.scopes.remove("devices:core"), ["devices"], "Devices Core"),
    "read only": (
        lambda control: control.scopes.symmetric_difference_update({"devices:core", "devices:core:read"}),
        ["devices"],
        "with write access",
    ),
    "old client": (
        lambda control: control.fail(403, count=9, path="/devices"),
        ["devices"],
        "scope Devices Core (devices:core)",
    ),
    "credentials": (
        lambda control: setattr(control, "client_id", "another"),
        ["credentials"],
        "a valid one into Secret operator-oauth",
    ),
    "not an API": (lambda control: control.answer_nonsense(), ["api"], "not an answer of the API"),
    "away": (lambda control: control.refuse(count=9), ["api"], "can't be reached: Server disconnected"),
}


@pytest.mark.parametrize(("spoil", "failed", "words"), MISSING.values(), ids=MISSING)
async def test_preflight_finds_each_missing_setting_of_the_tailnet_and_reports_it_once(
    either: Ground, spoil: Callable[[Control], object], failed: list[str], words: str
) -> None:
    spoil(either.control)
    findings = await either.preflight.look()
    assert [check for check, passed in findings.passed.items() if not passed] == failed
    [message] = [note.message for note in findings.notes if note.type == "Warning"]
    assert words in message
    assert either.control.client_secret not in message
    assert not findings.complete


@pytest.mark.parametrize("is_needed", [False, True])
@pytest.mark.parametrize("has_scope", [False, True])
async def test_preflight_checks_the_scope_for_services_only_while_somebody_needs_services_that_the_server_has(
    either: Ground, is_needed: bool, has_scope: bool
) -> None:
    either.preflight.needs_services = lambda: is_needed
    if not has_scope:
        either.control.scopes.discard("services")
    findings = await either.preflight.look()
    assert findings.passed.get("services") is (has_scope if is_needed and not either.control.headscale else None)
    words = [each.message for each in findings.notes if each.type == "Warning"]
    assert ["Auth Keys, Devices Core and Services" in each for each in words] == [True] * (not findings.complete)


async def test_preflight_finds_an_oauth_client_without_tags_which_cannot_mint_auth_keys(ground: Ground) -> None:
    ground.control.own_tags = []
    findings = await ground.preflight.look()
    assert [check for check, passed in findings.passed.items() if not passed] == ["tags"]
    assert "tag:k8s-operator" in findings.notes[0].message


@pytest.mark.parametrize(
    ("field", "value", "gauges"),
    [
        ("scopes", {"auth_keys", "services"}, {**WELL, "devices": 0, "tailscale": 1}),
        ("client_id", "another", {"credentials": 0}),
    ],
    ids=["a scope", "credentials"],
)
async def test_each_check_of_preflight_has_a_gauge_once_the_check_was_made(
    ground: Ground, field: str, value: object, gauges: dict[str, float]
) -> None:
    assert ground.metrics() == {}
    setattr(ground.control, field, value)
    await ground.run_a_while()
    assert ground.metrics() == gauges


def test_each_tailnet_has_its_own_gauges_for_the_checks_of_preflight() -> None:
    found = {"": Findings({"api": True}, server="tailscale"), "lab": Findings({"api": False})}
    samples = [each for metric in PreflightMetrics(lambda: found).collect() for each in metric.samples]
    assert [(each.name, each.labels, each.value) for each in samples] == [
        ("tsoperator_preflight", {"check": "api", "tailnet": ""}, 1),
        ("tsoperator_preflight", {"check": "api", "tailnet": "lab"}, 0),
        ("tsoperator_control_server", {"kind": "tailscale", "tailnet": ""}, 1),
    ]


BOTH = {"auth_keys", "devices:core", "services"}


@pytest.mark.parametrize(
    ("scopes", "naps", "looks", "told"),
    [
        (BOTH, 24 * 60 - 1, 1, 1),
        (BOTH, 24 * 60, 2, 1),
        (BOTH - {"services"}, 5, 1, 1),
        ({"auth_keys"}, 1, 2, 1),
        ({"auth_keys"}, 59, 60, 1),
        ({"auth_keys"}, 60, 61, 2),
        ({"auth_keys"}, 119, 120, 2),
    ],
)
async def test_preflight_runs_daily_but_each_minute_while_something_is_missing(
    ground: Ground, caplog: pytest.LogCaptureFixture, scopes: set[str], naps: int, looks: int, told: int
) -> None:
    caplog.set_level(logging.DEBUG, "tsoperator.tailnet.preflight")
    ground.control.scopes = scopes
    ground.nap.left = naps
    await ground.run_a_while()
    assert (ground.control.requests[LIST], len(told_levels(caplog))) == (looks, told)
    assert all(54 <= seconds <= 60 for seconds in ground.nap.seconds)


@pytest.mark.parametrize(("status", "looks"), [("200", 1), ("404", 1), ("none", 1), ("401", 2), ("403", 2)])
async def test_a_refused_call_makes_preflight_run_again_soon(ground: Ground, status: str, looks: int) -> None:
    ground.nap.left, ground.nap.meanwhile = 3, lambda: ground.preflight.observe(status)
    await ground.run_a_while()
    assert ground.control.requests[LIST] == looks


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda control: None, 0),
        (lambda control: control.scopes.remove("services"), 1),
        (lambda control: control.own_tags.append("tag:other"), 1),
    ],
    ids=["nothing", "a scope", "a tag"],
)
async def test_listeners_hear_when_the_findings_of_preflight_change(
    ground: Ground, change: Callable[[Control], object], told: int
) -> None:
    found: list[Findings] = []
    ground.preflight.listen(lambda: found.append(ground.preflight.findings))
    ground.nap.left = 24 * 60
    ground.nap.meanwhile = lambda: change(ground.control)
    await ground.run_a_while()
    assert found == [ground.preflight.findings] * told


async def test_new_findings_are_logged_even_if_there_is_no_pod_of_the_operator_for_an_event(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tsoperator.tailnet.preflight")
    ground.control.scopes = {"auth_keys"}
    ground.nap.left, ground.nap.meanwhile = 1, lambda: ground.control.scopes.update(BOTH)
    await ground.run_a_while()
    assert told_levels(caplog) == ["WARNING", "INFO"]
    assert "Devices Core (devices:core)" in caplog.text
    assert await ground.world.events(POD_OF_OURS) == {}


def told_levels(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.levelname for each in caplog.records if " tailnet" in each.message]


@pytest.mark.simulated
@pytest.mark.parametrize(
    ("scope", "needed", "words"),
    [
        ("devices:core", [], "Devices Core (devices:core)"),
        ("services", [proxy_group("web", type="ingress")], "has not the scope Services (services)"),
    ],
)
async def test_the_operator_reports_findings_by_events_about_its_pod_and_goes_on(
    cluster: World, scope: str, needed: list[Object], words: str
) -> None:
    cluster.control.scopes.remove(scope)
    await cluster.apply(POD_OF_OURS, *needed)
    async with running_operator(cluster, pod_name=OPERATOR) as operator:
        events = await cluster.eventually(lambda: cluster.events(POD_OF_OURS))
        assert words in events["PreflightFailed"]
        assert not await cluster.writes_when_left_alone()
        assert not operator.done()


async def test_the_log_says_when_a_setting_is_missing_and_when_it_is_there_again(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tsoperator.tailnet.preflight")
    await ground.world.apply(POD_OF_OURS)

    def refuse() -> None:
        ground.control.fail(403, count=2, path="/api/v2/tailnet/-/devices")
        ground.preflight.observe("403")

    ground.nap.left, ground.nap.meanwhile = 4, refuse
    await ground.run_a_while()
    well, missing, mended = caplog.messages
    assert well == mended == "the tailnet is set up for the operator, as far as can be seen"
    assert missing.startswith("the tailnet: ")


async def test_a_standby_does_not_run_preflight(cluster: World) -> None:
    async with running_operator(cluster, leader_election=True, pod_name="first"):
        await until(lambda: cluster.control.requests[LIST])
        async with running_operator(cluster, leader_election=True, pod_name="second"):
            await asyncio.sleep(1.0)
            assert cluster.control.requests[LIST] == 1
