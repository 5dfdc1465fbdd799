"""The Scene, in which a test of the contract creates, changes and deletes an object of one kind.

The test compares portraits: texts that describe the object, its children and its devices.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from clustersim.objects import RESOURCES
from clustersim.objects import Resource as SimResource
from clustersim.tailnet import Device
from clustersim.tailnetservices import TailscaleService
from tsoperator.api.names import (
    ANNOTATION_DIGEST,
    CONDITION_CLUSTER_DNS_READY,
    CONDITION_PROXYGROUP_READY,
    LABEL_PARENT_NAME,
    LABEL_PARENT_TYPE,
    PARENT_PROXYGROUP,
)
from tsoperator.api.objects import EVENT, POD, PROXYGROUP, SECRET, Key, Object, Resource, key_of, labels, uid

from tests.operator.contract.kind import Edit, KindExample
from tests.support.objects import obj as manifest
from tests.support.operator import NAMESPACE, Proxy, World

_OWN = {  # fields that differ between two worlds even if all else is alike
    "uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "lastTransitionTime", "nodePort",
    "observedGeneration", "deployment.kubernetes.io/revision", ANNOTATION_DIGEST, "AuthKey", "clusterIPs",
    "healthCheckNodePort",
}  # fmt: skip
_ADDRESS = re.compile(r"\b(\d+\.\d+\.\d+\.\d+|[0-9a-f]{1,4}(:[0-9a-f]{0,4}){2,7})\b")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_GROUP_PORT = re.compile(r'(?<=ort": )10\d{3}\b')
_CANARY = re.compile(r"_nameserver-[0-9a-f]+")
_SERIAL = re.compile(r'\\"serial\\": ?\d+')


@dataclass
class Scene:
    """A world with an operator, and in it the object of one kind with its children and devices."""

    world: World
    kind: KindExample
    furniture: set[tuple[str, Key]] = field(init=False)
    neighbours: set[str] = field(init=False)
    others_services: set[str] = field(init=False)
    shared: list[str] = field(init=False)
    keys_before: int = 0

    def __post_init__(self) -> None:
        self.furniture = {(obj["kind"], key_of(obj)) for obj in self._everything()}
        self.neighbours = {*self.world.control.devices}
        self.others_services = {*self.world.control.services.present}
        self.shared = self._shared()

    @property
    def obj(self) -> Object:
        return self.kind.manifest

    async def prepare(self) -> None:
        """Create the other objects that the kind needs, and wait until the running operator has settled."""
        await self.apply(*self.kind.beside)
        for group in self.kind.beside:
            if group["kind"] == PROXYGROUP.kind:
                condition = partial(self.world.reason, group, CONDITION_PROXYGROUP_READY)
                await self.world.becomes(condition, CONDITION_PROXYGROUP_READY)
        await self.world.settled()
        self.keys_before = len(self.world.control.keys)

    @property
    def devices(self) -> list[Device]:
        """The devices of the object, without earlier devices and the devices of a ProxyGroup that the object needs."""
        others = tuple(f"{key_of(obj).name}-" for obj in self.kind.beside if obj["kind"] == PROXYGROUP.kind)
        new = (each for node, each in self.world.control.devices.items() if node not in self.neighbours)
        return [each for each in new if not each.name.startswith(others)]

    @property
    def services(self) -> list[TailscaleService]:
        """The Tailscale Services of the object, without those that were there before the object."""
        present = self.world.control.services.present
        return [service for name, service in present.items() if name not in self.others_services]

    @property
    def node_ids(self) -> list[str]:
        return [each.node_id for each in self.devices]

    @property
    def keys_made(self) -> int:
        """The number of auth keys that were minted for the object."""
        return len(self.world.control.keys) - self.keys_before

    async def apply(self, *objects: Object) -> None:
        """Create *objects*. These writes succeed even while a simulated API server has faults that fail writes."""
        for obj in objects:
            if sim := self.world.simulation:
                sim.store.create(_simulated(obj), obj)
            else:
                await self.world.apply(obj)

    async def change(self, obj: Object, patch: Object) -> None:
        if sim := self.world.simulation:
            sim.store.merge(_simulated(obj), *key_of(obj), patch)
        else:
            await self.world.change(obj, patch)

    async def delete(self, *objects: Object) -> None:
        for obj in objects:
            if sim := self.world.simulation:
                sim.store.delete(_simulated(obj), *key_of(obj))
            else:
                await self.world.delete(obj)

    async def restored(self, *children: Object) -> None:
        """Wait until the operator has created the deleted *children* again, and let a Pod fill the Secrets among them.

        Children that are named after a MagicDNS name are the last to return, because the operator reads this name in
        the state Secret of the Pod.
        """
        named = [child for child in children if "." in key_of(child).name]
        for part in ([child for child in children if child not in named], named):
            for child in part:
                await self.world.eventually(partial(self.is_another, child))
            if any(child["kind"] == SECRET.kind for child in part):
                await self._fill()

    async def _fill(self) -> None:
        """Delete the Pod that writes certificates into child Secrets, because its successor writes them again at once.

        Do nothing if the kind has no such Pod.
        """
        if self.kind.filler:
            await self.world.eventually(partial(self.world.find, POD, self.kind.filler.name))
            await self.delete(manifest(POD, self.kind.filler))

    async def make(self) -> str:
        """Create the object, wait until all its children are made, and return the portrait."""
        await self.apply(self.obj)
        return await self.whole()

    async def whole(self) -> str:
        """Wait until the object is complete and the operator has settled, and return the portrait."""
        await self.world.becomes(self.missing, [])
        await self.world.settled()
        await self.world.becomes(self.missing, [])
        return self.portrait()

    async def becomes(self, portrait: str) -> None:
        """Wait until the portrait equals *portrait* again."""

        async def difference() -> list[str]:
            lines = [text.splitlines() for text in (portrait, self.portrait())]
            only = [[line for line in one if line not in other] for one, other in (lines, lines[::-1])]
            return [*(f"- {line}" for line in only[0]), *(f"+ {line}" for line in only[1])]

        await self.world.becomes(difference, [])
        await self.whole()

    async def edit_all(self) -> str:
        """Make each edit after the previous edit has taken effect, and return the portrait after the last edit."""
        for name, edit in self.kind.edits.items():
            assert not await self.shows(edit.shows)
            pods, devices = self._pods(), set(self.node_ids)
            await self.change(self.obj, edit.patch)
            await self.becomes_visible(edit)
            await self.whole()
            if self.kind.devices:
                assert (self._pods() != pods, set(self.node_ids)) == (edit.restarts, devices), name
        return self.portrait()

    async def becomes_visible(self, edit: Edit) -> None:
        await self.world.eventually(lambda: self.shows(edit.shows))

    async def take_back(self, patch: Object) -> None:
        """Undo *patch*: set the fields that it changed to the values of the manifest again."""

        def back(there: Any, was: Any) -> Any:
            both = isinstance(there, dict) and isinstance(was, dict)
            return {name: back(value, was.get(name)) for name, value in there.items()} if both else was

        await self.change(self.obj, back(patch, self.obj))

    async def end(self) -> None:
        await self.delete(self.obj)
        await self.world.becomes(self.left, [])

    async def shows(self, words: str) -> bool:
        live = self.live() or {}
        return words in self._drawn({"status": live.get("status")})

    async def is_ready(self) -> bool:
        live = self.live()
        return live is not None and self.kind.is_ready(live)

    async def missing(self) -> list[str]:
        """Return a phrase for each reason why the object isn't complete, such as a wrong number of devices."""
        found = {obj["kind"] for obj in self._made()}
        keys = [Proxy({}, {}, secret, {}) for secret in self.children(SECRET)]
        facts = {
            "it is not ready": await self.is_ready(),
            f"children: {sorted(found)}": {resource.kind for resource in self.kind.children} <= found,
            "it tells of another generation": await self.is_current(),
            f"{len(self.devices)} devices": len(self.devices) == self.kind.devices,
            "an auth key is unused": not any(secret.holds_auth_key for secret in keys),
        }
        return [words for words, good in facts.items() if not good]

    async def left(self) -> list[str]:
        """Return the leftovers of the object.

        These are objects with its name in them, its devices, its Tailscale Services, and changed shared objects.
        """
        there = [f"{obj['kind']} {key_of(obj)}" for obj in self._everything() if self.kind.name in json.dumps(obj)]
        changed = [text for text in self._shared() if text not in self.shared]
        services = [each.name for each in self.services]
        return [*there, *(device.name for device in self.devices), *services, *changed]

    def live(self) -> Object | None:
        return next(self._named(self.obj), None)

    def _named(self, named: Object) -> Iterator[Object]:
        """Yield the object in the cluster that has the kind and the key of *named*, if there is one."""
        return (obj for obj in self._everything() if (obj["kind"], key_of(obj)) == (named["kind"], key_of(named)))

    def children(self, resource: Resource) -> list[Object]:
        return [obj for obj in self._made() if obj["kind"] == resource.kind]

    async def told(self, words: str, *reasons: str) -> None:
        """Wait until, for each of *reasons*, a condition or Event has *words*, and our conditions are up to date."""
        for reason in reasons:
            await self.world.eventually(partial(self.says, words, reason))
        await self.world.becomes(self.is_current, True)

    async def is_current(self) -> bool:
        """Tell whether our conditions are up to date: the generation in each is the object's current generation.

        On an object of a kind of Kubernetes, our conditions must have no generation. The condition ClusterDNSReady
        isn't compared, because it can keep an earlier generation.
        """
        live = self.live() or {"metadata": {}}
        wanted = live["metadata"].get("generation") if self.kind.resource.is_custom else None
        ours = [each for each in conditions(live) if each["type"].endswith("Ready")]
        seen = {each.get("observedGeneration") for each in ours if each["type"] != CONDITION_CLUSTER_DNS_READY}
        return seen <= {wanted}

    def child(self, resource: Resource) -> Object:
        live = self.live()
        assert live is not None
        name = self.kind.child_name(live, resource)
        return next(obj for obj in self.children(resource) if key_of(obj).name == name)

    async def is_another(self, child: Object) -> bool:
        return [uid(obj) for obj in self._named(child)] not in ([], [uid(child)])

    def said(self) -> list[tuple[str, str]]:
        """Return the reasons and messages of the object's conditions and Events."""
        told = [(each["reason"], each["message"]) for each in conditions(self.live() or {})]
        return [*told, *self.events()]

    def events(self) -> list[tuple[str, str]]:
        live = self.live()
        found = (event for event in self._everything(EVENT) if live and event["involvedObject"].get("uid") == uid(live))
        return [(event["reason"], event["message"]) for event in found]

    async def says(self, words: str, reason: str = "") -> bool:
        return any(words in message and reason in ("", why) for why, message in self.said())

    def portrait(self) -> str:
        """Return a line for each object and device, without values that differ even between worlds that are alike."""
        live = self.live()
        text = self._drawn(*([live] if live else []))
        text = text.replace(uid(live), "UID") if live else text
        text = re.sub(rf"ts-{self.kind.name}-[a-z0-9]{{5}}", "PROXY", text)
        text = text.replace(self.world.control_url, "CONTROL")
        text = _GROUP_PORT.sub("PORT", text)
        text = _CANARY.sub("CANARY", text)
        return _SERIAL.sub("", _ADDRESS.sub("ADDRESS", _UID.sub("ANOTHER", text)))

    def running(self) -> str:
        """Return the portrait of the children and devices, with the uids of the Pods, and without the object itself."""
        return "\n".join([self._drawn(), *self._pods()])

    def _pods(self) -> list[str]:
        return sorted(uid(pod) for pod in self._everything(POD) if "nameserver" not in key_of(pod).name)

    def _drawn(self, *besides: Object) -> str:
        """Return a portrait.

        It has a line for each child, device, Tailscale Service, shared object, and each of *besides*.
        """
        lines = [json.dumps(_without_own(_opened(obj)), sort_keys=True) for obj in [*besides, *self._made()]]
        devices = [
            f"device {each.name} {each.tags} {each.advertised_routes} {each.app_connector}" for each in self.devices
        ]
        services = [f"{each.name} {sorted(each.ports)} {sorted(each.tags)}" for each in self.services]
        return "\n".join(sorted([*lines, *devices, *services, *self._shared()]))

    def _shared(self) -> list[str]:
        """Return the data of the objects of other owners into which the operator writes."""
        wanted = {(resource.kind, key) for resource, key in self.kind.shared}
        return [json.dumps(obj["data"]) for obj in self._everything() if (obj["kind"], key_of(obj)) in wanted]

    def _made(self) -> list[Object]:
        """Return the object's children: those objects of the expected kinds that are newer than this Scene."""
        resources = [resource.kind for resource in self.kind.children]
        beside = {(obj["kind"], key_of(obj)) for obj in self.kind.beside}
        groups = {(PARENT_PROXYGROUP, key.name) for kind, key in beside if kind == PROXYGROUP.kind}
        return [
            obj
            for obj in self._everything()
            if obj["kind"] in resources
            and key_of(obj).namespace in ("", NAMESPACE)
            and (obj["kind"], key_of(obj)) not in self.furniture | beside
            and (labels(obj).get(LABEL_PARENT_TYPE), labels(obj).get(LABEL_PARENT_NAME)) not in groups
        ]

    def _everything(self, *kinds: Resource) -> Iterator[Object]:
        """Yield the objects of the given *kinds*. Without kinds, yield all objects except Events."""
        wanted = {each.kind for each in kinds} or {each.kind for each in RESOURCES} - {EVENT.kind}
        for resource in RESOURCES:
            yield from self.world.store.list(resource) if resource.kind in wanted else ()


