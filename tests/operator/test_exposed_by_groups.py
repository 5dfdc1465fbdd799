"""Ingresses and Services that ProxyGroups expose, with all parts of the operator: from the object to the backend."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from clustersim.tailnetservices import TailscaleService
from hypothesis import given, settings
from hypothesis import strategies as st
from tsoperator.api.names import LABEL_SECRET_TYPE
from tsoperator.api.objects import CONFIGMAP, ENDPOINTSLICE, SECRET, Key, Object, key_of, labels
from tsoperator.api.owners import ANNOTATION_OWNERS

from tests.support import patient
from tests.support.cluster import put
from tests.support.groups import ready_group
from tests.support.manifests import DOMAIN, backend, dnsconfig, identity, ingress, load_balancer, proxy_group
from tests.support.objects import endpoint, obj
from tests.support.operator import NAMESPACE, World, new_world, running_operator
from tests.support.othertailnet import other_tailnet

pytestmark = pytest.mark.simulated

GROUP, OTHER = (proxy_group(name, type="ingress", replicas=2) for name in ("ing", "other"))
RECORDS = obj(CONFIGMAP, Key(NAMESPACE, "dnsrecords"))
API, WEB = load_balancer("api", proxy_group="ing"), ingress("web", proxy_group="ing", http_endpoint="enabled")


def endpoints(service: str, *, ready: bool = True) -> Object:
    content = {"addressType": "IPv4", "endpoints": [endpoint("10.9.0.1", ready=ready)], "ports": []}
    return obj(ENDPOINTSLICE, Key("default", f"{service}-x"), content, labels={"kubernetes.io/service-name": service})


@asynccontextmanager
async def exposing(world: World, node_id: str = "nOP") -> AsyncIterator[World]:
    """Run an operator with the ID *node_id* on a cluster that has a group, and backends with endpoints."""
    await world.apply(identity(node_id))
    async with running_operator(world):
        await world.apply(GROUP, backend("web"))
        for service in ("api", "web"):
            await put(world.api, endpoints(service))
        await ready_group(world, GROUP)
        yield world


async def leads(world: World, label: str) -> tuple[str, ...]:
    """Return the backends to which connections to the Tailscale Service with this *label* lead."""
    return world.control.services.backends(f"svc:{label}")


async def cluster_ip(world: World, service: Object = API) -> str:
    return str((await world.look(service))["spec"]["clusterIP"])


async def traces(world: World) -> list[str]:
    """Return the traces of exposed objects: Tailscale Services, certificates, and documents of groups."""
    services = [*world.control.services.present]
    secrets = [key_of(each).name for each in (await world.api.list(SECRET, NAMESPACE)).items if _is_certificate(each)]
    configured = [f"{group}: {text}" for group in ("ing", "other") for text in await configuration(world, group)]
    return sorted([*services, *secrets, *configured])


def _is_certificate(secret: Object) -> bool:
    return labels(secret).get(LABEL_SECRET_TYPE) == "certs"


async def configuration(world: World, group: str) -> list[str]:
    """Return the names of those documents in the ConfigMap of a *group* that aren't empty."""
    configmap = await world.find(CONFIGMAP, f"{group}-ingress-config") or {}
    return [name for name, text in (configmap.get("binaryData") or {}).items() if text != "e30="]


async def test_a_service_is_reached_by_its_name_and_its_addresses_and_leaves_nothing_behind(cluster: World) -> None:
    async with exposing(cluster):
        await cluster.apply(dnsconfig(), API)
        await cluster.becomes(lambda: leads(cluster, "default-api"), (await cluster_ip(cluster),))
        (address, _) = cluster.control.services.present["svc:default-api"].addresses
        shown = {"hostname": f"default-api.{DOMAIN}", "ip": address}
        await cluster.becomes(lambda: entries(cluster, API), [shown])
        name = f"default-api.{DOMAIN}"
        await cluster.becomes(lambda: record(cluster, name), {await cluster_ip(cluster)})
        assert not await cluster.writes_when_left_alone()
        await cluster.change(endpoints("api"), {"endpoints": endpoints("api", ready=False)["endpoints"]})
        await cluster.eventually(lambda: lacks_pods(cluster, API))
        await cluster.delete(API)
        await cluster.eventually(lambda: cluster.gone(API))
        await cluster.becomes(lambda: traces(cluster), [])
        await cluster.becomes(lambda: record(cluster, name), set())


