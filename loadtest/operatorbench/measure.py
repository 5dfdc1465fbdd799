"""The figures of one run of an operator (pure)."""

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
"""The kinds of objects that an operator writes but that no Service needs. The goals for writes leave them out."""

_TOUCH = "patch pods"
"""The write by which our operator touches a Pod. Touches are counted separately."""


class Kind(StrEnum):
    """The operators that the benchmark compares, by their names in tables."""

    OURS = "ours"
    GO = "Go"


class Step(BaseModel):
    """The figures of one step of a run, in which Services are created, served, left unchanged or deleted."""

    model_config = ConfigDict(frozen=True)

    seconds: float
    """The seconds from the first request of the step until the objects in the cluster were as the step requires."""
    cpu_seconds: float
    """The operator's CPU time, user and system, until it had settled."""
    writes: Mapping[str, int]
    """The number of the operator's writes by verb and kind, including refused ones, until it had settled."""
    reads: int
    """The number of the operator's other requests."""
    others: float
    """The number of CPU cores that programs outside the benchmark kept busy during the step. They make times longer."""

    @property
    def counted(self) -> int:
        """The number of writes, except those of Events and Leases and the touches of Pods."""
        return sum(
            count
            for write, count in self.writes.items()
            if write.split()[1] not in _NOT_OF_A_SERVICE and write != _TOUCH
        )

    @property
    def touches(self) -> int:
        """The number of touches of Pods whose configuration has changed."""
        return self.writes.get(_TOUCH, 0)


class Run(BaseModel):
    """The figures of one run. Each scenario has these figures, and more of its own."""

    model_config = ConfigDict(frozen=True)

    kind: Kind
    run: int
    """The number of the run, from 1 on. The runs of all scenarios are numbered together."""
    services: int
    made: Step
    rss_mb: float
    """The operator's resident memory (10⁶ bytes) when all Services are made and the operator is idle."""

    @property
    def cpu_ms(self) -> float:
        """The CPU time in milliseconds per Service that was made."""
        return 1000 * self.made.cpu_seconds / self.services

    @property
    def writes(self) -> float:
        """The number of writes per Service that was made."""
        return self.made.counted / self.services


class Burst(Run):
    """The figures of one run in which all Services are created at once, left unchanged, and deleted at once."""

    idle: Step
    removed: Step

    @property
    def removal_cpu_ms(self) -> float:
        """The CPU time in milliseconds per Service that was removed."""
        return 1000 * self.removed.cpu_seconds / self.services

    @property
    def removal_writes(self) -> float:
        """The number of writes per Service that was removed."""
        return self.removed.counted / self.services


class Sample(Burst):
    """The figures of one run of the first scenario."""

    reported_seconds: float
    """The time until the last Service reported that its proxy exists.

    `made.seconds` is the time until the last StatefulSet existed.
    """
    peak_mb: float
    """The operator's highest resident memory (10⁶ bytes)."""


class Grouped(Burst):
    """The figures of one run of the second scenario, in which two egress groups get all Services at once.

    `made.seconds` is the time until the groups' ConfigMaps had an entry for each Service.
    """

    groups: int
    configmap_writes: Mapping[str, int]
    """The number of times that the operator wrote each ConfigMap while the Services were made."""
    served: Step
    """The step in which the proxies report that they serve all Services; it ends with all proxies in EndpointSlices."""
    entry_seconds: Sequence[float]
    """For each additional Service, the seconds from its creation until its entry is in the ConfigMap."""
    slice_seconds: Sequence[float]
    """The seconds from each report that a proxy serves an additional Service until the EndpointSlice has the proxy."""

    @property
    def most_configmap_writes(self) -> int:
        """The number of writes of the ConfigMap that was written most often."""
        return max(self.configmap_writes.values(), default=0)


class Steady(Run):
    """The figures of one run of the third scenario, with a leader and a standby: Services are made one by one.

    The figures are the leader's, but the writes and reads are those of the leader and the standby together.
    """

    every_seconds: float
    """The number of seconds from one Service to the next."""
    standby_cpu_seconds: float
    """The standby's CPU time, in the same period as the leader's."""
    standby_rss_mb: float
    configmap_bytes: int
    """The number of bytes of all ConfigMaps in the bodies of the operators' requests."""

    @property
    def standby_cpu_ms(self) -> float:
        """The standby's CPU time in milliseconds per Service that was made."""
        return 1000 * self.standby_cpu_seconds / self.services

    @property
    def configmap_writes(self) -> float:
        """The number of writes of ConfigMaps per Service that was made."""
        return sum(count for write, count in self.made.writes.items() if write.endswith(" configmaps")) / self.services

    @property
    def configmap_kb(self) -> float:
        """The kilobytes of ConfigMaps that the operators wrote, per Service that was made."""
        return self.configmap_bytes / 1e3 / self.services


class Hosting(Run):
    """The figures of one run of the fourth scenario, in which two ProxyGroups expose all objects at once.

    `services` is the number of all objects, Ingresses and Services. `made.seconds` is the time until the statuses of
    all objects said how the tailnet reaches the objects.
    """

    ingresses: int
    """The number of Ingresses among the objects."""
    calls: Mapping[str, int]
    """The number of requests to the control server's API by method and path, until the operator had settled."""
    idle: Step
    idle_calls: Mapping[str, int]
    """The number of requests to the control server's API by method and path, while the operator was idle."""

    @property
    def calls_an_object(self) -> float:
        """The number of requests to the control server's API, per object."""
        return sum(self.calls.values()) / self.services


AnyRun = TypeVar("AnyRun", bound=Run)


@dataclass(frozen=True, slots=True)
class Runs:
    """All runs, by scenario."""

    burst: list[Sample] = field(default_factory=list)
    groups: list[Grouped] = field(default_factory=list)
    steady: list[Steady] = field(default_factory=list)
    hosting: list[Hosting] = field(default_factory=list)

    @property
    def next_number(self) -> int:
        """The number of the next run."""
        return sum(len(runs) for runs in (self.burst, self.groups, self.steady, self.hosting)) + 1


def configmap_bytes(entries: Iterable[Entry], user: str) -> int:
    """Return the number of bytes in the ConfigMaps that *user* sent, as JSON without spaces. Deletions don't count."""
    return sum(
        len(json.dumps(entry["requestObject"], separators=(",", ":"), ensure_ascii=False).encode())
        for entry in _of_configmaps(entries, user)
        if not entry["verb"].startswith("delete")
    )


def configmap_writes(entries: Iterable[Entry], user: str) -> Counter[str]:
    """Return the number of writes by *user* of each ConfigMap, by its name, including refused writes."""
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
    """Return writes in the format of the results, the most frequent first: ``"create secrets": 200``."""
    return {f"{verb} {plural}": count for (verb, plural), count in Counter(requests).most_common() if count}


def of(kind: Kind, samples: Sequence[AnyRun]) -> list[AnyRun]:
    """Return those of *samples* that are figures of the operator *kind*."""
    return [sample for sample in samples if sample.kind is kind]
