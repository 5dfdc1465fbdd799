"""Counts of the requests, refusals, connections and bytes of the API server proxy, as Prometheus metrics."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_PREFIX = "tsoperator_apiproxy"


@dataclass(slots=True)
class RecordingCounts:
    """The counts of recordings since the start of the process."""

    sessions: Counter[str] = field(default_factory=lambda: Counter({"attempted": 0, "uploaded": 0, "failed": 0}))
    """The numbers of the sessions to be recorded, and of those whose recordings are complete or have failed."""
    events: Counter[str] = field(default_factory=lambda: Counter({"attempted": 0, "recorded": 0, "failed": 0}))
    running: int = 0
    """The number of recordings in progress."""


@dataclass(slots=True)
class ProxyCounts:
    """The counts of the whole proxy since the start of the process."""

    mode: str
    """The mode of the proxy, as in the metrics: auth or noauth."""
    requests: Counter[str] = field(default_factory=lambda: Counter({"forwarded": 0, "refused": 0, "failed": 0}))
    """The number of requests, by outcome."""
    refusals: Counter[str] = field(default_factory=Counter)
    """The number of refused connections and requests, by reason."""
    open_connections: int = 0
    connections: int = 0
    refused_connections: Counter[str] = field(default_factory=lambda: Counter({"all": 0, "caller": 0}))
    """The number of connections refused because there were too many: of all callers together, or of one caller."""
    sent: Counter[str] = field(default_factory=lambda: Counter({"to_api_server": 0, "to_client": 0}))
    """The number of bytes sent, by direction."""
    recordings: RecordingCounts = field(default_factory=RecordingCounts)

    def note_sent(self, size: int) -> None:
        """Count *size* bytes that were sent to a client."""
        self.sent["to_client"] += size

    def text(self) -> str:
        """Return the metrics in Prometheus's text format."""
        return "".join(line + "\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        outcomes = {f'mode="{self.mode}",outcome="{outcome}"': number for outcome, number in self.requests.items()}
        yield from _family("requests_total", "Requests of callers that have ended.", outcomes)
        yield from _family("refusals_total", "What was refused.", _by("reason", self.refusals))
        yield from _family("connections_total", "Connections of callers.", {"": self.connections})
        yield from _family("connections_open", "Connections that are open.", {"": self.open_connections})
        limits = _by("limit", self.refused_connections)
        yield from _family("connections_refused_total", "Connections beyond a limit.", limits)
        yield from _family("bytes_total", "Bytes forwarded.", _by("direction", self.sent))
        sessions, events = self.recordings.sessions, self.recordings.events
        yield from _family("session_recordings_total", "Sessions to be recorded.", _by("outcome", sessions))
        yield from _family("session_recordings_running", "Sessions being recorded.", {"": self.recordings.running})
        yield from _family("event_recordings_total", "Requests to be recorded.", _by("outcome", events))


def _by(label: str, counts: Mapping[str, int]) -> Mapping[str, int]:
    return {f'{label}="{value}"': number for value, number in counts.items()}


def _family(name: str, words: str, samples: Mapping[str, int]) -> Iterator[str]:
    yield f"# HELP {_PREFIX}_{name} {words}"
    yield f"# TYPE {_PREFIX}_{name} {'counter' if name.endswith('_total') else 'gauge'}"
    for labels, number in samples.items():
        yield f"{_PREFIX}_{name}{'{' + labels + '}' if labels else ''} {number}"
