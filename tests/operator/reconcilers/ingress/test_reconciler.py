"""Ingresses on a cluster: the operator runs, and the state of the world is looked at."""

import json
from base64 import b64encode
from datetime import timedelta
from typing import Any

import pytest
from tsoperator.api.names import INGRESS_CONTROLLER
from tsoperator.api.objects import INGRESSCLASS, SECRET, STATEFULSET

from tests.support.certificates import certificate_for
from tests.support.manifests import DOMAIN, FQDN, backend, dnsconfig, egress, ingress
from tests.support.operator import NAMESPACE, Proxy, World, running_operator

WEB = f"web.{DOMAIN}"
HOST = "${TS_CERT_DOMAIN}"
NO_CLASS = "there is no IngressClass private: Ingresses that name it are served, but tools may not know it; create it"


async def serving(world: World) -> str:
    """Return the hostname in the Ingress's status; empty if there is none."""
    entries = ((await world.look(ingress())).get("status") or {}).get("loadBalancer", {}).get("ingress") or [{}]
    return str(entries[0].get("hostname", ""))


async def serve_config(world: World) -> Any:
    """Return what the proxy is told to serve; nothing before there is one."""
    secrets = await world.children(SECRET, ingress())
    text = Proxy({}, {}, secrets[0], {}).state.get("serve-config") if secrets else None
    return json.loads(text) if text else None


async def target(world: World) -> str:
    """Return the URL that the proxy sends requests for ``/`` to."""
    config = await serve_config(world)
    return str(config["Web"][f"{HOST}:443"]["Handlers"]["/"]["Proxy"]) if config else ""


async def test_a_proxy_serves_the_backend_over_https(world: World) -> None:
    await world.apply(backend(), ingress())
    await world.joined(ingress())
    address = (await world.look(backend()))["spec"]["clusterIP"]
    handlers = {"Handlers": {"/": {"Proxy": f"http://{address}:80/"}}}
    assert await serve_config(world) == {"TCP": {"443": {"HTTPS": True}}, "Web": {f"{HOST}:443": handlers}}


async def test_an_ingress_of_another_class_loses_its_proxy_and_its_status(world: World) -> None:
    await world.apply(dnsconfig(), backend(), ingress())
    await world.joined(ingress())
    await world.change(ingress(), {"spec": {"ingressClassName": "nginx"}})
    await world.becomes(lambda: world.leftovers(ingress()), [])
    await world.becomes(world.records, {})
    await world.settled()
    assert (await serving(world), await world.device_names()) == ("", [])
    assert "finalizers" not in (await world.look(ingress()))["metadata"]


@pytest.mark.parametrize("exists", [False, True])
async def test_an_ingress_of_a_class_that_is_nearly_ours_says_so_unless_there_is_one(
    world: World, exists: bool
) -> None:
    obj, spec = ingress(), {"controller": "example.org/other"}
    obj["spec"]["ingressClassName"] = "tailscael"
    class_ = {"apiVersion": INGRESSCLASS.api_version, "kind": INGRESSCLASS.kind, "metadata": {"name": "tailscael"}}
    classes = [{**class_, "spec": spec}] * exists
    await world.apply(*classes)
    await world.settled()
    await world.apply(obj)
    assert not await world.writes_when_left_alone()
    assert ("IgnoredIngressClass" in await world.events(obj)) is not exists
    assert await world.leftovers(obj) == []
    await world.delete(*classes)


async def test_a_dnsconfig_lets_pods_reach_all_ingresses_but_those_that_say_otherwise(world: World) -> None:
    off = ingress("off", "off", experimental_forward_cluster_traffic_via_ingress="false")
    await world.apply(backend(), ingress(), off, dnsconfig())
    before = [await world.joined(each) for each in (ingress(), off)]
    asking = {**dnsconfig(), "spec": {**dnsconfig()["spec"], "clusterDNS": {"ingressNames": True}}}
    await world.change(dnsconfig(), {"spec": asking["spec"]})
    await world.becomes(lambda: in_kernel(world), True)
    after = [await world.joined(each) for each in (ingress(), off)]
    assert [old.pod_uid == new.pod_uid for old, new in zip(before, after, strict=True)] == [False, True]
    await world.annotate(dnsconfig(), {"example.org/note": "x"})
    assert not await world.writes_when_left_alone()
    await world.delete(dnsconfig())
    await world.becomes(lambda: in_kernel(world), False)
    await world.settled()
    await world.apply(asking)
    await world.becomes(lambda: in_kernel(world), True)


