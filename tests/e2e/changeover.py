"""Observes a change from one operator to another: DNS answers, Pods that end, and writes."""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from clustersim.traffic import MUTATING
from operatorbench.audit import entries
from tsnameserver.records import CONFIGMAP_NAME, RECORDS_KEY
from tsoperator.api.names import LABEL_OPERATOR, OPERATOR
from tsoperator.api.objects import labels
from tsoperator.kube.client import USER_AGENT

from tests.e2e.cluster import Cluster, Object
from tests.e2e.dnsprobe import NO_ANSWER, Probe, Seen
from tests.e2e.product import NAMESPACE, OPERATOR_USER
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.network import DNS_SERVICE
from tests.e2e.waiting import eventually

_BESIDE = (
    "leases",
    "events",
    "selfsubjectaccessreviews",
)  # the resources that an operator may write before it takes over


class Write(NamedTuple):
    """A write by an operator, with the time at which the API server received it."""

    at: datetime
    ours: bool
    verb: str
    resource: str


@dataclass(slots=True)
class Changeover:
    """The observations during a change of operators. They are complete once the block of `changeover` has ended."""

    answers: Sequence[Seen] = ()
    """The nameserver's answers for the name that the test asks for all the time."""
    resolved: Sequence[Seen] = ()
    """The answers of the cluster's DNS for names that are new to it, so that it has to ask the nameserver."""
    writes: Sequence[Write] = ()
    ended: Mapping[str, datetime | None] = field(default_factory=dict)
    """The end of each Pod of our operator, rounded down to a second. None if the Pod hasn't ended."""
    ended_go: Mapping[str, datetime | None] = field(default_factory=dict)
    """The end of each Pod of the Go operator, rounded down to a second. None if the Pod hasn't ended."""

    @property
    def silence(self) -> float:
        """The total seconds in which the nameserver didn't answer.

        Each gap lasts from the first question without an answer to the next answer.
        """
        silent, since = 0.0, None
        for seen in self.answers:
            if seen.rcode != NO_ANSWER:
                silent, since = silent + (seen.at - since if since else 0), None
            elif since is None:
                since = seen.asked
        return silent

    @property
    def told(self) -> set[tuple[str, ...]]:
        """The distinct answers of the nameserver: rcode and addresses."""
        return {(seen.rcode, *seen.addresses) for seen in self.answers if seen.rcode != NO_ANSWER}

    def first_write(self, *, ours: bool) -> datetime:
        """Return the time of the first write of our operator or, if not *ours*, of the Go operator."""
        return min(write.at for write in self.writes if write.ours is ours)

    def check_names(self, silence: float = 0.0) -> None:
        """Check that the nameserver and the cluster's DNS gave the same right answer to every question.

        The nameserver is allowed to be silent for *silence* seconds in total, but the cluster's DNS must answer each
        question. Raises AssertionError.
        """
        assert {answer.rcode for answer in self.resolved} == {"NXDOMAIN"}, self.resolved
        assert {answer.rcode for answer in self.answers} - {NO_ANSWER} == {"NOERROR"}, self.answers
        assert self.silence <= silence, self.answers
        assert len(self.told) == 1, self.told


def nameserver_runs(cluster: Cluster, image: str) -> bool:
    """Tell whether all Pods of the nameserver, terminating ones included, have this image."""
    pods = cluster.listed("pods", labels={"app": "nameserver"})
    return {pod["spec"]["containers"][0]["image"] for pod in pods} == {image}


def records(cluster: Cluster) -> str:
    """Return the records for a nameserver of the Go operator, as a ConfigMap has them; empty if there are none."""
    return str((cluster.get("configmap", CONFIGMAP_NAME, NAMESPACE) or {"data": {}})["data"].get(RECORDS_KEY, ""))


@contextmanager
def changeover(bed: Bed, nameserver: str, name: str, folder: Path) -> Iterator[Changeover]:
    """Observe *nameserver*'s answers for *name*, and the operators, during the block. Write the notes into *folder*."""
    seen = Changeover()
    since = datetime.now(UTC)
    pods = folder / "pods.json"
    with (
        watched_pods(bed, pods, "app=operator"),
        Probe.of(bed, nameserver, name, folder) as probe,
        Probe.of(bed, DNS_SERVICE, f"none.{name}", folder, fresh=True) as resolver,
    ):
        yield seen
        eventually(lambda: probe.seen()[-1].rcode != NO_ANSWER, "an answer after all", 20)
        seen.answers = probe.seen()
        seen.resolved = resolver.seen()
    seen.ended, seen.ended_go = _ended(pods.read_text())
    seen.writes = list(_writes(bed.plane.audit_log, since))


@contextmanager
def watched_pods(bed: Bed, file: Path, selector: str = "") -> Iterator[None]:
    """Write the changes of the Pods that *selector* selects in the operators' namespace to *file* during the block."""
    watch = ["get", "pods", f"--selector={selector}", "--watch", "--output-watch-events", "--output=json"]
    argv = ["kubectl", "--namespace", NAMESPACE, *watch]
    with file.open("w") as notes, subprocess.Popen(argv, stdout=notes, env=bed.environment()) as watching:
        try:
            yield
        finally:
            watching.terminate()


def _ended(events: str) -> tuple[dict[str, datetime | None], dict[str, datetime | None]]:
    """Return when our operator's Pods and the Go operator's Pods ended, according to a sequence of watch events."""
    ours: dict[str, datetime | None] = {}
    go: dict[str, datetime | None] = {}
    for pod in seen_pods(events):
        (ours if labels(pod).get(LABEL_OPERATOR) == OPERATOR else go)[pod["metadata"]["name"]] = _end(pod)
    return ours, go


def seen_pods(events: str) -> Iterator[Object]:
    """Yield the Pod in each event of a sequence of watch events."""
    decoder = json.JSONDecoder()
    while events := events.lstrip():
        event, end = decoder.raw_decode(events)
        events = events[end:]
        yield event["object"]


def _end(pod: Object) -> datetime | None:
    for container in pod["status"].get("containerStatuses") or ():
        if "terminated" in container["state"]:
            return datetime.fromisoformat(container["state"]["terminated"]["finishedAt"])
    return None


def _writes(audit_log: Path, since: datetime) -> Iterator[Write]:
    for entry in entries(audit_log):
        resource = entry.get("objectRef", {}).get("resource", "")
        at = datetime.fromisoformat(entry["requestReceivedTimestamp"])
        is_write = entry["verb"] in MUTATING and resource not in _BESIDE
        if is_write and at > since and entry["user"]["username"] == OPERATOR_USER:
            yield Write(at, entry.get("userAgent") == USER_AGENT, entry["verb"], resource)
