"""The devices of the tailnet, as the control server listed them last, and those that have gone since."""

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import ip_address

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from tsoperator.api.names import LABEL_PARENT_TYPE
from tsoperator.api.objects import SECRET, labels
from tsoperator.desired.secret import device_of
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.workqueue import nine_to_ten_tenths
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.errors import ControlError, Forbidden
from tsoperator.tsclient.models import Device

log = logging.getLogger(__name__)

DEPARTED = 4096
"""How many marks of devices that have gone are remembered."""

Listener = Callable[[frozenset[str]], None]
"""Called with the node IDs and marks of devices that have come, gone or changed."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How many seconds lie between two reads of the list.

    *first* if a device that isn't in it is asked for, doubled up to *longest* while that goes on; *interval* if nobody
    asks; *denied* after the control server said that it is not for us.
    """

    first: float = 0.5
    longest: float = 10.0
    interval: float = 300.0
    denied: float = 3600.0
    jitter: Callable[[], float] = nine_to_ten_tenths


def mark_of(text: str) -> str:
    """Return how the device with a MagicDNS name or address is found: in lower case without the last dot."""
    try:
        return str(ip_address(text))
    except ValueError:
        return text.lower().removesuffix(".")


def marks_of(device: Device) -> frozenset[str]:
    """Return what *device* is found by: name and addresses, in this tailnet the name's first label too."""
    label = () if device.external else (device.short_name.lower(),)
    return frozenset({mark_of(device.name), *map(mark_of, device.addresses), *label})


class ProxyDevices(Collector):
    """Counts the devices of proxies, as their Secrets tell."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def collect(self) -> Iterator[Metric]:
        """Count (the contract of prometheus_client's collectors)."""
        family = GaugeMetricFamily(
            "tsoperator_devices", "Devices of proxies, by the kind of object that asked for them.", labels=["parent"]
        )
        parents = (
            labels(each).get(LABEL_PARENT_TYPE, "") for each in self._cache.all(SECRET) if device_of(each, None).id
        )
        for parent, count in Counter(parents).items():
            family.add_metric([parent], count)
        yield family


class Devices:
    """A table of the tailnet's devices: one list for all proxies, read in the background; a look at it never waits."""

    def __init__(self, tailnet: TailnetClient, pace: Pace | None = None) -> None:
        self._tailnet = tailnet
        self._pace = pace or Pace()
        self._table: dict[str, Device] = {}  # by node ID
        self._ids: dict[str, str] = {}  # by mark
        self._departed: OrderedDict[str, Device] = OrderedDict()  # by mark
        self._listeners: list[Listener] = []
        self._wanted = asyncio.Event()
        self._reading = asyncio.Lock()
        self._spacing = self._pace.first
        self._not_before = 0.0  # of the event loop's clock
        self._failure: ControlError | None = None

    def listen(self, listener: Listener) -> None:
        """Call *listener* whenever the list tells of changes."""
        self._listeners.append(listener)

    def get(self, node_id: str) -> Device | None:
        """Return the device; if it isn't known, or not approved yet, the list is read again soon."""
        device = self.known(node_id)
        if device is None or not device.authorized:
            self._wanted.set()
        return device

    def known(self, node_id: str) -> Device | None:
        """Return the device as the list has it."""
        return self._table.get(node_id)

    def at(self, text: str) -> Device | None:
        """Return the device that has that MagicDNS name, first label of one, or address."""
        return _find(text, lambda mark: self._table.get(self._ids.get(mark, "")))

    def departed(self, text: str) -> Device | None:
        """Return the device that once had that MagicDNS name or address, as it was then; now nobody has it."""
        return _find(text, self._departed.get)

    def put(self, device: Device) -> None:
        """Take in what has just become of *device*."""
        self._take(device.node_id, device)

    def drop(self, node_id: str) -> None:
        """Forget a device that has just been deleted."""
        self._take(node_id, None)

    async def refresh(self) -> None:
        """See to it that the list is but seconds old. Raises ControlError."""
        async with self._reading:
            if self._now() >= self._not_before:
                await self._read()
            elif self._failure is not None:
                raise self._failure.with_traceback(None)

    async def follow(self) -> None:
        """Keep the table up to date until cancelled: from when it is first asked."""
        await self._wanted.wait()
        while True:
            await asyncio.sleep(self._not_before - self._now())
            self._wanted.clear()
            try:
                async with self._reading:
                    await self._read()
            except ControlError:
                self._wanted.set()
            asked = await self._is_wanted()
            self._spacing = min(self._spacing * 2, self._pace.longest) if asked else self._pace.first

    async def _is_wanted(self) -> bool:
        """Wait until the next read is due; tell whether it was asked for."""
        try:
            async with asyncio.timeout(self._pace.interval * self._pace.jitter()):
                await self._wanted.wait()
        except TimeoutError:
            return False
        return True

    async def _read(self) -> None:
        try:
            found = await self._tailnet.devices()
        except ControlError as error:
            self._fail(error)
            raise
        self._failure = None
        self._not_before = self._now() + self._spacing
        changed = frozenset().union(*(self._take(gone, None) for gone in self._table.keys() - found.keys()))
        changed = changed.union(*(self._take(node_id, device) for node_id, device in found.items()))
        if changed:
            for listener in self._listeners:
                listener(changed)

    def _fail(self, error: ControlError) -> None:
        """Remember *error*, and say it if it is news."""
        denied = isinstance(error, Forbidden)
        if str(error) != str(self._failure):
            hint = "; tags and names of devices are left as they are without the scope devices:core" if denied else ""
            log.warning("the tailnet's devices can't be listed: %s%s", error, hint)
        self._failure = error
        self._not_before = self._now() + (self._pace.denied if denied else self._pace.longest)

    def _take(self, node_id: str, new: Device | None) -> frozenset[str]:
        """Put *new* in the place of the device with that ID; return what both are found by, if a proxy has to know."""
        old = self._table.pop(node_id, None)
        lost, found = marks_of(old) if old else frozenset[str](), marks_of(new) if new else frozenset[str]()
        for mark in lost - found:
            if old is not None and self._ids.get(mark) == node_id:  # else another device took it over
                del self._ids[mark]
                self._departed[mark] = old
        if new is not None:
            self._table[node_id] = new
        for mark in found:
            self._ids[mark] = node_id
            self._departed.pop(mark, None)
        while len(self._departed) > DEPARTED:
            self._departed.popitem(last=False)
        same = old is not None and new is not None and _told(old) == _told(new)
        return frozenset() if same else lost | found | {node_id}

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def _find(text: str, get: Callable[[str], Device | None]) -> Device | None:
    """Return the device that *text* names among those that *get* returns by mark."""
    mark = mark_of(text)
    if device := get(mark):
        return device
    short = get(mark.partition(".")[0])
    return short if short and short.name == short.short_name else None  # Headscale tells first labels only


def _told(device: Device) -> tuple[object, ...]:
    return device.name, device.authorized, device.external, frozenset(device.tags), device.addresses
