"""10,000 egress Services, and policies in 200 namespaces. The tests print the costs.

The operator is a process of its own, so its costs don't include the simulated cluster. `make test-scale` runs this.
"""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from time import perf_counter
from uuid import UUID

import aiohttp
import pytest
import pytest_asyncio
from clustersim import objects as kinds
from clustersim.processes import free_port
from clustersim.sim import SimOptions
from tsoperator.api.names import CONFIG_KEY, LABEL_PARENT_TYPE, PARENT_SERVICE, SECRET_DEVICE_ID
from tsoperator.api.objects import Object
from tsoperator.status.server import STATUS

from tests.support import fleet
from tests.support.cluster import until
from tests.support.manifests import DOMAIN, group_policy
from tests.support.operator import NAMESPACE, World, new_world
from tests.support.process import Cost, OperatorProcess, operator_process

SIZE = int(os.environ.get("SCALE_SIZE", "10000"))
READS = 3
"""The number of reads of the device list, whose mean cost is printed."""
TEAMS = 200
"""The number of namespaces with a ProxyGroupPolicy."""
PATIENCE = 900.0
"""The greatest number of seconds that we allow an operator for the reconciliation of all objects."""

_NEXT_READ = 60.0  # s: the operator waits 10 s at most before it reads a list again that it needs
_OFFLINE = 3600.0  # s for which the dead devices have been offline
_MORE = 20.0  # MB that 10,000 EndpointSlices of users may take
_HELD = 2.5  # s of CPU: a full garbage collection takes a second, and can happen in any callback

_MOMENT = 0.02  # s of CPU for which a report or a scrape may hold the event loop at a time

LIST = ("GET", "/api/v2/tailnet/-/devices")
LOOK = ("GET", "/api/v2/device/{id}")
DELETE = ("DELETE", "/api/v2/device/{id}")
WATCHED = ("watch", "endpointslices")
MINT = ("POST", "/api/v2/tailnet/-/keys")

Figures = dict[str, Cost]

pytestmark = [
    pytest.mark.scale,
    pytest.mark.timeout(3 * PATIENCE),
    pytest.mark.asyncio(loop_scope="module"),
]


@pytest.fixture(scope="module")
def figures(pytestconfig: pytest.Config) -> Iterator[Figures]:
    """A table of the costs of all steps, which is printed after the last test."""
    found: Figures = {}
    yield found
    plugins = pytestconfig.pluginmanager
    reporter, capture = plugins.getplugin("terminalreporter"), plugins.getplugin("capturemanager")
    assert reporter
    assert capture
    with capture.global_and_fixture_disabled():
        reporter.ensure_newline()
        for line in table(found):
            reporter.write_line(line)


def table(figures: Figures) -> Iterator[str]:
    columns = ("CPU, s", "longest callback, CPU s", "memory, MB", "at most, MB", "duration, s")
    yield "  ".join([f"{f'{SIZE} egress Services':36}", *(f"{column:>23}" for column in columns), "longest callback"])
    for step, cost in figures.items():
        cells = (f"{figure:.2f}" if figure else "" for figure in cost.figures)
        yield "  ".join([f"{step:36}", *(f"{cell:>23}" for cell in cells), cost.holder])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def proxies() -> AsyncIterator[World]:
    """A cluster with the proxies of all Services, as an operator left them."""
    async with new_world(SimOptions(controllers=False)) as world:
        await fleet.plant(world, SIZE)
        yield world


def secrets(world: World) -> list[Object]:
    return world.store.list(kinds.SECRET, NAMESPACE, {LABEL_PARENT_TYPE: PARENT_SERVICE})


async def cost_of_a_read(world: World, operator: OperatorProcess, times: int = READS) -> Cost:
    """Make the operator read the device list *times* times, and return the mean cost of a read."""
    since, first = operator.now(), world.control.requests[LIST]
    for _ in range(times):
        await ask_for_a_read(world)
        await operator.quiet()
    cost, reads = operator.cost(since), world.control.requests[LIST] - first
    return cost._replace(cpu_seconds=cost.cpu_seconds / reads, seconds=0)


async def ask_for_a_read(world: World) -> None:
    """Let a proxy report a device that the operator doesn't know, and wait for a read of the list."""
    before = world.control.requests[LIST]
    device = b64encode(f"nUnknown{world.store.revision}".encode()).decode()
    name = secrets(world)[0]["metadata"]["name"]
    world.store.merge(kinds.SECRET, NAMESPACE, name, {"data": {SECRET_DEVICE_ID: device}})
    await until(lambda: world.control.requests[LIST] > before, _NEXT_READ)


