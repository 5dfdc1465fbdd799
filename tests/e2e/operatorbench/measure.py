"""What one run of an operator came to (pure)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

_NOT_OF_A_SERVICE = frozenset({"events", "leases"})
"""What an operator writes besides what its objects need: these are shown, and not counted."""


class Kind(StrEnum):
    """An operator, by the name that tables have for it."""

    OURS = "ours"
    GO = "Go"


class Step(BaseModel):
    """One part of a run: all Services made, left alone, or removed."""

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
        """Writes without Events and leases."""
        return sum(count for write, count in self.writes.items() if write.split()[1] not in _NOT_OF_A_SERVICE)


class Sample(BaseModel):
    """The figures of one run."""

    model_config = ConfigDict(frozen=True)

    kind: Kind
    run: int
    """Runs are numbered from 1 on, all operators' together."""
    services: int
    made: Step
    ready_seconds: float
    """Until the last Service said that it is ready, as `made.seconds` until the last StatefulSet was there."""
    idle: Step
    removed: Step
    rss_mb: float
    """Resident memory of the operator when it has made all and is idle."""
    peak_mb: float
    """The most that it ever had."""

    @property
    def cpu_ms(self) -> float:
        """CPU a Service made, milliseconds."""
        return 1000 * self.made.cpu_seconds / self.services

    @property
    def removal_cpu_ms(self) -> float:
        """CPU a Service removed, milliseconds."""
        return 1000 * self.removed.cpu_seconds / self.services

    @property
    def writes(self) -> float:
        """Writes a Service made."""
        return self.made.counted / self.services

    @property
    def removal_writes(self) -> float:
        """Writes a Service removed."""
        return self.removed.counted / self.services


def by_write(requests: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Return writes as results have them, the most frequent first: ``"create secrets": 200``."""
    return {f"{verb} {plural}": count for (verb, plural), count in Counter(requests).most_common() if count}


def of(kind: Kind, samples: Sequence[Sample]) -> list[Sample]:
    """Return the runs of one operator."""
    return [sample for sample in samples if sample.kind is kind]
