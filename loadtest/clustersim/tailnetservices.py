"""The Tailscale Services of a tailnet: their addresses, the devices that host them, and which host gets the traffic."""

import ipaddress
import itertools
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Protocol

PREFIX = "svc:"
DO_NOT_VALIDATE = "do-not-validate"
"""The text that a Tailscale Service has in place of its ports if the control server must not check its hosts' ports."""

NOT_APPROVED, APPROVED_BY_TABLE, APPROVED_BY_HAND = "not-approved", "approved:auto", "approved:manual"

_IPV4 = ipaddress.IPv4Address("100.80.0.0")
_IPV6 = ipaddress.IPv6Address("fd7a:115c:a1e0::5000:0")
_NAME = re.compile(r"svc:[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_PORT = re.compile(r"tcp:([1-9]\d{0,4})")


class ServiceError(Exception):
    """The control server refuses a Tailscale Service. The message says why."""


@dataclass(frozen=True, slots=True)
class TailscaleService:
    """A Tailscale Service; *name* begins with ``svc:``, and *addresses* are an IPv4 and an IPv6 address."""

    name: str
    ports: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    comment: str = ""
    display_name: str = ""
    addresses: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The first label of the Service's MagicDNS name."""
        return self.name.removeprefix(PREFIX).lower()


@dataclass(frozen=True, slots=True)
class Host:
    """The report of a device about one Tailscale Service.

    *ports* are those in the device's serve config for the Service, such as ``tcp:443``; None without a serve config.
    *backends* are the URLs and cluster IPs to which the device leads connections. A real device doesn't report them;
    here, a test can read them.
    """

    advertises: bool = True
    ports: frozenset[str] | None = None
    backends: tuple[str, ...] = ()

    def serves(self, service: TailscaleService) -> bool:
        """Tell whether the device's serve config has all ports that the control server requires for *service*."""
        return DO_NOT_VALIDATE in service.ports or set(service.ports) <= (self.ports or set())


class HostDevice(Protocol):
    """The facts about a device that matter for the Services that it hosts."""

    @property
    def connected(self) -> bool:
        """True if the device is connected to the control server."""

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the device."""


class TailscaleServices:
    """The Tailscale Services of one tailnet: *domain* is the domain of its names, and *devices* can host the Services.

    *changed* is called at each change. A test can set two attributes. *approvers* is the table
    ``autoApprovers.services`` of the policy: it maps the name or a tag of a Service to the tags of the devices that are
    allowed to host it. If it is None, every host is approved. If *lists_annotations* is false, the API leaves out the
    annotations when it lists all Services, and shows them only when it is asked for one Service.
    """

    def __init__(
        self, domain: str, devices: Mapping[str, HostDevice], changed: Callable[[], None], first: int = 1
    ) -> None:
        self.approvers: Mapping[str, Collection[str]] | None = None
        self.lists_annotations = True
        self._domain = domain
        self._devices = devices
        self._changed = changed
        self._count = itertools.count(first)
        self._services: dict[str, TailscaleService] = {}
        self._reports: dict[str, Mapping[str, Host]] = {}
        self._approved: set[tuple[str, str]] = set()
        self._primaries: dict[str, str] = {}

    @property
    def present(self) -> Mapping[str, TailscaleService]:
        """The present Services, by name."""
        return MappingProxyType(self._services)

    def at(self, magic_dns_name: str) -> TailscaleService | None:
        """Return the Service with that MagicDNS name; None if there is none."""
        label, _, domain = magic_dns_name.partition(".")
        found = (service for service in self._services.values() if service.label == label)
        return next(found, None) if domain == self._domain else None

    def put(self, service: TailscaleService) -> TailscaleService:
        """Create *service* with two new addresses, or replace the Service with its name and keep the old addresses.

        The caller has to check beforehand that no device has the name. Raises ServiceError.
        """
        check_name(service.name)
        if bad := [port for port in service.ports if port != DO_NOT_VALIDATE and not _is_port(port)]:
            raise ServiceError(f"invalid port {bad[0]!r}")
        old = self._services.get(service.name)
        if service.addresses not in ((), old.addresses if old else ()):
            raise ServiceError("the server chooses the addresses of a Service")
        new = replace(service, addresses=old.addresses if old else self._free_addresses())
        self._services[new.name] = new
        self._settle(new.name)
        self._changed()
        return new

    def delete(self, name: str) -> None:
        """Delete the Service called *name*. Raises KeyError."""
        del self._services[name]
        self._approved = {each for each in self._approved if each[0] != name}
        self._changed()

    def approve(self, name: str, node_id: str) -> None:
        """Approve a device as a host of a Service, as an admin does."""
        self._approved.add((name, node_id))
        self._settle(name)
        self._changed()

    def report(self, node_id: str, hosted: Mapping[str, Host]) -> None:
        """Store the report *hosted* of the device *node_id*, in place of its previous report.

        The report has each Service that the device hosts, by the name of the Service.

        Raises KeyError if the device was deleted.
        """
        if node_id not in self._devices:
            raise KeyError(node_id)
        if (old := self._reports.get(node_id, {})) == hosted:
            return
        self._reports[node_id] = hosted
        for name in {*old, *hosted}:
            self._settle(name)
        self._changed()

    def withdraw(self, node_id: str) -> None:
        """Store that a device advertises no Service any more. Nothing changes if the device was deleted."""
        report = self._reports.get(node_id, {})
        served = {name: replace(host, advertises=False) for name, host in report.items() if host.ports is not None}
        if report:
            self.report(node_id, served)

    def follow(self, node_id: str) -> None:
        """Choose the primary hosts again after a device has changed. If the device was deleted, forget its report."""
        hosted = self._reports.get(node_id, {})
        if node_id not in self._devices:
            self._reports.pop(node_id, None)
        for name in hosted:
            self._settle(name)

    def hosts(self, name: str) -> Mapping[str, Host]:
        """Return the reports of devices about a Service, by node ID."""
        return {node_id: report[name] for node_id, report in self._reports.items() if name in report}

    def approval(self, name: str, node_id: str) -> str:
        """Return the API's word for the approval of the device *node_id* as a host of the Service *name*.

        The words are ``approved:manual``, ``approved:auto`` and ``not-approved``.
        """
        if (name, node_id) in self._approved:
            return APPROVED_BY_HAND
        if self.approvers is None:
            return APPROVED_BY_TABLE
        permitted = {tag for key in (name, *self._services[name].tags) for tag in self.approvers.get(key, ())}
        return NOT_APPROVED if permitted.isdisjoint(self._devices[node_id].tags) else APPROVED_BY_TABLE

    def primary(self, name: str) -> str:
        """Return the node ID of the host that gets the traffic of a Service, or "" if there is none."""
        self._settle(name)
        return self._primaries.get(name, "")

    def backends(self, name: str) -> tuple[str, ...]:
        """Return the backends of the Service's primary host, at which connections to the Service end."""
        primary = self.primary(name)
        return self.hosts(name)[primary].backends if primary else ()

    def names_of_host(self, node_id: str) -> list[str]:
        """Return the MagicDNS names of the Services that a device hosts and is approved for.

        The device is allowed to get certificates for these names, even before it advertises the Services.
        """
        names = [name for name in self._reports.get(node_id, ()) if name in self._services]
        approved = [name for name in names if self.approval(name, node_id) != NOT_APPROVED]
        return [f"{self._services[name].label}.{self._domain}" for name in approved]

    def _settle(self, name: str) -> None:
        """Choose the primary host of a Service anew, unless the present primary host can still serve."""
        good = [node_id for node_id in self.hosts(name) if self._is_good(name, node_id)]
        if self._primaries.get(name, "") not in good:
            self._primaries[name] = next(iter(good), "")

    def _is_good(self, name: str, node_id: str) -> bool:
        service, host = self._services.get(name), self._reports[node_id][name]
        takes_traffic = service is not None and host.advertises and host.serves(service)
        return takes_traffic and self._devices[node_id].connected and self.approval(name, node_id) != NOT_APPROVED

    def _free_addresses(self) -> tuple[str, ...]:
        number = next(self._count)
        return str(_IPV4 + number), str(_IPV6 + number)


def check_name(name: str) -> None:
    """Check the name of a Service. Raises ServiceError."""
    if not _NAME.fullmatch(name):
        raise ServiceError(f"invalid service name {name!r}: it must be {PREFIX} and a DNS label")


def _is_port(text: str) -> bool:
    match = _PORT.fullmatch(text)
    return match is not None and int(match[1]) < 1 << 16