def join_with_their_keys(world: World) -> list[str]:
    """Let all proxies join the tailnet with the keys and hostnames in their Secrets; return their MagicDNS names."""
    configs = [json.loads(b64decode(secret["data"][CONFIG_KEY])) for secret in secrets(world)]
    return sorted(world.control.register(config["AuthKey"], config["Hostname"]).name for config in configs)


async def test_a_restarted_operator_writes_nothing(proxies: World, figures: Figures, tmp_path: Path) -> None:
    async with operator_process(proxies, tmp_path / "first") as operator:
        await operator.done(SIZE, PATIENCE)
        figures["first start, three writes a proxy"] = operator.cost(operator.start)
    before = Counter(proxies.sim.writes)
    async with operator_process(proxies, tmp_path / "second") as operator:
        await operator.done(SIZE, PATIENCE)
        figures["restart"] = operator.cost(operator.start)
    assert proxies.sim.writes_since(before) == Counter()


async def test_no_read_of_the_device_list_blocks_the_event_loop_for_long(
    proxies: World, figures: Figures, tmp_path: Path
) -> None:
    async with operator_process(proxies, tmp_path / "operator") as operator:
        await operator.done(SIZE, PATIENCE)
        figures[f"read of {SIZE} devices"] = await cost_of_a_read(proxies, operator)
        others = [*map(fleet.target, range(SIZE)), *(f"laptop-{number}" for number in range(3 * SIZE))]
        fleet.join(proxies.control, others, "tag:other")
        figures[f"read that finds {4 * SIZE} more"] = await cost_of_a_read(proxies, operator, 1)
        figures[f"read of {5 * SIZE} devices"] = unchanged = await cost_of_a_read(proxies, operator)
    assert unchanged.held_seconds < _HELD


async def fetch(address: str) -> None:
    """Fetch the operator's report at *address*."""
    async with aiohttp.ClientSession() as session, session.get(f"http://{address}{STATUS}") as response:
        report = await response.json()
    assert len(report["objects"]) == SIZE


async def run_list(address: str) -> None:
    """Run `tsoperator list` as in the operator's Pod, where it fetches the report at *address*."""
    program = [sys.executable, "-m", "tsoperator", "list", "--all-namespaces"]
    environment = {**os.environ, "KUBERNETES_SERVICE_HOST": "127.0.0.1", "OPERATOR_STATUS_ADDR": address}
    environment.pop("KUBECONFIG", None)
    child = await asyncio.create_subprocess_exec(*program, env=environment, stdout=PIPE)
    text, _ = await child.communicate()
    assert len(text.splitlines()) == SIZE + 1  # the first line is the head of the table


async def cost_of(operator: OperatorProcess, step: Callable[[], Awaitable[object]]) -> Cost:
    """Return the cost of *step* for the operator, and the seconds that *step* takes."""
    since, start = operator.now(), perf_counter()
    await step()
    seconds = perf_counter() - start
    await operator.quiet()
    return operator.cost(since)._replace(seconds=seconds)


async def test_no_report_on_all_services_and_no_scrape_blocks_the_event_loop_for_long(
    proxies: World, figures: Figures, tmp_path: Path
) -> None:
    address = f"127.0.0.1:{free_port()}"
    async with operator_process(proxies, tmp_path / "operator", OPERATOR_STATUS_ADDR=address) as operator:
        await operator.done(SIZE, PATIENCE)
        await operator.quiet()  # waits for the end of the scrape by `done`, so that its CPU time isn't measured
        steps: dict[str, Callable[[], Awaitable[object]]] = {
            f"first report on {SIZE} Services": lambda: fetch(address),
            f"second report on {SIZE} Services": lambda: fetch(address),
            f"tsoperator list of {SIZE} Services": lambda: run_list(address),
            f"scrape with {SIZE} Services": operator.metrics,
        }
        figures |= {words: await cost_of(operator, step) for words, step in steps.items()}
    assert max(figures[words].held_seconds for words in steps) <= _MOMENT


