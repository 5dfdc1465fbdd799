"""Each object has one reconciler that writes it, and a second reconcile writes nothing, after much has happened."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from clustersim.traffic import Request
from tsoperator.api.objects import Key, Object, Resource, key_of
from tsoperator.kube.client import KubeClient

from tests.operator.groupsteps import REST, Stage, Step, end, everything, ports, soon_empty
from tests.support import patient
from tests.support.manifests import backend, connector, credentials, exposed, ingress, proxy_class, proxy_group, tailnet
from tests.support.operator import new_world
from tests.support.othertailnet import other_tailnet

WRITES = ("create", "replace", "replace_status", "patch", "delete")
OTHERS: Sequence[Object] = (
    proxy_class("metered", metrics={"enable": True}),
    backend(),
    exposed("shop", proxy_class="metered"),
    ingress(proxy_class="metered"),
    connector(exitNode=True),
    proxy_group("later", type="ingress"),
    proxy_group("lab", tailnet="other"),
)
HAPPENING: Sequence[Step] = (
    *(Step("make", name) for name in ("blue", "dns", "db", "green", "mail")),
    Step("change", "green", {"replicas": 3, "proxyClass": "metered"}),
    Step("move", "db", "green", pace=0.05),
    Step("change", "green", {"replicas": 1}, pace=0.1),
    Step("move", "mail", ""),
    Step("change", "blue", {"tags": ["tag:gate"], "hostnamePrefix": "gate"}),
    *(Step("lose", kind) for kind in ("Service", "EndpointSlice", "ConfigMap", "StatefulSet", "Pod", "Role")),
    Step("move", "db", "", pace=0.1),
    Step("change", "db", ports(80, 1194)),
    Step("lead", "mail", "db.example.org"),
    Step("stop"),
    Step("delete", "green"),
    Step("move", "db", "blue"),
    Step("lead", "mail", "100.64.7.7"),
    Step("start"),
    Step("make", "green"),
    Step("move", "mail", "green", pace=0.02),
    Step("delete", "blue"),
    Step("make", "blue"),
    Step("move", "db", "lab"),
)

Writers = dict[str, set[str]]


class Busy(NamedTuple):
    """What came of a busy time: the reconcilers that wrote each object, and what was written after it was over: when
    the operator was left alone, and when it had started again.
    """

    writers: Writers
    alone: Counter[Request]
    again: Counter[Request]


@pytest.fixture(scope="module")
def busy() -> Iterator[Busy]:
    """What came of all that."""
    with pytest.MonkeyPatch.context() as patches:
        found: dict[KubeClient, Writers] = defaultdict(lambda: defaultdict(set))
        for name in WRITES:
            patches.setattr(KubeClient, name, observing(getattr(KubeClient, name), found))
        yield patient.run(much(found))


def observing(write: Callable[..., Awaitable[Any]], found: dict[KubeClient, Writers]) -> Callable[..., Awaitable[Any]]:
    """Return *write* that also adds to *found* whose worker called it, by client and object."""

    async def observed(client: KubeClient, resource: Resource, which: Any, *args: Any, **kwargs: Any) -> Any:
        task, key = asyncio.current_task(), which if isinstance(which, Key) else key_of(which)
        writer = task.get_name().partition(" worker ")[0] if task else ""
        found[client][f"{resource.plural} {key}"].add(writer)
        return await write(client, resource, which, *args, **kwargs)

    return observed


async def much(found: dict[KubeClient, Writers]) -> Busy:
    """Let much happen, and delete all in the end; *found* is what the clients have written."""
    async with new_world() as world, other_tailnet(world) as other:
        keys = {"client_id": other.control.client_id, "client_secret": other.control.client_secret}
        theirs = (credentials(**keys), tailnet(login_url=other.url), *OTHERS)
        stage = Stage(world)
        async with stage.operator:
            await stage.start()
            await world.settled()
            before = everything(world)
            await world.apply(*theirs)
            for step in HAPPENING:
                await stage.take(step)
            await asyncio.sleep(REST)
            alone = await world.writes_when_left_alone()
            await stage.stop()
            again = await world.writes_during(world.restart())
            await stage.start()
            await end(world, *theirs)

            async def left() -> set[str]:
                return {*(everything(world) - before), *world.control.devices, *other.control.devices}

            await soon_empty(left)
        return Busy(merged(ours for client, ours in found.items() if client is not world.api), alone, again)


def merged(found: Iterator[Writers]) -> Writers:
    """Return all writers by object."""
    writers: Writers = defaultdict(set)
    for each in found:
        for name, those in each.items():
            writers[name] |= those
    return writers


def test_each_object_has_one_writer(busy: Busy) -> None:
    assert {name: writers for name, writers in busy.writers.items() if len(writers) != 1} == {}


def test_each_reconciler_has_written(busy: Busy) -> None:
    found = {writer for writers in busy.writers.values() for writer in writers}
    kinds = {"service", "ingress", "connector", "proxyclass", "proxygroup", "egresspod", "tailnet", "dnsconfig"}
    assert found == {*kinds, "dnsrecords"}


def test_a_busy_world_comes_to_rest(busy: Busy) -> None:
    assert (busy.alone, busy.again) == (Counter(), Counter())
