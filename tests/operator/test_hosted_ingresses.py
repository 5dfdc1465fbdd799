"""Ingresses that ProxyGroups serve: how devices of the tailnet reach them, and that they leave nothing when deleted."""

import json
import logging
from base64 import b64decode
from collections.abc import Sequence

import pytest
from clustersim.sim import SimOptions
from tsoperator.api.names import FINALIZER, HA_INGRESS_FINALIZER
from tsoperator.api.objects import CONFIGMAP, ROLE, ROLEBINDING, SECRET, STATEFULSET, Object, key_of

from tests.support.groups import ready_group
from tests.support.manifests import DOMAIN, annotated, backend, ingress, proxy_group
from tests.support.operator import NAMESPACE, World, new_world, running_operator

GROUP, OTHER = proxy_group("ing", type="ingress"), proxy_group("other", type="ingress")
WEB = f"web.{DOMAIN}"
HTTPS, BOTH = [(WEB, [443])], [(WEB, [443, 80])]


def web(**annotations: str) -> Object:
    return ingress("web", "web", proxy_group="ing", **annotations)


async def shown(world: World, obj: Object) -> list[tuple[str, list[int]]]:
    """Return the names and ports in the status of *obj*, an Ingress."""
    entries = (await world.look(obj)).get("status", {}).get("loadBalancer", {}).get("ingress", [])
    return [(each["hostname"], [port["port"] for port in each.get("ports", ())]) for each in entries]


async def finalizers(world: World) -> list[str]:
    return [*((await world.look(web()))["metadata"].get("finalizers") or ())]


async def traces(world: World) -> list[str]:
    """Return the Tailscale Services, and the objects of the cluster that belong to their certificates."""
    found = [*world.control.services.present]
    for resource in (SECRET, ROLE, ROLEBINDING):
        listed = (await world.api.list(resource, NAMESPACE)).items
        found += [f"{resource.kind} {key_of(each).name}" for each in listed if key_of(each).name.endswith(DOMAIN)]
    return sorted(found)


def of(label: str) -> list[str]:
    """Return the traces that an Ingress with this *label* should have."""
    return sorted([f"svc:{label}", *(f"{kind} {label}.{DOMAIN}" for kind in ("Secret", "Role", "RoleBinding"))])


@pytest.fixture
async def grouped(world: World) -> World:
    """A cluster with a group of type ingress, whose proxies are in the tailnet."""
    await world.apply(backend(), GROUP)
    await ready_group(world, GROUP)
    return world


async def serve(world: World, obj: Object, *names: tuple[str, list[int]]) -> None:
    """Create the Ingress *obj*, and wait until its status shows *names*; without *names*, those in `HTTPS`."""
    await world.apply(obj)
    await world.becomes(lambda: shown(world, obj), [*names] or HTTPS)


async def end(world: World, *objects: Object) -> None:
    """Delete the Ingresses *objects*, and wait until they and their traces are gone."""
    await world.delete(*objects)
    for obj in objects:
        await world.eventually(lambda obj=obj: world.gone(obj))  # type: ignore[misc]
    await world.becomes(lambda: traces(world), [])


async def test_a_group_serves_an_ingress_that_has_a_certificate_and_the_deletion_leaves_no_traces(
    grouped: World,
) -> None:
    await serve(grouped, web())
    assert grouped.control.services.backends("svc:web")
    assert (await finalizers(grouped), await traces(grouped)) == ([HA_INGRESS_FINALIZER], of("web"))
    assert "CertificateReady" in await grouped.events(web())
    assert not await grouped.writes_when_left_alone()
    assert not await grouped.writes_during(grouped.restart())
    await end(grouped, web())


async def test_each_ingress_of_a_group_has_a_tailscale_service_of_its_own(grouped: World) -> None:
    shop = ingress("shop", "shop", proxy_group="ing", tags="tag:shop")
    await serve(grouped, web())
    await serve(grouped, shop, (f"shop.{DOMAIN}", [443]))
    services = grouped.control.services
    assert [services.present[f"svc:{label}"].tags for label in ("web", "shop")] == [("tag:k8s",), ("tag:shop",)]
    await grouped.delete(web())
    await grouped.eventually(lambda: grouped.gone(web()))
    assert (await traces(grouped), await shown(grouped, shop)) == (of("shop"), [(f"shop.{DOMAIN}", [443])])
    await end(grouped, shop)


PLAIN: dict[str, tuple[Object, str]] = {
    "endpoint": (annotated(http_endpoint="enabled"), "http://"),
    "redirect": (annotated(http_redirect="true"), "301:https://"),
    "both": (annotated(http_endpoint="enabled", http_redirect="true"), "http://"),
}


