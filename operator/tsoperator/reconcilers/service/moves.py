"""The moves of an egress Service between a proxy of its own and ProxyGroups: into the new place, then out of the old.

While the old place serves and the new one doesn't yet, clients are led to the old one. It goes a little later than they
are led elsewhere.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tsoperator.api.objects import Key


@dataclass(frozen=True, slots=True)
class Place:
    """A Service in front of proxies, where clients can be led; it *serves* if one of its proxies does.

    The name of one that *is_headless* resolves only while its proxy is ready.
    """

    name: str
    serves: bool
    is_headless: bool = False


def led_to(here: str, new: Place, old: Sequence[Place]) -> str:
    """Return the name of the place to which a Service should lead that wants the *new* one and leads *here* now.

    Return an empty name if it should lead nowhere yet: clients that look up a headless place before it serves get no
    address, and the cluster's DNS repeats that answer for up to 30 s. So clients are led there only once it serves, and
    then stay there while its Pod is replaced.
    """
    if new.serves:
        return new.name
    serving = [place.name for place in old if place.serves]
    choices = serving or [new.name, *(place.name for place in old)]
    if here in choices:
        return here
    return "" if new.is_headless and not serving else choices[0]


def is_over(here: str, new: Place, old: Collection[Place]) -> bool:
    """Tell whether the *old* places aren't needed any more: the *new* one serves, and clients aren't led to those."""
    return new.serves and here not in {place.name for place in old}


class Timers:
    """Remembers, for each Service, since when something has been so.

    A restart forgets that, and what waits for it waits once more.
    """

    def __init__(self) -> None:
        self._since: dict[Key, dict[str, float]] = {}

    def ages(self, service: Key, facts: Collection[str], now: float) -> Mapping[str, float]:
        """Return for how many seconds each of *facts* has been so for *service*; forget all others."""
        known = self._since.get(service, {})
        since = {fact: known.get(fact, now) for fact in facts}
        if since:
            self._since[service] = since
        else:
            self._since.pop(service, None)
        return {fact: now - start for fact, start in since.items()}
