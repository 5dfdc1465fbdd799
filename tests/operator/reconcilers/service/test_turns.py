"""A Service that turns from any kind into any other gets what the new kind needs, and keeps nothing of the old."""

import json
from collections import Counter
from typing import Any

import pytest
from tsoperator.api.names import ANNOTATION_DIGEST
from tsoperator.api.objects import SERVICE, STATEFULSET, Object, annotations, key_of, uid

from tests.operator.reconcilers.service.every_kind import ALL_KINDS, METERED, PLAIN, device_ids, joined_proxies, whole
from tests.support.operator import NAMESPACE, World, running_operator

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(240),
]  # each test has a dozen proxies, and a real API server is slower


def becoming(old: Object, new: Object) -> Object:
    """Return the patch that ``kubectl apply`` of *new* makes to an object that was created from *old*."""
    given = dict.fromkeys(annotations(old)) | dict(annotations(new))
    spec = dict.fromkeys(old["spec"]) | {"type": "ClusterIP"} | new["spec"]
    return {"metadata": {"annotations": given}, "spec": spec}


async def portrait(world: World, service: Object) -> str:
    """Return *service* and its children as text, without values that differ between Services of one kind."""
    live = await world.look(service)
    proxy = await whole(world, service)
    found = [obj for kind in (SERVICE, STATEFULSET) for obj in await world.children(kind, service)]
    selector = f"tailscale.com/metrics-target,ts_proxy_parent_name={key_of(service).name}"
    found += (await world.api.list(SERVICE, NAMESPACE, selector)).items
    parts: list[Any] = [as_child(obj, obj["spec"]) for obj in found]
    if proxy:
        state = {name: proxy.state[name] for name in proxy.state if name.endswith("hujson") or name == "serve-config"}
        names = sorted(name[:7] for name in proxy.state if not name.startswith("profile-"))
        parts += [as_child(proxy.secret, [state, names])]
    status = live.get("status") or {}
    told = [(each["type"], each["status"], each["reason"], each["message"]) for each in status.get("conditions") or ()]
    shown = [entry.get("hostname") or "IP" for entry in status.get("loadBalancer", {}).get("ingress") or ()]
    parts += [live["metadata"].get("finalizers"), live["spec"]["type"], live["spec"].get("externalName"), told, shown]
    text = json.dumps(parts, indent=1, sort_keys=True)
    for own, common in ((proxy.name if proxy else "-", "PROXY"), (uid(live), "UID"), (key_of(live).name, "NAME")):
        text = text.replace(own, common)
    return text.replace(live["spec"].get("clusterIP") or "PROXY", "ADDRESS")


def as_child(obj: Object, content: Any) -> list[Any]:
    """Return the labels, annotations and finalizers of the child *obj*, and its *content*, such as its spec.

    The digest and the cluster IP are left out, because they differ between parents of one kind.
    """
    metadata = obj["metadata"]
    notes = {name: value for name, value in annotations(obj).items() if name != ANNOTATION_DIGEST}
    if isinstance(content, dict) and content.get("clusterIP") != "None":
        content = {name: value for name, value in content.items() if name not in ("clusterIP", "clusterIPs")}
    return [metadata.get("labels") or {}, notes, metadata.get("finalizers") or [], content]


STARTS = [pytest.param(kind, marks=[pytest.mark.thorough] * (kind not in ("egress", "public"))) for kind in ALL_KINDS]


@pytest.mark.parametrize("start", STARTS)
async def test_a_service_that_turns_into_any_other_kind_equals_a_new_service_of_that_kind(
    cluster: World, start: str
) -> None:
    ends = [kind for kind in ALL_KINDS if kind != start]
    turned = {kind: ALL_KINDS[start](f"turned-{number}") for number, kind in enumerate(ends)}
    afresh = {kind: ALL_KINDS[kind](f"afresh-{number}") for number, kind in enumerate(ends)}
    await cluster.apply(METERED, *turned.values())
    async with running_operator(cluster, proxy_class="prod"):
        before = device_ids(await joined_proxies(cluster, turned.values() if start != PLAIN else []))
        for kind, old in turned.items():
            await cluster.change(old, becoming(old, ALL_KINDS[kind](key_of(old).name)))
        await cluster.apply(*afresh.values())
        for kind in ends:
            await alike(cluster, turned[kind], afresh[kind])
        after = device_ids(await joined_proxies(cluster, with_proxy(turned) + with_proxy(afresh)))
        assert before.items() & after.items() == {pair for pair in before.items() if pair[0] in after}
        assert sorted(cluster.control.devices) == sorted(after.values())
        assert not await cluster.writes_when_left_alone()


def with_proxy(services: dict[str, Object]) -> list[Object]:
    """Return the *services* whose kind has a proxy."""
    return [service for kind, service in services.items() if kind != PLAIN]


async def alike(world: World, turned: Object, afresh: Object) -> None:
    """Wait until the portraits of both Services are the same."""

    async def difference() -> list[str]:
        """Return the lines that only one of the two portraits has."""
        found = [Counter((await portrait(world, service)).splitlines()) for service in (turned, afresh)]
        return [*(found[0] - found[1]), *(found[1] - found[0])]

    await world.becomes(difference, [])
