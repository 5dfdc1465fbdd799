"""The metrics for Prometheus. Their names are like those of CoreDNS; the text is written at each scrape."""

import errno
import resource
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

from tsnameserver import __version__
from tsnameserver.message import RCODES, TYPES
from tsnameserver.pages import Page, Pages
from tsnameserver.reloads import Reloads, Watched
from tsnameserver.snapshot import Snapshot
from tsnameserver.source import Source
from tsnameserver.tcp import TcpServer
from tsnameserver.udp import UdpServer

_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_USUAL_ERRORS = {errno.EINVAL, errno.EPERM, errno.ENOBUFS, errno.EAGAIN}
"""The errors of sending that have a series from the start, so that a rate also shows the first such error."""
_STATUS, _DESCRIPTORS = Path("/proc/self/status"), Path("/proc/self/fd")


@dataclass(frozen=True, slots=True)
class Family:
    """A metric with its samples, in Prometheus's text format. No value of our labels needs to be escaped."""

    name: str
    kind: str
    help: str
    labels: Sequence[str] = ()
    samples: list[str] = field(default_factory=list)

    def add(self, value: float, *labels: str, suffix: str = "", **more: str) -> None:
        """Add a sample. *labels* are values in the order of the family's labels; *more* are further labels by name."""
        named = {**dict(zip(self.labels, labels, strict=True)), **more}
        inside = ",".join(f'{name}="{text}"' for name, text in named.items())
        self.samples.append(f"{self.name}{suffix}{'{' + inside + '}' if inside else ''} {value!r}")

    def __str__(self) -> str:
        return "\n".join([f"# HELP {self.name} {self.help}", f"# TYPE {self.name} {self.kind}", *self.samples, ""])


@dataclass(frozen=True, slots=True)
class Metrics:
    """The objects whose counts the metrics show."""

    udp: Sequence[UdpServer]
    tcp: Sequence[TcpServer]
    reloads: Reloads
    watched: Watched | None = None
    """Facts that show whether the list and watch requests to the API server work.

    If the nameserver doesn't follow the API server, this is None, and the metrics about it have no samples.
    """
    restarts: Mapping[str, int] = field(default_factory=dict)
    snapshot: Snapshot | None = None
    started: float = field(default_factory=time.time)
    """Unix time of the start."""

    def families(self) -> Iterator[Family]:
        """Yield each metric with its current samples."""
        yield from self._queries()
        yield from self._transports()
        yield from _records(self.reloads)
        yield from _sources(self.reloads, self.watched, self.snapshot)
        restarts = _counter("restarts", "How often a part of the server failed and started again.", ("part",))
        for part, number in self.restarts.items():
            restarts.add(number, part)
        yield restarts
        yield from _process(self.started)

    def _queries(self) -> Iterable[Family]:
        labels = ("server", "proto", "family")
        requests = _counter("dns_requests", "Packets and messages that came as queries.", (*labels, "type"))
        responses = _counter("dns_responses", "Responses.", (*labels, "rcode"))
        paths = _counter("dns_path", "Queries by what answered them: the fast path or the general.", (*labels, "path"))
        malformed = _counter("dns_malformed", "Packets that were no query: dropped or FORMERR.", labels)
        truncated = _counter("dns_truncated", "Responses that didn't fit in UDP.", labels)
        failures = _counter("dns_failures", "Queries that couldn't be received, answered or sent.", labels)
        servers = [("udp", server) for server in self.udp] + [("tcp", server) for server in self.tcp]
        for proto, server in servers:
            counts, values = server.counts, _server_labels(proto, server)
            for qtype, number in counts.requests().items():
                requests.add(number, *values, TYPES.get(qtype, "other"))
            for rcode, number in counts.responses().items():
                responses.add(number, *values, RCODES[rcode])
            paths.add(sum(counts.fast), *values, "fast")
            paths.add(counts.general, *values, "general")
            malformed.add(counts.malformed, *values)
            truncated.add(counts.truncated, *values)
            failures.add(server.failures, *values)
        return requests, responses, paths, malformed, truncated, failures

    def _transports(self) -> Iterable[Family]:
        dropped = _counter("udp_dropped", "Packets that the receive buffer had no room for.", ("server",))
        compiled = _gauge("udp_compiled", "1 where the compiled loop answers, 0 where Python does.", ("server",))
        unsent = _counter("udp_unsent", "Responses that couldn't be sent, by the system's error.", ("server", "errno"))
        for udp in self.udp:
            compiled.add(int(udp.compiled), f"dns://{udp.endpoint}")
            for code, packets in enumerate(udp.unsent):
                if packets or code in _USUAL_ERRORS:
                    unsent.add(packets, f"dns://{udp.endpoint}", errno.errorcode.get(code, str(code)))
            if (number := udp.dropped()) is not None:
                dropped.add(number, f"dns://{udp.endpoint}")
        opened = _gauge("tcp_connections_open", "Connections that are open.", ("server",))
        accepted = _counter("tcp_connections", "Connections since the start.", ("server",))
        evicted = _counter("tcp_connections_evicted", "Connections closed to make room for others.", ("server",))
        for tcp in self.tcp:
            server = f"dns://{tcp.endpoint}"
            opened.add(tcp.connections, server)
            accepted.add(tcp.accepted, server)
            evicted.add(tcp.evicted, server)
        return compiled, unsent, dropped, opened, accepted, evicted


