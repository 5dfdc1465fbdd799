"""A ProxyGroup, its Service, its tailnet and the operator are created in any order: the world ends up the same."""

import re
from base64 import b64decode
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tsoperator.api import objects
from tsoperator.api.objects import Key
from tsoperator.dns.canary import CANARY_PREFIX
from tsoperator.kube.errors import NotFound

from tests.operator.contract.kind import KindExample, has_reason
from tests.operator.contract.scene import Scene
from tests.operator.groupsteps import GRACE
from tests.support import patient
from tests.support.manifests import credentials, dnsconfig, group_egress, proxy_group, tailnet
from tests.support.operator import NAMESPACE, World, new_world, running_operator
from tests.support.othertailnet import OtherTailnet, other_tailnet

MADE = (
    objects.SERVICE,
    objects.STATEFULSET,
    objects.SECRET,
    objects.CONFIGMAP,
    objects.ENDPOINTSLICE,
    objects.SERVICEACCOUNT,
    objects.ROLE,
    objects.ROLEBINDING,
)
SERVICE_OF_GROUP = group_egress("kind-served", "kind-group", "target.tail5678.ts.net")
SERVED = KindExample(
    SERVICE_OF_GROUP, has_reason("TailscaleEgressSvcReady", "ReadyToRouteTraffic"), children=dict.fromkeys(MADE, ())
)
GROUP = KindExample(proxy_group("kind-group", tailnet="other"), has_reason("ProxyGroupReady", "ProxyGroupReady"))
OTHER = KindExample(tailnet(), has_reason("TailnetReady", "TailnetValid"))
KINDS = (SERVED, GROUP, OTHER)


def events(world: World, other: OtherTailnet, running: AsyncExitStack) -> dict[str, Callable[[], Awaitable[object]]]:
    """Return a map from the name of each event to the function that lets it happen. Each event happens once."""

    async def join() -> None:
        world.peer("target", other.control)

    async def lose() -> None:
        with suppress(NotFound):
            await world.api.delete(objects.POD, Key(NAMESPACE, "kind-group-0"))

    keys = {"client_id": other.control.client_id, "client_secret": other.control.client_secret}
    return {
        "operator": lambda: running.enter_async_context(running_operator(world, move_grace=GRACE, newcomer_wait=GRACE)),
        "Service": lambda: world.apply(SERVED.manifest),
        "group": lambda: world.apply(GROUP.manifest),
        "Tailnet": lambda: world.apply(tailnet(login_url=other.url)),
        "Secret": lambda: world.apply(credentials(**keys)),
        "target": join,
        "DNSConfig": lambda: world.apply(dnsconfig()),
        "Pod": lose,
    }


USUAL = ("target", "DNSConfig", "Secret", "Tailnet", "operator", "group", "Service", "Pod")
MOST_UNUSUAL = tuple(f"{name}*" for name in reversed(USUAL))


async def portrait(order: Sequence[str]) -> list[str]:
    """Let the events happen in this *order* in a new world, and return the portrait of the world as sorted lines.

    After an event whose name ends with a star, wait until the operator has settled.
    """
    async with new_world() as world, other_tailnet(world) as other, AsyncExitStack() as running:
        scenes = [Scene(world, kind) for kind in KINDS]
        happening = events(world, other, running)
        for name in order:
            await happening[name.rstrip("*")]()
            if name.endswith("*"):
                await world.settled()
        for scene in scenes:
            await world.eventually(scene.is_ready)
        await world.settled()
        devices = [f"device {each.name} {each.tags}" for each in other.control.devices.values()]
        return sorted([*devices, *alike("\n".join(scene.portrait() for scene in scenes))])


def alike(text: str) -> Iterator[str]:
    """Yield the lines of a portrait, without the names and numbers that differ between two equal worlds."""
    text = re.sub('"egress-services": "([^"]*)"', lambda found: b64decode(found[1]).decode(), text)
    text = re.sub("ts-kind-served-[a-z0-9]{5}", "PROXY", text)
    text = re.sub(f"{CANARY_PREFIX}[0-9a-f]+", "CANARY", text)
    text = re.sub(r"http://ADDRESS:\d+|\b1\d{4}\b|[0-9a-f]{64}", "...", text)  # control servers, ports, digests
    text = re.sub(r'"conditions": \[({"message".*?})\]', lambda found: f"{sorted(re.findall('{.*?}', found[1]))}", text)
    yield from (line for line in text.splitlines() if "endpointslice-controller" not in line)


@cache
def usual() -> list[str]:
    """Return the portrait after the events in the usual order, which the documentation tells users."""
    return patient.run(portrait(USUAL))


def test_the_world_ends_up_the_same_with_the_reverse_order_of_creations() -> None:
    assert patient.run(portrait(MOST_UNUSUAL)) == usual()


@pytest.mark.thorough
@pytest.mark.timeout(1800)
@settings(max_examples=200 if settings.get_current_profile_name() == "soak" else 20)
@given(st.permutations(USUAL), st.lists(st.sampled_from(["", "*"]), min_size=len(USUAL), max_size=len(USUAL)))
def test_the_world_ends_up_the_same_whatever_the_order_of_creations(order: list[str], waits: list[str]) -> None:
    assert patient.run(portrait([name + wait for name, wait in zip(order, waits, strict=True)])) == usual()
