"""Reads the cache for the report, and builds the report in slices, so that the event loop serves others meanwhile."""

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime
from time import perf_counter
from typing import Any, Final

from pydantic_core import to_json
from tsnameserver import __version__

from tsoperator.api.names import (
    PARENT_CONNECTOR,
    PARENT_INGRESS,
    PARENT_PEERRELAY,
    PARENT_PROXYGROUP,
    PARENT_RECORDER,
    PARENT_SERVICE,
)
from tsoperator.api.objects import INGRESS, OWN_KINDS, SECRET, SERVICE, STATEFULSET, Object, Resource, key_of
from tsoperator.proxy.readiness import secret_keys
from tsoperator.proxy.secret import shown_device
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.journal import Journal
from tsoperator.runtime.ownership import BY_OWNER, Owner, is_child
from tsoperator.settings import Settings
from tsoperator.status.rows import Surroundings, row_of

SLICE: Final = 0.005
"""Seconds for which the report may hold the event loop, before other tasks get their turn."""

KINDS: Final = tuple(sorted((SERVICE, INGRESS, *OWN_KINDS), key=lambda each: each.kind))
"""The kinds of the objects that the report describes."""

_OWNER_TYPES: Final = {
    "Connector": PARENT_CONNECTOR,
    "Ingress": PARENT_INGRESS,
    "PeerRelay": PARENT_PEERRELAY,
    "ProxyGroup": PARENT_PROXYGROUP,
    "Recorder": PARENT_RECORDER,
    "Service": PARENT_SERVICE,
}


class Slices:
    """Gives other tasks their turn from time to time during long work."""

    def __init__(self, seconds: float = SLICE) -> None:
        self._seconds = seconds
        self._start = perf_counter()

    async def pause(self) -> None:
        """Give other tasks their turn if the present slice is over."""
        if perf_counter() - self._start >= self._seconds:
            await asyncio.sleep(0)
            self._start = perf_counter()


class StatusView:
    """The operator's report, from the cache and the journal."""

    def __init__(self, cache: Cache, journal: Journal, settings: Settings, now: Callable[[], datetime]) -> None:
        self._cache = cache
        self._journal = journal
        self._settings = settings
        self._now = now

    async def report(self, since: datetime) -> bytes:
        """Return the report as JSON. *since* is the time from which this process leads."""
        head: dict[str, Any] = {
            "version": __version__,
            "namespace": self._settings.namespace,
            "pod": self._settings.pod_name,
            "leadingSince": rfc3339(since),
            "generated": rfc3339(self._now()),
        }
        return b'%b,"objects":[%b],"tailnets":[],"dns":[],"refusals":[]}' % (
            to_json(head)[:-1],
            b",".join(await self._rows()),
        )

    async def _rows(self) -> list[bytes]:
        """Return the rows of all objects as JSON, sorted by kind, namespace and name."""
        slices, found = Slices(), []
        for resource in KINDS:
            for obj in self._sorted(resource):
                row = row_of(obj, self._around(obj), self._settings)
                if row is not None:
                    found.append(to_json(row))
                await slices.pause()
        return found

    def _sorted(self, resource: Resource) -> Iterable[Object]:
        namespace = self._settings.namespace
        return sorted((each for each in self._cache.all(resource) if not is_child(each, namespace)), key=key_of)

    def _around(self, obj: Object) -> Surroundings:
        type_ = _OWNER_TYPES.get(obj["kind"])
        statefulsets = self._cache.indexed(STATEFULSET, BY_OWNER, str(Owner(type_, key_of(obj)))) if type_ else []
        devices = []
        for key in (key for each in statefulsets for key in secret_keys(each)):
            secret = self._cache.get(SECRET, key)
            if secret is not None and (shown := shown_device(secret)):
                devices.append((shown[0], shown[1].split(", ")))
        return Surroundings(statefulsets, devices, self._journal.warnings(obj))


def rfc3339(moment: datetime) -> str:
    """Return *moment*, which is in UTC, in RFC 3339 with whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
