"""The delay until running proxies read a changed configuration, if the kubelet syncs each Pod once a minute."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from clustersim.faults import Ban, Failure
from clustersim.objects import POD
from tsoperator.api.names import ANNOTATION_CONFIG_CHANGED
from tsoperator.api.objects import Object, annotations, key_of

from tests.support.groups import endpoints, ready_group
from tests.support.lanes import cases
from tests.support.manifests import DOMAIN, annotated, backend, connector, egress, group_egress, ingress, proxy_group
from tests.support.operator import NAMESPACE, World

pytestmark = pytest.mark.simulated

SOON = 1.0  # seconds
KUBELETS_WATCH = 0.1
"""The seconds until the kubelet's own watch shows a change. An earlier touch makes the kubelet mount old data."""
TOUCH = ("tsoperator", "patch", "pods")


GATE = connector(hostname="before", exitNode=True)
KINDS: dict[str, tuple[Object, Object]] = {
    "egress": (egress(hostname="before"), annotated(hostname="after")),
    "ingress": (ingress(host="before"), {"spec": {"tls": [{"hosts": ["after"]}]}}),
    "connector": (GATE, {"spec": {"hostname": "after"}}),
}


async def seconds(world: World, holds: Callable[[], Awaitable[bool]]) -> float:
    """Wait until *holds* is true, and return the seconds that it took."""
    now = asyncio.get_running_loop().time
    began = now()
    await world.eventually(holds, timeout=120)
    return now() - began


async def is_named(world: World, hostname: str) -> bool:
    return f"{hostname}.{DOMAIN}" in await world.device_names()


@pytest.mark.parametrize("kind", cases(KINDS, "egress", "connector"))
async def test_a_running_proxy_reads_an_edited_hostname_at_once(world: World, kind: tuple[Object, Object]) -> None:
    obj, edit = kind
    await world.apply(backend(), obj)
    await world.eventually(lambda: is_named(world, "before"))
    await world.settled()
    await world.change(obj, edit)
    assert KUBELETS_WATCH <= await seconds(world, lambda: is_named(world, "after")) < SOON
    assert not await world.writes_when_left_alone()


async def test_a_proxy_reads_a_change_at_once_even_if_the_operator_sees_its_pod_only_after_the_change(
    world: World,
) -> None:
    await world.settled()
    world.sim.faults.silence_watches(POD)
    await world.apply(egress(hostname="before"))
    await world.eventually(lambda: is_named(world, "before"))
    await world.change(egress(), annotated(hostname="after"))
    await world.settled()
    world.sim.faults.drop_watches()
    assert await seconds(world, lambda: is_named(world, "after")) < SOON
    assert world.sim.writes[TOUCH] == 1


async def test_a_service_that_is_added_to_a_group_is_served_at_once(world: World) -> None:
    async def is_served() -> bool:
        return [len(found) for found in (await endpoints(world, group_egress("second"))).values()] == [2]

    await world.apply(proxy_group(), group_egress("first"))
    await ready_group(world, proxy_group())
    await world.settled()
    touches = world.sim.writes[TOUCH]
    await world.apply(group_egress("second"))
    assert await seconds(world, is_served) < SOON
    assert world.sim.writes[TOUCH] == touches + 2


async def test_a_burst_of_changes_touches_a_pod_at_most_once_in_two_seconds(world: World) -> None:
    await world.apply(egress())
    await world.joined(egress())
    for number in range(20):
        await world.change(egress(), annotated(hostname=f"name{number}"))
        await asyncio.sleep(0.25)
    await world.eventually(lambda: is_named(world, "name19"))
    assert 3 <= world.sim.writes[TOUCH] <= 4


async def test_the_removal_of_a_used_auth_key_touches_no_pod(world: World) -> None:
    await world.apply(egress())
    proxy = await world.joined(egress())
    assert not proxy.holds_auth_key
    assert world.sim.writes[TOUCH] == 0


async def test_a_touch_of_a_pod_causes_no_other_write(world: World) -> None:
    await world.apply(egress())
    proxy = await world.joined(egress())

    async def touch() -> None:
        await world.change(proxy.pod, {"metadata": {"annotations": {ANNOTATION_CONFIG_CHANGED: "2026-01-02"}}})
        await world.settled()

    assert await world.writes_during(touch()) == {TOUCH: 1}  # the test's own write


async def test_the_operator_repeats_a_touch_that_failed(world: World) -> None:
    await world.apply(egress())
    await world.joined(egress())
    for status in (409, 403, 500):  # after the third failure, the operator waits for a second
        world.sim.faults.fail(Failure(status, verb="patch", plural="pods"))
    await world.change(egress(), annotated(hostname="after"))
    assert await seconds(world, lambda: is_named(world, "after")) < 1 + SOON


async def test_without_the_right_to_touch_pods_a_proxy_reads_a_change_at_the_kubelets_next_sync(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.apply(egress())
    await world.joined(egress())
    world.sim.faults.forbid(Ban("pods", NAMESPACE, "patch"))
    await world.change(egress(), annotated(hostname="after"))
    assert 30 < await seconds(world, lambda: is_named(world, "after")) < 61
    told = [each for each in caplog.messages if each.startswith("mounts ")]
    assert len(told) == 1
    assert 'cannot patch resource "pods"' in told[0]


async def test_a_pod_of_somebody_else_is_not_touched(world: World) -> None:
    await world.apply(egress())
    proxy = await world.joined(egress())
    mount = {"name": "config", "secret": {"secretName": key_of(proxy.secret).name}}
    spec = {"containers": [{"name": "c", "image": "c"}], "volumes": [mount]}
    strangers = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {**place, "labels": proxy.secret["metadata"]["labels"]}}
        | {"spec": spec}
        for place in (
            {"namespace": NAMESPACE, "name": "mine"},
            {"namespace": "default", "name": key_of(proxy.pod).name},
        )
    ]
    await world.apply(*strangers)
    await world.change(egress(), annotated(hostname="after"))
    await world.eventually(lambda: is_named(world, "after"))
    for pod in strangers:
        assert ANNOTATION_CONFIG_CHANGED not in annotations(await world.look(pod))
