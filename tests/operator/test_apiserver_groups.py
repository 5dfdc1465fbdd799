"""ProxyGroups of type kube-apiserver: they offer the Kubernetes API at a URL, and leave nothing when deleted."""

from typing import Any

import pytest
from clustersim.sim import SimOptions
from clustersim.tailnetservices import TailscaleService
from tsoperator.api.objects import POD, ROLE, ROLEBINDING, SECRET, SERVICEACCOUNT, STATEFULSET, Key, Object, key_of, uid

from tests.operator.test_hosted_ingresses import of, traces
from tests.support.groups import Replica, ready_group, replicas
from tests.support.manifests import DOMAIN, auth_proxy_account, backend, ingress, proxy_group
from tests.support.objects import obj
from tests.support.operator import NAMESPACE, World, new_world, running_operator

FINALIZERS = ["tailscale.com/finalizer", "tailscale.com/kube-apiserver-finalizer"]
VALID, CONFIGURED, READY = "KubeAPIServerProxyValid", "KubeAPIServerProxyConfigured", "ProxyGroupReady"
ACCOUNT = auth_proxy_account()


def kapi(mode: str = "noauth", **spec: Any) -> Object:
    return proxy_group("kapi", type="kube-apiserver", kubeAPIServer={"mode": mode}, **spec)


KAPI = kapi()
OPERATOR = f"tailscale-operator.{DOMAIN}"


def renamed(hostname: str | None) -> Object:
    return {"spec": {"kubeAPIServer": {"hostname": hostname}}}


async def url(world: World) -> str:
    """Return the URL in the status of the group, or an empty text."""
    return str((await world.look(KAPI)).get("status", {}).get("url", ""))


async def told(world: World, kind: str) -> str:
    """Return the message of the group's condition of the type *kind*, or an empty text if there is none."""
    found = await world.condition(KAPI, kind)
    return found.message if found else ""


async def serve(world: World, group: Object = KAPI, name: str = "kapi") -> list[Replica]:
    """Make the group, wait until all its proxies advertise its name, and return them."""
    replicas = group["spec"].get("replicas", 2)
    await world.apply(group)
    await world.becomes(lambda: told(world, CONFIGURED), f"{replicas}/{replicas} proxy backends ready and advertising")
    assert await url(world) == f"https://{name}.{DOMAIN}"
    await world.becomes(lambda: world.reason(KAPI, READY), READY)
    return await ready_group(world, group, replicas)


async def end(world: World) -> None:
    """Delete the group, and wait until it and its traces are gone."""
    await world.delete(KAPI)
    await world.eventually(lambda: world.gone(KAPI))
    assert await traces(world) == []


@pytest.fixture
async def served(world: World) -> World:
    """A cluster with a group whose proxies offer the Kubernetes API."""
    await serve(world)
    return world


async def test_a_group_has_a_url_once_it_has_a_certificate_and_its_deletion_leaves_no_traces(served: World) -> None:
    group = await served.look(KAPI)
    assert group["metadata"]["finalizers"] == FINALIZERS
    await served.becomes(lambda: served.reason(KAPI, READY), READY)
    assert await traces(served) == of("kapi")
    service = served.control.services.present["svc:kapi"]
    assert (service.ports, service.tags) == (("tcp:443",), ("tag:k8s",))
    assert (
        f'"kind":"ProxyGroup","name":"kapi","uid":"{uid(group)}"'
        in service.annotations["tailscale.com/owner-references"]
    )
    assert not await served.writes_when_left_alone()
    assert not await served.writes_during(served.restart())
    await end(served)
    assert await served.device_names() == [OPERATOR]


async def test_in_mode_auth_only_replica_0_issues_certificates_and_all_proxies_use_the_charts_serviceaccount(
    world: World,
) -> None:
    await world.apply(ACCOUNT)
    found = [each.k8s_proxy for each in await serve(world, kapi("auth"))]
    assert [each["APIServerProxy"]["IssueCerts"] for each in found] == [True, False]
    assert {(each["APIServerProxy"]["Mode"], *each["AdvertiseServices"]) for each in found} == {("auth", "svc:kapi")}
    assert await world.find(SERVICEACCOUNT, "kapi") is None
    assert await subjects(world) == ["kube-apiserver-auth-proxy"] * 2
    await end(world)
    assert await world.find(SERVICEACCOUNT, "kube-apiserver-auth-proxy") is not None


async def subjects(world: World) -> list[str]:
    """Return the accounts to which the RoleBindings of the group and of its certificate give rights."""
    found = [await world.find(ROLEBINDING, name) for name in ("kapi", f"kapi.{DOMAIN}")]
    return [each["subjects"][0]["name"] for each in found if each]


