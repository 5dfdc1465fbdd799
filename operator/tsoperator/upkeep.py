"""Keeps the devices of proxies as their parents want them: tags, names; and tells what the tailnet says of them."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from tsoperator.api.objects import SECRET
from tsoperator.desired.advice import approval
from tsoperator.desired.findings import Effect, Finding
from tsoperator.desired.proxy import Children, Proxy, reported_device
from tsoperator.desired.secret import device_of
from tsoperator.desired.statefulset import EgressByFQDN, EgressByIP, replicas
from tsoperator.devices import Devices
from tsoperator.runtime.apply import utc_now
from tsoperator.runtime.cache import Cache
from tsoperator.settings import Settings
from tsoperator.tsclient.advice import trouble
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.errors import ControlError, NotFound, Refused
from tsoperator.tsclient.models import Device

log = logging.getLogger(__name__)

DEAD_FOR: Final = timedelta(minutes=5)
"""How long a device must have been offline for its name to be taken over."""

_CALL = 15.0  # s that a reconcile waits for one thing of the control server
_SOON = 30.0  # s until another look at what may pass by itself
_LATER = 600.0  # s until what the control server refused is asked again: an admin may have changed the policy


@dataclass(frozen=True, slots=True)
class _Failure:
    """What came of asking for *wanted*: not to be asked again before *until*, by the event loop's clock."""

    wanted: object
    finding: Finding
    until: float


