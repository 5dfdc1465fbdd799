"""Ports of proxies that were allocated a moment ago, and that the cache doesn't show yet."""

from collections import defaultdict
from collections.abc import Iterable

from tsoperator.api.objects import Key


class Reservations:
    """Remembers the ports that Services are about to get at ProxyGroups, because several are reconciled at once.

    A look at the ports that are used and the reservation that follows must not wait in between.
    """

    def __init__(self) -> None:
        self._held: defaultdict[str, dict[Key, frozenset[int]]] = defaultdict(dict)

    def of_others(self, group: str, service: Key) -> set[int]:
        """Return the ports of *group* that are reserved for other Services than *service*."""
        return {port for key, ports in self._held.get(group, {}).items() if key != service for port in ports}

    def reserve(self, group: str, service: Key, ports: Iterable[int]) -> None:
        """Reserve *ports* of *group* for *service*, in place of all that were reserved for it."""
        self.free(service)
        self._held[group][service] = frozenset(ports)

    def free(self, service: Key) -> None:
        """Free what is reserved for *service*: the cache shows its ports, or it needs none any more."""
        for group in [group for group, held in self._held.items() if held.pop(service, None) is not None]:
            if not self._held[group]:
                del self._held[group]
