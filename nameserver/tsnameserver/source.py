"""Records followed where they are kept, and turned into the zone that serves.

Two sources offer documents: the API server (`configmaps`) and a mounted file (`follow_file`). Whichever is first to
offer a whole good set is served. Once the API server has done so it leads and the file is ignored: what the kubelet
mounts is never newer. Nothing that a source offers, or fails to offer, takes away the last good zone.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from tsnameserver.compiler import build_zone
from tsnameserver.errors import RecordsError
from tsnameserver.records import MAX_SHARDS, Records, merge, parse
from tsnameserver.zone import Serving, ZoneSettings

log = logging.getLogger(__name__)

Text = str | bytes | OSError | None
"""A records document; why it can't be read; or None: there is none yet."""
Documents = Mapping[str, Text]
"""Texts by the name of what they are in."""

_POLL_SECONDS = 0.25
_YOUNG_SECONDS = 1.0
_MOST_WARNINGS = 20


class Source(Enum):
    """Where documents come from."""

    API = "API server"
    FILE = "file"


@dataclass(slots=True)
class _Offered:
    """What one source has offered last, what it was parsed to, and what was said of it."""

    documents: Documents | None = None
    parsed: dict[str, Records | RecordsError] = field(default_factory=dict)
    problems: frozenset[str] = frozenset()


class Follower:
    """Keeps *serving* at the newest good records; says once what is wrong with others."""

    def __init__(self, serving: Serving, settings: ZoneSettings) -> None:
        self._serving = serving
        self._settings = settings
        self._leader: Source | None = None
        self._offered = {source: _Offered() for source in Source}

    def offer(self, source: Source, documents: Documents) -> None:
        """Serve *documents*, all that *source* has now, if there is a whole good set among them."""
        offered = self._offered[source]
        if documents == offered.documents or (self._leader is Source.API and source is Source.FILE):
            return
        offered.parsed = {name: _parsed(name, text, offered) for name, text in documents.items() if text}
        offered.documents = documents
        problems = [
            f"{name} is ignored: {bad}" for name, bad in offered.parsed.items() if isinstance(bad, RecordsError)
        ]
        records = merge(good for good in offered.parsed.values() if isinstance(good, Records))
        if records is None:
            until = "until then names are SERVFAIL" if self._leader is None else "the last good ones stay"
            problems.append(f"no whole set of records from the {source.value}: {until}")
        else:
            problems += self._serve(source, records)
        _warn_of_new(problems, offered)

    def _serve(self, source: Source, records: Records) -> tuple[str, ...]:
        """Swap the zone for one of *records*; returns what was left out."""
        started = time.monotonic()
        try:
            zone = build_zone(records, self._settings, self._serving.zone)
        except Exception as error:
            log.exception("the records of the %s can't be compiled", source.value)
            return (f"the last good records go on being served: {error}",)
        self._serving.zone = zone
        if self._leader is not source:
            log.info("serving %d names, as the %s has them", len(zone.compiled), source.value)
            self._leader = source
        log.debug("serial %s compiled in %.1f ms", records.serial, 1000 * (time.monotonic() - started))
        return zone.problems


def _parsed(name: str, text: str | bytes | OSError, before: _Offered) -> Records | RecordsError:
    """Parse the document *name*, unless it is as it was."""
    if isinstance(text, OSError):
        return RecordsError(text.strerror or str(text))
    if before.documents is not None and name in before.parsed and before.documents.get(name) == text:
        return before.parsed[name]
    try:
        return parse(text)
    except RecordsError as error:
        return error


def _warn_of_new(problems: list[str], offered: _Offered) -> None:
    new = [problem for problem in dict.fromkeys(problems) if problem not in offered.problems]
    for problem in new[:_MOST_WARNINGS]:
        log.warning("%s", problem)
    if len(new) > _MOST_WARNINGS:
        log.warning("%d more like that", len(new) - _MOST_WARNINGS)
    offered.problems = frozenset(problems)


async def follow_file(path: Path, offer: Callable[[Source, Documents], None]) -> None:
    """Offer what is at *path* and, of further shards, beside it (`records-1.json`, …) whenever it changes; never ends.

    It is polled for what the names lead to, so that the kubelet's swap of the `..data` link is a change like any other.
    """
    paths = (path, *(path.with_stem(f"{path.stem}-{shard}") for shard in range(1, MAX_SHARDS)))
    seen: list[tuple[int, ...] | None] = []
    while True:
        identities = [_identity(each) for each in paths]
        if identities != seen:
            offer(
                Source.FILE,
                {
                    each.name: _read(each)
                    for each, identity in zip(paths, identities, strict=True)
                    if each == path or identity is not None
                },
            )
            seen = [] if _any_young(identities) else identities
        await asyncio.sleep(_POLL_SECONDS)


def _identity(path: Path) -> tuple[int, ...] | None:
    """Return what tells one content of *path* from the next; the last two are nanoseconds since the epoch."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _any_young(identities: list[tuple[int, ...] | None]) -> bool:
    """Tell whether a file changed so lately that the next change could leave the same time stamp."""
    newest = max((max(identity[-2:]) for identity in identities if identity), default=0)
    return time.time() - newest / 1e9 < _YOUNG_SECONDS


def _read(path: Path) -> Text:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        return error