async def test_a_name_stays_in_the_clusters_dns_while_a_new_operator_finds_no_control_server(cluster: World) -> None:
    name = f"default-api.{DOMAIN}"
    async with exposing(cluster):
        await cluster.apply(dnsconfig(), API)
        await cluster.becomes(lambda: record(cluster, name), {await cluster_ip(cluster)})
        await cluster.settled()
    before = await cluster.look(RECORDS)
    cluster.control.fail(503, count=10_000)
    await cluster.restart()
    assert await cluster.look(RECORDS) == before


async def lacks_pods(world: World, of: Object) -> bool:
    return "IngressSvcNoBackendsConfigured" in await world.events(of)


async def record(world: World, name: str) -> set[str]:
    return {each for each in (await world.records()).get(name, ()) if ":" not in each}


async def entries(world: World, of: Object) -> list[Object]:
    """Return the hostnames and addresses of the load balancer in the status of the object *of*."""
    found = ((await world.look(of)).get("status") or {}).get("loadBalancer", {}).get("ingress") or []
    return [{name: value for name, value in each.items() if name in ("hostname", "ip")} for each in found]


async def test_an_ingress_gets_its_certificate_from_the_first_proxy_and_leaves_nothing_behind(cluster: World) -> None:
    async with exposing(cluster):
        secure = ingress("web", proxy_group="ing")
        await cluster.apply(secure)
        address = await cluster_ip(cluster, backend("web"))
        await cluster.becomes(lambda: leads(cluster, "web"), (f"http://{address}:80/",))
        await cluster.becomes(lambda: entries(cluster, secure), [{"hostname": f"web.{DOMAIN}"}])
        assert not await cluster.writes_when_left_alone()
        await cluster.delete(secure)
        await cluster.eventually(lambda: cluster.gone(secure))
        await cluster.becomes(lambda: traces(cluster), [])


@pytest.mark.parametrize("exposed", [API, WEB], ids=["Service", "Ingress"])
async def test_an_object_moves_from_its_own_proxy_to_a_group_and_back(cluster: World, exposed: Object) -> None:
    label = "web" if exposed is WEB else "default-api"
    alone = {**exposed, "metadata": {**exposed["metadata"], "annotations": {}}}
    async with exposing(cluster):
        await cluster.apply(alone)
        await cluster.becomes(lambda: entries_name(cluster, exposed), f"{label}.{DOMAIN}")
        await cluster.annotate(exposed, {"tailscale.com/proxy-group": "ing"})
        await cluster.eventually(lambda: leads(cluster, label))
        await cluster.settled()
        assert await cluster.proxy(exposed) is None
        assert f"{label}.{DOMAIN}" not in await cluster.device_names()
        await cluster.annotate(exposed, {"tailscale.com/proxy-group": None})
        await cluster.becomes(lambda: traces(cluster), [])
        await cluster.joined(exposed)
        await cluster.becomes(lambda: entries_name(cluster, exposed), f"{label}.{DOMAIN}")
        assert f"{label}.{DOMAIN}" in await cluster.device_names()


async def entries_name(world: World, of: Object) -> str:
    return next((each["hostname"] for each in await entries(world, of) if "hostname" in each), "")


async def test_two_operators_share_a_tailscale_service(cluster: World) -> None:
    async with new_world() as second:
        second.tailnets.others[cluster.control_url] = cluster.control
        far = replace(second, control=cluster.control, control_url=cluster.control_url)
        async with exposing(cluster, "nONE"), exposing(far, "nTWO"):
            sides = (cluster, far)
            await far.apply(backend("other"))  # so that the cluster IPs differ
            for each in sides:
                await each.apply(API)
            await cluster.becomes(lambda: owners(cluster), {"nONE", "nTWO"})
            assert await cluster_ip(cluster) != await cluster_ip(far)
            for number in range(50):
                tags = "tag:k8s" if number % 4 < 2 else "tag:k8s,tag:other"
                await sides[number % 2].annotate(API, {"tailscale.com/tags": tags})
                await asyncio.sleep(number % 5 / 10)
            await far.settled()
            assert await owners(cluster) == {"nONE", "nTWO"}
            await cluster.change(endpoints("api"), {"endpoints": endpoints("api", ready=False)["endpoints"]})
            await cluster.becomes(lambda: leads(cluster, "default-api"), (await cluster_ip(far),))
            await cluster.delete(API)
            await cluster.eventually(lambda: cluster.gone(API))
            assert (await owners(cluster), await leads(far, "default-api")) == ({"nTWO"}, (await cluster_ip(far),))
            await far.delete(API)
            await far.eventually(lambda: far.gone(API))
            await far.becomes(lambda: traces(far), [])


async def owners(world: World) -> set[str]:
    """Return the IDs of the operators that own the Tailscale Service of `API`."""
    service = world.control.services.present.get("svc:default-api")
    document = json.loads((service.annotations if service else {}).get(ANNOTATION_OWNERS, "{}"))
    return {each["operatorID"] for each in document.get("ownerRefs", ())}


