"""ProxyGroups of type egress, as a test sees them: their replicas, their entries, and the endpoints of Services."""

import json
from base64 import b64decode
from dataclasses import dataclass
from typing import Any

from tsoperator.api.names import (
    LABEL_PARENT_NAME,
    LABEL_PARENT_NAMESPACE,
    LABEL_PARENT_TYPE,
    LABEL_SECRET_TYPE,
    LABEL_SERVICE_TYPE,
    PARENT_PROXYGROUP,
    PARENT_SERVICE,
    SERVICE_TYPE_EGRESS,
)
from tsoperator.api.objects import CONFIGMAP, ENDPOINTSLICE, POD, SECRET, SERVICE, Object, key_of

from tests.support.objects import texts
from tests.support.operator import NAMESPACE, World, is_ready


@dataclass(frozen=True, slots=True)
class Replica:
    """A proxy of a group: its *pod*, which is None before the Pod exists, and the decoded data of its Secrets.

    *state* is the data of the state Secret. *config* is that of the config Secret, and empty before this Secret exists.
    """

    pod: Object | None
    state: dict[str, str]
    config: dict[str, str]

    @property
    def is_ready(self) -> bool:
        """Tell whether the Pod is ready and isn't being deleted."""
        return self.pod is not None and is_ready(self.pod)

    @property
    def device_id(self) -> str:
        """The node ID of the replica's device; empty before the device has joined."""
        return self.state.get("device_id", "")

    @property
    def tailscaled(self) -> Any:
        """The configuration of the replica's tailscaled."""
        return json.loads(self.config["cap-106.hujson"])

    @property
    def k8s_proxy(self) -> Any:
        """The configuration of the replica's k8s-proxy."""
        return json.loads(self.config["config.hujson"])

    @property
    def report(self) -> Any:
        """The proxy's report in its state Secret: the entries that it forwards, by name. None without a report."""
        text = self.state.get("egress-services")
        return json.loads(text)["services"] or {} if text else None

    @property
    def addresses(self) -> list[str]:
        """The Pod's addresses."""
        entries = self.pod["status"].get("podIPs", ()) if self.pod else ()
        return [entry["ip"] for entry in entries]


async def replicas(world: World, group: Object) -> list[Replica]:
    """Return the replicas of *group* that have a state Secret, in the order of their ordinals."""
    name = key_of(group).name
    selector = f"{LABEL_PARENT_TYPE}={PARENT_PROXYGROUP},{LABEL_PARENT_NAME}={name},{LABEL_SECRET_TYPE}!=certs"
    pods = {key_of(pod).name: pod for pod in (await world.api.list(POD, NAMESPACE, selector)).items}
    data = {key_of(each).name: texts(each) for each in (await world.api.list(SECRET, NAMESPACE, selector)).items}
    names = sorted(
        (name for name in data if not name.endswith("-config")), key=lambda name: int(name.rpartition("-")[2])
    )
    return [Replica(pods.get(name), data[name], data.get(f"{name}-config", {})) for name in names]


async def ready_group(world: World, group: Object, count: int = 2) -> list[Replica]:
    """Wait until *group* has *count* replicas that have joined and are ready. Return them."""

    async def there() -> list[Replica] | None:
        found = await replicas(world, group)
        good = [each for each in found if each.is_ready and "device_fqdn" in each.state]
        return found if len(good) == len(found) == count else None

    return await world.eventually(there)


async def entries(world: World, group: Object) -> Any:
    """Return the entries in the egress ConfigMap of *group* by name; None without a ConfigMap."""
    configmap = await world.find(CONFIGMAP, f"{key_of(group).name}-egress-config")
    if configmap is None:
        return None
    text = (configmap.get("binaryData") or {}).get("egress-services")
    return json.loads(b64decode(text)) if text else {}


async def endpoints(world: World, service: Object) -> dict[str, list[str]]:
    """Return the addresses in the EndpointSlices for a user's *service*, by the name of the slice."""
    slices = (await world.api.list(ENDPOINTSLICE, NAMESPACE, _selector(service))).items
    return {key_of(each).name: [endpoint["addresses"][0] for endpoint in each["endpoints"] or ()] for each in slices}


async def leftovers(world: World) -> list[str]:
    """Return the leftovers of all groups and of their egress Services."""
    found = []
    for resource in (SERVICE, ENDPOINTSLICE, SECRET, CONFIGMAP, POD):
        for obj in (await world.api.list(resource, NAMESPACE)).items:
            labels = obj["metadata"].get("labels") or {}
            if labels.get(LABEL_PARENT_TYPE) == PARENT_PROXYGROUP or LABEL_SERVICE_TYPE in labels:
                found.append(f"{resource} {key_of(obj).name}")
    return found


def _selector(service: Object) -> str:
    key = key_of(service)
    wanted = {
        LABEL_PARENT_TYPE: PARENT_SERVICE,
        LABEL_PARENT_NAME: key.name,
        LABEL_PARENT_NAMESPACE: key.namespace,
        LABEL_SERVICE_TYPE: SERVICE_TYPE_EGRESS,
    }
    return ",".join(f"{name}={value}" for name, value in wanted.items())
