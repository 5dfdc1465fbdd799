"""Thousands of egress Services: with the proxies of an earlier operator, or without proxies on a rebuilt cluster.

Our operator makes the first proxy, even if a test is about the Go operator. The other proxies are copies of the first
one under other names. The copies lack our digest, because it would be wrong in them; objects of the Go operator lack
it, too. So the first start of our operator on the copies adds the digests, and the second start has nothing to write.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from uuid import uuid4

from clustersim import objects as kinds
from clustersim.control import Control, Device
from clustersim.tailnet import NewKey
from tsoperator.api.names import ANNOTATION_DIGEST
from tsoperator.api.objects import Object

from tests.support.manifests import DOMAIN, egress
from tests.support.operator import World, new_world, running_operator

TAG = "tag:k8s"
"""The tag of proxies' devices."""

_KINDS = (kinds.SERVICE, kinds.SECRET, kinds.STATEFULSET, kinds.POD, kinds.ENDPOINTSLICE)


@dataclass(frozen=True, slots=True)
class Original:
    """The first egress Service: the objects of the Service and of its proxy, and the proxy's device."""

    objects: list[tuple[kinds.Resource, Object]]
    device: Device
    control_url: str

    @property
    def pod_ips(self) -> list[str]:
        """The addresses of the Pod of the first egress Service."""
        (pod,) = (obj for kind, obj in self.objects if kind == kinds.POD)
        return [entry["ip"] for entry in pod["status"]["podIPs"]]


def service(number: int) -> Object:
    """Return the egress Service with this *number*."""
    return egress(_name(number), f"{target(number)}.{DOMAIN}")


def target(number: int) -> str:
    """Return the hostname of the device to which the egress Service with this *number* leads."""
    return f"target-{_name(number)}"


def hostname(number: int) -> str:
    """Return the hostname of the proxy of the egress Service with this *number*."""
    return f"default-{_name(number)}"


def join(control: Control, hostnames: list[str], tag: str = TAG) -> list[Device]:
    """Let devices with *hostnames* and with *tag* join the tailnet of *control*, and return them."""
    key = control.create_key(NewKey((tag,), reusable=True)).key
    return [control.register(key, each) for each in hostnames]


async def original() -> Original:
    """Return the first Service with the proxy that our operator makes for it, on a separate cluster."""
    async with new_world() as world, running_operator(world):
        await world.apply(service(0))
        await world.eventually(lambda: world.proxy(service(0)))
        await world.settled()
        found = [(kind, obj) for kind in _KINDS for obj in world.store.list(kind) if _name(0) in str(obj["metadata"])]
        (device,) = world.control.devices.values()
        return Original([(kind, _open(obj)) for kind, obj in found], device, world.control_url)


async def plant(world: World, count: int) -> None:
    """Put *count* Services with their proxies and devices into *world*."""
    first = await original()
    devices = join(world.control, [hostname(number) for number in range(count)])
    for number, device in enumerate(devices):
        copied = _copier(first, number, device, world.control_url)
        for kind, obj in first.objects:
            world.store.adopt(kind, _closed(copied(obj)))


def rebuild(world: World, count: int, offline: float) -> None:
    """Put *count* Services without proxies into *world*, as on a cluster that was rebuilt.

    The devices of their earlier proxies are still in the tailnet. They went offline *offline* seconds ago.
    """
    for device in join(world.control, [hostname(number) for number in range(count)]):
        world.control.disconnect(device.node_id, offline)
    for number in range(count):
        world.store.create(kinds.SERVICE, service(number))


def _name(number: int) -> str:
    return f"db-{number:05}"


def _copier(first: Original, number: int, device: Device, control_url: str) -> Callable[[Any], Any]:
    """Return a function that turns an object of the first Service into the same object of Service *number*."""
    words = {
        _name(0): _name(number),
        first.control_url: control_url,
        first.device.node_id: device.node_id,
        **dict(zip(first.device.addresses, device.addresses, strict=True)),
        **{obj["metadata"]["uid"]: str(uuid4()) for _, obj in first.objects},
        **{ip: str(ip_address(ip) + number) for ip in first.pod_ips},
    }
    pattern = re.compile("|".join(map(re.escape, sorted(words, key=len, reverse=True))))
    return lambda value: _copy(value, pattern, words)


def _copy(value: Any, pattern: re.Pattern[str], words: Mapping[str, str]) -> Any:
    """Return *value* with each key of *words* replaced by its value. Parts without such keys are shared, not copied."""
    match value:
        case str():
            new: Any = pattern.sub(lambda match: words[match[0]], value)
        case dict():
            new = {name: _copy(each, pattern, words) for name, each in value.items()}
        case list():
            new = [_copy(each, pattern, words) for each in value]
        case _:
            return value
    return value if new == value else new


def _open(obj: Object) -> Object:
    """Return *obj* without our digest and, if it is a Secret, with its data decoded."""
    annotations = {**(obj["metadata"].get("annotations") or {})}
    annotations.pop(ANNOTATION_DIGEST, None)
    opened = {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}
    if obj["kind"] == kinds.SECRET.kind:
        opened["data"] = {name: b64decode(value).decode() for name, value in obj["data"].items()}
    return opened


def _closed(obj: Object) -> Object:
    if obj["kind"] != kinds.SECRET.kind:
        return obj
    return {**obj, "data": {name: b64encode(value.encode()).decode() for name, value in obj["data"].items()}}