class Play:
    """Changes of exposed objects and of the objects around them, by name. Each change can happen at any time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.there: dict[str, Object] = {}

    @property
    def events(self) -> dict[str, Callable[[], Awaitable[None]]]:
        return {
            "api": lambda: self._toggle("api", API),
            "web": lambda: self._toggle("web", WEB),
            "rival": lambda: self._toggle("rival", load_balancer("rival", proxy_group="other", hostname="web")),
            "group": lambda: self._toggle("group", GROUP),
            "other": lambda: self._toggle("other", OTHER),
            "move api": lambda: self._annotate("api", "proxy-group", "other"),
            "move web": lambda: self._annotate("web", "proxy-group", "other"),
            "free api": lambda: self._annotate("api", "proxy-group", None),
            "rename api": lambda: self._annotate("api", "hostname", "shop"),
            "break web": lambda: self._annotate("web", "tags", "tag:1"),
            "mend web": lambda: self._annotate("web", "tags", None),
            "settle": self._world.settled,
        }

    async def _toggle(self, name: str, made: Object) -> None:
        """Create the object *made*, or delete it if the cluster has it."""
        if name in self.there:
            await self._world.delete(self.there.pop(name))
            await self._world.eventually(lambda: self._world.gone(made))
        else:
            await self._world.apply(made)
            self.there[name] = made

    async def _annotate(self, name: str, annotation: str, value: str | None) -> None:
        if name in self.there:
            await self._world.annotate(self.there[name], {f"tailscale.com/{annotation}": value})

    async def end(self) -> None:
        """Delete all objects that the events have created."""
        for name in [*self.there]:
            await self._toggle(name, self.there[name])


async def after(steps: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the traces and the devices that are left after the events *steps* and the deletion of all objects."""
    foreign = TailscaleService(
        "svc:foreign", ("tcp:443",), (), {ANNOTATION_OWNERS: json.dumps({"ownerRefs": [{"operatorID": "nTHEM"}]})}
    )
    async with new_world() as world:
        world.control.services.put(foreign)
        await world.apply(identity())
        async with running_operator(world):
            await world.apply(backend("web"))
            for service in ("api", "web", "rival"):
                await put(world.api, endpoints(service))
            play = Play(world)
            for step in steps:
                await play.events[step]()
            await play.end()
            await world.settled()
            await world.becomes(lambda: traces(world), ["svc:foreign"])
            return await traces(world), [each for each in await world.device_names() if "operator" not in each]


EVENTS = (
    "api", "web", "rival", "group", "other", "move api", "move web", "free api", "rename api", "break web", "mend web",
    "settle",
)  # fmt: skip
STORY = ("group", "other", "api", "web", "settle", "rival", "rename api", "move web", "settle", "break web", "free api")


def test_nothing_is_left_of_exposed_objects_that_moved_between_groups_and_names() -> None:
    assert patient.run(after(STORY)) == (["svc:foreign"], [])


@pytest.mark.thorough
@pytest.mark.timeout(1800)
@settings(max_examples=100 if settings.get_current_profile_name() == "soak" else 8)
@given(st.lists(st.sampled_from(EVENTS), max_size=14))
def test_nothing_is_left_of_exposed_objects_after_any_sequence_of_events(steps: list[str]) -> None:
    assert patient.run(after(steps)) == (["svc:foreign"], [])


@pytest.mark.parametrize("order", [["tailnet", "group", "objects"], ["objects", "group", "tailnet"]])
async def test_a_deleted_tailnet_stays_until_its_tailscale_services_are_gone_even_if_the_operator_restarts(
    cluster: World, order: list[str]
) -> None:
    async with other_tailnet(cluster) as other:
        group = proxy_group("ing", type="ingress", replicas=1, tailnet="lab")
        things = {"tailnet": [other.tailnet()], "group": [group], "objects": [API, WEB]}
        await cluster.apply(identity("nOP"))
        async with running_operator(cluster):
            await cluster.apply(other.secret(), other.tailnet(), group, backend("web"), API, WEB)
            for name in ("api", "web"):
                await put(cluster.api, endpoints(name))
            for each in (API, WEB):
                await cluster.eventually(lambda each=each: entries(cluster, each))  # type: ignore[misc]
        other.control.latency = 1
        for name in order:
            await cluster.delete(*things[name])
            await cluster.restart()
        async with running_operator(cluster):
            for gone in (API, WEB, group, other.tailnet()):
                await cluster.eventually(lambda gone=gone: cluster.gone(gone))  # type: ignore[misc]
        assert not other.control.services.present
