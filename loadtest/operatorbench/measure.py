"""What one run of an operator came to (pure)."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from clustersim.traffic import MUTATING
from pydantic import BaseModel, ConfigDict

from operatorbench.audit import Entry

_NOT_OF_A_SERVICE = frozenset({"events", "leases"})
"""What an operator writes besides what its objects need: these are shown, and not counted."""

_TOUCH = "patch pods"
"""The write by which ours makes the kubelet mount a changed configuration at once: it is counted apart."""


class Kind(StrEnum):
    """An operator, by the name that tables have for it."""

    OURS = "ours"
    GO = "Go"


class Step(BaseModel):
    """One part of a run: Services made, left alone, or removed."""

    model_config = ConfigDict(frozen=True)

    seconds: float
    """From its first request to its end in the cluster, as its users see it."""
    cpu_seconds: float
    """CPU of the operator, user and system, until it had settled."""
    writes: Mapping[str, int]
    """Writes of the operator by verb and kind, refused ones too, until it had settled."""
    reads: int
    """Other requests."""
    others: float
    """Cores that were busy meanwhile with what has nothing to do with the benchmark: it makes times longer."""

    @property
    def counted(self) -> int:
        """Writes without Events, leases and touches of Pods."""
        return sum(
            count
            for write, count in self.writes.items()
            if write.split()[1] not in _NOT_OF_A_SERVICE and write != _TOUCH
        )

    @property
    def touches(self) -> int:
        """Touches of Pods whose configuration has changed."""
        return self.writes.get(_TOUCH, 0)


class Run(BaseModel):
    """The figures of one run that all scenarios have."""

    model_config = ConfigDict(frozen=True)

    kind: Kind
    run: int
    """Runs are numbered from 1 on, those of all scenarios together."""
    services: int
    made: Step
    rss_mb: float
    """Resident memory of the operator when it has made all and is idle."""

    @property
    def cpu_ms(self) -> float:
        """CPU a Service made, milliseconds."""
        return 1000 * self.made.cpu_seconds / self.services

    @property
    def writes(self) -> float:
        """The number of write requests for each Service that was made."""
        return self.made.counted / self.services


class Burst(Run):
    """The figures of one run in which all Services are made at once, left alone, and removed at once."""

    idle: Step
    removed: Step

    @property
    def removal_cpu_ms(self) -> float:
        """CPU a Service removed, milliseconds."""
        return 1000 * self.removed.cpu_seconds / self.services

    @property
    def removal_writes(self) -> float:
        """Writes a Service removed."""
        return self.removed.counted / self.services


class Sample(Burst):
    """The figures of one run of the first scenario."""

    reported_seconds: float
    """Until the last Service said that its proxy is made, as `made.seconds` until the last StatefulSet was there."""
    peak_mb: float
    """The most that it ever had."""


class Grouped(Burst):
    """The figures of one run of the second scenario: all Services at once to two ProxyGroups.

    `made.seconds` is the time until the groups' ConfigMaps had an entry for each.
    """

    groups: int
    configmap_writes: Mapping[str, int]
    """How often the operator wrote each ConfigMap while the Services were made."""
    served: Step
    """All proxies report that they serve all Services, until the last EndpointSlice has their addresses."""
    entry_seconds: Sequence[float]
    """For some Services more: from the request that makes one until its entry is in the ConfigMap."""
    slice_seconds: Sequence[float]
    """For each of these and each proxy: from the proxy's report until its address is in the EndpointSlice."""

    @property
    def most_configmap_writes(self) -> int:
        """Writes of the ConfigMap that was written most often."""
        return max(self.configmap_writes.values(), default=0)


class Steady(Run):
    """The figures of one run of the third scenario: one Service after another; the operator is the leader of two.

    Writes and reads of the leader and the standby are counted together.
    """

    every_seconds: float
    """From one Service to the next."""
    standby_cpu_seconds: float
    """CPU of the standby, for as long as that of the leader is counted."""
    standby_rss_mb: float
    configmap_bytes: int
    """Of ConfigMaps, in the bodies of requests."""

    @property
    def standby_cpu_ms(self) -> float:
        """CPU of the standby a Service made, milliseconds."""
        return 1000 * self.standby_cpu_seconds / self.services

    @property
    def configmap_writes(self) -> float:
        """Writes of ConfigMaps a Service made."""
        return sum(count for write, count in self.made.writes.items() if write.endswith(" configmaps")) / self.services

    @property
    def configmap_kb(self) -> float:
        """Kilobytes of ConfigMaps written a Service made."""
        return self.configmap_bytes / 1e3 / self.services


AnyRun = TypeVar("AnyRun", bound=Run)


@dataclass(frozen=True, slots=True)
class Runs:
    """All runs, by scenario."""

    burst: list[Sample] = field(default_factory=list)
    groups: list[Grouped] = field(default_factory=list)
    steady: list[Steady] = field(default_factory=list)

    @property
    def next_number(self) -> int:
        """The number of the run that comes next."""
        return len(self.burst) + len(self.groups) + len(self.steady) + 1


def configmap_bytes(entries: Iterable[Entry], user: str) -> int:
    """Return the bytes of ConfigMaps in all that *user* sent, as JSON without spaces; deletions send none."""
    return sum(
        len(json.dumps(entry["requestObject"], separators=(",", ":"), ensure_ascii=False).encode())
        for entry in _of_configmaps(entries, user)
        if not entry["verb"].startswith("delete")
    )


def configmap_writes(entries: Iterable[Entry], user: str) -> Counter[str]:
    """Return how often *user* wrote each ConfigMap, by its name; one that was refused counts, too."""
    return Counter(
        entry["objectRef"].get("name") or entry["requestObject"]["metadata"]["name"]
        for entry in _of_configmaps(entries, user)
    )


def _of_configmaps(entries: Iterable[Entry], user: str) -> Iterator[Entry]:
    """Yield the writes of ConfigMaps by *user*."""
    for entry in entries:
        plural = entry.get("objectRef", {}).get("resource")
        if (entry["user"]["username"], plural) == (user, "configmaps") and entry["verb"] in MUTATING:
            yield entry


def by_write(requests: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Return writes as results have them, the most frequent first: ``"create secrets": 200``."""
    return {f"{verb} {plural}": count for (verb, plural), count in Counter(requests).most_common() if count}


def of(kind: Kind, samples: Sequence[AnyRun]) -> list[AnyRun]:
    """Return the runs of one operator."""
    return [sample for sample in samples if sample.kind is kind]
