"""Builds the report from the facts in the cache and in the tables of tailnets.

Nothing here sends a request to a server. The only waits are pauses for other tasks of the event loop. A row is built
again only if one of the objects on which it depends has changed.
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final

from pydantic_core import to_json
from tsnameserver import __version__

from tsoperator.api.objects import DEPLOYMENT, DNSCONFIG, INGRESS, OWN_KINDS, SERVICE, TAILNET, Object, key_of, uid
from tsoperator.dns.nameserver import elected
from tsoperator.status.look import Knowledge, Look
from tsoperator.status.parts import StatusReport, TailnetFacts, dns_parts, refusal_parts, tailnet_part
from tsoperator.status.rows import Surroundings, row_of
from tsoperator.tailnet.tailnet import OWN
from tsoperator.tsclient.timeslice import TimeSlice

KINDS: Final = tuple(sorted((DEPLOYMENT, SERVICE, INGRESS, *OWN_KINDS), key=lambda each: each.kind))
"""The kinds of the objects that the report describes. Of all Deployments, it has only that of the API server proxy."""

REMEMBERED: Final = 60.0
"""The seconds for which rows are kept after a report, so that a client that asks again gets the next report fast."""


class _Known:
    """The rows of the latest report, each with a digest of the facts from which it was built, by the UID of the object.

    For an object without a row, the bytes are empty. We keep a row as bytes, because the garbage collector looks at
    every dictionary: with 10,000 rows, this would stop the event loop for a while.
    """

    def __init__(self) -> None:
        self.rows: dict[str, bytes] = {}
        self.digests: dict[str, str] = {}

    def clear(self) -> None:
        """Forget all rows."""
        self.rows.clear()
        self.digests.clear()


class StatusView:
    """Makes the operator's report from *knowledge*. *now* returns the time of the wall clock."""

    def __init__(self, knowledge: Knowledge, now: Callable[[], datetime]) -> None:
        self._knowledge = knowledge
        self._now = now
        self._known = _Known()
        self._forgetting: asyncio.TimerHandle | None = None

    async def report(self, since: datetime) -> StatusReport:
        """Return the report. *since* is the time at which this process began to lead."""
        cache, settings = self._knowledge.cache, self._knowledge.settings
        about = {
            "version": __version__,
            "namespace": settings.namespace,
            "pod": settings.pod_name,
            "leadingSince": rfc3339(since),
        }
        tailnets = [*self._tailnet_facts()]
        refused = {(str(each.resource), each.namespace) for each in cache.refused_selections()}
        parts = {
            "tailnets": [*map(tailnet_part, tailnets)],
            "dns": [*dns_parts(elected(cache.all(DNSCONFIG)))],
            "refusals": [*refusal_parts(tailnets, refused)],
        }
        rows, time_slice, digest = await self._rows(), TimeSlice(), hashlib.blake2b(digest_size=12)
        rest = [b',"objects":[', *_joined(rows), b"],", to_json(parts)[1:]]
        head = to_json(about)[:-1]
        for each in (head, *rest):
            digest.update(each)
            await time_slice.pause()
        generated = b',"generated":"%b"' % rfc3339(self._now()).encode()
        return StatusReport(b"".join([head, generated, *rest]), digest.hexdigest())

    async def _rows(self) -> list[bytes]:
        """Return the rows of all objects as JSON, sorted by kind, namespace and name."""
        time_slice, found, known, last = TimeSlice(), list[bytes](), _Known(), self._known
        look = Look(self._knowledge)
        for resource in KINDS:
            rows: dict[str, bytes] = {}
            for obj in self._knowledge.cache.all(resource):
                await time_slice.pause()
                around = look.around(resource, obj)
                if around is None:
                    continue
                uid_, digest = uid(obj), around.digest(obj)
                row = last.rows[uid_] if last.digests.get(uid_) == digest else self._row(obj, around)
                known.rows[uid_], known.digests[uid_] = row, digest
                if row:
                    rows["\0".join(key_of(obj))] = row
            found += [rows[key] for key in sorted(rows)]
        self._remember(known)
        return found

    def _row(self, obj: Object, around: Surroundings) -> bytes:
        row = row_of(obj, around, self._knowledge.settings)
        return to_json(row) if row is not None else b""

    def _remember(self, known: _Known) -> None:
        if self._forgetting is not None:
            self._forgetting.cancel()
        self._known = known
        self._forgetting = asyncio.get_running_loop().call_later(REMEMBERED, known.clear)

    def _tailnet_facts(self) -> Iterator[TailnetFacts]:
        objects = {key_of(each).name: each for each in self._knowledge.cache.all(TAILNET)}
        for name in (OWN, *sorted(objects)):
            known = self._knowledge.tailnets.registered(name)
            if known is None:
                yield TailnetFacts(name, tailnet=objects.get(name))
                continue
            names, findings = known.devices.names(), known.preflight.findings
            domains = names.domains if names else ()
            is_looked = bool(findings.passed or findings.wrong)
            yield TailnetFacts(name, known.client.url, domains, is_looked, findings.wrong, objects.get(name))


def rfc3339(moment: datetime) -> str:
    """Return *moment*, which is in UTC, in RFC 3339 with whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _joined(rows: Sequence[bytes]) -> Iterator[bytes]:
    """Yield *rows* with a comma before each but the first."""
    for number, row in enumerate(rows):
        yield b"," + row if number else row