def conditions(obj: Object) -> Sequence[Object]:
    return (obj.get("status") or {}).get("conditions") or ()


def _simulated(obj: Object) -> SimResource:
    """Return the simulated cluster's resource for the kind of *obj*."""
    return next(resource for resource in RESOURCES if resource.kind == obj["kind"])


def _opened(obj: Object) -> Object:
    """Return *obj* as a portrait shows it, with decoded configurations.

    The status of a child and most of the state of a proxy are left out.
    """
    if obj.get("kind") != SECRET.kind:
        return obj if "kind" not in obj or key_of(obj).namespace != NAMESPACE else {**obj, "status": None}
    state = Proxy({}, {}, obj, {}).state
    config = {name: json.loads(text) for name, text in state.items() if name.endswith("hujson")}
    kept = {name: state.get(name) for name in ("serve-config", "device_fqdn")}
    return {**obj, "data": {**config, **kept, "authkey": "authkey" in state}}


def _without_own(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _without_own(each)
            for name, each in value.items()
            if name not in _OWN or value.get("blockOwnerDeletion")
        }
    if not isinstance(value, list):
        return value
    if all(isinstance(each, dict) and {"type", "status"} <= each.keys() for each in value):
        value = sorted(value, key=lambda each: each["type"])  # conditions, whose order doesn't matter
    return [_without_own(each) for each in value]
