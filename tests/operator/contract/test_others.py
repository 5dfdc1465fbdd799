"""The operator keeps the labels, annotations, finalizers and conditions that others put on an object of any kind."""

from collections import Counter
from functools import partial

import pytest
from tsoperator.api.objects import Object

from tests.operator.contract.kind import KindExample
from tests.operator.contract.kinds import each_held, each_kind
from tests.operator.contract.scene import Scene, conditions
from tests.support.cluster import until

pytestmark = pytest.mark.full

THEIRS: Object = {
    "labels": {"example.org/team": "web"},
    "annotations": {"example.org/note": "keep"},
    "finalizers": ["example.org/hold"],
}
SEEN = {
    "type": "example.org/Seen",
    "status": "True",
    "reason": "Seen",
    "message": "",
    "lastTransitionTime": "2030-01-01T00:00:00Z",
}


@each_kind
async def test_an_object_keeps_labels_conditions_and_finalizers_of_others_through_edits_and_deletion(
    scene: Scene, kind: KindExample
) -> None:
    await scene.make()
    await put_marks(scene)
    await scene.whole()
    await scene.edit_all()
    assert unmarked(scene) == []
    await scene.delete(kind.manifest)
    await scene.world.becomes(partial(finalizers, scene), THEIRS["finalizers"])
    assert unmarked(scene) == []
    await scene.change(kind.manifest, {"metadata": {"finalizers": None}})
    await scene.world.becomes(scene.left, [])


async def put_marks(scene: Scene) -> None:
    """Add a label, an annotation, a finalizer and a condition of somebody else to those that the object has."""
    live = await scene.world.look(scene.obj)
    held = [*live["metadata"].get("finalizers", ()), *THEIRS["finalizers"]]
    await scene.change(scene.obj, {"metadata": {**THEIRS, "finalizers": held}})
    if conditions(live):
        live = await scene.world.look(scene.obj)
        status = {**live["status"], "conditions": [*conditions(live), SEEN]}
        await scene.world.api.replace_status(scene.kind.resource, {**live, "status": status})


def unmarked(scene: Scene) -> list[str]:
    live = scene.live()
    assert live is not None
    metadata = live["metadata"]
    facts = {
        "label": THEIRS["labels"].items() <= metadata.get("labels", {}).items(),
        "annotation": THEIRS["annotations"].items() <= metadata.get("annotations", {}).items(),
        "finalizer": set(THEIRS["finalizers"]) <= set(metadata.get("finalizers", ())),
        "condition": SEEN in (conditions(live) or [SEEN]),
    }
    return [name for name, good in facts.items() if not good]


async def finalizers(scene: Scene) -> list[str]:
    live = scene.live() or {"metadata": {}}
    return sorted(live["metadata"].get("finalizers", ()))


@each_kind
async def test_the_operator_adds_its_finalizer_again_if_somebody_else_removes_the_finalizer(
    scene: Scene, kind: KindExample
) -> None:
    before = await scene.make()
    await scene.change(kind.manifest, {"metadata": {"finalizers": None}})
    await scene.becomes(before)


@each_held
async def test_a_deleted_object_leaves_nothing_even_if_somebody_puts_another_finalizer_in_place_of_ours(
    scene: Scene, kind: KindExample
) -> None:
    await scene.make()
    await scene.change(kind.manifest, {"metadata": {"finalizers": THEIRS["finalizers"]}})
    await scene.delete(kind.manifest)

    async def rest() -> list[str]:
        return [words for words in await scene.left() if " " not in words]

    await scene.world.becomes(rest, [])
    await scene.world.settled()
    await scene.change(kind.manifest, {"metadata": {"finalizers": None}})
    await scene.world.becomes(scene.left, [])


@pytest.mark.simulated
@each_held
async def test_a_finalizer_that_somebody_else_adds_while_the_operator_adds_its_own_stays(
    scene: Scene, kind: KindExample
) -> None:
    sim = scene.world.sim
    sim.faults.latency = 0.1  # seconds between the counting of a write and its execution
    before = Counter(sim.writes)
    await scene.apply(kind.manifest)
    await until(lambda: kind.resource.plural in {plural for _, _, plural in sim.writes_since(before)})
    await scene.change(kind.manifest, {"metadata": {"finalizers": THEIRS["finalizers"]}})
    sim.faults.clear()
    await scene.whole()
    assert await finalizers(scene) == sorted(
        filter(None, [kind.finalizer, kind.other_finalizer, *THEIRS["finalizers"]])
    )
