"""Claims on labels in any order of events: in the end the tailnet has exactly the claimed Tailscale Services."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pytest
from clustersim import objects
from hypothesis import given, settings
from hypothesis import strategies as st
from tsoperator.api.names import PROXY_GROUP
from tsoperator.api.objects import INGRESS, Object, has_finalizer
from tsoperator.api.owners import joined, left
from tsoperator.group.claims import LabelClaim, claim_of, winner
from tsoperator.kube.errors import AlreadyExists, NotFound
from tsoperator.proxy.hosting import hosted

from tests.operator.reconcilers.tailscaleservice.played import (
    SETTINGS,
    THEM,
    US,
    Scene,
    group,
    new_scene,
    owned,
    reconciling,
)
from tests.support import patient
from tests.support.manifests import ingress, load_balancer
from tests.support.objects import OPERATOR_NAMESPACE

LABELS, GROUPS = ("x", "y"), ("ing", "new")
USERS = {
    "a": ingress("a", "x", proxy_group="ing"),
    "b": ingress("b", "x", proxy_group="new"),
    "c": load_balancer("c", proxy_group="ing", hostname="x"),
}
QUIET = 40.0
"""Seconds after which the reconciler has settled, even if a write has failed."""

Event = Callable[[], Awaitable[object]]


@dataclass
class Orders:
    """A Scene, the events that can happen there, and the labels that another operator uses."""

    scene: Scene
    theirs: set[str] = field(default_factory=set)

    def events(self) -> dict[str, Event]:
        """Return all events by name."""
        found: dict[str, Event] = {"pause": lambda: asyncio.sleep(QUIET)}
        for name, user in USERS.items():
            found[f"make {name}"] = self._made(user)
            found[f"delete {name}"] = self._changed(user, self._deleted)
            found[f"force {name}"] = self._changed(user, self._forced)
            found |= {f"label {name} {label}": self._patched(user, _labelled(user, label)) for label in LABELS}
            found |= {f"move {name} {to}": self._patched(user, _annotated(PROXY_GROUP, to)) for to in (*GROUPS, None)}
            tags = {"spoil": "nonsense", "mend": None, "tag": "tag:other"}
            found |= {
                f"{what} {name}": self._patched(user, _annotated("tailscale.com/tags", tag))
                for what, tag in tags.items()
            }
        for name in GROUPS:
            found[f"lose {name}"] = self._without(name)
            found[f"restore {name}"] = self._made(group(name)[0])
        for label in LABELS:
            found |= {
                f"join {label}": self._theirs(label, joins=True),
                f"leave {label}": self._theirs(label, joins=False),
            }
        return found

    def _made(self, manifest: Object) -> Event:
        async def event() -> None:
            with suppress(AlreadyExists):
                await self.scene.make(manifest)

        return event

    def _changed(self, user: Object, change: Callable[[Object], Awaitable[None]]) -> Event:
        async def event() -> None:
            with suppress(NotFound):
                await change(user)

        return event

    def _patched(self, user: Object, patch: Object) -> Event:
        return self._changed(user, lambda each: self.scene.change(each, patch))

    async def _deleted(self, user: Object) -> None:
        await self.scene.delete(user)

    async def _forced(self, user: Object) -> None:
        await self.scene.delete(user)
        await self.scene.change(user, {"metadata": {"finalizers": None}})

    def _without(self, name: str) -> Event:
        """Return the event that deletes a group, and with it its ConfigMap, as Kubernetes' garbage collector does."""

        async def event() -> None:
            config = {"namespace": OPERATOR_NAMESPACE, "name": f"{name}-ingress-config"}
            for each in (group(name)[0], {"apiVersion": "v1", "kind": "ConfigMap", "metadata": config}):
                with suppress(NotFound):
                    await self.scene.delete(each)

        return event

    def _theirs(self, label: str, *, joins: bool) -> Event:
        """Return the event that another operator begins to use *label*, or ceases to use it unless *joins* is true.

        Our operator writes nothing during the event.
        """

        async def event() -> None:
            await asyncio.sleep(QUIET)
            services, name = self.scene.sim.control.services, f"svc:{label}"
            live = services.present.get(name)
            (self.theirs.add if joins else self.theirs.discard)(label)
            if live is None and joins:
                services.put(owned(name, THEM))
            elif live is not None:
                change = joined if joins else left
                after = replace(live, annotations=change(live.annotations, THEM))
                services.put(after) if joins or self.scene.services[label] != (THEM,) else services.delete(name)

        return event

    def users(self) -> list[Object]:
        """Return the Ingresses and Services in the cluster that claim labels."""
        store = self.scene.sim.store
        found = [*store.list(objects.INGRESS), *store.list(objects.SERVICE)]
        return [each for each in found if each["metadata"]["name"] in USERS]

    def _is_kept(self, claim: LabelClaim) -> bool:
        """Tell whether *claim*, which is invalid, keeps its label because its group has served the label so far."""
        config = self.scene.sim.store.find(objects.CONFIGMAP, OPERATOR_NAMESPACE, f"{claim.group}-ingress-config")
        return claim.may_be_kept and claim.name in hosted(config).names

    def owners(self) -> dict[str, set[str]]:
        """Return the IDs of the operators that should own the Tailscale Service of each label.

        If a label is only reserved, our operator can be an owner, but doesn't have to be. In that case, the result has
        the ID of our operator if our operator is an owner now.
        """
        found: dict[str, set[str]] = {}
        claims = [claim for each in self.users() if (claim := claim_of(each, SETTINGS))]
        there = {each["metadata"]["name"] for each in self.scene.sim.store.list(objects.PROXYGROUP)}
        for label in LABELS:
            on_it = [each for each in claims if each.label == label]
            held = winner(each for each in on_it if each.group in there and (not each.wrong or self._is_kept(each)))
            is_reserved = any(
                each.group not in there or (each.wrong and has_finalizer(each.obj, each.finalizer)) for each in on_it
            )
            ours = {US} if held or (is_reserved and US in self.scene.services.get(label, ())) else set()
            theirs = {THEM} if label in self.theirs else set()
            if ours | theirs:
                found[label] = ours | theirs
        return found


