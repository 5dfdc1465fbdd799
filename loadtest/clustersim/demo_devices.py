"""Checks that the tailnet has the devices that the operator makes for objects, and the Tailscale Services of groups."""

import base64
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp

from clustersim.apiclient import ApiClient
from clustersim.demo_checks import NotYet, Reached
from clustersim.demo_stage import OPERATOR_NAMESPACE
from clustersim.objects import (
    CONNECTOR,
    INGRESS,
    PEERRELAY,
    PROXYGROUP,
    RECORDER,
    SECRET,
    SERVICE,
    Object,
    Resource,
    name_of,
    namespace_of,
)

PROXY_GROUP = "tailscale.com/proxy-group"
EXPOSE = "tailscale.com/expose"
CLASS = "tailscale"
PARENT_TYPES = {SERVICE: "svc", CONNECTOR: "connector", PEERRELAY: "peerrelay"}
READY = {
    SERVICE: "TailscaleProxyReady",
    CONNECTOR: "ConnectorReady",
    PEERRELAY: "PeerRelayReady",
    RECORDER: "RecorderReady",
}
CLUSTER_WIDE = {each.kind: each for each in (CONNECTOR, PEERRELAY, RECORDER)}
EVERYTHING = {"0.0.0.0/0", "::/0"}
"""The routes to all IPv4 and IPv6 addresses. A device that advertises both is an exit node."""


@dataclass(frozen=True, slots=True)
class Shown:
    """An object for which the operator runs devices that the tailnet can use."""

    resource: Resource
    namespace: str
    name: str

    @property
    def labels(self) -> dict[str, str]:
        """The labels that the operator gives all children of this object."""
        namespace = {"tailscale.com/parent-resource-ns": self.namespace} if self.namespace else {}
        return {
            "tailscale.com/parent-resource": self.name,
            "tailscale.com/parent-resource-type": PARENT_TYPES[self.resource],
            **namespace,
        }

    def __str__(self) -> str:
        return f"{self.resource.singular}/{self.name}"


@dataclass(frozen=True, slots=True)
class Hosted:
    """An Ingress or a Service that the proxies of a ProxyGroup expose to the tailnet, as a Tailscale Service.

    A ProxyGroup of type kube-apiserver exposes the Kubernetes API, and is its own *group*.
    """

    resource: Resource
    namespace: str
    name: str
    group: str

    def __str__(self) -> str:
        by = "" if self.resource == PROXYGROUP else f" by proxygroup/{self.group}"
        return f"{self.resource.singular}/{self.name}{by}"


def hosted(objects: Iterable[Object]) -> list[Hosted]:
    """Return the *objects* that a ProxyGroup exposes to the tailnet."""
    found = []
    for obj in objects:
        if obj["kind"] == PROXYGROUP.kind and obj["spec"]["type"] == "kube-apiserver":
            found.append(Hosted(PROXYGROUP, "", name_of(obj), name_of(obj)))
        group = (obj["metadata"].get("annotations") or {}).get(PROXY_GROUP, "")
        is_hosted = obj["kind"] == INGRESS.kind or (obj["kind"] == SERVICE.kind and _is_exposed(obj))
        if group and is_hosted:
            resource = INGRESS if obj["kind"] == INGRESS.kind else SERVICE
            found.append(Hosted(resource, namespace_of(obj), name_of(obj), group))
    return found


def shown(objects: Iterable[Object]) -> list[Shown]:
    """Return the *objects* for which the operator makes devices that the tailnet can use."""
    found = []
    for obj in objects:
        if resource := CLUSTER_WIDE.get(obj["kind"]):
            found.append(Shown(resource, "", name_of(obj)))
        elif obj["kind"] == SERVICE.kind and _is_exposed(obj) and not hosted([obj]):
            found.append(Shown(SERVICE, namespace_of(obj), name_of(obj)))
    return sorted(found, key=lambda target: [SERVICE, *CLUSTER_WIDE.values()].index(target.resource))


@asynccontextmanager
async def control_client(url: str, client_id: str, client_secret: str) -> AsyncIterator[aiohttp.ClientSession]:
    """Yield an HTTP session with the control server at *url*, logged in as an OAuth client.

    Raises aiohttp.ClientError.
    """
    form = {"client_id": client_id, "client_secret": client_secret}
    async with aiohttp.ClientSession(url, raise_for_status=True) as session:
        async with session.post("/api/v2/oauth/token", data=form) as response:
            token = (await response.json())["access_token"]
        session.headers["Authorization"] = f"Bearer {token}"
        yield session


async def tailnet_devices(control: aiohttp.ClientSession) -> dict[str, Object]:
    """Return the devices of the tailnet by node ID, the ID that proxies report. Raises aiohttp.ClientError."""
    async with control.get("/api/v2/tailnet/-/devices", params={"fields": "all"}) as response:
        return {device["nodeId"]: device for device in (await response.json())["devices"]}


