"""Ingresses on a cluster: the operator runs, and the state of the world is looked at."""

import json
from base64 import b64encode
from datetime import timedelta
from typing import Any

import pytest
from tsoperator.api.names import FINALIZER, INGRESS_CONTROLLER
from tsoperator.api.objects import INGRESSCLASS, SECRET, SERVICE, STATEFULSET

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


async def test_an_ingress_gets_a_proxy_and_shows_its_name(world: World) -> None:
    await world.apply(backend(), ingress())
    proxy = await world.joined(ingress())
    status = (await world.look(ingress()))["status"]
    assert status["loadBalancer"]["ingress"] == [{"hostname": WEB, "ports": [{"port": 443, "protocol": "TCP"}]}]
    assert FINALIZER in (await world.look(ingress()))["metadata"]["finalizers"]
    assert (proxy.env["TS_USERSPACE"], "AuthKey" in proxy.config) == ("true", False)
    assert await world.device_names() == [WEB]


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


async def test_an_ingress_of_another_class_is_left_alone(world: World) -> None:
    obj = ingress()
    obj["spec"]["ingressClassName"] = "nginx"
    await world.apply(backend(), obj)
    assert not await world.writes_when_left_alone()
    assert await world.leftovers(obj) == []


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


async def test_a_proxy_keeps_its_name_and_tags_while_those_of_its_ingress_are_refused(world: World) -> None:
    await world.apply(backend(), ingress(tags="tag:web"))
    before = await world.joined(ingress())
    await world.annotate(ingress(), {"tailscale.com/tags": "web"})
    await world.change(ingress(), {"spec": {"tls": [{"hosts": ["x" * 64]}]}})
    await world.change(backend(), {"spec": {"ports": [{"name": "http", "port": 8080, "targetPort": 80}]}})
    await world.change(ingress(), {"spec": {"defaultBackend": {"service": {"port": {"number": 8080}}}}})
    await world.becomes(lambda: served_port(world), "8080")
    after = await world.joined(ingress())
    assert (after.pod_uid, after.config["Hostname"]) == (before.pod_uid, "web")
    assert [(device.name, device.tags) for device in world.control.devices.values()] == [(WEB, ("tag:web",))]
    told = await world.events(ingress())
    assert told["InvalidHostname"].endswith("until then the proxy keeps the hostname web")
    assert told["InvalidTags"].endswith("until then its device keeps its tags")
    assert not await world.writes_when_left_alone()


async def served_port(world: World) -> str:
    """Return the port that the proxy sends requests for ``/`` to."""
    return (await target(world)).rpartition(":")[2].removesuffix("/")


async def test_a_redirect_is_served_and_shown(world: World) -> None:
    await world.apply(backend(), ingress(http_redirect="true"))
    await world.joined(ingress())
    config = await serve_config(world)
    status = (await world.look(ingress()))["status"]["loadBalancer"]["ingress"][0]
    assert [port["port"] for port in status["ports"]] == [443, 80]
    assert config["TCP"]["80"] == {"HTTP": True}
    assert config["Web"][f"{HOST}:80"]["Handlers"] == {"/": {"Redirect": "301:https://${HOST}${REQUEST_URI}"}}


async def test_funnel_is_allowed_where_it_is_asked_for(world: World) -> None:
    await world.apply(backend(), ingress(funnel="true"))
    await world.joined(ingress())
    assert (await serve_config(world))["AllowFunnel"] == {f"{HOST}:443": True}


async def test_cluster_traffic_is_forwarded_by_a_proxy_in_the_kernel(world: World) -> None:
    await world.apply(backend(), ingress(experimental_forward_cluster_traffic_via_ingress="true"))
    proxy = await world.joined(ingress())
    assert proxy.env["TS_USERSPACE"] == "false"
    assert proxy.env["EXPERIMENTAL_ALLOW_PROXYING_CLUSTER_TRAFFIC_VIA_INGRESS"] == "true"


async def test_a_dnsconfig_lets_pods_reach_all_ingresses_but_those_that_say_otherwise(world: World) -> None:
    off = ingress("off", "off", experimental_forward_cluster_traffic_via_ingress="false")
    await world.apply(backend(), ingress(), off, dnsconfig())
    before = [await world.joined(each) for each in (ingress(), off)]
    asked = {"spec": {"clusterDNS": {"ingressNames": True}}}
    await world.change(dnsconfig(), asked)
    await world.becomes(lambda: in_kernel(world), True)
    after = [await world.joined(each) for each in (ingress(), off)]
    assert [old.pod_uid == new.pod_uid for old, new in zip(before, after, strict=True)] == [False, True]
    await world.annotate(dnsconfig(), {"example.org/note": "x"})
    assert not await world.writes_when_left_alone()
    await world.delete(dnsconfig())
    await world.becomes(lambda: in_kernel(world), False)
    await world.settled()
    await world.apply(dnsconfig() | asked)
    await world.becomes(lambda: in_kernel(world), True)