def _labelled(user: Object, label: str) -> Object:
    if user["kind"] == INGRESS.kind:
        return {"spec": {"tls": [{"hosts": [label]}]}}
    return _annotated("tailscale.com/hostname", label)


def _annotated(name: str, value: str | None) -> Object:
    return {"metadata": {"annotations": {name: value}}}


NAMES = sorted(Orders.events(Orders(None)))  # type: ignore[arg-type]


async def remains(names: Sequence[str]) -> None:
    """Let the events called *names* happen, and check the tailnet.

    Then delete all Ingresses and Services, and check it again.
    """
    async with new_scene() as scene:
        await scene.make(*group("ing"), *group("new"))
        async with reconciling(scene):
            orders = Orders(scene)
            events = orders.events()
            for name in names:
                await events[name]()
            await asyncio.sleep(QUIET)
            assert {label: {*owners} for label, owners in scene.services.items()} == orders.owners()
            for user in USERS.values():
                with suppress(NotFound):
                    await scene.delete(user)
            await asyncio.sleep(QUIET)
            assert {label: {*owners} for label, owners in scene.services.items()} == {
                label: {THEM} for label in orders.theirs
            }
            assert (orders.users(), scene.certificates) == ([], {})


ORDERS = {
    "the older claim goes": ["make a", "make b", "pause", "delete a"],
    "a Service takes an Ingress's label": ["make a", "make c", "pause", "label a y"],
    "an invalid claim that was never served": ["make a", "spoil a"],
    "an invalid claim that was served": ["make a", "pause", "spoil a"],
    "an invalid claim of a missing group": ["make a", "pause", "lose ing", "spoil a", "pause", "mend a"],
    "two groups of one label": ["make a", "make b", "pause", "move a new", "lose ing"],
    "forced": ["make a", "pause", "force a", "make b"],
    "shared": ["join x", "make a", "pause", "tag a", "leave x", "join x", "delete a"],
}


@pytest.mark.parametrize("names", ORDERS.values(), ids=ORDERS)
def test_the_tailnet_has_exactly_the_tailscale_services_that_objects_claim(names: list[str]) -> None:
    patient.run(remains(names))


@pytest.mark.thorough
@settings(max_examples=25)
@given(names=st.lists(st.sampled_from(NAMES), max_size=10))
def test_after_any_events_the_tailnet_has_exactly_the_tailscale_services_that_objects_claim(names: list[str]) -> None:
    patient.run(remains(names))
