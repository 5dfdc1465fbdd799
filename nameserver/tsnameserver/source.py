"""Follows the sources of records. From their records, it makes the zone that is served.

Two sources offer documents: the API server (`configmaps`) and a mounted file (`follow_file`). The nameserver serves the
source that is first to offer a whole good set. The API server has priority: when it has offered such a set, the
nameserver serves that set and ignores the file, because the kubelet is late to change a mounted file. There is one
exception: while the API server can't be followed, the nameserver serves a file with a newer serial. A snapshot of the
API server's records from before a restart (`snapshot`) is served only if there are no other records yet. The API
server's records replace the snapshot, and so does a file with a newer serial. If a source fails, or offers no good set,
the zone that is served stays.

The threads that answer queries need the interpreter as well, so a reload is done in short steps. The names are hidden
from the garbage collector: to examine 100,000 names would take as long as a reload. A zone has no reference cycles, so
reference counting frees it.
"""

import asyncio
import gc
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TypeVar

from tsnameserver.compiler import Compiled, Steps, compile_steps, nothing_compiled
from tsnameserver.errors import RecordsError
from tsnameserver.records import MAX_SHARDS, Records, parse, share, whole_set
from tsnameserver.reloads import Reloads
from tsnameserver.zone import Serving, ZoneSettings

log = logging.getLogger(__name__)

Text = str | bytes | OSError | None
"""A records document, the error of reading it, or None if there is no document yet."""
Documents = Mapping[str, Text]
"""Texts by the name of their ConfigMap or file."""

_POLL_SECONDS = 0.25
_YOUNG_SECONDS = 1.0
_MOST_WARNINGS = 20
_MANY_NAMES = 1000
"""The number of changed names from which on it pays to hide the names from the garbage collector."""
_SERIALS = 1 << 32

_T = TypeVar("_T")


class Source(Enum):
    """A source of documents, by its name in the log."""

    API = "API server"
    SNAPSHOT = "snapshot"
    FILE = "file"

    @property
    def label(self) -> str:
        """The name of the source in metrics."""
        return self.name.lower()


@dataclass(slots=True)
class _Offered:
    """The newest offer of one source: its documents, the parsed records, and the problems that were logged."""

    documents: Documents = field(default_factory=dict)
    parsed: dict[str, Records | RecordsError] = field(default_factory=dict)
    problems: frozenset[str] = frozenset()


class Follower:
    """Keeps *serving* up to date with the newest good records, and logs each problem with bad records once."""

    def __init__(
        self, serving: Serving, settings: ZoneSettings, keep: Callable[[Sequence[str | bytes]], None] | None = None
    ) -> None:
        """Take the function *keep*, which stores the API server's records for the next start.

        It is called with the readable documents each time the nameserver begins to serve records of the API server.
        """
        self._serving = serving
        self._keep = keep
        self._settings = settings
        self._compiled = nothing_compiled(settings)
        self._leader: Source | None = None
        self._offered: dict[Source, _Offered] = {}
        self._waiting: dict[Source, Documents] = {}
        self._turn = asyncio.Lock()
        self._mounted: Documents | None = None
        self._api_is_lost = False
        self._tells = False
        self.reloads = Reloads()

    async def offer(self, source: Source, documents: Documents) -> None:
        """Serve *documents*, which are all documents of *source*, if there is a whole good set among them.

        The documents are ignored while another source has priority. The call returns when the nameserver has processed
        these documents, or newer ones that the source offered meanwhile.
        """
        self._waiting[source] = documents
        if source is Source.FILE:
            self._mounted = documents
        elif source is Source.API:
            self._api_is_lost = False
        async with self._turn:
            newest = self._waiting.pop(source, None)
            if newest is None or not self._may_lead(source):
                return
            offered = self._offered.get(source)
            if offered is None or offered.documents != newest:
                await self._reload(source, newest)

    def has_none(self) -> bool:
        """Tell whether the nameserver still waits for the first good records of any source."""
        return self._leader is None

    def forget(self) -> None:
        """Forget all offers: the next documents count as new, and the source and the problems are logged again."""
        self._offered.clear()
        self._tells = True

    async def lose_api(self) -> None:
        """Remember that the API server can't be followed, and serve the file if its serial is newer.

        This holds until the API server offers records again.
        """
        if not self._api_is_lost:
            self._api_is_lost = True
            if self._mounted is not None:
                await self.offer(Source.FILE, self._mounted)

    def _may_lead(self, source: Source) -> bool:
        match source:
            case Source.API:
                return True
            case Source.SNAPSHOT:
                return self._leader is None
            case Source.FILE:
                return self._leader is not Source.API or self._api_is_lost

    def _is_led_by_other(self, source: Source) -> bool:
        return source is Source.FILE and self._leader not in {None, Source.FILE}

    def _is_news(self, records: Sequence[Records]) -> bool:
        """Tell whether *records* have a newer serial than the records that are served (RFC 1982)."""
        serial = max(part.serial or 0 for part in records)
        return 0 < (serial - self._compiled.said.serial) % _SERIALS < _SERIALS // 2

    async def _reload(self, source: Source, documents: Documents) -> None:
        started = time.monotonic()
        before = self._offered.get(source, _Offered())
        parsed: dict[str, Records | RecordsError] = {}
        for name, text in documents.items():
            if text:
                parsed[name] = await self._parsed(name, text, before)
        problems = [f"{name} is ignored: {bad}" for name, bad in parsed.items() if isinstance(bad, RecordsError)]
        records = whole_set(good for good in parsed.values() if isinstance(good, Records))
        if records is not None and self._is_led_by_other(source) and not self._is_news(records):
            return
        news: tuple[str, ...] = ()
        if records is None:
            self.reloads.failed += 1
            until = "until then names are SERVFAIL" if self._leader is None else "the last good ones stay"
            problems.append(f"no whole set of records from the {source.value}: {until}")
        else:
            try:
                compiled = await _in_turns(compile_steps(self._compiled, records, self._settings))
            except Exception as error:
                self.reloads.failed += 1
                log.exception("the records of the %s can't be compiled", source.value)
                problems.append(f"the last good records go on being served: {error}")
            else:
                self._serve(source, compiled, started)
                if self._keep is not None and source is Source.API:
                    self._keep(_good(documents, parsed))
                problems += compiled.zone_problems
                news = compiled.news
        self._offered[source] = _Offered(documents, parsed, frozenset(problems))
        _warn([*(problem for problem in dict.fromkeys(problems) if problem not in before.problems), *news])

    async def _parsed(self, name: str, text: str | bytes | OSError, before: _Offered) -> Records | RecordsError:
        """Parse the document called *name*, or return the earlier result if it has the same text as in *before*."""
        if isinstance(text, OSError):
            return RecordsError(text.strerror or str(text))
        if name in before.parsed and before.documents.get(name) == text:
            return before.parsed[name]
        await asyncio.sleep(0)
        self.reloads.parsed += 1
        try:
            records = parse(text)
        except RecordsError as error:
            return RecordsError(str(error))  # without a traceback, which would keep all earlier offers in memory
        old = before.parsed.get(name)
        if isinstance(old, Records):
            share(records, old)
        return records

    def _serve(self, source: Source, compiled: Compiled, started: float) -> None:
        """Serve the *compiled* zone from now on. Its reload began when the monotonic clock showed *started*."""
        self._compiled = compiled
        self._serving.zone = compiled.zone
        if self._tells or self._leader is not source:
            log.info("serving %d names, as the %s has them", compiled.names, source.value)
            self._tells = False
        if self._leader is not source:
            self._leader = source
            self.reloads.source = source.label
            for other in self._offered.keys() - {source}:
                del self._offered[other]  # the offer would keep a second copy of all names in memory
        if compiled.changed >= _MANY_NAMES:
            gc.collect(1)
            gc.freeze()
        seconds = time.monotonic() - started
        log.debug("serial %s: %d names in %.1f ms", compiled.said.serial, compiled.changed, 1000 * seconds)
        reloads = self.reloads
        reloads.loaded += 1
        reloads.names, reloads.ip4, reloads.ip6 = compiled.names, compiled.ip4, compiled.ip6
        reloads.serial = compiled.said.serial
        reloads.newest = time.time()
        reloads.observe(seconds)