@pytest.mark.parametrize("names", [SIZE // 4, SIZE])
async def test_a_name_is_taken_over_with_few_requests_however_many_devices_there_are(
    names: int, figures: Figures, tmp_path: Path
) -> None:
    async with new_world(SimOptions(controllers=False)) as world:
        fleet.rebuild(world, names, _OFFLINE)
        async with operator_process(world, tmp_path / "operator", OPERATOR_TAKE_OVER_NAMES="true") as operator:
            await operator.done(names, PATIENCE)
            figures[f"take-over of {names} names"] = operator.cost(operator.start)
        asked = world.control.requests
        assert (asked[DELETE], asked[MINT]) == (names, names)
        assert asked[LOOK] <= 2 * names
        assert sum(world.sim.writes.values()) <= 12 * names
        assert join_with_their_keys(world) == [f"{fleet.hostname(number)}.{DOMAIN}" for number in range(names)]


async def test_a_policy_in_each_of_many_namespaces_costs_four_writes_and_the_write_of_a_status(
    figures: Figures, tmp_path: Path
) -> None:
    async with new_world(SimOptions(controllers=False)) as world:
        for number in range(TEAMS):
            world.store.create(kinds.NAMESPACE, {"metadata": {"name": f"team-{number}"}})
        async with operator_process(world, tmp_path / "first") as operator:
            await operator.quiet()
            since, before = operator.now(), Counter(world.sim.writes)
            for number in range(TEAMS):
                world.store.create(kinds.PROXYGROUPPOLICY, group_policy("mine", f"team-{number}", egress=["pg"]))
            await operator.done(TEAMS, PATIENCE)
            figures[f"policies in {TEAMS} namespaces"] = operator.cost(since)
            assert sum(world.sim.writes_since(before).values()) <= 5 * TEAMS
        assert len(world.store.list(kinds.ADMISSIONPOLICY)) == 2 * TEAMS
        before = Counter(world.sim.writes)
        async with operator_process(world, tmp_path / "second") as operator:
            await operator.done(TEAMS, PATIENCE)
            figures[f"restart with {TEAMS} policies"] = operator.cost(operator.start)
        assert world.sim.writes_since(before) == Counter()


def users_slice(number: int) -> Object:
    """Return an EndpointSlice as the endpoint controller makes it for the two Pods of a user's Service."""
    service, owner = f"shop-{number}", {"apiVersion": "v1", "kind": "Service", "controller": True}
    metadata = {
        "namespace": "default",
        "name": f"{service}-x7k2p",
        "labels": {
            "app.kubernetes.io/name": service,
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            "kubernetes.io/service-name": service,
        },
        "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"},
        "ownerReferences": [{**owner, "name": service, "uid": str(UUID(int=number)), "blockOwnerDeletion": True}],
    }
    endpoints = [
        {
            "addresses": [f"10.{pod}.{number // 250}.{number % 250}"],
            "conditions": {"ready": True, "serving": True, "terminating": False},
            "nodeName": f"node-{number % 50}",
            "targetRef": {"kind": "Pod", "namespace": "default", "name": f"{service}-{pod}", "uid": str(UUID(int=pod))},
            "zone": "eu-central-1a",
        }
        for pod in (1, 2)
    ]
    ports = [{"name": "http", "port": 8080, "protocol": "TCP"}]
    return {"metadata": metadata, "addressType": "IPv4", "endpoints": endpoints, "ports": ports}


def watches(world: World) -> int:
    """Return the number of watches of EndpointSlices that have begun.

    The operator watches EndpointSlices after it has listed all of them.
    """
    return sum(count for (_, verb, plural), count in world.sim.requests.items() if (verb, plural) == WATCHED)


async def cost_of_a_start(world: World, folder: Path) -> Cost:
    """Return the cost of an operator's start, up to its list of all EndpointSlices."""
    before = watches(world)
    async with operator_process(world, folder) as operator:
        await until(lambda: watches(world) > before, PATIENCE)
        await operator.quiet()
        return operator.cost(operator.start)


async def test_the_endpointslices_of_users_take_little_memory_of_the_operator(figures: Figures, tmp_path: Path) -> None:
    async with new_world(SimOptions(controllers=False)) as world:
        without = figures["no user's EndpointSlice"] = await cost_of_a_start(world, tmp_path / "without")
        for number in range(SIZE):
            world.store.create(kinds.ENDPOINTSLICE, users_slice(number))
        with_all = figures[f"{SIZE} users' EndpointSlices"] = await cost_of_a_start(world, tmp_path / "with")
    assert with_all.rss_mb - without.rss_mb <= _MORE * max(SIZE / 10_000, 1)