async def in_kernel(world: World) -> bool:
    """Tell whether the proxy of the Ingress runs, and takes connections from the cluster."""
    proxy = await world.proxy(ingress())
    return proxy is not None and "EXPERIMENTAL_ALLOW_PROXYING_CLUSTER_TRAFFIC_VIA_INGRESS" in proxy.env


@pytest.mark.real_time
async def test_a_backend_that_comes_later_is_served(world: World) -> None:
    await world.apply(ingress())
    await world.eventually(lambda: event(world, "NoValidBackends"))
    assert await world.leftovers(ingress()) == []
    await world.apply(backend())
    await world.joined(ingress())


async def test_a_backend_made_anew_is_served_at_its_new_address(world: World) -> None:
    await world.apply(backend(), ingress())
    before = await world.joined(ingress())
    await world.delete(backend())
    await world.apply(backend(clusterIP="10.96.77.7"))
    await world.becomes(lambda: target(world), "http://10.96.77.7:80/")
    assert (await world.joined(ingress())).pod_uid == before.pod_uid


async def event(world: World, reason: str) -> str:
    """Return the message of the Event on the Ingress for that *reason*; empty if there is none."""
    return (await world.events(ingress())).get(reason, "")


async def certify(world: World, pem: str) -> None:
    """Give the proxy a certificate, as its tailscaled does."""
    (secret,) = await world.children(SECRET, ingress())
    files = {f"{WEB}.crt": pem, f"{WEB}.key": "key"}
    await world.change(secret, {"data": {name: b64encode(text.encode()).decode() for name, text in files.items()}})


async def test_a_certificate_is_told_once_it_is_there(world: World) -> None:
    await world.apply(backend(), ingress())
    await world.joined(ingress())
    assert await event(world, "CertificateReady") == ""
    await certify(world, certificate_for(timedelta(days=90)))
    assert f"https://{WEB}/" in await world.eventually(lambda: event(world, "CertificateReady"))
    assert not await world.writes_when_left_alone()
    assert not await world.writes_during(world.restart())


async def test_an_ingress_class_that_is_not_there_is_logged_once(
    cluster: World, caplog: pytest.LogCaptureFixture
) -> None:
    second = ingress("shop", "shop", tags="tag:k8s")
    await cluster.apply(backend(), ingress(), second)
    for obj in (ingress(), second):
        await cluster.change(obj, {"spec": {"ingressClassName": "private"}})
    async with running_operator(cluster, ingress_class="private"):
        await cluster.eventually(lambda: cluster.proxy(ingress()))
        await cluster.eventually(lambda: cluster.proxy(second))
    assert [record.message for record in caplog.records].count(NO_CLASS) == 1


async def test_an_ingress_class_that_goes_again_is_logged_again(
    cluster: World, caplog: pytest.LogCaptureFixture
) -> None:
    metadata, spec = {"name": "private"}, {"controller": INGRESS_CONTROLLER}
    right = {"apiVersion": INGRESSCLASS.api_version, "kind": INGRESSCLASS.kind, "metadata": metadata, "spec": spec}
    await cluster.apply(backend(), ingress())
    await cluster.change(ingress(), {"spec": {"ingressClassName": "private"}})
    async with running_operator(cluster, ingress_class="private"):
        await cluster.eventually(lambda: cluster.proxy(ingress()))
        for change in (cluster.apply, cluster.delete):
            await change(right)
            await cluster.settled()
            await cluster.annotate(ingress(), {"example.org/look": change.__name__})
            await cluster.settled()
    assert [record.message for record in caplog.records].count(NO_CLASS) == 2


async def test_an_ingress_and_a_service_of_one_name_have_proxies_of_their_own(world: World) -> None:
    service = egress("web", FQDN)
    obj = ingress()
    obj["spec"]["defaultBackend"]["service"]["name"] = "shop"
    await world.apply(backend("shop"), service, obj)
    await world.joined(ingress())
    await world.eventually(lambda: world.proxy(service))
    assert len(await world.device_names()) == 2
    assert len((await world.api.list(STATEFULSET, NAMESPACE)).items) == 2
