"""The devices of the tailnet in the control server's most recent list, and the devices that have left the tailnet."""

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from tsoperator.api.device import Device, domain_of, lookup_name, lookup_names
from tsoperator.api.names import PARENT_OPERATOR
from tsoperator.api.objects import SECRET
from tsoperator.proxy.secret import reported_id_of
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.clock import loop_time
from tsoperator.runtime.ownership import owner_of
from tsoperator.runtime.workqueue import nine_to_ten_tenths
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.errors import ControlError, Forbidden
from tsoperator.tsclient.timeslice import SECONDS, TimeSlice

log = logging.getLogger(__name__)

DEPARTED = 4096
"""The number of names and addresses of departed devices that the table of devices remembers."""

Listener = Callable[[Device | None, Device | None], None]
"""A function that is called with the state of a device before and after a change.

The first argument is None if the device is new, and the second one if the device is gone.
"""


@dataclass(frozen=True, slots=True)
class ListPace:
    """The seconds between two reads of the list of devices.

    *first* applies if somebody asks for a device that isn't in the list. It doubles with each further read up to
    *longest*, as long as somebody asks for such a device. *interval* applies when nobody asks. *denied* applies after
    the control server refused to show the list.
    """

    first: float = 0.5
    longest: float = 10.0
    interval: float = 300.0
    denied: float = 300.0
    jitter: Callable[[], float] = nine_to_ten_tenths


class DeviceNames(NamedTuple):
    """The *domains* of the names of a tailnet's devices, and the names of devices that other tailnets *shared* with it.

    If the name of a device has no domain, there is an empty string in *domains*.
    """

    domains: frozenset[str]
    shared: frozenset[str]


async def count_devices(cache: Cache) -> Metric:
    """Return the metric with the number of devices that proxies have reported in their Secrets."""
    family = GaugeMetricFamily(
        "tsoperator_devices", "Devices of proxies, by the kind of object that asked for them.", labels=["parent"]
    )
    parents, time_slice = Counter[str](), TimeSlice()
    for each in cache.all(SECRET):
        await time_slice.pause()
        if reported_id_of(each):
            owner = owner_of(each)  # only the Secret of the operator's own device has none
            parents[owner.type if owner else PARENT_OPERATOR] += 1
    for parent, count in parents.items():
        family.add_metric([parent], count)
    return family