@pytest.mark.parametrize(("patch", "answer"), PLAIN.values(), ids=PLAIN)
async def test_an_ingress_also_answers_plain_http_as_long_as_it_asks_for_that(
    grouped: World, patch: Object, answer: str
) -> None:
    await serve(grouped, web())
    await grouped.change(web(), patch)
    await grouped.becomes(lambda: shown(grouped, web()), BOTH)
    await grouped.becomes(lambda: ports(grouped), ("tcp:443", "tcp:80"))
    (answered,) = await grouped.eventually(lambda: plainly(grouped))
    assert answered.startswith(answer)
    await grouped.change(web(), annotated(http_endpoint=None, http_redirect=None))
    await grouped.becomes(lambda: shown(grouped, web()), HTTPS)
    await grouped.becomes(lambda: ports(grouped), ("tcp:443",))
    await end(grouped, web())


async def plainly(world: World) -> list[str]:
    """Return the answers to plain HTTP in the part of the group's serve config that is about the Ingress."""
    configmap = await world.find(CONFIGMAP, "ing-ingress-config")
    assert configmap is not None
    config = json.loads(b64decode(configmap["binaryData"]["serve-config.json"]))["Services"]["svc:web"]
    handlers = config["Web"].get(f"{WEB}:80", {}).get("Handlers", {})
    return [answer for handler in handlers.values() for answer in handler.values()]


async def ports(world: World) -> Sequence[str]:
    return world.control.services.present["svc:web"].ports


async def test_an_ingress_with_plain_http_shows_port_80_in_its_status_while_its_certificate_is_missing(
    grouped: World,
) -> None:
    grouped.control.services.approvers = {}
    await serve(grouped, web(http_endpoint="enabled"), (WEB, [80]))
    told = await grouped.eventually(lambda: event(grouped, "HostsNotApproved"), 60)
    assert '"autoApprovers": {"services": {"tag:k8s": ["tag:k8s"]}}' in told
    grouped.control.services.approvers = {"tag:k8s": ["tag:k8s"]}
    await grouped.becomes(lambda: shown(grouped, web()), BOTH, 700)
    await end(grouped, web())


async def event(world: World, reason: str) -> str:
    """Return the message of the Event on the Ingress with this *reason*, or an empty string without one."""
    return (await world.events(web())).get(reason, "")


async def test_an_ingress_moves_to_another_name_and_to_another_group(grouped: World) -> None:
    await serve(grouped, web())
    await grouped.change(web(), {"spec": {"tls": [{"hosts": ["shop"]}]}})
    await grouped.becomes(lambda: shown(grouped, web()), [(f"shop.{DOMAIN}", [443])])
    await grouped.becomes(lambda: traces(grouped), of("shop"))
    await grouped.apply(OTHER)
    hosts = {each.device_id for each in await ready_group(grouped, OTHER)}
    await grouped.change(web(), annotated(proxy_group="other"))

    async def moved() -> bool:
        return {*grouped.control.services.hosts("svc:shop")} == hosts

    await grouped.becomes(moved, True)
    await grouped.becomes(lambda: shown(grouped, web()), [(f"shop.{DOMAIN}", [443])])
    assert await traces(grouped) == of("shop")
    await end(grouped, web())


INVALID = {
    "tags": annotated(tags="db"),
    "hosts": {"spec": {"tls": [{"hosts": ["web", "shop"]}]}},
    "wildcard": {"spec": {"tls": [{"hosts": ["*.example.org"]}]}},
    "missing group": annotated(proxy_group="nowhere"),
    "egress group": annotated(proxy_group="egress"),
}


@pytest.mark.parametrize("patch", INVALID.values(), ids=INVALID)
async def test_an_invalid_edit_of_an_ingress_changes_nothing_that_runs(grouped: World, patch: Object) -> None:
    await serve(grouped, web())
    await grouped.apply(proxy_group("egress"))
    await ready_group(grouped, proxy_group("egress"))
    await grouped.settled()
    before, at = dict(grouped.control.services.present), grouped.control.services.primary("svc:web")
    await grouped.change(web(), patch)

    async def is_refused() -> bool:
        return not {"InvalidIngressConfiguration", "ProxyGroupNotFound"}.isdisjoint(await grouped.events(web()))

    await grouped.eventually(is_refused)
    assert not await grouped.writes_when_left_alone()
    services = grouped.control.services
    assert (services.present, services.primary("svc:web"), await shown(grouped, web())) == (before, at, HTTPS)
    assert services.backends("svc:web")
    await end(grouped, web())


async def test_the_older_of_two_ingresses_that_ask_for_one_name_has_the_name_until_its_deletion(grouped: World) -> None:
    await serve(grouped, web())
    addresses = grouped.control.services.present["svc:web"].addresses
    younger = ingress("younger", "web", proxy_group="ing")
    await grouped.apply(younger)
    told = await grouped.eventually(lambda: taken(grouped, younger))
    assert "Ingress default/web is older and has the name web" in told
    assert (await shown(grouped, younger), await shown(grouped, web())) == ([], HTTPS)
    before = grouped.control.services.backends("svc:web")
    await grouped.change(web(), {"metadata": {"annotations": {"tailscale.com/tags": "nonsense"}}})
    await grouped.settled()
    assert (await shown(grouped, younger), await shown(grouped, web())) == ([], HTTPS)
    assert (grouped.control.services.backends("svc:web"), len(before)) == (before, 1)
    await grouped.delete(web())
    await grouped.eventually(lambda: grouped.gone(web()))
    await grouped.becomes(lambda: shown(grouped, younger), HTTPS)
    assert grouped.control.services.present["svc:web"].addresses == addresses
    await end(grouped, younger)


