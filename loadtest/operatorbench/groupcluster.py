"""ProxyGroups of the benchmark's cluster: code that simulates their proxies, and that watches the operator's work."""

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tsoperator.api.names import (
    EGRESS_GATE,
    EGRESS_SERVICES,
    LABEL_MANAGED,
    LABEL_PARENT_NAME,
    LABEL_PARENT_TYPE,
    LABEL_SECRET_TYPE,
    LABEL_SERVICE_TYPE,
    MANAGED,
    PARENT_PROXYGROUP,
    SECRET_TYPE_STATE,
    SERVICE_TYPE_EGRESS,
)
from tsoperator.api.objects import CONFIGMAP, ENDPOINTSLICE, POD, PROXYGROUP, SECRET, SERVICE, Key, Object
from tsoperator.group.egress import entry_name, served_service
from tsoperator.group.grouptype import EGRESS
from tsoperator.group.proxygroup import is_available
from tsoperator.kube.watch import Selection

from operatorbench.cluster import SERVICES, Cluster
from operatorbench.ground import DOMAIN, NAMESPACE, PROXY_IMAGE
from operatorbench.manifests import USERS, egress_service, proxy_group

GROUPS = ("even", "odd")
"""The names of the two groups. The Services with even numbers are for the first group, the others for the second."""

_REPLICAS = 2
_PATIENCE = 60.0  # s until a group must be available
_EGRESS = f"{LABEL_MANAGED}={MANAGED},{LABEL_SERVICE_TYPE}={SERVICE_TYPE_EGRESS}"
PROXYGROUPS = Selection(PROXYGROUP)
_STATES = Selection(SECRET, NAMESPACE, f"{LABEL_MANAGED}={MANAGED},{LABEL_SECRET_TYPE}={SECRET_TYPE_STATE}")
CONFIGS = Selection(CONFIGMAP, NAMESPACE, f"{LABEL_MANAGED}={MANAGED},{LABEL_PARENT_TYPE}={PARENT_PROXYGROUP}")
_CLUSTER_IPS = Selection(SERVICE, NAMESPACE, _EGRESS)
_SLICES = Selection(ENDPOINTSLICE, NAMESPACE, _EGRESS)
FOLLOWED = (SERVICES, PROXYGROUPS, _STATES, CONFIGS, _CLUSTER_IPS, _SLICES)


class Proxy(NamedTuple):
    """A simulated proxy of a group. Its Pod is on no node."""

    group: str
    ordinal: int

    @property
    def name(self) -> str:
        """The name of the proxy's Pod and of its state Secret."""
        return f"{self.group}-{self.ordinal}"

    @property
    def address(self) -> str:
        """The IP address of the proxy's Pod."""
        return f"10.244.{GROUPS.index(self.group)}.{self.ordinal + 1}"

    @property
    def node_id(self) -> str:
        """The ID of the proxy's device."""
        return f"node-{self.name}"

    @property
    def tailnet_address(self) -> str:
        """The IP address of the proxy's device in the tailnet."""
        return f"100.64.{200 + GROUPS.index(self.group)}.{self.ordinal + 1}"


def proxies_of(*groups: str) -> list[Proxy]:
    """Return the proxies of *groups*."""
    return [Proxy(group, ordinal) for group in groups for ordinal in range(_REPLICAS)]


def service(number: int, name: str) -> Object:
    """Return an egress Service. Its *number* decides which group serves it."""
    return egress_service(name, GROUPS[number % len(GROUPS)])


async def no_join(_proxy: Proxy) -> None:
    """Make no device: operators do their work for an egress group without the devices of its proxies."""


async def start_groups(
    cluster: Cluster, type_: str, secrets: Selection, join: Callable[[Proxy], Awaitable[None]] = no_join
) -> None:
    """Create the groups, log their simulated proxies in, and wait until the groups are available.

    *cluster* has to watch `PROXYGROUPS` and *secrets*, a selection that includes the proxies' state Secrets. *join*
    makes the device of the proxy that it is called with.
    """
    for group in GROUPS:
        await cluster.client.create(PROXYGROUP, proxy_group(group, _REPLICAS, type_))
    states = {Key(NAMESPACE, proxy.name) for proxy in proxies_of(*GROUPS)}
    await cluster.until(lambda: states <= cluster.objects(secrets).keys(), _PATIENCE, "the proxies have Secrets")
    for proxy in proxies_of(*GROUPS):
        await join(proxy)
        key = Key(NAMESPACE, proxy.name)
        made = await cluster.client.create(POD, pod(proxy))
        await cluster.client.patch(POD, key, {"status": running(proxy)}, "status")
        await cluster.client.patch(SECRET, key, {"data": encoded(state(proxy, made["metadata"]["uid"]))})
    found = cluster.objects(PROXYGROUPS)
    await cluster.until(lambda: all(map(is_available, found.values())), _PATIENCE, "the groups are available")


