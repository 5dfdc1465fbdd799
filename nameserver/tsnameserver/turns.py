"""Whose turn it is (pure): clients one after the other, each with what of it has waited longest."""

from typing import Generic, TypeVar

_C = TypeVar("_C")
_T = TypeVar("_T")


class Turns(Generic[_C, _T]):
    """What waits for its turn, by client: however much one client has waiting, another one comes next."""

    def __init__(self) -> None:
        self._waiting: dict[_C, dict[_T, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, client: _C, item: _T) -> None:
        """Let *item* wait as the last of its *client*, unless it waits already."""
        self._waiting.setdefault(client, {}).setdefault(item)

    def remove(self, client: _C, item: _T) -> None:
        """Let *item* no longer wait, if it does."""
        items = self._waiting.get(client, {})
        items.pop(item, None)
        if not items:
            self._waiting.pop(client, None)

    def take(self) -> _T:
        """Return the item of the client whose turn it is, which no longer waits; something must be waiting."""
        client = next(iter(self._waiting))
        items = self._waiting.pop(client)
        item = next(iter(items))
        del items[item]
        if items:
            self._waiting[client] = items  # behind all others
        return item