async def taken(world: World, obj: Object) -> str:
    return (await world.events(obj)).get("LabelTaken", "")


async def test_an_ingress_moves_from_a_proxy_of_its_own_to_a_group_and_back(grouped: World) -> None:
    alone = ingress("web", "web")
    await grouped.apply(alone)
    await grouped.joined(alone)
    await grouped.change(alone, annotated(proxy_group="ing"))
    await grouped.becomes(lambda: services_of(grouped), ["svc:web"])
    await grouped.becomes(lambda: shown(grouped, web()), HTTPS)
    assert (await finalizers(grouped), await traces(grouped)) == ([HA_INGRESS_FINALIZER], of("web"))
    assert (await grouped.children(STATEFULSET, alone), WEB in await grouped.device_names()) == ([], False)
    assert grouped.control.services.backends("svc:web")
    await grouped.change(alone, annotated(proxy_group=None))
    await grouped.joined(alone)
    await grouped.becomes(lambda: finalizers(grouped), [FINALIZER])
    assert (await traces(grouped), WEB in await grouped.device_names()) == ([], True)
    await end(grouped, alone)
    assert await grouped.leftovers(alone) == []


async def services_of(world: World) -> list[str]:
    return [*world.control.services.present]


@pytest.mark.parametrize("name", ["none", "egress"])
async def test_the_own_proxy_of_an_ingress_stays_if_the_ingress_names_a_group_that_cannot_serve(
    world: World, name: str
) -> None:
    await world.apply(backend(), ingress(), proxy_group("egress"))
    before = await world.joined(ingress())
    await world.change(ingress(), annotated(proxy_group=name))
    reason = "ProxyGroupNotFound" if name == "none" else "InvalidIngressConfiguration"
    await world.eventually(lambda: event(world, reason))
    assert not await world.writes_when_left_alone()
    after = await world.joined(ingress())
    assert (after.pod_uid, await finalizers(world)) == (before.pod_uid, [FINALIZER])


async def test_an_ingress_whose_group_is_gone_can_be_deleted(grouped: World) -> None:
    await serve(grouped, web())
    addresses = grouped.control.services.present["svc:web"].addresses
    await grouped.delete(GROUP)
    await grouped.eventually(lambda: grouped.gone(GROUP))
    await grouped.eventually(lambda: event(grouped, "ProxyGroupNotFound"))
    assert not await grouped.writes_when_left_alone()
    assert (await shown(grouped, web()), grouped.control.services.present["svc:web"].addresses) == ([], addresses)
    await end(grouped, web())


async def test_a_warning_about_a_certificate_lasts_until_its_cause_ends(
    grouped: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tsoperator")
    strange = {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": NAMESPACE, "name": WEB}, "data": {}}
    await grouped.apply(strange, web())
    await grouped.eventually(lambda: grouped.events(web()))
    await grouped.settled()
    await grouped.annotate(web(), {"tailscale.com/unknown": "1"})  # the Ingress itself gets a warning, too
    await grouped.settled()
    assert told(caplog) == ["CertificateNameTaken"]
    assert sum("is in the way" in line for line in caplog.messages) == 1  # the error of the step has no line of its own
    await grouped.delete(strange)
    await grouped.settled()
    assert told(caplog) == ["CertificateNameTaken", "no longer CertificateNameTaken"]


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the beginnings of the log lines about a certificate whose name another object has."""
    lines = (line.removeprefix("Ingress default/web: ") for line in caplog.messages)
    return [line.partition(":")[0] for line in lines if "CertificateNameTaken" in line]


async def test_an_event_says_once_that_headscale_has_no_tailscale_services() -> None:
    async with new_world(SimOptions(headscale=True)) as world, running_operator(world):
        await world.apply(backend(), GROUP, ingress("shop", "shop"))
        await ready_group(world, GROUP)
        before = await running_pod(world)
        await world.apply(web())
        await world.change(ingress("shop"), annotated(proxy_group="ing"))
        await world.eventually(lambda: event(world, "UnsupportedByControlServer"))
        assert not await world.writes_when_left_alone()
        assert await running_pod(world) == before
        await end(world, web())


async def running_pod(world: World) -> str:
    """Return the UID of the Pod that serves the Ingress ``shop``."""
    return (await world.eventually(lambda: world.proxy(ingress("shop")))).pod_uid


async def test_an_event_names_the_scope_that_the_operator_lacks(cluster: World) -> None:
    cluster.control.scopes.discard("services")
    async with running_operator(cluster):
        await cluster.apply(backend(), GROUP, web())
        told = await cluster.eventually(lambda: event(cluster, "TailscaleServiceFailed"))
        assert "it needs the scope Services (services) with write access" in told
        await ready_group(cluster, GROUP)
        assert not await cluster.writes_when_left_alone()
        await end(cluster, web())
