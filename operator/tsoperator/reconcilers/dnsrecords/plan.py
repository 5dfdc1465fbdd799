"""Decides which ConfigMaps hold the records (docs/development/names.md).

Records that fit in one ConfigMap are one document, as the Go operator writes it. More records are spread over shards
(`shards`). A reader uses a set of shards once all of them are there. Every set includes shard 0, whose ConfigMap all
sets share.

When the number of shards changes, shard 0 is written last, so this one write replaces the old set with the new one: the
new set is incomplete before the write, and the old set is incomplete after it. Then the surplus ConfigMaps of the old
set are deleted. If both sets have several shards, the writes before shard 0 overwrite ConfigMaps of the old set. A
nameserver that has read the old set keeps serving it. A nameserver that starts at that moment finds no complete set,
and is not ready until shard 0 is written.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final

from tsnameserver.errors import RecordsError
from tsnameserver.records import MAX_SHARDS, RECORDS_KEY
from tsnameserver.records import parse as parse_records

from tsoperator.api.objects import CONFIGMAP, DNSCONFIG, Object, annotations, is_deleting, key_of, uid
from tsoperator.api.rules import takes_from_cluster
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.dns.nameserver import (
    ANNOTATION_LEFT_OUT,
    Program,
    nameserver_image,
    nameserver_labels,
    parse,
    reads_shards,
)
from tsoperator.dns.records.shards import (
    SERIALS,
    Limits,
    Part,
    configmap_name,
    count_for,
    document,
    fitting_part,
    frame_of,
    parts_of,
    trailer_of,
    with_serial,
    zones_of,
)
from tsoperator.dns.records.table import Bucket
from tsoperator.runtime.diff import contains
from tsoperator.runtime.ownership import owner_reference
from tsoperator.runtime.plan import Child, Deletion, Note, Patch, Plan, Refusal, Report
from tsoperator.settings import Settings
from tsoperator.tailnet.zones import NO_SUFFIXES, Suffixes, nameserver_zones, shown_zones, tailnet_zones

DEFAULT_LIMITS: Final = Limits()

Render = Callable[[Part], str]
"""The function that returns the document of a shard's records, with serial 0."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The facts on which the ConfigMaps of records depend.

    *dnsconfig* is the one in force. *buckets* have all records, and *configmaps* are the existing ConfigMaps of
    records, by shard. *nameserver* is the Deployment of the nameserver, and *suffixes* are the known suffixes. If
    *wait* is above 0, the plan writes nothing, and the records are reconciled again after so many seconds, or at a
    change; the other fields are empty.
    """

    dnsconfig: Object | None = None
    buckets: tuple[Bucket, ...] = ()
    configmaps: Mapping[int, Object] = field(default_factory=dict)
    nameserver: Object | None = None
    suffixes: Suffixes = NO_SUFFIXES
    wait: float = 0.0


@dataclass(frozen=True, slots=True)
class _Live:
    """The existing records documents, by the number of the shard."""

    texts: Mapping[int, str]

    @property
    def count(self) -> int:
        """The number of shards that the first document states; 1 if no document states a number."""
        trailers = (trailer_of(self.texts[shard]) for shard in sorted(self.texts))
        return next((trailer.shards for trailer in trailers if trailer), 1)

    @property
    def serial(self) -> int:
        """The newest serial of the documents; 0 if there is none."""
        return max((trailer.serial for text in self.texts.values() if (trailer := trailer_of(text))), default=0)

    @property
    def zones(self) -> list[str]:
        """The zones that the first document lists."""
        return zones_of(self.texts.get(0, ""))

    def names(self, shard: int) -> Collection[str]:
        """Return the names in the document of the shard with this number; no names if it can't be read."""
        try:
            return parse_records(self.texts.get(shard, "")).ip4
        except RecordsError:
            return ()


def plan(observed: Observed, settings: Settings, limits: Limits = DEFAULT_LIMITS, render: Render = document) -> Plan:
    """Return the plan that updates the ConfigMaps of records; it is empty without a DNSConfig."""
    if observed.wait > 0:
        return Plan(requeue_after=observed.wait if observed.wait < inf else None)
    if (dnsconfig := observed.dnsconfig) is None:
        return Plan()
    found = observed.configmaps
    live = _Live({shard: _text(configmap) for shard, configmap in found.items()})
    most = MAX_SHARDS if _may_split(dnsconfig, observed.nameserver, settings, live) else 1
    zones = nameserver_zones(settings.zones, observed.suffixes, _shown_before(dnsconfig, live, settings))
    parts, left_out = _parts(observed.buckets, live, zones, limits, most)
    if any(is_deleting(configmap) for shard, configmap in found.items() if shard < len(parts)):
        return Plan()  # the end of the deletion queues the records again
    configmaps = [
        _configmap(dnsconfig, settings, shard, text) for shard, text in enumerate(_documents(parts, live, render))
    ]
    configmaps[0] = _with_left_out(configmaps[0], found.get(0), left_out)
    writes = [_write(configmap, found.get(shard)) for shard, configmap in enumerate(configmaps)]
    surplus = [configmap for shard, configmap in sorted(found.items()) if shard >= len(parts)]
    # A surplus ConfigMap that has changed since the cache got it is perhaps needed again, so it isn't deleted.
    gone = [Deletion(CONFIGMAP, configmap, unchanged=True) for configmap in surplus if not is_deleting(configmap)]
    return Plan(steps=[*(write for write in reversed(writes) if write), *gone], reports=[Report(dnsconfig)])


