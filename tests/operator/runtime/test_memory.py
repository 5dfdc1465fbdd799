"""Facts about objects that are only in memory: they are forgotten when their objects are gone."""

from collections.abc import Callable, Sequence

import pytest
from tsoperator.api.objects import Object
from tsoperator.runtime.memory import Memory

from tests.support.shown import Shown


def named(name: str, uid: str, kind: str = "Service", **more: str) -> Object:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"namespace": "default", "name": name, "uid": uid, **more}}


DB, WEB = named("db", "1"), named("web", "2")
EDITED, AGAIN, POD = named("db", "1", resourceVersion="9"), named("db", "3"), named("db", "4", "Pod")

CHANGES: dict[str, tuple[Sequence[tuple[Callable[[Shown, Object], None], Object]], bool]] = {
    "it is edited": ([(Shown.show, EDITED)], True),
    "another object goes": ([(Shown.drop, WEB)], True),
    "an object of another kind comes and goes": ([(Shown.show, POD), (Shown.drop, POD)], True),
    "it goes": ([(Shown.drop, DB)], False),
    "it is made anew": ([(Shown.drop, DB), (Shown.show, AGAIN)], False),
    "another takes its place": ([(Shown.show, AGAIN)], False),
}


@pytest.mark.parametrize(("changes", "stays"), CHANGES.values(), ids=CHANGES)
def test_the_memory_keeps_a_fact_until_its_object_is_gone(
    changes: Sequence[tuple[Callable[[Shown, Object], None], Object]], *, stays: bool
) -> None:
    cache = Shown(DB, WEB)
    memory = Memory[str](cache)
    for fact in ("old", "a fact"):
        memory.note(DB, fact)
    for change, obj in changes:
        change(cache, obj)
    assert [memory.get(each) for each in (DB, EDITED, AGAIN, WEB)] == [*["a fact" if stays else None] * 2, None, None]
    assert [*memory.facts()] == (["a fact"] if stays else [])


def test_a_fact_about_an_object_of_any_kind_is_forgotten_when_the_object_is_gone_or_the_fact_becomes_none() -> None:
    cache = Shown(DB, WEB, POD)
    memory = Memory[str](cache)
    for obj in (DB, WEB, POD):
        memory.note(obj, obj["kind"])
    cache.drop(POD)
    cache.drop(DB)
    memory.note(WEB, None)
    assert [*memory.facts()] == []


@pytest.mark.parametrize("there", [[], [AGAIN]], ids=["nothing", "another object"])
def test_the_memory_accepts_no_fact_about_an_object_that_is_gone(there: list[Object]) -> None:
    memory = Memory[str](Shown(*there))
    memory.note(DB, "a fact")
    assert (memory.get(DB), [*memory.facts()]) == (None, [])
