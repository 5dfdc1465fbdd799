"""Objects of any kind come, go and come back in any order: what is in the World in the end does not depend on it."""

import itertools
from collections.abc import Awaitable, Callable, Iterator

import pytest

from tests.operator.contract.kinds import KINDS, Kind
from tests.operator.contract.scene import Scene
from tests.support.operator import World, running_operator

pytestmark = pytest.mark.full


def orders() -> Iterator[object]:
    """Yield each kind with the orders in which it, what it needs and the operator may come."""
    for kind in KINDS:
        things = [*range(len(kind.beside) + 1), "operator"]
        chosen = list(itertools.permutations(things))
        for number, order in enumerate(chosen):
            marks = [] if number in (0, len(chosen) - 1) else [pytest.mark.thorough]
            yield pytest.param(kind, order, id=f"{kind}-{'-'.join(map(str, order))}", marks=marks)


@pytest.mark.parametrize(("kind", "order"), list(orders()))
async def test_events_may_come_in_any_order(
    cluster: World, kind: Kind, order: tuple[object, ...], afresh: Callable[[], Awaitable[str]]
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