async def test_a_change_of_the_mode_of_a_group_gives_its_pods_another_serviceaccount_with_its_rights(
    served: World,
) -> None:
    assert await subjects(served) == ["kapi", "kapi"]
    before = await ready_group(served, KAPI)
    await served.change(KAPI, {"spec": {"kubeAPIServer": {"mode": "auth"}}})
    await served.becomes(lambda: served.reason(KAPI, READY), "ProxyGroupInvalid")
    assert await subjects(served) == ["kapi", "kapi"]
    await served.apply(ACCOUNT)
    await served.becomes(lambda: subjects(served), ["kube-apiserver-auth-proxy"] * 2)

    async def replaced() -> bool:
        after = await ready_group(served, KAPI)
        return {uid(each.pod or {}) for each in after}.isdisjoint(uid(each.pod or {}) for each in before)

    await served.eventually(replaced)
    await served.becomes(lambda: told(served, CONFIGURED), "2/2 proxy backends ready and advertising")


async def test_a_group_of_mode_auth_waits_until_the_serviceaccount_of_the_chart_exists(world: World) -> None:
    await world.apply(kapi("auth"))
    await world.becomes(lambda: world.reason(KAPI, READY), "ProxyGroupInvalid")
    assert "apiServerProxyConfig.allowImpersonation" in await told(world, READY)
    assert (await world.children(STATEFULSET, KAPI), [*world.control.services.present]) == ([], [])
    await world.apply(ACCOUNT)
    await world.becomes(lambda: url(world), f"https://kapi.{DOMAIN}")


async def test_a_group_serves_its_new_hostname_before_it_gives_up_the_old_one(served: World) -> None:
    services, seen = served.control.services, []

    async def moved() -> bool:
        seen.append((services.primary("svc:kapi") != "", services.primary("svc:api") != ""))
        return await url(served) == f"https://api.{DOMAIN}" and await traces(served) == of("api")

    await served.change(KAPI, renamed("api"))
    await served.eventually(moved)
    assert {any(each) for each in seen} == {True}
    assert [each.k8s_proxy["APIServerProxy"]["ServiceName"] for each in await replicas(served, KAPI)] == ["svc:api"] * 2
    await served.becomes(lambda: told(served, CONFIGURED), "2/2 proxy backends ready and advertising")
    assert not await served.writes_when_left_alone()
    await end(served)


async def test_a_hostname_that_is_changed_back_at_once_leaves_no_traces(served: World) -> None:
    await served.change(KAPI, renamed("api"))
    await served.change(KAPI, renamed(None))
    await served.becomes(lambda: url(served), f"https://kapi.{DOMAIN}")
    await served.becomes(lambda: traces(served), of("kapi"))
    await served.change(KAPI, renamed("api"))
    await end(served)


async def test_a_secret_of_a_group_that_lacks_data_or_has_a_strange_name_is_reported_and_stays_unchanged(
    served: World,
) -> None:
    labels = {"tailscale.com/managed": "true", "tailscale.com/parent-resource-type": "proxygroup"}
    labels |= {"tailscale.com/parent-resource": "kapi", "tailscale.com/secret-type": "state"}
    metadata = {"namespace": NAMESPACE, "name": "kapi-strange", "labels": labels}
    strange = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    await served.apply(strange)
    await served.becomes(lambda: served.reason(KAPI, READY), "ProxyGroupCreating")
    assert "Secret tailscale/kapi-strange" in await told(served, READY)
    assert not await served.writes_when_left_alone()
    await served.delete(strange)
    await served.becomes(lambda: served.reason(KAPI, READY), READY)
    empty = obj(SECRET, Key(NAMESPACE, "kapi-0-config"))
    await served.change(empty, {"data": {"config.hujson": None}})
    await served.becomes(lambda: served.reason(KAPI, READY), "ProxyGroupCreating")
    assert "Secret kapi-0-config has no config.hujson" in await told(served, READY)
    assert not await served.writes_when_left_alone()
    await served.delete(empty)
    await served.becomes(lambda: served.reason(KAPI, READY), READY)
    assert (await replicas(served, KAPI))[0].k8s_proxy["AdvertiseServices"] == ["svc:kapi"]