class Upkeep:
    """Looks after the devices of proxies.

    Nothing here keeps a reconcile from its work: what fails is told by a finding and tried again later. With *now* the
    time is compared at which the control server last saw a device.
    """

    def __init__(
        self,
        tailnet: TailnetClient,
        devices: Devices,
        cache: Cache,
        settings: Settings,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._tailnet = tailnet
        self._devices = devices
        self._cache = cache
        self._settings = settings
        self._now = now
        self._failures: dict[tuple[str, str], _Failure] = {}

    async def look_after(self, proxy: Proxy, children: Children) -> list[Finding]:
        """Make the devices of *proxy* right as far as they are known, and return what there is to tell."""
        found: list[Finding | None] = []
        for ordinal in range(replicas(proxy.target)):
            hostname = proxy.config_of(ordinal).hostname
            reported = reported_device(children, ordinal)
            if reported is None:
                found.append(await self._make_way(hostname, proxy.tags))
            elif reported.id and (device := self._devices.get(reported.id)):
                found += [_unapproved(device), await self._tag(device, proxy.tags)]
                found.append(await self._reclaim(device, hostname, proxy))
        return [*filter(None, found), *self._destination(proxy, children)]

    async def _tag(self, device: Device, tags: Sequence[str]) -> Finding | None:
        """Give *device* the *tags*, if it has others."""
        if set(device.tags) == set(tags):
            self._failures.pop((device.node_id, "tags"), None)
            return None

        async def change() -> Finding:
            await self._tailnet.set_tags(device.node_id, tags)
            self._devices.put(replace(device, tags=tuple(tags)))
            log.info("device %s has the tags %s now", device.name, _listed(tags))
            return Finding(Effect.NEWS, "TagsChanged", f"device {device.name} has {_change(device.tags, tags)}")

        failed = f"device {device.name} keeps the tags {_listed(device.tags)}: it could not be given {_listed(tags)}"
        return await self._attempt(
            (device.node_id, "tags"), tuple(tags), change, Finding(Effect.FAILED, "TagsRefused", failed)
        )

    async def _make_way(self, hostname: str, tags: Sequence[str]) -> Finding | None:
        """Before a new proxy asks for *hostname*: delete the dead device that has that name."""
        if not self._settings.take_over_names:
            return None

        async def change() -> Finding | None:
            await self._devices.refresh()
            holder = self._devices.at(hostname)
            found = await self._remove(holder, hostname, tags) if holder else None
            return found if found and found.effect == Effect.NEWS else None  # else told when it has another name

        words = f"the name {hostname} may be that of a dead device, which could not be looked for"
        return await self._attempt(("", hostname), "", change, Finding(Effect.WARNING, "NameNotTakenOver", words))

    async def _reclaim(self, device: Device, hostname: str, proxy: Proxy) -> Finding | None:
        """Give *device*, which got another name since *hostname* was taken, that name if it is free or can be freed."""
        shared = replicas(proxy.target) > 1 and not proxy.hostname_prefix  # all but one of them have a number
        if shared or not (self._settings.take_over_names and _is_second(device, hostname)):
            return None

        async def change() -> Finding | None:
            holder = self._devices.at(hostname)
            found = await self._remove(holder, hostname, proxy.tags) if holder else None
            if found is not None and found.effect != Effect.NEWS:
                return found
            renamed = await self._rename(device, hostname)
            log.info("%s", renamed)
            words = "; ".join([found.message, renamed] if found else [renamed])
            return Finding(Effect.NEWS, "NameTakenOver", words)

        words = f"device {device.name} could not be given the name {hostname}"
        failed = Finding(Effect.NOTICE, "NameNotTakenOver", words)
        return await self._attempt((device.node_id, "name"), hostname, change, failed)

    async def _remove(self, holder: Device, hostname: str, tags: Sequence[str]) -> Finding | None:
        """Delete *holder*, which has the name *hostname*, if it is dead; a notice says why not. None if it is gone."""
        if not (why := self._why_kept(holder, tags)):
            try:
                live = await self._tailnet.device(holder.node_id)  # a list is seconds old, or minutes
            except NotFound:
                self._devices.drop(holder.node_id)
                return None
            self._devices.put(live)
            why = self._why_kept(live, tags)
        if why:
            words = f"the name {hostname} is held by device {holder.name} ({holder.node_id}), which {why}"
            again = "to have it, delete that device or choose another hostname"
            return Finding(Effect.NOTICE, "NameHeld", f"{words}; {again}", _LATER)
        await self._tailnet.delete_device(holder.node_id)
        self._devices.drop(holder.node_id)
        words = f"device {holder.name} ({holder.node_id}), which was offline, was deleted for its name {hostname}"
        log.info("%s", words)
        return Finding(Effect.NEWS, "NameTakenOver", words)

    def _why_kept(self, holder: Device, tags: Sequence[str]) -> str:
        """Say why *holder* must not be deleted; empty if it is dead and like a proxy with *tags*."""
        if any(device_of(secret, None).id == holder.node_id for secret in self._cache.all(SECRET)):
            return "is another proxy of this cluster"
        if set(holder.tags) != set(tags):
            return f"has other tags: {_listed(holder.tags)}"
        if holder.connected is None:
            return "may be in use: this control server does not tell whether devices are online"
        if holder.connected or holder.last_seen is None:
            return "is online"
        if self._now() - holder.last_seen < DEAD_FOR:
            return f"has been online in the last {DEAD_FOR.seconds // 60} minutes"
        return ""

    async def _rename(self, device: Device, hostname: str) -> str:
        """Give *device* the name *hostname*, and say so."""
        await self._tailnet.set_name(device.node_id, "")  # not by its name, or it wouldn't follow the hostname any more
        renamed = await self._tailnet.device(device.node_id)
        if renamed.short_name != hostname.lower():
            await self._tailnet.set_name(device.node_id, hostname)
            renamed = await self._tailnet.device(device.node_id)
        self._devices.put(renamed)
        return f"device {device.name} has the name {renamed.name} now"

    async def _attempt(
        self, about: tuple[str, str], wanted: object, change: Callable[[], Awaitable[Finding | None]], failed: Finding
    ) -> Finding | None:
        """Return what *change* finds, or *failed* with the reason; what has failed is left alone for a while."""
        now = asyncio.get_running_loop().time()
        self._failures = {key: each for key, each in self._failures.items() if now < each.until}
        last = self._failures.get(about)
        if last is not None and last.wanted == wanted:
            return _after(last.finding, last.finding.message, last.until - now)
        try:
            async with asyncio.timeout(_CALL):
                return await change()
        except NotFound:
            return None  # it has gone: the next list says so
        except (ControlError, TimeoutError) as error:
            why = trouble(error).message or f"the control server did not answer within {_CALL:g} s"
            finding = _after(failed, f"{failed.message}: {why}", _LATER if isinstance(error, Refused) else _SOON)
            log.warning("%s", finding.message)
            self._failures[about] = _Failure(wanted, finding, now + (finding.again or 0))
            return finding

    def _destination(self, proxy: Proxy, children: Children) -> Iterable[Finding]:
        """Tell whether the device that an egress *proxy* leads to is not there any more."""
        match proxy.target:
            case EgressByFQDN(text) | EgressByIP(text):
                name = text.removesuffix(".")
            case _:
                return
        if self._devices.at(name) is not None:
            return
        if gone := self._devices.departed(name):
            yield Finding(Effect.NOTICE, "TargetGone", _moved(name, gone, self._devices.known(gone.node_id)))
        elif _is_stuck(children):
            words = (
                f"the proxy finds no device {name} in the tailnet: check the name, that the device is there, and that "
                f"the tailnet's policy lets {_listed(proxy.tags)} reach it"
            )
            yield Finding(Effect.NOTICE, "TargetNotFound", words)


def _unapproved(device: Device) -> Finding | None:
    if device.authorized:
        return None
    return Finding(Effect.PENDING, "DeviceApprovalNeeded", approval(device.name), _SOON)


def _is_second(device: Device, hostname: str) -> bool:
    """Tell whether *device* asked for *hostname* and got it with a number, since somebody else had it."""
    label = hostname.lower()
    return device.hostname.lower() == label and bool(
        re.fullmatch(rf"{re.escape(label)}-\d+", device.short_name.lower())
    )


def _is_stuck(children: Children) -> bool:
    """Tell whether the proxy has a device but ends again and again before it reports its name (13.3, IMG 1)."""
    reported = reported_device(children, 0)
    statuses = [each for pod in children.pods for each in (pod.get("status") or {}).get("containerStatuses") or ()]
    restarted = any(each.get("restartCount", 0) for each in statuses)
    return restarted and reported is not None and bool(reported.id) and not reported.fqdn


def _moved(name: str, gone: Device, now: Device | None) -> str:
    if now is None:
        return f"device {name}, to which this leads, is not in the tailnet any more: bring it back, or name another"
    if name in gone.addresses:
        return f"device {now.name} does not have the address {name} any more: name {' or '.join(now.addresses)} instead"
    return f"device {name} has another name now: name {now.name} instead"


def _after(finding: Finding, message: str, seconds: float) -> Finding:
    return Finding(finding.effect, finding.reason, message, seconds)


def _change(old: Sequence[str], new: Sequence[str]) -> str:
    return f"the tags {_listed(new)} now, and had {_listed(old)}"


def _listed(tags: Iterable[str]) -> str:
    return ", ".join(sorted(tags)) or "none"
