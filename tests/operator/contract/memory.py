"""A search through the Python objects of a running operator: it finds what the operator still remembers."""

import asyncio
import functools
import logging
import types
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from tests.support.operator import World

_OPAQUE = (type, types.ModuleType, types.CodeType, asyncio.AbstractEventLoop, asyncio.Task, logging.Logger, World)
_ATOMS = (str, bytes, int, float, bool, type(None))


def remembered(operator: "asyncio.Task[None]", *words: str) -> list[str]:
    """Return the path to each text in the memory of the running *operator* that contains one of *words*."""
    seen: set[int] = set()
    found: list[str] = []
    left: deque[tuple[str, Any]] = deque([*_locals(operator).items(), *_runners()])
    while left:
        path, value = left.popleft()
        if isinstance(value, str | bytes):
            text = value if isinstance(value, str) else value.decode(errors="replace")
            found += [path] if any(word in text for word in words) else []
        elif not isinstance(value, _ATOMS + _OPAQUE) and id(value) not in seen:
            seen.add(id(value))
            left.extend((f"{path}{step}", part) for step, part in _parts(value))
    return found


def _locals(task: "asyncio.Task[Any]") -> dict[str, Any]:
    """Return the local variables of the coroutine that *task* runs."""
    coroutine: Any = task.get_coro()
    return coroutine.cr_frame.f_locals if coroutine.cr_frame else {}


def _runners() -> Iterator[tuple[str, Any]]:
    """Yield the name of its class and the object, for each object of the operator that runs a method as a task."""
    for task in asyncio.all_tasks():
        runner = _locals(task).get("self")
        if type(runner).__module__.startswith("tsoperator."):
            yield type(runner).__name__, runner


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield each value inside *value*, with the text that stands for it in a path, such as ``[]`` or ``.name``."""
    if isinstance(value, dict):
        for key, held in [*value.items()]:
            yield " key", key
            yield f"[{key!r:.40}]", held
    elif isinstance(value, list | tuple | set | frozenset | deque):
        yield from (("[]", held) for held in [*value])
    elif isinstance(value, functools.partial):
        yield from (("()", held) for held in (value.func, *value.args, *value.keywords.values()))
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
    elif isinstance(value, types.FunctionType):
        yield from ((".<closure>", cell.cell_contents) for cell in value.__closure__ or () if _is_filled(cell))
    if not isinstance(value, types.FunctionType | types.MethodType):
        yield from ((f".{name}", getattr(value, name)) for name in _attributes(value) if hasattr(value, name))


def _attributes(value: Any) -> Iterable[str]:
    slots = [each.__dict__.get("__slots__", ()) for each in type(value).__mro__]
    named = [name for each in slots for name in ([each] if isinstance(each, str) else each)]
    timers = ["_args", "_callback"] if isinstance(value, asyncio.Handle) else []
    return [*getattr(value, "__dict__", ()), *named, *timers]


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
