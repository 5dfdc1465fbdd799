"""Simulates the proxies of ProxyGroups of type ingress in the benchmark's cluster, and creates the users' objects."""

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from clustersim.x509 import certificate_for
from tsoperator.api.names import (
    CONDITION_INGRESS_CONFIGURED,
    INGRESS_RULES,
    INGRESS_SERVE_CONFIG,
    LABEL_MANAGED,
    MANAGED,
)
from tsoperator.api.objects import ENDPOINTSLICE, INGRESS, SECRET, Key, Object, key_of
from tsoperator.kube.watch import Selection

from operatorbench.cluster import SERVICES, Cluster
from operatorbench.ground import DOMAIN, NAMESPACE
from operatorbench.groupcluster import (
    CONFIGS,
    GROUPS,
    PROXYGROUPS,
    Proxy,
    encoded,
    login,
    profile,
    proxies_of,
    start_groups,
)
from operatorbench.keeper import Keeper
from operatorbench.manifests import USERS, backend, endpoint_slice, exposed_ingress, exposed_service
from operatorbench.operators import SECRET as IDENTITY

TYPE = "ingress"
"""The type of the groups."""

_EVERY = 0.5  # s from one reading of a proxy's configuration to the next
_PATIENCE = 60.0  # s until a proxy must have its auth key
_LIFETIME = timedelta(days=90)
_INGRESSES = Selection(INGRESS, USERS)
_SECRETS = Selection(SECRET, NAMESPACE, f"{LABEL_MANAGED}={MANAGED}")
FOLLOWED = (SERVICES, _INGRESSES, PROXYGROUPS, _SECRETS, CONFIGS)


@dataclass(frozen=True, slots=True)
class Exposed:
    """The names of the Ingresses and Services that the two groups expose.

    The groups take turns: the first group exposes the first Ingress and the first Service, the second group the second
    ones, and so on.
    """

    ingresses: Sequence[str]
    services: Sequence[str]

    @property
    def backends(self) -> list[str]:
        """The names of the Services to which the Ingresses lead."""
        return [f"{name}-backend" for name in self.ingresses]


def exposed(count: int, prefix: str = "") -> Exposed:
    """Return the names of *count* objects. Three of five are Ingresses, and the others are Services."""
    ingresses = count * 3 // 5
    return Exposed(
        [f"{prefix}web-{number}" for number in range(ingresses)],
        [f"{prefix}api-{number}" for number in range(count - ingresses)],
    )


class Host:
    """A simulated proxy of a group of type ingress.

    It reads its configuration twice a second, and reports the Tailscale Services that it hosts.
    """

    def __init__(self, cluster: Cluster, keeper: Keeper, proxy: Proxy) -> None:
        """Take a *cluster* that watches the objects in `FOLLOWED`."""
        self._cluster = cluster
        self._keeper = keeper
        self._proxy = proxy
        self._written: Mapping[str, str] = {}
        self._hosts: tuple[object, ...] = ()
        self._certified: set[str] = set()

    async def run(self) -> None:
        """Read the configuration again and again, and report the Tailscale Services in it, until cancelled."""
        while True:
            await self._step()
            await asyncio.sleep(_EVERY)

    async def _step(self) -> None:
        advertised: list[str] = (
            newest_config(self._cluster.objects(_SECRETS).get(config_key(self._proxy))).get("AdvertiseServices") or []
        )
        configmap = self._cluster.objects(CONFIGS).get(Key(NAMESPACE, f"{self._proxy.group}-ingress-config"))
        rules, served = (
            document(configmap, INGRESS_RULES),
            document(configmap, INGRESS_SERVE_CONFIG).get("Services", {}),
        )
        state = {**profile(self._proxy, advertised), INGRESS_RULES: json.dumps(report(self._proxy, rules))}
        if state != self._written:
            self._written = state
            await self._cluster.client.patch(SECRET, Key(NAMESPACE, self._proxy.name), {"data": encoded(state)})
        ports = {name: [f"tcp:{port}" for port in each["TCP"]] for name, each in served.items()}
        if (advertised, ports) != self._hosts:
            self._hosts = advertised, ports
            await self._keeper.host(self._proxy.node_id, advertised, ports)
        if self._proxy.ordinal == 0:
            await self._certify(domains(served))

    async def _certify(self, names: Iterable[str]) -> None:
        """Store a certificate for each of the domains *names* that has a Secret but no certificate yet."""
        keys = {Key(NAMESPACE, name) for name in names if name not in self._certified}
        data = encoded({"tls.crt": certificate_for(_LIFETIME), "tls.key": "a private key"})
        async with asyncio.TaskGroup() as tasks:
            for key in keys & self._cluster.objects(_SECRETS).keys():
                self._certified.add(key.name)
                tasks.create_task(self._cluster.client.patch(SECRET, key, {"data": data}))


