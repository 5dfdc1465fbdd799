"""Exposed Services on a cluster: the operator runs, and the state of the world is looked at."""

import json

from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import EVENT, SECRET, SERVICE, Object

from tests.support.manifests import DOMAIN, FQDN, backend, dnsconfig, exposed, load_balancer
from tests.support.operator import Proxy, World, running_operator

NAME = f"default-lb.{DOMAIN}"
CLOUD = "db.example.org"
DEST_IP = "TS_DEST_IP"
EXPOSE, FUNNEL, FQDN_KEY = "tailscale.com/expose", "tailscale.com/funnel", "tailscale.com/tailnet-fqdn"
OPT_OUT = "tailscale.com/cluster-dns"
LB = load_balancer()
"""The Service of every test, if only by its name."""


async def balanced(world: World) -> list[Object]:
    """Return what the load balancer of the Service shows, without the API server's defaults."""
    entries = ((await world.look(LB)).get("status") or {}).get("loadBalancer", {}).get("ingress") or []
    return [{name: value for name, value in entry.items() if name != "ipMode"} for entry in entries]


async def address(world: World) -> str:
    """Return the cluster IP of the Service; empty without one."""
    return str((await world.look(LB))["spec"].get("clusterIP", ""))


def shown(proxy: Proxy, name: str = NAME) -> list[Object]:
    """Return what the load balancer should show of *proxy*: it forwards IPv4, as the cluster IP is."""
    ips = json.loads(proxy.state["device_ips"])
    return [{"hostname": name}, *({"ip": ip} for ip in ips if ":" not in ip)]


async def test_a_load_balancer_gets_a_proxy_and_shows_its_device(world: World) -> None:
    await world.apply(LB)
    proxy = await world.joined(LB)
    service = await world.look(LB)
    assert await balanced(world) == shown(proxy)
    assert proxy.env[DEST_IP] == service["spec"]["clusterIP"]
    assert (service["spec"]["type"], FINALIZER in service["metadata"]["finalizers"]) == ("LoadBalancer", True)
    assert (proxy.config["Hostname"], await world.device_names()) == ("default-lb", [NAME])


async def rolled(world: World, before: Proxy) -> bool:
    """Tell whether another Pod is ready."""
    proxy = await world.proxy(LB)
    return proxy is not None and proxy.pod_uid != before.pod_uid


async def test_a_status_that_somebody_else_writes_is_put_right(world: World) -> None:
    await world.apply(LB)
    proxy = await world.joined(LB)
    service = await world.look(LB)
    await world.api.replace_status(SERVICE, {**service, "status": {"loadBalancer": {}}})
    await world.becomes(lambda: balanced(world), shown(proxy))


async def cluster_ips(world: World) -> list[str]:
    """Return the cluster IPs of the Service, IPv4 first."""
    return sorted((await world.look(LB))["spec"]["clusterIPs"], key=lambda address: ":" in address)


async def test_the_name_of_an_exposed_service_leads_pods_to_its_cluster_ips(world: World) -> None:
    dual = load_balancer()
    dual["spec"]["ipFamilyPolicy"] = "PreferDualStack"
    await world.apply(dnsconfig(), dual)
    await world.joined(LB)
    await world.becomes(world.records, {NAME: await cluster_ips(world)})
    assert not await world.writes_when_left_alone()
    await world.annotate(LB, {"tailscale.com/hostname": "shop"})
    await world.becomes(world.records, {f"shop.{DOMAIN}": await cluster_ips(world)})
    await world.annotate(LB, {OPT_OUT: "false"})
    await world.becomes(world.records, {})
    await world.annotate(LB, {OPT_OUT: None})
    await world.eventually(world.records)
    await world.delete(LB)
    await world.becomes(world.records, {})


async def test_a_name_follows_the_cluster_ip_and_goes_with_it(world: World) -> None:
    await world.apply(dnsconfig(), exposed())
    await world.joined(LB)
    await world.becomes(world.records, {NAME: [await address(world)]})
    await world.change(LB, {"spec": {"type": "ExternalName", "externalName": CLOUD, "selector": None}})
    await world.becomes(world.records, {})
    assert f"let them use {CLOUD}" in await world.eventually(lambda: event(world, "NoClusterName"))
    await world.change(LB, {"spec": {"type": "ClusterIP", "externalName": None, "clusterIP": "10.96.77.7"}})
    await world.becomes(world.records, {NAME: ["10.96.77.7"]})