async def test_a_group_that_the_go_operator_has_written_keeps_its_pods_its_devices_and_its_name(cluster: World) -> None:
    async with running_operator(cluster):
        before = await serve(cluster)
        await cluster.settled()
    services, devices = dict(cluster.control.services.present), await cluster.device_names()
    live = await cluster.find(STATEFULSET, "kapi")
    assert live is not None
    await cluster.change(live, {"spec": {"minReadySeconds": None}})
    for resource, name in ((STATEFULSET, "kapi"), (ROLE, "kapi"), (ROLEBINDING, "kapi"), (ROLE, f"kapi.{DOMAIN}")):
        await cluster.change(obj(resource, Key(NAMESPACE, name)), {"metadata": {"annotations": None}})
    async with running_operator(cluster):
        await cluster.settled()
        after = await ready_group(cluster, KAPI)
        assert [uid(each.pod or {}) for each in after] == [uid(each.pod or {}) for each in before]
        assert [each.config for each in after] == [each.config for each in before]
        assert (dict(cluster.control.services.present), await cluster.device_names()) == (services, devices)
        now = await cluster.find(STATEFULSET, "kapi")
        assert now is not None
        assert (now["spec"]["template"], "minReadySeconds" in now["spec"]) == (live["spec"]["template"], False)
        assert not await cluster.writes_when_left_alone()


@pytest.mark.simulated
@pytest.mark.thorough  # the operator looks again after minutes
async def test_a_group_leaves_a_foreign_tailscale_service_of_its_name_alone_and_serves_once_the_name_is_free(
    world: World,
) -> None:
    foreign = TailscaleService("svc:kapi", ("tcp:1",), ("tag:k8s",))
    world.control.services.put(foreign)
    before = world.control.services.present["svc:kapi"]
    await world.apply(KAPI)
    await ready_group(world, KAPI)
    await world.becomes(lambda: world.reason(KAPI, VALID), "KubeAPIServerProxyInvalid")
    await world.becomes(lambda: world.reason(KAPI, READY), "ProxyGroupInvalid")
    assert "Tailscale Service svc:kapi exists already" in await told(world, VALID)
    assert (await told(world, CONFIGURED), await url(world)) == ("0/2 proxy backends ready and advertising", "")
    assert "InvalidTailscaleService" in await world.events(KAPI)
    assert not await world.writes_when_left_alone()
    assert ["ServiceName" in each.k8s_proxy["APIServerProxy"] for each in await replicas(world, KAPI)] == [False, False]
    assert world.control.services.present == {"svc:kapi": before}
    world.control.services.delete("svc:kapi")
    await world.becomes(lambda: url(world), f"https://kapi.{DOMAIN}", 700)
    await end(world)


@pytest.fixture
async def contested(world: World) -> World:
    """A cluster in which a group asks for the name of an Ingress."""
    await world.apply(backend(), KAPI, proxy_group("ing", type="ingress"))
    await ready_group(world, KAPI)
    await world.change(KAPI, renamed("api"))
    await world.becomes(lambda: url(world), f"https://api.{DOMAIN}")
    web = ingress("web", "web", proxy_group="ing")
    await world.apply(web)
    await world.becomes(lambda: primary(world, "svc:web"), True)
    await world.change(KAPI, renamed("web"))
    await world.becomes(lambda: world.reason(KAPI, VALID), "KubeAPIServerProxyInvalid")
    return world


async def primary(world: World, name: str) -> bool:
    return bool(world.control.services.primary(name))


async def test_an_ingress_keeps_a_name_that_a_group_asks_for_even_when_the_group_is_deleted(
    contested: World,
) -> None:
    assert "Ingress default/web has the name web" in await told(contested, VALID)
    before = contested.control.services.present["svc:web"]
    assert await primary(contested, "svc:api")  # the proxies go on serving the last good name
    await contested.delete(KAPI)
    await contested.eventually(lambda: contested.gone(KAPI))
    assert dict(contested.control.services.present) == {"svc:web": before}
    assert await primary(contested, "svc:web")
    assert await traces(contested) == of("web")


async def test_a_group_gets_the_name_of_an_ingress_that_is_deleted(contested: World) -> None:
    await contested.delete(ingress("web", "web"))
    await contested.becomes(lambda: url(contested), f"https://web.{DOMAIN}")
    await contested.becomes(lambda: traces(contested), of("web"))
    await end(contested)


async def test_a_group_that_is_deleted_and_made_again_gets_its_name_back(served: World) -> None:
    await served.settled()
    await served.change(KAPI, {"metadata": {"finalizers": None}})  # impatient users remove the finalizers by hand
    await served.delete(KAPI)
    await served.eventually(lambda: served.gone(KAPI))
    await serve(served)
    await served.becomes(lambda: traces(served), of("kapi"))
    await end(served)


