"""An operator that watches only some namespaces. It serves the objects there, and ignores those elsewhere."""

import logging
from collections.abc import Sequence
from contextlib import suppress

import pytest
from clustersim.faults import Ban
from clustersim.sim import SimOptions
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import POD, SECRET, Object, Resource, has_finalizer, key_of, uid
from tsoperator.kube.client import USER_AGENT
from tsoperator.kube.errors import AlreadyExists

from tests.support.cluster import until
from tests.support.groups import endpoints, ready_group
from tests.support.lanes import cases
from tests.support.manifests import (
    DOMAIN,
    FQDN,
    backend,
    dnsconfig,
    egress,
    group_egress,
    group_policy,
    ingress,
    load_balancer,
    proxy_group,
)
from tests.support.objects import texts
from tests.support.operator import NAMESPACE, World, new_world, running_operator

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
TEAM = "team"
WEB = f"web.{DOMAIN}"
USERS_KINDS = ("services", "ingresses", "proxygrouppolicies")
NAMED = {FQDN, WEB}
LIST = (USER_AGENT, "list", "services")


def at(namespace: str, obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}


@pytest.fixture
async def teams(cluster: World) -> World:
    """A cluster with another namespace of users, on which no operator runs yet."""
    with suppress(AlreadyExists):
        namespace = {"apiVersion": "v1", "kind": NAMESPACES.kind, "metadata": {"name": TEAM}}
        await cluster.api.create(NAMESPACES, namespace)
    return cluster


async def untouched(world: World, obj: Object) -> bool:
    """Tell whether *obj* has no finalizer, no status and no Event of the operator."""
    found = await world.look(obj)
    told = (found.get("status") or {}).keys() - {"loadBalancer"}
    return not (has_finalizer(found, FINALIZER) or told or await world.events(obj))


async def all_served(world: World, *parents: Object) -> bool:
    """Tell whether each of *parents* has a ready proxy, and each name in the records has addresses."""
    return all([await world.proxy(parent) for parent in parents]) and all((await world.records()).values())


def users_objects(name: str) -> list[Object]:
    """Return one object of each kind that users create in namespaces."""
    return [egress(name), backend(), ingress(name, name), load_balancer(f"lb-{name}", class_=None), group_policy()]


async def test_only_objects_of_watched_namespaces_are_served(teams: World) -> None:
    ours, others = users_objects("ours"), [at(TEAM, obj) for obj in users_objects("other")]
    mine = at(NAMESPACE, egress("mine"))  # the operator's own namespace is watched, too
    await teams.apply(*ours, *others, mine)
    async with running_operator(teams, watch_namespaces=("default",), default_load_balancer=True):
        await teams.eventually(lambda: all_served(teams, ours[0], ours[2], ours[3], mine))
        await teams.becomes(lambda: teams.reason(ours[4], "ProxyGroupPolicyReady"), "ProxyGroupPolicyEnforced")
        assert not await teams.writes_when_left_alone()
        assert [await untouched(teams, obj) for obj in others] == [True] * len(others)
        hostnames = ("default-lb-ours", "default-ours", "ours", "tailscale-mine")
        assert await teams.device_names() == [f"{hostname}.{DOMAIN}" for hostname in hostnames]
    await teams.delete(ours[4], others[4])


async def leads(world: World) -> set[str]:
    """Return the names that have addresses, and a text for each name that has none."""
    found = await world.records()
    return {name if addresses else f"{name} leads nowhere" for name, addresses in found.items()}


async def narrowed(world: World) -> dict[str, str]:
    """Let an operator that watches all namespaces serve objects in `default`, and stop the operator.

    Return the UIDs of the proxies' Pods by name.
    """
    await world.apply(dnsconfig(), egress(), backend(), ingress())
    async with running_operator(world):
        await world.becomes(lambda: leads(world), NAMED)
        await world.settled()
    return await pods(world)


async def pods(world: World) -> dict[str, str]:
    return {key_of(pod).name: uid(pod) for parent in (egress(), ingress()) for pod in await world.children(POD, parent)}


async def test_proxies_of_a_namespace_that_is_no_longer_watched_stay_and_their_records_are_kept_up_to_date(
    teams: World,
) -> None:
    before = await narrowed(teams)
    written, left = (await teams.look(egress()))["status"], await teams.leftovers(ingress())

    async def followed() -> bool:
        proxy, addresses = await teams.proxy(egress()), (await teams.records())[FQDN]
        return proxy is not None and proxy.pod_uid not in before.values() and addresses == proxy.addresses

    async with running_operator(teams, watch_namespaces=(TEAM,)):
        assert not await teams.writes_when_left_alone()
        assert (await leads(teams), await pods(teams)) == (NAMED, before)
        assert ((await teams.look(egress()))["status"], await teams.leftovers(ingress())) == (written, left)
        await teams.delete(*await teams.children(POD, egress()))
        await teams.eventually(followed)
        assert await leads(teams) == NAMED


async def test_a_service_that_a_user_deleted_in_an_unwatched_namespace_goes_once_the_namespace_is_watched_again(
    teams: World,
) -> None:
    await narrowed(teams)
    async with running_operator(teams, watch_namespaces=(TEAM,)):
        await teams.delete(egress())
        await teams.settled()
        assert not await teams.gone(egress())
    async with running_operator(teams, watch_namespaces=("default", TEAM)):
        await teams.eventually(lambda: teams.gone(egress()))
        assert await teams.leftovers(egress()) == []
        await teams.becomes(lambda: leads(teams), {WEB})


