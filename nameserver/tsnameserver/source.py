"""Records followed where they are kept, and turned into the zone that serves.

Two sources offer documents: the API server (`configmaps`) and a mounted file (`follow_file`). Whichever is first to
offer a whole good set is served. Once the API server has done so it leads and the file is ignored, which the kubelet
mounts later. Only while the API server can't be followed does a file with a newer serial take the lead, until the API
server answers again. A snapshot of what the API server offered before a restart (`snapshot`) counts only if there are
no other records yet. The API server takes over from it, and so does a file with a newer serial. Nothing that a source
offers, or fails to offer, takes away the last good zone.

The interpreter is shared with the threads that answer, so a reload goes in short steps, and the garbage collector is
told to leave the names alone: to look through 100,000 costs as much as a reload. Nothing in a zone refers to itself, so
counting references frees it.
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
"""A records document; why it can't be read; or None: there is none yet."""
Documents = Mapping[str, Text]
"""Texts by the name of what they are in."""

_POLL_SECONDS = 0.25
_YOUNG_SECONDS = 1.0
_MOST_WARNINGS = 20
_MANY_NAMES = 1000
"""The number of new names from which on it pays to tell the garbage collector to leave them alone."""
_SERIALS = 1 << 32

_T = TypeVar("_T")


class Source(Enum):
    """Where documents come from."""

    API = "API server"
    SNAPSHOT = "snapshot"
    FILE = "file"

    @property
    def label(self) -> str:
        """The name in metrics."""
        return self.name.lower()


@dataclass(slots=True)
class _Offered:
    """What one source has offered last, what it was parsed to, and what was said of it."""

    documents: Documents = field(default_factory=dict)
    parsed: dict[str, Records | RecordsError] = field(default_factory=dict)
    problems: frozenset[str] = frozenset()


class Follower:
    """Keeps *serving* at the newest good records; says once what is wrong with others."""

    def __init__(
        self, serving: Serving, settings: ZoneSettings, keep: Callable[[Sequence[str | bytes]], None] | None = None
    ) -> None:
        """*keep* is called with the API server's good documents, whenever they have become what is served."""
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
        """Serve *documents*, all that *source* has now, if there is a whole good set among them.

        It returns when they, or newer ones that were offered meanwhile, have had their turn.
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
        """Tell whether no source has offered good records yet."""
        return self._leader is None

    def forget(self) -> None:
        """Take the next documents of each source for new ones, and say again what is served and what is wrong."""
        self._offered.clear()
        self._tells = True

    async def lose_api(self) -> None:
        """Serve the file, if it is newer than what is served, from now until the API server offers again."""
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
        """Tell whether *records* have a newer serial than what is served (RFC 1982)."""
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
        """Parse the document *name*, unless it is as it was."""
        if isinstance(text, OSError):
            return RecordsError(text.strerror or str(text))
        if name in before.parsed and before.documents.get(name) == text:
            return before.parsed[name]
        await asyncio.sleep(0)
        self.reloads.parsed += 1
        try:
            records = parse(text)
        except RecordsError as error:
            return error
        old = before.parsed.get(name)
        if isinstance(old, Records):
            share(records, old)
        return records

    def _serve(self, source: Source, compiled: Compiled, started: float) -> None:
        """Swap the zone for the one *compiled*, which was begun when *started*."""
        self._compiled = compiled
        self._serving.zone = compiled.zone
        if self._tells or self._leader is not source:
            log.info("serving %d names, as the %s has them", compiled.names, source.value)
            self._tells = False
        if self._leader is not source:
            self._leader = source
            self.reloads.source = source.label
            for other in self._offered.keys() - {source}:
                del self._offered[other]  # a second copy of all names
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
    """Take *steps* with others between them; returns what they come to."""
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
    """Offer what is at *path* and, of further shards, beside it (`records-1.json`, …) whenever it changes; never ends.

    That an *optional* file is missing isn't worth an offer, and so not worth a warning.
    It is polled for what the names lead to, so that the kubelet's swap of the `..data` link is a change like any other.
    """
    paths = (path, *(path.with_stem(f"{path.stem}-{shard}") for shard in range(1, MAX_SHARDS)))
    seen: list[tuple[int, ...] | None] = [()] * len(paths)
    texts: dict[Path, Text] = {}
    while True:
        identities = [_identity(each) for each in paths]
        if identities != seen:
            for each, identity, before in zip(paths, identities, seen, strict=True):
                if identity != before:
                    texts[each] = _read(each)
            seen = [() if _is_young(identity) else identity for identity in identities]
            documents = {
                each.name: texts[each]
                for each, identity in zip(paths, identities, strict=True)
                if each == path or identity is not None
            }
            if not optional or any(text is not None for text in documents.values()):
                await offer(Source.FILE, documents)
        await asyncio.sleep(_POLL_SECONDS)


def _identity(path: Path) -> tuple[int, ...] | None:
    """Return what tells one content of *path* from the next; the last two are nanoseconds since the epoch."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _is_young(identity: tuple[int, ...] | None) -> bool:
    """Tell whether a file changed so lately that the next change could leave the same time stamp."""
    return identity is not None and time.time() - max(identity[-2:]) / 1e9 < _YOUNG_SECONDS


def _read(path: Path) -> Text:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        return error