async def devices_of(target: Shown, api: ApiClient, tailnet: Mapping[str, Object]) -> list[Reached]:
    """Return the devices of *target* as *tailnet* lists them.

    Raises NotYet if the object isn't ready, or if its status has other names or addresses than its devices.
    """
    obj = await api.get(target.resource, target.namespace, target.name)
    status = obj.get("status") or {}
    condition = READY[target.resource]
    if not any((each["type"], each["status"]) == (condition, "True") for each in status.get("conditions", ())):
        raise NotYet(f"its condition {condition} is not True")
    said = _said(target.resource, status)
    if target.resource == RECORDER:  # a Recorder's Secrets have the device's ID only in the state of tailscaled
        found = [tailnet[node_id] for node_id in tailnet if tailnet[node_id]["name"] in said]
    else:
        secrets = sorted(await api.list(SECRET, OPERATOR_NAMESPACE, target.labels), key=name_of)
        ids = [base64.b64decode(secret["data"].get("device_id", "")).decode() for secret in secrets]
        found = [tailnet[node_id] for node_id in ids if node_id in tailnet]
    replicas = obj["spec"].get("replicas", 1) if target.resource != SERVICE else 1
    if len(found) != replicas:
        raise NotYet(f"the tailnet lists {len(found)} of its {replicas} devices")
    _compare(said, found)
    return [Reached(each["name"], tuple(each["addresses"]), _offers(obj, each)) for each in found]


async def services_of(target: Hosted, api: ApiClient, control: aiohttp.ClientSession) -> list[Reached]:
    """Return the name and the addresses of the Tailscale Service of *target*, as the control server has them.

    Raises NotYet unless the object shows its name, and all proxies of the group host it. Raises aiohttp.ClientError.
    """
    status = (await api.get(target.resource, target.namespace, target.name)).get("status") or {}
    entries = status.get("loadBalancer", {}).get("ingress") or [{}]
    name = entries[0].get("hostname", "") or status.get("url", "").removeprefix("https://")
    if not name:
        raise NotYet("has no name in its status")
    label = name.partition(".")[0]
    async with control.get(f"/api/v2/tailnet/-/vip-services/svc:{label}") as response:
        addresses = (await response.json())["addrs"]
    async with control.get(f"/api/v2/tailnet/-/services/svc:{label}/devices") as response:
        hosts = (await response.json())["hosts"]
    replicas = (await api.get(PROXYGROUP, "", target.group))["spec"]["replicas"]
    if len(hosts) != replicas:
        raise NotYet(f"{len(hosts)} of the {replicas} proxies of its group host it")
    offers = {INGRESS: "HTTPS", PROXYGROUP: "the Kubernetes API"}.get(target.resource, "every port")
    return [Reached(name, tuple(addresses), f"{offers} by {replicas} proxies", "Tailscale Service")]


def _is_exposed(service: Object) -> bool:
    annotated: str = (service["metadata"].get("annotations") or {}).get(EXPOSE, "")
    return annotated == "true" or service["spec"].get("loadBalancerClass") == CLASS


def _said(resource: Resource, status: Object) -> dict[str, set[str]]:
    """Return the addresses that *status* shows for each device, by the device's name.

    Return {} if it shows no device.
    """
    if resource == CONNECTOR:
        return {each["hostname"]: set(each["tailnetIPs"]) for each in status.get("devices", ())}
    if resource == RECORDER:
        return {each["url"].removeprefix("https://"): set(each["tailnetIPs"]) for each in status.get("devices", ())}
    entries = status.get("loadBalancer", {}).get("ingress") or ()
    addresses = {entry["ip"] for entry in entries if "ip" in entry}
    return {entry["hostname"]: addresses for entry in entries if "hostname" in entry}


def _compare(said: Mapping[str, set[str]], found: Sequence[Object]) -> None:
    """Raise NotYet if the status of an object names other devices or addresses than the tailnet has."""
    listed = {device["name"]: set(device["addresses"]) for device in found}
    if said and (said.keys() != listed.keys() or any(said[name] - listed[name] for name in said)):
        raise NotYet(f"its status shows {said}, the tailnet has {listed}")


def _offers(obj: Object, device: Object) -> str:
    """Return in words what *device* provides to the tailnet: ports, routes, an exit node, a relay and so on."""
    if obj["kind"] == SERVICE.kind:
        ports = [f"{port['port']}/{port.get('protocol', 'TCP')}" for port in obj["spec"].get("ports") or ()]
        return f"port {', '.join(ports)}" if ports else "every port"
    if obj["kind"] == PEERRELAY.kind:
        return "relay"
    if obj["kind"] == RECORDER.kind:
        return "recorder"
    routes = device["advertisedRoutes"]
    if EVERYTHING.issubset(routes):
        return "exit node"
    return f"route {', '.join(routes)}" if routes else "app connector"