async def in_kernel(world: World) -> bool:
    """Tell whether the proxy of the Ingress runs, and takes connections from the cluster."""
    proxy = await world.proxy(ingress())
    return proxy is not None and "EXPERIMENTAL_ALLOW_PROXYING_CLUSTER_TRAFFIC_VIA_INGRESS" in proxy.env


async def test_an_ingress_has_no_name_in_the_cluster_if_it_says_so(world: World) -> None:
    await world.apply(backend(), ingress(), dnsconfig())
    proxy = await world.joined(ingress())
    await world.becomes(world.records, {WEB: proxy.addresses})
    await world.annotate(ingress(), {"tailscale.com/cluster-dns": "false"})
    await world.becomes(world.records, {})
    await world.settled()
    assert "finalizers" not in (await world.children(SERVICE, ingress()))[0]["metadata"]


async def has_told(world: World, reason: str) -> bool:
    return reason in await world.events(ingress())


@pytest.mark.real_time
async def test_a_backend_that_comes_later_is_served(world: World) -> None:
    await world.apply(ingress())
    await world.becomes(lambda: has_told(world, "NoValidBackends"), True)
    assert await world.leftovers(ingress()) == []
    await world.apply(backend())
    await world.joined(ingress())


async def test_a_backend_that_goes_leaves_the_proxy_as_it_is(world: World) -> None:
    await world.apply(backend(), ingress())
    before = await world.joined(ingress())
    await world.delete(backend())
    await world.settled()
    after = await world.proxy(ingress())
    assert after is not None
    assert (after.pod_uid, after.state) == (before.pod_uid, before.state)
    assert "NoValidBackends" in await world.events(ingress())


async def test_a_backend_made_anew_is_served_at_its_new_address(world: World) -> None:
    await world.apply(backend(), ingress())
    before = await world.joined(ingress())
    await world.delete(backend())
    await world.apply(backend(clusterIP="10.96.77.7"))
    await world.becomes(lambda: target(world), "http://10.96.77.7:80/")
    assert (await world.joined(ingress())).pod_uid == before.pod_uid


async def test_a_new_number_of_a_named_port_reaches_the_proxy(world: World) -> None:
    obj = ingress()
    obj["spec"]["defaultBackend"]["service"]["port"] = {"name": "http"}
    await world.apply(backend(), obj)
    await world.joined(ingress())
    address = (await world.look(backend()))["spec"]["clusterIP"]
    await world.change(backend(), {"spec": {"ports": [{"name": "http", "port": 8080}]}})
    await world.becomes(lambda: target(world), f"http://{address}:8080/")


async def test_without_https_nothing_is_shown_and_an_event_says_why(world: World) -> None:
    world.control.https = False
    await world.apply(dnsconfig(), backend(), ingress())
    await world.eventually(lambda: world.proxy(ingress()))
    await world.eventually(lambda: event(world, "HTTPSNotEnabled"))
    assert await serving(world) == ""
    assert await world.records() == {}
    assert not await world.writes_when_left_alone()


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


async def test_a_certificate_that_is_not_renewed_is_told(world: World) -> None:
    await world.apply(backend(), ingress())
    before = await world.joined(ingress())
    await certify(world, certificate_for(timedelta(days=13)))
    assert WEB in await world.eventually(lambda: event(world, "CertificateNotRenewed"))
    assert not await world.writes_when_left_alone()
    assert (await world.joined(ingress())).pod_uid == before.pod_uid


async def test_a_field_of_tls_without_effect_is_told(world: World) -> None:
    obj = ingress()
    obj["spec"]["tls"] = [{"hosts": ["web", "shop"], "secretName": "web-tls"}]
    await world.apply(backend(), obj)
    await world.joined(ingress())
    events = await world.events(obj)
    assert "hosts shop of spec.tls" in events["IgnoredTLSHosts"]
    assert "web-tls" in events["IgnoredTLSSecret"]
    assert not await world.writes_when_left_alone()


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