def _good(documents: Documents, parsed: Mapping[str, Records | RecordsError]) -> list[str | bytes]:
    """Return the texts of the *documents* that could be *parsed*."""
    texts = (text for name, text in documents.items() if isinstance(parsed.get(name), Records))
    return [text for text in texts if isinstance(text, str | bytes)]


async def _in_turns(steps: Steps[_T]) -> _T:
    """Do *steps*, let other tasks run between them, and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _T = end.value
            return result
        await asyncio.sleep(0)


def _warn(problems: list[str]) -> None:
    for problem in problems[:_MOST_WARNINGS]:
        log.warning("%s", problem)
    if len(problems) > _MOST_WARNINGS:
        log.warning("%d more like that", len(problems) - _MOST_WARNINGS)


async def follow_file(
    path: Path, offer: Callable[[Source, Documents], Awaitable[None]], *, optional: bool = False
) -> None:
    """Offer the file at *path*, and further shards beside it (`records-1.json`, …), at each change. This never ends.

    If an *optional* file is missing, nothing is offered, so there is no warning. The files behind all links are polled,
    because the kubelet changes files by swapping the link `..data`. A file that can't be read is read again and again.
    """
    paths = (path, *(path.with_stem(f"{path.stem}-{shard}") for shard in range(1, MAX_SHARDS)))
    seen: list[tuple[int, ...] | None] = [()] * len(paths)
    texts: dict[Path, Text] = {}
    while True:
        identities = [_identity(each) for each in paths]
        if identities != seen:
            for each, identity, before in zip(paths, identities, seen, strict=True):
                if identity != before:
                    texts[each] = _read(each, texts.get(each))
            seen = [
                () if _is_young(identity) or isinstance(texts.get(each), OSError) else identity
                for each, identity in zip(paths, identities, strict=True)
            ]
            documents = {
                each.name: texts[each]
                for each, identity in zip(paths, identities, strict=True)
                if each == path or identity is not None
            }
            if not optional or any(text is not None for text in documents.values()):
                await offer(Source.FILE, documents)
        await asyncio.sleep(_POLL_SECONDS)


def _identity(path: Path) -> tuple[int, ...] | None:
    """Return numbers that change with the content of *path*; None if it can't be examined.

    The last two numbers are times in nanoseconds since the epoch.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _is_young(identity: tuple[int, ...] | None) -> bool:
    """Tell whether a file changed so recently that the next change might have the same time stamp."""
    return identity is not None and time.time() - max(identity[-2:]) / 1e9 < _YOUNG_SECONDS


def _read(path: Path, before: Text) -> Text:
    """Return the content of *path*, None if there is no file, or the error of reading it.

    If the same error occurred *before*, return the earlier object, so that the text counts as unchanged.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        return before if isinstance(before, OSError) and before.errno == error.errno else error
