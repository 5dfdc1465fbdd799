"""Lists and watches objects as one endless stream of changes, which resumes after errors."""

import asyncio
import logging
import math
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cache

from tsoperator.api.objects import Object, Resource, labels
from tsoperator.kube.client import KubeClient, ObjectList, Rest, WatchTimes
from tsoperator.kube.errors import Denied, Gone, KubeError, NotFound, Rewound, StatusError, Unreachable, error_of

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects to follow: all of a resource, or only those in one namespace, or with some labels or fields."""

    resource: Resource
    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""

    def covers(self, obj: Object) -> bool:
        """Tell whether *obj*, which is of the selected resource, is certainly selected.

        The label selector must consist of ``name=value`` terms. With a field selector for anything but the name of the
        object, the result is False.
        """
        metadata = obj["metadata"]
        return (
            self.field_selector in ("", f"metadata.name={metadata['name']}")
            and self.namespace in ("", metadata.get("namespace", ""))
            and all(labels(obj).get(name) == value for name, value in _wanted(self.label_selector))
        )

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        which = ", ".join(filter(None, (self.label_selector, self.field_selector)))
        return f"{self.resource}{where}{f' ({which})' if which else ''}"


@dataclass(frozen=True, slots=True)
class Listed:
    """An update: all objects that exist as of *version*.

    An object that was known before and is not among them is gone.
    """

    items: list[Object]
    version: str


@dataclass(frozen=True, slots=True)
class Watching:
    """An update: a watch has begun. It yields every change since the preceding list or update."""


@dataclass(frozen=True, slots=True)
class Changed:
    """An update: an object is new, or has changed."""

    obj: Object


@dataclass(frozen=True, slots=True)
class Deleted:
    """An update: one object is gone; *obj* is its final state."""

    obj: Object


@dataclass(frozen=True, slots=True)
class Unserved:
    """An update: the API server does not know the kind, because its CRD is not installed."""


@dataclass(frozen=True, slots=True)
class WatchDenied:
    """An update: the API server does not let us read the objects now, for the reason *why*."""

    why: str


Update = Listed | Watching | Changed | Deleted | Unserved | WatchDenied


@dataclass(frozen=True, slots=True)
class WatchPace:
    """The duration of a watch, and the pauses before the next try, in seconds."""

    watch: int = 300
    first_retry: float = 0.2
    last_retry: float = 5.0
    unserved: float = 10.0
    refused: float = 20.0
    jitter: Callable[[], float] = random.random
    rest: Rest | None = None
    """The function that a watch awaits after each read, so that it reads several events together."""


async def updates(
    client: KubeClient,
    selection: Selection,
    pace: WatchPace | None = None,
    slim: Callable[[Object], Object] = lambda obj: obj,
) -> AsyncIterator[Update]:
    """Yield the changes of the selected objects, and never end.

    First a list yields a Listed. After it, a watch yields a Watching as it begins, and every change. When the watch
    ends, another watch resumes at the version that the first one has reached. The objects are listed again when the
    server has forgotten that version, when its etcd was restored from a backup, and after a denial has ended.

    *slim* returns the part to keep of an object in a list. An object from a watch is yielded as a whole.
    """
    pace = pace or WatchPace()
    failures, version = 0, ""
    broken = False  # the last watch ended with an error
    served = True
    loop = asyncio.get_running_loop()
    while True:
        watching = math.inf  # when the watch began
        try:
            if not version:
                listing = await _list(client, selection, slim)
                version, served = listing.resource_version, True
                yield Listed(listing.items, version)
                del listing  # otherwise it would keep the old states of objects in memory
            elif broken:  # if etcd was restored, a watch would yield nothing until the server reaches *version* again
                _check_order(version, await _current_version(client, selection))
            resumed_from, broken = version, True
            async with _watch(client, selection, version, pace) as events:
                watching = loop.time()
                log.debug("%s: watching from version %s", selection, version)
                yield Watching()
                async for event in events:
                    version, update = _read(event, selection, version)
                    failures = 0
                    if update is not None:
                        yield update
            failures, broken = 0, False
            log.debug("%s: the watch ended at version %s, after %.0f s", selection, version, loop.time() - watching)
            if version == resumed_from:  # no event came: don't spin if the server ends watches at once
                await asyncio.sleep(pace.first_retry)
        except (Gone, Rewound) as error:
            log.info("%s: listing again: %s", selection, error)
            version = ""
            await asyncio.sleep(pace.first_retry)
        except KubeError as error:
            if isinstance(error, NotFound) and (not served or await _is_unserved(client, selection.resource)):
                version, served = "", False
                yield Unserved()
                await asyncio.sleep(pace.unserved)
                continue
            if isinstance(error, Denied):
                version = ""  # once we have access again, we need all objects, not just the changes
                yield WatchDenied(str(error))
            if loop.time() - watching > pace.last_retry:  # the watch worked, although no event came
                failures = 0
            failures += 1
            await asyncio.sleep(_delay(selection, pace, failures, error))


@cache
def _wanted(label_selector: str) -> tuple[tuple[str, str], ...]:
    """Return the names and values of the labels that *label_selector* asks for."""
    terms = (term.partition("=") for term in label_selector.split(",") if term)
    return tuple((name, value) for name, _, value in terms)


def version_number(version: str) -> int:
    """Return a resourceVersion as a number; 0 if it is not a number.

    The API server uses a higher number for each change of any object of a kind.
    """
    return int(version) if version.isdecimal() else 0


async def _list(client: KubeClient, selection: Selection, slim: Callable[[Object], Object]) -> ObjectList:
    return await client.list(
        selection.resource, selection.namespace, selection.label_selector, selection.field_selector, slim
    )


async def _current_version(client: KubeClient, selection: Selection) -> str:
    return await client.current_version(selection.resource, selection.namespace, selection.field_selector)


def _watch(
    client: KubeClient, selection: Selection, version: str, pace: WatchPace
) -> AbstractAsyncContextManager[AsyncIterator[Object]]:
    return client.watch(
        selection.resource,
        selection.namespace,
        selection.label_selector,
        version,
        WatchTimes(pace.watch, pace.rest),
        selection.field_selector,
    )


def _check_order(earlier: str, later: str) -> None:
    """Raise Rewound if the resourceVersion *later* is lower than *earlier*."""
    if 0 < version_number(later) < version_number(earlier):
        raise Rewound(f"resourceVersions went back from {earlier} to {later}")


async def _is_unserved(client: KubeClient, resource: Resource) -> bool:
    """Tell whether a 404 for a list means that the server does not serve the kind.

    A gateway in front of the server can answer 404, too, so this function asks the server for the kinds that it serves.
    """
    if not (resource.is_custom or resource.since):
        return False
    try:
        return not await client.serves(resource)
    except KubeError:
        return False


def _delay(selection: Selection, pace: WatchPace, failures: int, error: KubeError) -> float:
    """Log *error*, and return the number of seconds to wait before the next try.

    *failures* is the number of failures in a row, of which *error* is the most recent.
    """
    denied = isinstance(error, Denied)
    # A server that is starting may deny for a moment what RBAC allows. A denial that lasts is intended.
    longest = pace.refused if denied else pace.last_retry
    delay: float = min(pace.first_retry * 2 ** min(failures - 1, 16), longest) * (0.5 + pace.jitter() / 2)
    if isinstance(error, StatusError):
        delay = max(delay, error.retry_after)
    # A server that is starting refuses a watch or two, as does one for a kind whose CRD is new. That needs no warning.
    told = denied or isinstance(error, Unreachable)  # the cache logs a denial, the client an Unreachable
    loud = not told and (failures in (3, 10) or failures % 100 == 0)
    level = logging.WARNING if loud else logging.DEBUG
    log.log(level, "%s: watch failed (%d in a row), again in %.1f s: %s", selection, failures, delay, error)
    return delay


def _read(event: Object, selection: Selection, after: str) -> tuple[str, Update | None]:
    """Return the version from which to resume after *event*, and the update that it means (None for a bookmark)."""
    kind, obj = event.get("type"), event.get("object")
    if not isinstance(obj, dict):
        raise KubeError(f"watch of {selection}: an event without an object")
    if kind == "ERROR":
        raise error_of(int(obj.get("code") or 500), obj, f"watch of {selection}")
    try:
        version = obj["metadata"]["resourceVersion"]
    except (KeyError, TypeError) as error:
        raise KubeError(f"watch of {selection}: an object without a resourceVersion") from error
    _check_order(after, version)
    if kind == "BOOKMARK":
        return version, None
    return version, Deleted(obj) if kind == "DELETED" else Changed(obj)