class Devices:
    """A table of the tailnet's devices.

    The operator reads one list from the control server for all proxies. It does so in the background, so that a
    lookup in the table never waits.
    """

    def __init__(self, tailnet: TailnetClient, pace: ListPace | None = None, time_slice: float = SECONDS) -> None:
        """Make an empty table for the devices of *tailnet*.

        An update of the table blocks the event loop for at most *time_slice* seconds at a time.
        """
        self._tailnet = tailnet
        self._time_slice = time_slice
        self._pace = pace or ListPace()
        self._by_id: dict[str, Device] = {}
        self._ids: dict[str, tuple[str, ...]] = {}  # by name or address; `at` finds the last of several IDs
        self._domains: Counter[str] = Counter()  # of the devices that are this tailnet's own
        self._shared: Counter[str] = Counter()  # the names and addresses of devices that other tailnets share with it
        self._told: DeviceNames | None = None  # the names that the listeners know
        self._name_listeners: list[Callable[[], None]] = []
        self._departed: OrderedDict[str, Device] = OrderedDict()  # by lookup name
        self._written: set[str] = set()  # IDs of devices that were put or dropped since the last read began
        self._listeners: list[Listener] = []
        self._wanted = asyncio.Event()
        self._reading = asyncio.Lock()
        self._spacing = self._pace.first
        self._not_before = 0.0  # the time from which another read of the list is allowed, by the event loop's clock
        self._hurry = asyncio.Event()  # the next read of the list is allowed at once
        self._failure: ControlError | None = None  # the error of the most recent read, if it failed
        self._first_try: asyncio.Future[None] | None = None  # done when the first try to read the list has ended

    def listen(self, listener: Listener) -> None:
        """Call *listener* for each device that is added, is removed, or changes in a field that matters to a proxy."""
        self._listeners.append(listener)

    def listen_to_names(self, listener: Callable[[], None]) -> None:
        """Call *listener* when the result of `names` or of `is_pending` changes."""
        self._name_listeners.append(listener)

    def names(self) -> "DeviceNames | None":
        """Return the names of the devices that the list had at its most recent read; None before the first read."""
        return self._told

    def is_pending(self) -> bool:
        """Tell whether the operator has neither read the list of devices yet nor failed to read it."""
        return self._told is None and self._failure is None

    def first_try(self) -> "asyncio.Future[None]":
        """Request a read of the list of devices.

        Return a future that is done when the list has been read or a try has failed.
        """
        self._wanted.set()
        if self._first_try is None:
            self._first_try = asyncio.get_running_loop().create_future()
        return self._first_try

    def wake(self) -> None:
        """Wake everybody who waits for the future of `first_try`."""
        if self._first_try is not None and not self._first_try.done():
            self._first_try.set_result(None)

    def want_names(self) -> None:
        """Request a read of the list of devices soon, if the list has shown no device of this tailnet so far."""
        if self._told is None or not self._told.domains:
            self._wanted.set()

    def get(self, node_id: str) -> Device | None:
        """Return the device with this ID; None if it isn't in the list of devices.

        If it isn't there, or isn't approved yet, request another read of the list.
        """
        device = self.known(node_id)
        if device is None or not device.authorized:
            self._wanted.set()
        return device

    def known(self, node_id: str) -> Device | None:
        """Return the device with this ID in the list of devices; None if it isn't there. Request no read."""
        return self._by_id.get(node_id)

    def at(self, text: str) -> Device | None:
        """Return the device that has *text* as its MagicDNS name, as the first label of the name, or as its address."""
        return _find(text, lambda name: self._by_id.get(self._ids.get(name, ("",))[-1]))

    def departed(self, text: str) -> Device | None:
        """Return the device that was the last to have this MagicDNS name or address, in the state that it had then.

        Return None if a device has the name or address now.
        """
        return _find(text, self._departed.get)

    def has(self, node_id: str) -> bool:
        """Tell whether the list has the device with this ID as one of this tailnet's own, not as one shared with it."""
        device = self.known(node_id)
        return device is not None and not device.external

    def has_domain_of(self, names: Iterable[str]) -> bool:
        """Tell whether any device of this tailnet has a name in the domain of one of these MagicDNS *names*."""
        return not self._domains.keys().isdisjoint({domain_of(name) for name in names} - {""})

    def lacks_domains_of(self, names: Iterable[str]) -> bool:
        """Tell whether this tailnet has devices, but none with a name in the domain of one of *names*.

        Return False if *names* have no domain.
        """
        domains = {domain_of(name) for name in names} - {""}
        return bool(domains and self._domains) and self._domains.keys().isdisjoint(domains)

    def put(self, device: Device) -> None:
        """Put *device*, which the caller has just changed or read, into the table."""
        self._written.add(device.node_id)
        self._replace(device.node_id, device)

    def drop(self, node_id: str) -> None:
        """Remove a device that has just been deleted."""
        self._written.add(node_id)
        self._replace(node_id, None)

    def announce(self, node_id: str) -> None:
        """Call the listeners as if the device with this ID had changed. Do nothing if it isn't in the list."""
        if (device := self.known(node_id)) is not None:
            for listener in self._listeners:
                listener(device, device)

    async def refresh(self) -> None:
        """Read the list of devices, unless the last read was a few seconds ago. Raises ControlError."""
        async with self._reading:
            if loop_time() >= self._not_before:
                await self._read()
            elif self._failure is not None:
                raise self._failure.with_traceback(None)

    def retry(self) -> None:
        """Read the list of devices at once if the last try failed, because somebody has possibly fixed the cause."""
        if self._failure is not None:
            self._not_before = loop_time()
            self._hurry.set()

    async def follow(self) -> None:
        """Keep the table of devices up to date until cancelled.

        The first read waits until somebody asks for a device.
        """
        await self._wanted.wait()
        while True:
            self._hurry.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._not_before):
                    await self._hurry.wait()
            self._wanted.clear()
            try:
                async with self._reading:
                    await self._read()
            except ControlError:
                self._wanted.set()
            asked = await self._is_wanted()
            self._spacing = min(self._spacing * 2, self._pace.longest) if asked else self._pace.first

    async def _is_wanted(self) -> bool:
        """Wait until it is time for the next read of the list, and return True if somebody asked for the read."""
        try:
            async with asyncio.timeout(self._pace.interval * self._pace.jitter()):
                await self._wanted.wait()
        except TimeoutError:
            return False
        return True

    async def _read(self) -> None:
        self._written.clear()
        try:
            listed = await self._tailnet.devices()
        except ControlError as error:
            self._fail(error)
            raise
        if self._failure is not None:
            log.info("the tailnet's devices can be listed again")
        self._failure = None
        await self._update(listed)
        self._tell_names()
        self.wake()
        self._not_before = loop_time() + self._spacing

    def _fail(self, error: ControlError) -> None:
        """Remember the *error* of a read of the list, and log it if it differs from the error before."""
        denied = isinstance(error, Forbidden)
        if str(error) != str(self._failure):
            hint = "; tags and names of devices are left as they are without the scope devices:core" if denied else ""
            log.warning("the tailnet's devices can't be listed: %s%s", error, hint)
        was_pending, self._failure = self.is_pending(), error
        if was_pending:
            self._call_name_listeners()
        self.wake()
        self._not_before = loop_time() + (self._pace.denied if denied else self._pace.longest)

    async def _update(self, listed: Mapping[str, Device]) -> None:
        """Update the table to *listed*, the devices by node ID.

        If *listed* has the same Python object for a device as the table, the device is unchanged, and there is nothing
        to do for it.
        """
        time_slice = TimeSlice(self._time_slice)
        for node_id in self._by_id.keys() - listed.keys():
            self._correct(node_id, None)
            await time_slice.pause()
        for node_id, device in listed.items():
            if self._by_id.get(node_id) is not device:
                self._correct(node_id, device)
            await time_slice.pause()

    def _tell_names(self) -> None:
        names = DeviceNames(frozenset(self._domains), frozenset(self._shared))
        if names != self._told:
            self._told = names
            self._call_name_listeners()

    def _call_name_listeners(self) -> None:
        for listener in self._name_listeners:
            listener()

    def _correct(self, node_id: str, listed: Device | None) -> None:
        if node_id not in self._written:  # the list may be older than what was written
            self._replace(node_id, listed)

    def _replace(self, node_id: str, new: Device | None) -> None:
        """Replace the device with this ID, and call the listeners if the change matters to a proxy."""
        old = self._by_id.pop(node_id, None)
        if new is not None:
            self._by_id[node_id] = new
        if old is None and new is None:
            return
        self._count(old, -1)
        self._count(new, 1)
        if old is None or new is None or _named(old) != _named(new):
            self._index(node_id, old, new)
        if old is None or new is None or _relevant(old) != _relevant(new):
            for listener in self._listeners:
                listener(old, new)

    def _count(self, device: Device | None, sign: int) -> None:
        """Add *sign* to the number of devices in the domain of *device*.

        If another tailnet shares *device*, add *sign* to the number of shared devices with its name instead.
        """
        if device is None:
            return
        counts = self._shared if device.external else self._domains
        counted = lookup_name(device.name) if device.external else domain_of(device.name)
        counts[counted] += sign
        if not counts[counted]:
            del counts[counted]

    def _index(self, node_id: str, old: Device | None, new: Device | None) -> None:
        """Make the table find the device with this ID by the names and addresses of *new*.

        The table no longer finds the device by other names and addresses of *old*, but remembers them as departed.
        *old* is None if the device is new, and *new* is None if the device is gone.
        """
        found = lookup_names(new) if new else frozenset[str]()
        alone = (node_id,)
        for name in found:
            others = self._others(name, node_id)
            self._ids[name] = (*others, node_id) if others else alone
            self._departed.pop(name, None)
        if old is None:
            return
        for name in lookup_names(old) - found:
            if others := self._others(name, node_id):
                self._ids[name] = others
            else:
                del self._ids[name]
                self._departed[name] = old
        while len(self._departed) > DEPARTED:
            self._departed.popitem(last=False)

    def _others(self, name: str, node_id: str) -> tuple[str, ...]:
        return tuple(each for each in self._ids.get(name, ()) if each != node_id)


def _find(text: str, get: Callable[[str], Device | None]) -> Device | None:
    """Return the device that *text* names; None if there is none. *get* looks up a name in the table."""
    name = lookup_name(text)
    if device := get(name):
        return device
    short = get(name.partition(".")[0])
    return short if short and short.name == short.short_name else None  # Headscale gives only the first label


def _named(device: Device) -> tuple[object, ...]:
    """Return the fields of *device* that decide by which names and addresses the table finds it."""
    return device.name, device.external, device.addresses


def _relevant(device: Device) -> tuple[object, ...]:
    """Return the fields of *device* that matter to a proxy."""
    return *_named(device), device.authorized, frozenset(device.tags)