async def test_what_has_no_name_in_the_cluster_is_told_while_there_is_a_dnsconfig(world: World) -> None:
    await world.apply(load_balancer("lb", 443, funnel="true"))
    await world.joined(LB)
    assert "NoClusterName" not in await world.events(LB)
    await world.apply(dnsconfig())
    told = await world.eventually(lambda: event(world, "NoClusterName"))
    await world.becomes(lambda: says(world, told), True)
    assert not await world.writes_when_left_alone()
    assert await world.records() == {}
    await world.delete(dnsconfig())
    await world.becomes(lambda: says(world, told), False)
    await world.settled()
    await world.apply(dnsconfig())
    await world.becomes(lambda: says(world, told), True)


async def says(world: World, words: str) -> bool:
    """Tell whether the condition of the Service ends with these words."""
    return (await message(world)).endswith(f"; {words}")


async def test_without_a_class_a_load_balancer_is_ours_by_setting_only(cluster: World) -> None:
    await cluster.apply(load_balancer(class_=None))
    async with running_operator(cluster):
        assert not await cluster.writes_when_left_alone()
    async with running_operator(cluster, default_load_balancer=True):
        proxy = await cluster.joined(LB)
        assert await balanced(cluster) == shown(proxy)
    async with running_operator(cluster):
        await cluster.eventually(lambda: let_go(cluster))
        assert (await balanced(cluster), await cluster.device_names()) == ([], [])


async def let_go(world: World) -> bool:
    """Tell whether nothing of ours is left of or on the Service."""
    service = await world.look(LB)
    ours = "finalizers" in service["metadata"] or await world.condition(LB) or await balanced(world)
    return not ours and await world.leftovers(LB) == []


async def test_a_value_that_turns_nothing_on_is_told_once(cluster: World) -> None:
    plain = backend("lb")
    plain["metadata"]["annotations"] = {EXPOSE: "yes"}
    await cluster.apply(plain)
    for _ in range(2):
        async with running_operator(cluster):
            told = await cluster.eventually(lambda: event(cluster, "IgnoredAnnotation"))
            assert (told, await cluster.condition(LB)) == (
                f'annotation {EXPOSE} is "yes", which turns nothing on: write "true", or remove it',
                None,
            )
            assert not await cluster.writes_when_left_alone()
    told_of = [each for each in (await cluster.api.list(EVENT)).items if each["reason"] == "IgnoredAnnotation"]
    assert [each["count"] for each in told_of] == [1]


async def test_what_the_condition_says_is_no_event_of_a_later_operator(cluster: World) -> None:
    await cluster.apply(exposed(tailnet_fqdn=FQDN, exposed="true"))
    async with running_operator(cluster):
        proxy = await cluster.joined(LB)
        await cluster.becomes(lambda: message(cluster), f"it is reached in the tailnet as {NAME}; {'; '.join(IGNORED)}")
        assert proxy.env[DEST_IP] == await address(cluster)
        assert sorted(await cluster.events(LB)) == ["IgnoredAnnotation", "ProxyCreated"]
    async with running_operator(cluster):
        assert not await cluster.writes_during(cluster.settled())


IGNORED = (
    "the operator doesn't know annotation tailscale.com/exposed, which has no effect: if you mean "
    "tailscale.com/expose, write that",
    f"annotation {FQDN_KEY} has no effect, because the Service is exposed to the tailnet: remove it, and let another "
    "Service lead to that device",
)


async def message(world: World) -> str:
    """Return what the condition of the Service says; empty without one."""
    condition = await world.condition(LB)
    return condition.message if condition else ""


async def state(world: World) -> dict[str, str]:
    """Return the decoded Secret of the proxy."""
    return Proxy({}, {}, (await world.children(SECRET, LB))[0], {}).state


async def test_funnel_is_turned_on_and_off_on_one_device_that_forgets_it(world: World) -> None:
    await world.apply(load_balancer("lb", 443))
    first = await world.joined(LB)
    await world.annotate(LB, {FUNNEL: "true"})
    await world.becomes(lambda: balanced(world), [{"hostname": NAME}])
    public = await world.joined(LB)
    assert [name for name in await state(world) if name.startswith("_serve_")]
    await world.annotate(LB, {FUNNEL: None})
    await world.eventually(lambda: rolled(world, public))
    after = await world.joined(LB)
    assert [name for name in await state(world) if "serve" in name] == []
    assert (await balanced(world), after.env[DEST_IP]) == (shown(after), first.env[DEST_IP])
    assert len(world.control.keys) == 1


async def event(world: World, reason: str) -> str:
    """Return the message of the Event on the Service for that *reason*; empty if there is none."""
    return (await world.events(LB)).get(reason, "")