class HostingCluster:
    """The groups, their simulated proxies, and the Ingresses and Services that they expose."""

    def __init__(self, cluster: Cluster, keeper: Keeper) -> None:
        """Take a *cluster* that watches the objects in `FOLLOWED`."""
        self._cluster = cluster
        self._keeper = keeper
        self._hosts = [Host(cluster, keeper, proxy) for proxy in proxies_of(*GROUPS)]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Create the groups, and run their proxies during the block."""
        await start_groups(self._cluster, TYPE, _SECRETS, self._join)
        async with asyncio.TaskGroup() as tasks:
            runs = [tasks.create_task(host.run()) for host in self._hosts]
            try:
                yield
            finally:
                for run in runs:
                    run.cancel()

    async def _join(self, proxy: Proxy) -> None:
        secrets, key = self._cluster.objects(_SECRETS), config_key(proxy)
        await self._cluster.until(lambda: "AuthKey" in newest_config(secrets.get(key)), _PATIENCE, f"{key} has a key")
        auth_key = newest_config(secrets.get(key))["AuthKey"]
        await self._keeper.join(auth_key, proxy.name, proxy.node_id, proxy.tailnet_address)

    async def prepare(self, names: Exposed) -> None:
        """Create the Services to which the Ingresses lead, and an EndpointSlice for each Service."""
        await self._cluster.apply(map(backend, names.backends))
        served = [*names.backends, *names.services]
        slices = [
            endpoint_slice(name, f"10.245.{number // 250}.{number % 250 + 1}") for number, name in enumerate(served)
        ]
        await self._cluster.apply(slices, ENDPOINTSLICE)

    async def expose(self, names: Exposed) -> None:
        """Create the Ingresses, and the Services that groups expose, all at once."""
        pairs = zip(names.ingresses, names.backends, strict=True)
        ingresses = [exposed_ingress(name, service, _group(n)) for n, (name, service) in enumerate(pairs)]
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._cluster.apply(ingresses, INGRESS))
            tasks.create_task(
                self._cluster.apply(exposed_service(name, _group(n)) for n, name in enumerate(names.services))
            )

    async def remove(self, names: Exposed) -> None:
        """Delete the Ingresses, and the Services that groups expose, all at once."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._cluster.delete(names.ingresses, INGRESS))
            tasks.create_task(self._cluster.delete(names.services))

    def reported(self, names: Exposed) -> bool:
        """Tell whether the statuses of all objects called *names* say how the tailnet reaches the objects.

        The status of a Service must also say that both proxies of its group serve the Service.
        """
        ingresses, services = self._cluster.objects(_INGRESSES), self._cluster.objects(SERVICES)
        return all(is_served(ingresses.get(Key(USERS, name))) for name in names.ingresses) and all(
            is_exposed(services.get(Key(USERS, name))) for name in names.services
        )

    def gone(self, names: Exposed) -> bool:
        """Tell whether the Ingresses, and the Services that groups expose, are gone."""
        there = {*self._cluster.objects(_INGRESSES), *self._cluster.objects(SERVICES)}
        return there.isdisjoint(Key(USERS, name) for name in (*names.ingresses, *names.services))


def config_key(proxy: Proxy) -> Key:
    """Return the key of the Secret with the configuration of *proxy*."""
    return Key(NAMESPACE, f"{proxy.name}-config")


def _group(number: int) -> str:
    return GROUPS[number % len(GROUPS)]


def identity() -> Object:
    """Return the Secret with the login of the operator's own device, from which our operator reads its identity."""
    metadata = {"namespace": NAMESPACE, "name": IDENTITY}
    data = encoded(login("node-operator", f"operator.{DOMAIN}"))
    return {"apiVersion": SECRET.api_version, "kind": SECRET.kind, "metadata": metadata, "data": data}


def newest_config(secret: Object | None) -> Mapping[str, Any]:
    """Return the proxy's configuration for the newest capability version in *secret*; empty if it has none."""
    found = {int(name.split("-")[1].split(".")[0]): text for name, text in _data(secret).items() if "cap-" in name}
    return json.loads(b64decode(found[max(found)])) if found else {}


def _data(secret: Object | None) -> Mapping[str, str]:
    return (secret or {}).get("data") or {}


def document(configmap: Object | None, file: str) -> Mapping[str, Any]:
    """Return the JSON document under the key *file* of *configmap*; empty if there is none."""
    text = ((configmap or {}).get("binaryData") or {}).get(file)
    return json.loads(b64decode(text)) or {} if text else {}


def report(proxy: Proxy, rules: Mapping[str, Any]) -> Object:
    """Return the report in which *proxy* says that it applies *rules*."""
    return {"configs": rules, "podIPv4": proxy.address}


def domains(served: Mapping[str, Any]) -> list[str]:
    """Return the domains for which a proxy answers HTTPS; *served* are the Tailscale Services in its serve config."""
    sites = [site.rpartition(":") for each in served.values() for site in each.get("Web") or {}]
    return [domain for domain, _, port in sites if port == "443"]


def is_served(ingress: Object | None) -> bool:
    """Tell whether the status of *ingress* says that the tailnet reaches it by HTTPS."""
    if ingress is None:
        return False
    name = f"{key_of(ingress).name}.{DOMAIN}"
    return any(
        entry.get("hostname") == name and any(each["port"] == 443 for each in entry.get("ports") or ())
        for entry in _entries(ingress)
    )


def is_exposed(service: Object | None) -> bool:
    """Tell whether the status of *service* has a name and an address, and says that both proxies serve it."""
    if service is None:
        return False
    conditions = service["status"].get("conditions") or ()
    full = any(
        (each["type"], each["status"]) == (CONDITION_INGRESS_CONFIGURED, "True") and each["message"].startswith("2/2 ")
        for each in conditions
    )
    return full and any(entry.get("hostname") and entry.get("ip") for entry in _entries(service))


def _entries(obj: Object) -> Sequence[Mapping[str, Any]]:
    return ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
