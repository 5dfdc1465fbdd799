"""Plays rows on a simulated API server with the whole operator. A row is one case of a test of plans."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from clustersim.objects import EVENT, RESOURCES, Resource
from clustersim.sim import SimOptions
from tsoperator.api.objects import SECRET, Key, Object, key_of, resource_of
from tsoperator.proxy.proxy import Children
from tsoperator.runtime.plan import Plan

from tests.support.cluster import put
from tests.support.objects import reasons_of, status_of
from tests.support.operator import World, new_world, running_operator

_PATIENCE = 3.0
"""The seconds for which the test waits: more than the operator waits for objects that a user can apply later."""


class Said(NamedTuple):
    """The status of an object, the reasons of its Events in alphabetical order, and *makes*.

    *makes* is true if the operator has made other objects, or if the Plan has steps.
    """

    status: Object
    reasons: Sequence[str]
    makes: bool

    def ready(self, kind: str = "") -> tuple[str, str, str]:
        """Return the status, the reason and the message of the condition of type *kind*, or of the only condition."""
        (found,) = (each for each in self.status["conditions"] if each["type"] == kind or not kind)
        return found["status"], found["reason"], found["message"]


class Row(NamedTuple):
    """An object, and the *check* of its status, of its Events, and of whether the operator makes something.

    The objects in *given* exist before the object. After the operator has made the children, the *states* follow: each
    is the status of a child, the data of a Secret, or another object. If no cluster can show the row, *apart* says why.
    """

    obj: Object
    check: Callable[[Said], None]
    given: Sequence[Object] = ()
    states: Sequence[Object] = ()
    apart: str = ""


def said_by(plan: Plan) -> Said:
    """Return the status and the reasons of the Events in *plan*, and whether it has steps."""
    return Said(status_of(plan), sorted({*reasons_of(plan)}), bool(plan.steps))


def states_of(children: Children) -> list[Object]:
    """Return the *children* as the states of a row, in the order in which their states change in a cluster."""
    return [*children.services, *children.secrets, *children.statefulsets, *children.pods]


async def play(rows: Mapping[str, Row], **settings: Any) -> None:
    """Play *rows*, one after another, on one API server and for one operator with *settings*.

    No controllers run there. If rows are wrong, the message of the failure names all of them.
    """
    wrong = []
    async with new_world(SimOptions(controllers=False)) as world, running_operator(world, **settings):
        await world.settled()
        for name, row in rows.items():
            try:
                row.check(await _said(world, row)) if not row.apart else None
            except AssertionError as error:
                wrong.append(f"{name}: {error}")
    assert not wrong, "\n\n".join(wrong)


async def _said(world: World, row: Row) -> Said:
    """Play one row, and return the result for its *check*. Remove all objects that did not exist before the row."""
    before = {*_objects(world)}
    await put(world.api, *row.given)
    await world.settled()
    await put(world.api, row.obj)
    await world.settled()
    for each in row.states:
        await _change(world, each)
    await world.settled(after=_PATIENCE)
    live, events, new = await world.look(row.obj), await world.events(row.obj), {*_objects(world)} - before
    for resource, key in new:
        world.store.disown(resource, *key)
    await world.settled()
    ours = {(each["kind"], key_of(each)) for each in (row.obj, *row.given, *row.states)}
    makes = any((resource.kind, key) not in ours for resource, key in new if resource != EVENT)
    return Said(live.get("status") or {}, sorted(events), makes)


async def _change(world: World, state: Object) -> None:
    """Give the object with the kind and key of *state* its status, or its data if it is a Secret.

    If there is no such object, create it.
    """
    resource, key = resource_of(state), key_of(state)
    if await world.find(resource, key.name, key.namespace) is None:
        await put(world.api, state)
    elif resource == SECRET:
        await world.change(state, {"data": state["data"]})
    else:
        await world.api.patch(resource, key, {"status": state.get("status") or {}}, "status")


def _objects(world: World) -> Iterator[tuple[Resource, Key]]:
    return ((resource, key_of(obj)) for resource in RESOURCES for obj in world.store.list(resource))