def metrics_pages(metrics: Metrics) -> Pages:
    """Return the page with *metrics*, and with the process's use of CPU time, memory and files."""
    return {"/metrics": lambda: Page("".join(map(str, metrics.families())), content_type=_CONTENT_TYPE)}


def _records(reloads: Reloads) -> Iterable[Family]:
    records = _gauge("records", "Address records that are served.", ("family",))
    records.add(reloads.ip4, "1")
    records.add(reloads.ip6, "2")
    names = _gauge("names", "Names that are served.")
    names.add(reloads.names)
    serial = _gauge("records_serial", "The serial of the records that are served.")
    serial.add(reloads.serial)
    newest = _gauge("records_last_success_timestamp_seconds", "When records were last loaded; 0: not yet.")
    newest.add(reloads.newest)
    results = _counter("reloads", "Records taken, and records refused.", ("result",))
    results.add(reloads.loaded, "success")
    results.add(reloads.failed, "failure")
    seconds = Family("tsnameserver_reload_duration_seconds", "histogram", "How long taking records took.")
    counts = list(accumulate(reloads.buckets))
    for bound, count in zip((*map(str, reloads.bounds), "+Inf"), counts, strict=True):
        seconds.add(count, suffix="_bucket", le=bound)
    seconds.add(counts[-1], suffix="_count")
    seconds.add(reloads.seconds_sum, suffix="_sum")
    return records, names, serial, newest, results, seconds


def _sources(reloads: Reloads, watched: Watched | None, snapshot: Snapshot | None) -> Iterable[Family]:
    """Return the metrics of the sources of records. They distinguish a dead watch from a quiet cluster."""
    source = _gauge("records_source", "1 for where the records that are served come from.", ("source",))
    for each in Source:
        source.add(int(each.label == reloads.source), each.label)
    followed = _gauge("api_followed", "Whether the API server is followed.")
    heard = _gauge("api_last_heard_timestamp_seconds", "When the API server last sent something; 0: not yet.")
    if watched is not None:
        followed.add(int(watched.followed))
        heard.add(watched.heard)
    written = _gauge("snapshot_timestamp_seconds", "When the snapshot of the records was written; 0: there is none.")
    if snapshot is not None:
        written.add(snapshot.written)
    return source, followed, heard, written


def _process(started: float) -> Iterator[Family]:
    """Yield the metrics of the version and of the process. The latter have the names of Prometheus's own clients."""
    build = _gauge("build_info", "The version that runs.", ("version", "python"))
    build.add(1, __version__, sys.version.partition(" ")[0])
    yield build
    start = Family("process_start_time_seconds", "gauge", "When the process started.")
    start.add(started)
    yield start
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = Family("process_cpu_seconds_total", "counter", "Processor time, of user and system.")
    cpu.add(used.ru_utime + used.ru_stime)
    yield cpu
    if _STATUS.exists():  # not on macOS
        resident = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmRSS:"))
        memory = Family("process_resident_memory_bytes", "gauge", "Memory that is resident.")
        memory.add(int(resident.split()[1]) * 1024)
        descriptors = Family("process_open_fds", "gauge", "Open file descriptors.")
        descriptors.add(sum(1 for _ in _DESCRIPTORS.iterdir()))
        yield from (memory, descriptors)


def _server_labels(proto: str, server: UdpServer | TcpServer) -> tuple[str, str, str]:
    """Return the labels of *server*: its address, its protocol, and its address family by IANA's number."""
    return f"dns://{server.endpoint}", proto, "2" if ":" in server.endpoint.host else "1"


def _counter(name: str, text: str, labels: Sequence[str] = ()) -> Family:
    return Family(f"tsnameserver_{name}_total", "counter", text, labels)


def _gauge(name: str, text: str, labels: Sequence[str] = ()) -> Family:
    return Family(f"tsnameserver_{name}", "gauge", text, labels)
