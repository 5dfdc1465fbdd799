"""Writes an Event while the API server doesn't serve kinds that the operator needs, because CRDs are missing."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from tsoperator.api.objects import Object, Resource
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.events import EventRecorder

_LOOK: Final = 60.0  # s between looks at the cache, which cost no request
_AGAIN: Final = 30  # looks until the Event is written again, while nothing has changed


class UnservedKinds:
    """Writes an Event on the object that *subject* returns, if the API server doesn't serve one of *kinds*."""

    def __init__(
        self,
        cache: Cache,
        kinds: Iterable[Resource],
        events: EventRecorder,
        subject: Callable[[], Awaitable[Object | None]],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._cache = cache
        self._kinds = sorted(kinds, key=str)
        self._events = events
        self._subject = subject
        self._sleep = sleep

    async def run(self) -> None:
        """Look at the cache each minute until cancelled.

        Write the Event when its words change, and again from time to time while they stay the same.
        """
        told, looks = "", 0
        while True:
            words = self._words()
            if words and (words != told or looks >= _AGAIN):
                looks = 0
                if (subject := await self._subject()) is not None:
                    await self._events.event(subject, "Warning", "KindNotServed", words)
            told, looks = words, looks + 1
            await self._sleep(_LOOK)

    def _words(self) -> str:
        """Return the message about the kinds that the API server doesn't serve; empty if it serves all."""
        missing = [str(each) for each in self._kinds if not self._cache.serves(each)]
        if not missing:
            return ""
        return (
            f"the API server does not serve {', '.join(missing)}: objects of these kinds can't exist, and what needs "
            "them stays off. The chart installs the CRDs, unless installCRDs is false; without Helm, apply "
            "charts/tailscale-operator/files/crds"
        )
