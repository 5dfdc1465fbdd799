"""The facts about a label in one of several tailnets."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from clustersim.sim import SimOptions, cluster_sim
from tsoperator.api.names import HA_INGRESS_FINALIZER, KUBE_APISERVER_FINALIZER
from tsoperator.api.objects import PROXYGROUP, SECRET, Key, Object, key_of
from tsoperator.api.owners import ANNOTATION_OWNERS
from tsoperator.api.tailscaleservice import TailscaleService
from tsoperator.group.claims import claim_of
from tsoperator.group.proxygroup import group_owner
from tsoperator.proxy.serviceview import NO_SERVICE, ServiceView
from tsoperator.reconcilers.hosting import HostingWorld
from tsoperator.reconcilers.tailscaleservice.certificate import certificate_objects
from tsoperator.reconcilers.tailscaleservice.plan import Observed
from tsoperator.reconcilers.tailscaleservice.reconciler import tailscaleservices
from tsoperator.runtime.cache import Cache
from tsoperator.sources import sources

from tests.operator.reconcilers.tailscaleservice.played import SETTINGS, group
from tests.support.cluster import kube_client, put, running
from tests.support.manifests import DOMAIN, ingress
from tests.support.objects import OPERATOR_NAMESPACE, obj

HERE, LAB = Key("", "web"), Key("lab", "web")
ADDRESSES = ("100.80.0.1", "fd7a::1")


def web(group: str = "ing", name: str = "web", **annotations: str) -> Object:
    """Return an Ingress with our finalizer that claims the label web."""
    made = ingress(name, "web", proxy_group=group, **annotations)
    return {**made, "metadata": {**made["metadata"], "finalizers": [HA_INGRESS_FINALIZER]}}


def pg(name: str, type_: str = "ingress", tailnet: str = "") -> Object:
    """Return a ProxyGroup."""
    return obj(PROXYGROUP, Key("", name), {"spec": {"type": type_} | ({"tailnet": tailnet} if tailnet else {})})


def certificate(group: str, domain: str = DOMAIN) -> list[Object]:
    """Return the objects of a certificate for the label web at a group."""
    claim = claim_of(web(group), SETTINGS)
    assert claim is not None
    return [*certificate_objects(Key(OPERATOR_NAMESPACE, f"web.{domain}"), claim)]


def renamed(name: str) -> list[Object]:
    """Return objects with the labels of a certificate but another *name*."""
    return [{**each, "metadata": {**each["metadata"], "name": name}} for each in certificate("ing")]


async def observed(key: Key, *objects: Object, services: Mapping[str, TailscaleService] | None = None) -> Observed:
    """Return the facts about the label *key* in a cluster with *objects*.

    *services* has the Tailscale Services by tailnet.
    """

    def shown(tailnet: str, _label: str, /, *, hosts: bool = False) -> ServiceView:
        del hosts
        found = (services or {}).get(tailnet)
        return ServiceView(found) if found else NO_SERVICE

    async with cluster_sim(SimOptions(controllers=False)) as sim, kube_client(sim.api_url) as client:
        await put(client, *objects)
        cache = Cache(sources(OPERATOR_NAMESPACE))
        async with running(cache.follow(client)):
            await cache.synced()
            world = HostingWorld(shown, lambda: ["", "lab"], lambda: "nUS", lambda: "")
            found = tailscaleservices(cache, SETTINGS, world).look(key, {})
            assert isinstance(found, Observed)
            return found


@dataclass(frozen=True)
class Case:
    objects: list[Object]
    key: Key = HERE
    left: bool = True


LEFT = {
    "nobody claims": Case([pg("ing"), *certificate("ing")]),
    "of another tailnet": Case([pg("ing"), *certificate("ing")], LAB, left=False),
    "claimed": Case([*group(), web(), *certificate("ing")], left=False),
    "another domain": Case([*group(), web(), *certificate("ing", "old.example.org")]),
    "of a group that is gone": Case([*certificate("gone")], LAB),
    "claimed at another group": Case([*group("new"), web("new"), *certificate("gone")], LAB, left=False),
    "of a group that may come back": Case([*certificate("gone"), web("gone")], left=False),
    "claimed where the domain isn't known": Case([pg("ing"), web(), *certificate("gone")], LAB, left=False),
    "under another name": Case([pg("ing"), *renamed(f"web.old.{DOMAIN}")], left=False),
    "under a name without a domain": Case([pg("ing"), *renamed("web")], left=False),
    "of a group of another type": Case([pg("out", "egress"), *certificate("out")], left=False),
}


@pytest.mark.parametrize("case", LEFT.values(), ids=LEFT)
async def test_a_certificate_is_a_leftover_if_no_claim_needs_the_certificate(case: Case) -> None:
    found = await observed(case.key, *case.objects)
    assert [each["kind"] for each in found.leftovers] == (["RoleBinding", "Role", "Secret"] if case.left else [])


def kapi() -> Object:
    """Return a ProxyGroup that claims the label web."""
    spec = {"type": "kube-apiserver", "kubeAPIServer": {"hostname": "web"}}
    return obj(PROXYGROUP, Key("", "kapi"), {"spec": spec}, finalizers=[KUBE_APISERVER_FINALIZER])


def configured(name: str, files: dict[str, str]) -> Object:
    """Return the config Secret of a replica of the ProxyGroup *name*, with these *files*."""
    labels = {**group_owner(name).labels, "tailscale.com/secret-type": "config"}
    return obj(SECRET, Key(OPERATOR_NAMESPACE, f"{name}-0-config"), {"stringData": files}, labels=labels)


ADVERTISES = {"cap-106.hujson": '{"Version":"alpha0","AdvertiseServices":["svc:web"]}'}
OF_INGRESS, OF_GROUP = (
    {ANNOTATION_OWNERS: f'{{"ownerRefs":[{{"operatorID":"nUS"{resource}}}]}}'}
    for resource in ("", ',"resource":{"kind":"ProxyGroup","name":"old","uid":"v"}')
)
LEFT_OVER: dict[str, tuple[list[Object], dict[str, str], bool]] = {
    "of an Ingress that is gone": ([kapi()], OF_INGRESS, True),
    "of an Ingress that is invalid": ([kapi(), pg("ing"), web(tags="nonsense")], OF_INGRESS, False),
    "still advertised": ([kapi(), pg("ing"), configured("ing", ADVERTISES)], OF_INGRESS, False),
    "of another group": ([kapi()], OF_GROUP, True),
    "of another group, wanted by an Ingress without its finalizer": (
        [pg("ing"), {**web(), "metadata": {**web()["metadata"], "finalizers": []}}],
        OF_GROUP,
        True,
    ),
    "of nobody's claim": ([], OF_INGRESS, True),
    "of a group, wanted by an Ingress": ([pg("ing"), web()], OF_GROUP, True),
    "its own": ([pg("ing"), web()], OF_INGRESS, False),
}


@pytest.mark.parametrize(("objects", "owners", "is_left_over"), LEFT_OVER.values(), ids=LEFT_OVER)
async def test_a_tailscale_service_is_left_over_if_no_claim_on_its_label_suits_it_and_no_proxy_uses_it(
    objects: list[Object], owners: dict[str, str], is_left_over: bool
) -> None:
    found = await observed(HERE, *objects, services={"": TailscaleService("svc:web", annotations=owners)})
    assert found.is_left_over is is_left_over


async def test_objects_with_the_name_of_a_certificate_are_no_leftovers_if_they_belong_to_another_parent() -> None:
    of_group = {"tailscale.com/parent-resource-type": "connector"}
    objects = [
        {**each, "metadata": {**each["metadata"], "labels": {**each["metadata"]["labels"], **of_group}}}
        for each in certificate("gone")
    ]
    found = await observed(HERE, *objects)
    assert found.leftovers == []


RESERVED = {
    "no object": ([], False),
    "an invalid one": ([pg("ing"), web(tags="nonsense")], True),
    "an invalid one that never was valid": (
        [pg("ing"), ingress("web", "web", proxy_group="ing", tags="nonsense")],
        False,
    ),
    "an invalid one elsewhere": ([pg("ing", tailnet="lab"), web(tags="nonsense")], False),
    "one that is being deleted": ([web() | {"metadata": web()["metadata"] | {"deletionTimestamp": ""}}], False),
    "a missing group": ([web()], True),
    "a group of another type": ([pg("ing", "egress"), web()], True),
}


@pytest.mark.parametrize(("objects", "is_reserved"), RESERVED.values(), ids=RESERVED)
async def test_a_label_is_reserved_only_for_an_object_that_has_held_the_label(
    objects: list[Object], *, is_reserved: bool
) -> None:
    found = await observed(HERE, *objects)
    assert (found.holder, found.is_reserved) == (None, is_reserved)


async def test_a_label_is_reserved_while_another_tailnet_object_for_the_same_tailnet_has_the_claim() -> None:
    """Assume two Tailnets that are for the same tailnet, so that a claim can move from one to the other."""
    one = TailscaleService("svc:web", ADDRESSES)
    claimed = [pg("ing", tailnet="lab"), web()]
    assert (await observed(HERE, *claimed, services={"": one, "lab": one})).is_reserved
    assert not (await observed(HERE, *claimed, services={"": one, "lab": TailscaleService("svc:web")})).is_reserved
    assert not (await observed(HERE, services={"": one, "lab": one})).is_reserved


async def test_a_managed_secret_of_another_parent_is_foreign() -> None:
    labels = {"tailscale.com/managed": "true", "tailscale.com/parent-resource-type": "connector"}
    secret = obj(SECRET, Key(OPERATOR_NAMESPACE, f"web.{DOMAIN}"), {"type": "Opaque"}, labels=labels)
    found = await observed(HERE, *group(), web(), secret)
    assert found.stranger is not None
    assert (key_of(found.stranger), found.secret, found.is_hidden) == (key_of(secret), None, False)
