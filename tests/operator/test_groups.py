"""Changes of ProxyGroups and their Services in any order: they end as the user wishes, and leave nothing behind.

Each object has one reconciler that writes it, and a second reconcile writes nothing.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tsoperator.api.objects import Key, Object, Resource, key_of
from tsoperator.kube.client import KubeClient

from tests.operator.groupsteps import Stage, Step, Wish, end, everything, grant, ports, soon_empty, steps, wishes, wrong
from tests.support import patient
from tests.support.manifests import (
    backend,
    connector,
    credentials,
    exposed,
    identity,
    ingress,
    proxy_class,
    proxy_group,
    tailnet,
)
from tests.support.operator import new_world
from tests.support.othertailnet import other_tailnet


async def play(taken: list[Step], wish: Wish) -> None:
    """Take the steps, check that the user's *wish* comes true, delete all objects, and check that nothing is left."""
    async with new_world() as world:
        stage = Stage(world)
        async with stage.operator:
            before = await stage.play(taken)
            await stage.start()
            await grant(world, wish)
            await soon_empty(lambda: wrong(stage, wish))
            await stage.comes_to_rest()
            await end(world)
            await soon_empty(lambda: left(stage, before))


async def left(stage: Stage, before: set[str]) -> list[str]:
    devices = {id_: each.name for id_, each in stage.world.control.devices.items() if id_ not in stage.lost}
    return [*(everything(stage.world) - before), *devices.values()]


@settings(max_examples=3)
@given(st.lists(steps(), min_size=8, max_size=8), wishes())
def test_a_few_changes_of_groups_and_services_end_as_the_user_wishes_and_leave_nothing(
    taken: list[Step], wish: Wish
) -> None:
    patient.run(play(taken, wish))


@pytest.mark.thorough
@pytest.mark.timeout(3600)
@settings(max_examples=200 if settings.get_current_profile_name() == "soak" else 10)
@given(st.lists(steps(), min_size=30, max_size=30), wishes())
def test_many_changes_of_groups_and_services_end_as_the_user_wishes_and_leave_nothing(
    taken: list[Step], wish: Wish
) -> None:
    patient.run(play(taken, wish))


Writers = dict[str, set[str]]
WRITES = ("create", "replace", "replace_status", "patch", "delete")
OTHERS: Sequence[Object] = (
    proxy_class("metered", metrics={"enable": True}),
    backend(),
    exposed("shop", proxy_class="metered"),
    ingress(proxy_class="metered"),
    connector(exitNode=True),
    proxy_group("kapi", type="kube-apiserver", kubeAPIServer={"mode": "noauth"}),
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


def observing(
    write: Callable[..., Awaitable[Any]], user: KubeClient, writers: Writers
) -> Callable[..., Awaitable[Any]]:
    """Wrap *write* so that it also records in *writers* which reconciler wrote each object.

    Writes of *user* are left out.
    """

    async def observed(client: KubeClient, resource: Resource, which: Any, *args: Any, **kwargs: Any) -> Any:
        task, key = asyncio.current_task(), which if isinstance(which, Key) else key_of(which)
        if client is not user:
            writers[f"{resource.plural} {key}"].add(task.get_name().partition(" worker ")[0] if task else "")
        return await write(client, resource, which, *args, **kwargs)

    return observed


async def much(patches: pytest.MonkeyPatch, writers: Writers) -> None:
    """Make many changes, assert that the operator comes to rest, and delete all objects in the end."""
    async with new_world() as world, other_tailnet(world) as other:
        for name in WRITES:
            patches.setattr(KubeClient, name, observing(getattr(KubeClient, name), world.api, writers))
        keys = {"client_id": other.control.client_id, "client_secret": other.control.client_secret}
        theirs = (tailnet(login_url=other.url), *OTHERS)
        stage = Stage(world)
        async with stage.operator:
            await world.apply(identity(), credentials(**keys))  # it stays: the operator needs it for deletions
            await stage.start()
            await world.settled()
            before = everything(world)
            await world.apply(*theirs)
            for step in HAPPENING:
                await stage.take(step)
            await stage.comes_to_rest()
            await end(world, *theirs)
            await soon_empty(lambda: left(stage, before))
            assert not other.control.devices


def test_each_object_has_one_writer_and_the_operator_comes_to_rest_after_many_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writers: Writers = defaultdict(set)
    patient.run(much(monkeypatch, writers))
    pods = [writers.pop(name) for name in [*writers] if name.startswith("pods ")]
    assert {name: found for name, found in writers.items() if len(found) != 1} == {}
    # One reconciler opens the gates of Pods, one touches Pods with a changed configuration, and one only deletes Pods.
    assert set().union(*pods) == {"egresspod", "mounts", "proxygroup"}
    kinds = {"service", "ingress", "connector", "proxyclass", "proxygroup", "tailnet", "dnsconfig"}
    assert set().union(*writers.values()) == {*kinds, "dnsrecords", "tailscaleservice"}