async def test_an_ingress_gets_the_name_that_a_group_gives_up(served: World) -> None:
    await served.apply(backend(), proxy_group("ing", type="ingress"))
    await ready_group(served, proxy_group("ing", type="ingress"))
    web = ingress("web", "kapi", proxy_group="ing")
    await served.apply(web)
    await served.eventually(lambda: taken(served, web))
    assert await primary(served, "svc:kapi")
    await served.change(KAPI, renamed("api"))
    await served.becomes(lambda: url(served), f"https://api.{DOMAIN}")

    async def hosted() -> bool:
        return bool(served.control.services.backends("svc:kapi"))

    await served.becomes(hosted, True, 100)  # a proxy that finds no Secret for the certificate looks again in a minute
    assert await traces(served) == sorted([*of("api"), *of("kapi")])


async def taken(world: World, obj: Object) -> bool:
    return not {"LabelTaken", "InvalidTailscaleService"}.isdisjoint(await world.events(obj))


async def test_a_refused_auth_key_is_replaced_and_the_new_one_stays_until_it_is_used(served: World) -> None:
    before = await ready_group(served, KAPI)
    device = served.control.devices[before[0].device_id]
    served.control.expire_device(device)

    async def back() -> bool:
        found = (await replicas(served, KAPI))[0]
        is_new = found.device_id not in ("", device.node_id)
        return is_new and "AuthKey" not in found.k8s_proxy and await primary(served, "svc:kapi")

    await served.eventually(back)
    assert await served.device_names() == [f"kapi-0.{DOMAIN}", f"kapi-1.{DOMAIN}", OPERATOR]
    after = await ready_group(served, KAPI)
    assert [uid(each.pod or {}) for each in after] == [uid(each.pod or {}) for each in before]
    assert all(key.used for key in served.control.keys.values())
    await served.becomes(lambda: served.reason(KAPI, READY), READY)
    assert not await served.writes_when_left_alone()


async def test_an_event_says_that_no_proxy_is_approved_as_a_host(world: World) -> None:
    world.control.services.approvers = {}
    await world.apply(KAPI)
    told_by = await world.eventually(lambda: event(world, "HostsNotApproved"), 60)
    assert '"autoApprovers": {"services": {"tag:k8s": ["tag:k8s"]}}' in told_by
    assert await told(world, READY) == "waiting for hostname advertisement"
    assert not await world.writes_when_left_alone()
    world.control.services.approvers = None
    await world.becomes(lambda: url(world), f"https://kapi.{DOMAIN}", 100)


async def event(world: World, reason: str) -> str:
    return (await world.events(KAPI)).get(reason, "")


async def test_the_status_of_a_group_counts_a_replica_that_never_gets_ready_as_not_running(world: World) -> None:
    world.control.silent.add("kapi-1")
    await world.apply(KAPI)
    await world.becomes(lambda: told(world, READY), "1/2 ProxyGroup pods running")
    await world.becomes(lambda: url(world), f"https://kapi.{DOMAIN}")
    assert not await world.writes_when_left_alone()
    assert await told(world, CONFIGURED) == "1/2 proxy backends ready and advertising"


async def test_a_status_says_once_that_headscale_has_no_tailscale_services() -> None:
    async with new_world(SimOptions(headscale=True)) as world, running_operator(world):
        await world.apply(KAPI)
        await world.becomes(lambda: world.reason(KAPI, READY), "UnsupportedByControlServer")
        assert await world.reason(KAPI, VALID) == "UnsupportedByControlServer"
        assert "UnsupportedByControlServer" in await world.events(KAPI)
        await ready_group(world, KAPI)
        assert not await world.writes_when_left_alone()
        await end(world)


async def test_a_pod_that_replaces_a_deleted_pod_serves_with_the_same_device(served: World) -> None:
    before = await ready_group(served, KAPI)
    pods = [key_of(each).name for each in (await served.api.list(POD, NAMESPACE)).items]
    assert pods == ["kapi-0", "kapi-1"]
    for each in before:
        assert each.pod is not None
        await served.delete(each.pod)

    async def again() -> bool:
        found = await ready_group(served, KAPI)
        is_same = [each.device_id for each in found] == [each.device_id for each in before]
        return is_same and len(served.control.services.hosts("svc:kapi")) == 2 and await primary(served, "svc:kapi")

    await served.eventually(again)
    await served.becomes(lambda: told(served, CONFIGURED), "2/2 proxy backends ready and advertising")
    assert await traces(served) == of("kapi")
