"""Objects of any kind are created, deleted and created again in any order, and the order doesn't change the result."""

import itertools
from collections.abc import Awaitable, Callable, Iterator

import pytest
from tsoperator.api.objects import POD, PROXYGROUP, SECRET, STATEFULSET, key_of

from tests.operator.contract.kind import KindExample
from tests.operator.contract.kinds import (
    KINDS,
    each_edited,
    each_joining,
    each_kind,
    each_lasting,
    each_rejoining,
    marks,
)
from tests.operator.contract.scene import Scene
from tests.support.lanes import cases
from tests.support.manifests import identity
from tests.support.objects import HOLD, LET_GO
from tests.support.operator import NAMESPACE, World, running_operator

pytestmark = pytest.mark.full


def orders() -> Iterator[object]:
    """Yield a parameter for each kind and each order in which the operator starts and the test creates the objects."""
    for kind in KINDS:
        things = [*range(len(kind.beside) + 1), "operator"]
        chosen = [order for order in itertools.permutations(things) if not _registers(kind, order)]
        for order in chosen:
            is_default = order in (chosen[0], ("operator", *things[:-1]))
            lane = marks(kind) + [pytest.mark.thorough] * (not is_default)
            yield pytest.param(kind, order, id=f"{kind}-{'-'.join(map(str, order))}", marks=lane)


def _registers(kind: KindExample, order: tuple[object, ...]) -> bool:
    """Tell whether, in this *order*, the operator would make its identity Secret before the test creates this Secret.

    The Secret has the identity of the operator's own device. The operator makes it as soon as there is a ProxyGroup
    and the Secret is missing. *order* has the numbers of the example's objects, and ``operator``.
    """
    objects = dict(enumerate([kind.manifest, *kind.beside]))
    secret, groups = key_of(identity()), [number for number, obj in objects.items() if obj["kind"] == PROXYGROUP.kind]
    numbers = [number for number, obj in objects.items() if obj["kind"] == SECRET.kind and key_of(obj) == secret]
    return any(order.index(each) > max(map(order.index, ["operator", *groups])) for each in numbers)


@pytest.mark.parametrize(("kind", "order"), list(orders()))
async def test_the_order_in_which_objects_and_the_operator_appear_does_not_change_the_result(
    cluster: World, kind: KindExample, order: tuple[object, ...], afresh: Callable[[], Awaitable[str]]
) -> None:
    scene = Scene(cluster, kind)
    objects = dict(enumerate([kind.manifest, *kind.beside]))
    start = order.index("operator")
    await scene.apply(*(objects[each] for each in order[:start] if isinstance(each, int)))
    async with running_operator(cluster):
        for each in order[start + 1 :]:
            await scene.apply(*([objects[each]] if isinstance(each, int) else []))
            await cluster.settled()
        await scene.whole()
        await scene.edit_all()
        await scene.becomes(await afresh() if cluster.simulation else scene.portrait())


async def nothing(_: Scene) -> None:
    """Do nothing before the deletion of the object."""


async def needs_first(scene: Scene) -> None:
    """Delete the objects that the object of *scene* needs, but not the Secret with the operator's identity.

    Without this Secret, the operator doesn't know which Tailscale Services it owns.
    """
    await scene.delete(*(obj for obj in scene.kind.beside if key_of(obj) != key_of(identity())))


async def devices_first(scene: Scene) -> None:
    for device in scene.devices:
        scene.world.control.delete_device(device)


async def children_first(scene: Scene) -> None:
    """Delete the children except the Secrets, because only the Secrets tell which devices the object has."""
    for resource in scene.kind.children:
        await scene.delete(*(scene.children(resource) if resource != SECRET else []))


async def spec_first(scene: Scene) -> None:
    for bad in scene.kind.bad.values():
        if scene.world.simulation or not bad.is_simulated:
            await scene.change(scene.obj, bad.patch)


STEPS = {step.__name__: step for step in (nothing, needs_first, devices_first, children_first, spec_first)}


@each_kind
@pytest.mark.parametrize("step", cases(STEPS, "nothing"))
async def test_an_object_that_is_deleted_while_no_operator_runs_leaves_nothing_once_an_operator_runs(
    cluster: World, kind: KindExample, step: Callable[[Scene], Awaitable[None]]
) -> None:
    scene = Scene(cluster, kind)
    async with running_operator(cluster):
        await scene.prepare()
        await scene.make()
    await step(scene)
    await scene.delete(kind.manifest)
    async with running_operator(cluster):
        await cluster.becomes(scene.left, [])


@each_edited
async def test_an_edit_while_no_operator_runs_takes_effect_when_an_operator_starts(
    cluster: World, kind: KindExample
) -> None:
    scene = Scene(cluster, kind)
    async with running_operator(cluster):
        await scene.prepare()
        await scene.make()
    for edit in kind.edits.values():
        await scene.change(kind.manifest, edit.patch)
    async with running_operator(cluster):
        for edit in kind.edits.values():
            await scene.becomes_visible(edit)
        await scene.whole()


@each_kind
async def test_an_object_that_is_deleted_before_its_children_are_made_leaves_nothing(
    scene: Scene, kind: KindExample
) -> None:
    await scene.apply(kind.manifest)
    await scene.end()
    await scene.world.settled()
    await scene.world.becomes(scene.left, [])  # a real garbage collector may need two tries


@each_lasting
async def test_an_object_that_is_recreated_while_no_operator_runs_keeps_its_children_and_devices(
    cluster: World, kind: KindExample
) -> None:
    scene = Scene(cluster, kind)
    async with running_operator(cluster):
        await scene.prepare()
        before, devices = await scene.make(), set(scene.node_ids)
    await scene.change(kind.manifest, LET_GO)
    await scene.delete(kind.manifest)
    await scene.apply(kind.manifest)
    async with running_operator(cluster):
        await scene.becomes(before)
    assert (set(scene.node_ids), scene.keys_made) == (devices, kind.devices)


@each_joining
async def test_a_pod_that_is_deleted_keeps_its_device(scene: Scene, kind: KindExample) -> None:
    before, devices = await scene.make(), set(scene.node_ids)
    pods = await scene.world.children(POD, kind.manifest)
    await scene.world.delete(*pods)
    await scene.world.eventually(lambda: scene.is_another(pods[-1]))
    await scene.becomes(before)
    assert (set(scene.node_ids), scene.keys_made) == (devices, kind.devices)


@each_rejoining
async def test_an_object_that_is_recreated_while_its_old_pod_ends_gets_its_children_and_devices(
    scene: Scene, kind: KindExample
) -> None:
    before = await scene.make()
    pod = (await scene.world.api.list(POD, NAMESPACE)).items[-1]
    await scene.change(pod, HOLD)
    await scene.delete(kind.manifest)
    await scene.world.becomes(lambda: scene.world.children(STATEFULSET, kind.manifest), [])
    await scene.change(kind.manifest, LET_GO)  # as impatient users do by hand
    await scene.apply(kind.manifest)
    await scene.world.settled()
    await scene.change(pod, LET_GO)
    await scene.becomes(before)