def failed(dnsconfig: Object, refusal: Refusal) -> Plan:
    """Return the plan that says by an Event on the DNSConfig why the records could not be written."""
    return Plan(reports=[Report(dnsconfig, notes=[Note("Warning", "RecordsNotWritten", refusal.message)])])


def _shown_before(dnsconfig: Object, live: _Live, settings: Settings) -> Collection[str]:
    """Return the zones of those tailnets that the operator knew earlier.

    The status of *dnsconfig* lists them. If it lists no zones, as after a restore from a backup, take them from the
    *live* documents.
    """
    if shown_zones(dnsconfig):
        return tailnet_zones(dnsconfig)
    return [zone for zone in live.zones if not takes_from_cluster(zone, settings.cluster_domain)]


def _parts(
    buckets: tuple[Bucket, ...], live: _Live, zones: tuple[str, ...], limits: Limits, most: int
) -> tuple[list[Part], int]:
    """Return the contents of the shards, at most *most* of them, and the number of names that don't fit."""
    frame = frame_of(zones)
    whole = parts_of(buckets, min(count_for(buckets, frame, live.count, limits), most), zones)
    room = limits.full - frame
    parts = [part if part.weight <= room else fitting_part(part, room, live.names(part.shard)) for part in whole]
    return parts, sum(part.names for part in whole) - sum(part.names for part in parts)


def _may_split(dnsconfig: Object, nameserver: Object | None, settings: Settings, live: _Live) -> bool:
    """Tell whether the operator is allowed to spread the records over shards.

    It is if every Pod of the nameserver can read shards. During a rollout of the nameserver, old Pods still serve, and
    perhaps can't read them; if the new image can't be pulled, the rollout never ends. If the DNSConfig is invalid, the
    result is True only if the *live* documents are several shards already.
    """
    parsed = parse(dnsconfig)
    if isinstance(parsed, Invalid):
        return live.count > 1
    image = nameserver_image(dnsconfig, parsed, settings)
    return image.program is Program.OURS and (live.count > 1 or reads_shards(nameserver, image))


def _documents(parts: list[Part], live: _Live, render: Render) -> list[str]:
    """Return the wanted document of each part, with its serial.

    A document that hasn't changed keeps its serial. All others get the next serial: one more than the newest serial of
    the live documents. The serial after the highest possible one is 1. Then all documents get serial 1, even those that
    haven't changed.
    """
    serial = (live.serial + 1) % SERIALS or 1
    texts = []
    for part in parts:
        text = live.texts.get(part.shard, "")
        trailer = trailer_of(text)
        wanted = render(part)
        kept = trailer is not None and trailer.serial and serial > 1 and with_serial(wanted, trailer.serial) == text
        texts.append(text if kept else with_serial(wanted, serial))
    return texts


def _configmap(dnsconfig: Object, settings: Settings, shard: int, text: str) -> Object:
    name = dnsconfig["metadata"]["name"]
    return {
        "apiVersion": CONFIGMAP.api_version,
        "kind": CONFIGMAP.kind,
        "metadata": {
            "namespace": settings.namespace,
            "name": configmap_name(shard),
            "labels": nameserver_labels(name, settings.namespace),
            "ownerReferences": [owner_reference(DNSCONFIG, name, uid(dnsconfig))],
        },
        "data": {RECORDS_KEY: text},
    }


def _with_left_out(configmap: Object, live: Object | None, left_out: int) -> Object:
    """Return *configmap* with an annotation that has the number of names that are *left_out*.

    If there are no such names, the annotation is removed from the *live* ConfigMap.
    """
    if not left_out and ANNOTATION_LEFT_OUT not in (annotations(live) if live else ()):
        return configmap
    note = {ANNOTATION_LEFT_OUT: str(left_out) if left_out else None}
    return {**configmap, "metadata": {**configmap["metadata"], "annotations": note}}


def _write(desired: Object, live: Object | None) -> Child | Patch | None:
    """Return the step that creates the *desired* ConfigMap or updates the *live* one; None if they don't differ."""
    if live is None:
        return Child(desired)
    if contains(live, desired):
        return None
    ours = {name: value for name, value in desired["metadata"].items() if name not in ("namespace", "name")}
    versioned = {**ours, "resourceVersion": live["metadata"]["resourceVersion"]}
    return Patch(CONFIGMAP, key_of(live), {"metadata": versioned, "data": desired["data"]})


def _text(configmap: Object) -> str:
    text: str = (configmap.get("data") or {}).get(RECORDS_KEY, "")
    return text