async def test_a_service_in_a_namespace_that_is_no_longer_watched_still_leads_to_the_pods_of_its_group(
    teams: World,
) -> None:
    group, service = proxy_group(), group_egress()
    await teams.apply(group, service)

    async def led() -> set[str]:
        return {address for found in (await endpoints(teams, service)).values() for address in found}

    async with running_operator(teams):
        await teams.becomes(lambda: teams.reason(service, "TailscaleEgressSvcReady"), "ReadyToRouteTraffic")
        before = await ready_group(teams, group)
    async with running_operator(teams, watch_namespaces=(TEAM,), newcomer_wait=0.05):
        await teams.delete(before[1].pod or {})
        after = {each.addresses[0] for each in await ready_group(teams, group)}
        assert after != {each.addresses[0] for each in before}
        await teams.becomes(led, after)


def shut(world: World, namespace: str = "", kinds: Sequence[str] = USERS_KINDS) -> None:
    """Forbid lists and watches of *kinds* in *namespace*, or in all namespaces if *namespace* is empty."""
    for plural in kinds:
        for verb in ("list", "watch"):
            world.sim.faults.forbid(Ban(plural, namespace, verb))


@pytest.mark.simulated
async def test_an_operator_with_the_rights_of_an_older_installation_serves(cluster: World) -> None:
    shut(cluster, kinds=("nodes", "validatingadmissionpolicies", "validatingadmissionpolicybindings"))
    shut(cluster, "kube-system", ("configmaps", "deployments", "daemonsets"))
    await cluster.apply(egress())
    async with running_operator(cluster):
        await cluster.joined(egress())


@pytest.mark.simulated
async def test_an_operator_that_watches_some_namespaces_lists_objects_of_users_only_in_these_namespaces(
    cluster: World,
) -> None:
    shut(cluster)
    await cluster.apply(egress())
    async with running_operator(cluster):
        await until(lambda: cluster.sim.requests[LIST] >= 3)
        assert not await cluster.proxy(egress())
    async with running_operator(cluster, watch_namespaces=("default",)):
        await cluster.eventually(lambda: all_served(cluster, egress()))


@pytest.mark.simulated
async def test_a_namespace_in_which_the_operator_has_no_rights_does_not_delay_other_namespaces(
    teams: World, caplog: pytest.LogCaptureFixture
) -> None:
    shut(teams, TEAM)
    other = at(TEAM, egress("other"))
    await teams.apply(egress(), other)
    async with running_operator(teams, watch_namespaces=("default", TEAM, "nowhere")):
        await teams.eventually(lambda: all_served(teams, egress()))
        said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        for kind in ("services", "ingresses.networking.k8s.io", "proxygrouppolicies.tailscale.com"):
            assert any(text.startswith(f"{kind} in {TEAM}: the operator may not see them") for text in said)
        assert await untouched(teams, other)
        teams.sim.faults.clear()
        await teams.eventually(lambda: all_served(teams, other))


@pytest.mark.simulated
@pytest.mark.parametrize("place", cases({"all namespaces": "", "one": "default"}, "one"))
async def test_without_rights_on_services_an_edit_of_an_ingress_takes_effect_only_if_the_operator_has_listed_services(
    cluster: World, place: str
) -> None:
    await cluster.apply(backend(), ingress())

    async def has_funnel() -> bool:
        [secret] = await cluster.children(SECRET, ingress())
        return "AllowFunnel" in texts(secret)["serve-config"]

    watched = (place,) if place else ()
    async with running_operator(cluster, watch_namespaces=watched):
        await cluster.eventually(lambda: all_served(cluster, ingress()))
        await cluster.settled()
        listed = cluster.sim.requests[LIST]
        shut(cluster, place, ["services"])
        cluster.sim.faults.drop_watches()
        await until(lambda: cluster.sim.requests[LIST] > listed)
        await cluster.annotate(ingress(), {"tailscale.com/funnel": "true"})
        await cluster.becomes(has_funnel, True)
    async with running_operator(cluster, watch_namespaces=watched):
        await cluster.annotate(ingress(), {"tailscale.com/funnel": None})
        await cluster.settled()
        assert await has_funnel()
        assert "NoValidBackends" not in await cluster.events(ingress())
        cluster.sim.faults.clear()
        await cluster.becomes(has_funnel, False)


@pytest.mark.simulated
@pytest.mark.thorough
async def test_the_operator_can_watch_more_namespaces_than_a_client_usually_has_connections() -> None:
    many = [f"team-{number}" for number in range(40)]
    async with (
        new_world(SimOptions(namespaces=("default", "kube-system", NAMESPACE, *many))) as world,
        running_operator(world, watch_namespaces=tuple(many)),
    ):
        services = [at(name, egress(f"db-{name}", f"{name}.{DOMAIN}")) for name in (many[0], many[-1])]
        await world.apply(*services)
        await world.eventually(lambda: all_served(world, *services))
        assert world.sim.requests[USER_AGENT, "watch", "services"] == len(many) + 1
