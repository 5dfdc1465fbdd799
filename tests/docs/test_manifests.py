"""What the pages and examples say to apply is valid, and does what it is for."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tsoperator.api.names import PROXY_CLASS
from tsoperator.api.objects import Object, annotations, key_of
from tsoperator.api.v1alpha1.connector import Connector
from tsoperator.api.v1alpha1.dnsconfig import DNSConfig
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.api.v1alpha1.proxyclass import ProxyClass
from tsoperator.api.v1alpha1.wire import CustomResource

from tests.docs.pages import EXAMPLES, PAGES, manifests, name_of
from tests.support.operator import World, new_world, running_operator

OURS: Mapping[str, type[CustomResource]] = {"Connector": Connector, "DNSConfig": DNSConfig, "ProxyClass": ProxyClass}
CONDITIONS = {"Connector": "ConnectorReady", "DNSConfig": "NameserverReady", "ProxyClass": "ProxyClassReady"}
CLUSTERS = {"v1", "networking.k8s.io/v1", "tailscale.com/v1alpha1"}
"""The APIs that the operator has to do with: pages show manifests for other tools, too."""


def applied(path: Path) -> list[Object]:
    """Return the objects that a page or an example says to apply, with the namespace that kubectl would give them."""
    found = [obj for obj in manifests(path) if obj["apiVersion"] in CLUSTERS]
    for obj in found:
        if obj["kind"] not in OURS:
            obj["metadata"].setdefault("namespace", "default")
    return found


SOURCES = [path for path in (*PAGES, *EXAMPLES) if applied(path)]
every_source = pytest.mark.parametrize("path", SOURCES, ids=name_of)


def asks(obj: Object) -> bool:
    """Tell whether *obj* asks the operator for something."""
    classes = (obj["spec"].get("loadBalancerClass"), obj["spec"].get("ingressClassName"))
    given = any(name.startswith("tailscale.com/") and name != PROXY_CLASS for name in annotations(obj))
    return given or obj["kind"] in OURS or "tailscale" in classes


async def unserved(world: World, objects: Sequence[Object]) -> list[str]:
    """Return which of *objects* don't show yet that they work, and what they say."""
    found = []
    for obj in objects:
        if obj["kind"] == "Ingress":
            entries = ((await world.look(obj)).get("status") or {}).get("loadBalancer", {}).get("ingress")
            said = "" if entries else str(await world.events(obj))
        else:
            condition = await world.condition(obj, CONDITIONS.get(obj["kind"], "TailscaleProxyReady"))
            said = "" if condition and condition.status == "True" else str(condition)
        found += [f"{obj['kind']} {obj['metadata']['name']}: {said}"] if said else []
    return found


async def staying(world: World, objects: Sequence[Object]) -> list[str]:
    """Return which of *objects* are still there."""
    return [str(key_of(obj)) for obj in objects if not await world.gone(obj)]


@every_source
def test_every_object_of_ours_fits_its_model(path: Path) -> None:
    ours = [(OURS[obj["kind"]], obj) for obj in applied(path) if obj["kind"] in OURS]
    parsed = [model.parse({**obj, "metadata": {"uid": "u", **obj["metadata"]}}) for model, obj in ours]
    assert [each.message for each in parsed if isinstance(each, Invalid)] == []


@every_source
async def test_what_is_applied_comes_to_work_and_goes_again(path: Path) -> None:
    objects = applied(path)
    asking = [obj for obj in objects if asks(obj)]
    async with new_world() as world, running_operator(world):
        await world.apply(*objects)
        await world.becomes(lambda: unserved(world, asking), [])
        await world.delete(*reversed(objects))
        await world.becomes(lambda: staying(world, objects), [])
        assert await world.device_names() == []


def test_there_is_something_to_apply() -> None:
    assert {*map(name_of, SOURCES)} >= {"docs/egress.md", "docs/ingress.md", "docs/examples/ingress.yaml"}
