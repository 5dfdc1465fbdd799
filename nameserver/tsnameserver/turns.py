"""Decides whose turn it is: clients come one after the other, each with its item that has waited longest."""

from typing import Generic, TypeVar

_C = TypeVar("_C")
_T = TypeVar("_T")


class Turns(Generic[_C, _T]):
    """The items that wait for their turn, by client. After an item of one client, an item of another comes next."""

    def __init__(self) -> None:
        self._waiting: dict[_C, dict[_T, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, client: _C, item: _T) -> None:
        """Add *item* as the last one of *client*, unless it waits already."""
        self._waiting.setdefault(client, {}).setdefault(item)

    def remove(self, client: _C, item: _T) -> None:
        """Remove *item* of *client*, if it waits."""
        items = self._waiting.get(client, {})
        items.pop(item, None)
        if not items:
            self._waiting.pop(client, None)

    def take(self) -> _T:
        """Remove and return the first item of the client whose turn it is. At least one item must wait."""
        client = next(iter(self._waiting))
        items = self._waiting.pop(client)
        item = next(iter(items))
        del items[item]
        if items:
            self._waiting[client] = items  # the client comes after all others
        return item