class GroupCluster:
    """The groups, their simulated proxies and their Services."""

    def __init__(self, cluster: Cluster) -> None:
        """Take a *cluster* that watches the objects in `FOLLOWED`."""
        self._cluster = cluster
        self._read: dict[str, tuple[str, Mapping[str, Any]]] = {}

    async def start(self) -> None:
        """Create the groups, log their simulated proxies in, and wait until the groups are available."""
        await start_groups(self._cluster, "egress", _STATES)

    def written(self, names: Iterable[str]) -> bool:
        """Tell whether the groups' ConfigMaps have entries for the Services called *names*."""
        there = set[str]().union(*map(self._entries, GROUPS))
        return there.issuperset(entry_name(Key(USERS, name)) for name in names)

    async def all_report(self) -> None:
        """Call `report` for all proxies at the same time."""
        async with asyncio.TaskGroup() as tasks:
            for proxy in proxies_of(*GROUPS):
                tasks.create_task(self.report(proxy))

    async def report(self, proxy: Proxy) -> None:
        """Write into the state Secret of *proxy* that it serves all entries of its group's ConfigMap."""
        data = encoded({EGRESS_SERVICES: json.dumps(report(proxy, self._entries(proxy.group)))})
        await self._cluster.client.patch(SECRET, Key(NAMESPACE, proxy.name), {"data": data})

    def serves(self, proxy: Proxy, names: Iterable[str]) -> bool:
        """Tell whether the EndpointSlices of the Services called *names* have the address of *proxy*."""
        slices = self._cluster.objects(_SLICES).values()
        there = {served_service(each) for each in slices if proxy.address in addresses(each)}
        return there.issuperset(Key(USERS, name) for name in names)

    def gone(self, names: Iterable[str]) -> bool:
        """Tell whether the Services called *names* and all objects made for them are gone."""
        keys = {Key(USERS, name) for name in names}
        made = (each for kind in (_CLUSTER_IPS, _SLICES) for each in self._cluster.objects(kind).values())
        entries = (name for group in GROUPS for name in self._entries(group))
        return (
            keys.isdisjoint(self._cluster.objects(SERVICES))
            and keys.isdisjoint(map(served_service, made))
            and {entry_name(key) for key in keys}.isdisjoint(entries)
        )

    def _entries(self, group: str) -> Mapping[str, Any]:
        """Return the entries in the ConfigMap of *group*.

        Each version of the ConfigMap is parsed only once, because it is long.
        """
        configmap = self._cluster.objects(CONFIGS).get(Key(NAMESPACE, EGRESS.config_name(group)))
        if configmap is None:
            return {}
        version = configmap["metadata"]["resourceVersion"]
        if self._read.get(group, ("",))[0] != version:
            encoded = (configmap.get("binaryData") or {}).get(EGRESS_SERVICES)
            self._read[group] = version, json.loads(b64decode(encoded)) if encoded else {}
        return self._read[group][1]


def pod(proxy: Proxy) -> Object:
    """Return the Pod of *proxy* with the fields that operators read. No scheduler gives it a node."""
    labels = {LABEL_MANAGED: MANAGED, LABEL_PARENT_TYPE: PARENT_PROXYGROUP, LABEL_PARENT_NAME: proxy.group}
    environment = [{"name": "TS_ENABLE_HEALTH_CHECK", "value": "true"}]
    return {
        "apiVersion": POD.api_version,
        "kind": POD.kind,
        "metadata": {
            "namespace": NAMESPACE,
            "name": proxy.name,
            "labels": {**labels, "apps.kubernetes.io/pod-index": str(proxy.ordinal)},
        },
        "spec": {
            "schedulerName": USERS,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "readinessGates": [{"conditionType": EGRESS_GATE}],
            "containers": [{"name": "tailscale", "image": PROXY_IMAGE, "env": environment}],
        },
    }


def running(proxy: Proxy) -> Object:
    """Return the status of the running Pod of *proxy*. Its gate is open, so no operator sends it health checks."""
    return {
        "phase": "Running",
        "podIP": proxy.address,
        "podIPs": [{"ip": proxy.address}],
        "conditions": [{"type": kind, "status": "True"} for kind in (EGRESS_GATE, "Ready")],
    }


def state(proxy: Proxy, uid: str) -> dict[str, str]:
    """Return the data of the state Secret of *proxy* after its login; *uid* is that of its Pod.

    See docs/development/proxies.md.
    """
    return {
        **profile(proxy),
        "device_id": proxy.node_id,
        "device_fqdn": f"{proxy.name}.{DOMAIN}.",
        "device_ips": json.dumps([proxy.tailnet_address]),
        "pod_uid": uid,
        "tailscale_capver": "145",
    }


def profile(proxy: Proxy, advertised: Sequence[str] = ()) -> dict[str, str]:
    """Return the login profile of *proxy*, as its tailscaled stores it.

    *advertised* are the names of the Tailscale Services that the proxy advertises.
    """
    return login(proxy.node_id, f"{proxy.name}.{DOMAIN}", advertised)


def login(node_id: str, fqdn: str, advertised: Sequence[str] = ()) -> dict[str, str]:
    """Return the login profile of the device named *fqdn*, as its tailscaled stores it.

    *advertised* are the names of the Tailscale Services that the device advertises.
    """
    config = {"NodeID": node_id, "UserProfile": {"LoginName": fqdn}}
    stored = json.dumps({"Config": config, "AdvertiseServices": [*advertised]})
    return {"_current-profile": "profile-1", "profile-1": stored}


def report(proxy: Proxy, entries: Mapping[str, Any]) -> Object:
    """Return the report of *proxy* that it serves *entries* (docs/development/groups.md)."""
    services = {
        name: {"ports": entry["ports"], "tailnetTargetIPs": ["100.64.9.1"], "tailnetTarget": entry["tailnetTarget"]}
        for name, entry in entries.items()
    }
    return {"podIPv4": proxy.address, "services": services}


def encoded(data: Mapping[str, str]) -> dict[str, str]:
    """Return *data* with its values encoded as in a Secret."""
    return {name: b64encode(text.encode()).decode() for name, text in data.items()}


def addresses(endpoint_slice: Object) -> set[str]:
    """Return the addresses in an EndpointSlice."""
    return {address for each in endpoint_slice.get("endpoints") or () for address in each["addresses"]}
