"""Users with an object of every kind that gets a proxy: creates the objects, checks them, and takes inventories."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tsoperator.api.names import LABEL_MANAGED, MANAGED, PARENT_NAMESERVER
from tsoperator.runtime.ownership import RECORDERS, owner_of

from tests.e2e import go_operator, relays
from tests.e2e.cluster import Cluster, Object, identity, shown_hostnames
from tests.e2e.testbed import control
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.management import Management
from tests.e2e.testbed.peer import GREETING, WEB_PORT, Peer
from tests.e2e.waiting import eventually
from tests.e2e.workloads import BALANCED, PAGE, PEER_NAME, egress_service, exposed_service, group_service, ingress
from tests.support.manifests import connector, group_policy, peer_relay, proxy_class, recorder

CLASS = proxy_class(
    "dressed",
    metrics={"enable": True},
    statefulSet={
        "labels": {"team": "a"},
        "pod": {
            "annotations": {"example.org/note": "b"},
            "tolerations": [{"key": "example.org/spot", "operator": "Exists"}],
            "tailscaleContainer": {"env": [{"name": "EXAMPLE", "value": "c"}], "resources": {"limits": {"cpu": "1"}}},
        },
    },
)
POLICED = "policed"
"""A namespace that is allowed to use only the ProxyGroup ``allowed``."""
POLICY: Sequence[Object] = (
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": POLICED}},
    group_policy("ours", POLICED, egress=["allowed"]),
)
REPLICAS = 2  # the number of replicas of a Connector and of a Recorder
BUCKET = {"endpoint": "s3.example.org", "bucket": "sessions"}
_KINDS = (
    "customresourcedefinitions,dnsconfigs,connectors,recorders,peerrelays,proxyclasses,ingressclasses,"
    "validatingadmissionpolicies,validatingadmissionpolicybindings"
)
_IN_NAMESPACES = "services,ingresses"


class Inventory(NamedTuple):
    """The inventory that must not change: Pods and StatefulSets of proxies, devices, auth keys, and users' objects.

    *endpoints* has the addresses in the status of each PeerRelay, and the UID and the status of each relay's Service.
    """

    pods: dict[str, tuple[str, int]]
    statefulsets: dict[str, tuple[str, int]]
    devices: dict[str, str]
    keys: int
    objects: dict[str, str]
    endpoints: dict[str, object]


class Proxied(NamedTuple):
    """One object of each kind that gets a proxy, all of one user."""

    by_name: Object
    by_address: Object
    balanced: Object
    shown: Object
    gate: Object
    recorder: Object
    relay: Object

    @classmethod
    def of(cls, space: str, maker: str, address: str) -> "Proxied":
        """Return the objects for which the operator *maker* makes proxies, one of them for the device at *address*."""
        prefix = f"{maker}-gate"
        return cls(
            egress_service(space, f"{maker}-db", tailnet_fqdn=PEER_NAME),
            egress_service(space, f"{maker}-printer", tailnet_ip=address),
            exposed_service(space, f"{maker}-lb", BALANCED, hostname=f"{maker}-lb", proxy_class="dressed"),
            ingress(space, f"{maker}-shop"),
            connector(prefix, hostnamePrefix=prefix, replicas=REPLICAS, exitNode=True),
            recorder(f"{maker}-rec", enableUI=False, replicas=REPLICAS, storage={"s3": BUCKET}),
            peer_relay(f"{maker}-relay"),
        )


class Users:
    """Users who have an object of each kind that gets a proxy."""

    def __init__(self, cluster: Cluster, management: Management, space: str, outside: Peer, client: Object) -> None:
        self.cluster = cluster
        self.space = space
        self._sets: list[Proxied] = []
        self._management = management
        self._outside = outside
        self._client = client

    def add(self, maker: str) -> None:
        """Apply an object of each kind, and wait until each has its proxy."""
        made = Proxied.of(self.space, maker, self._outside.address)
        self.cluster.apply(*made)
        self._sets.append(made)
        for parent in made:
            self.cluster.device_proxy(parent)

    def leave(self) -> None:
        """Delete the users' cluster-scoped objects."""
        wide = [obj for each in self._sets for obj in (each.gate, each.recorder, each.relay)]
        for obj in wide:
            self.cluster.delete(obj["kind"], name_of(obj))
        for obj in wide:
            self.cluster.remove(obj)
        self.cluster.delete("proxyclass", name_of(CLASS))
        for obj in (*reversed(POLICY), *go_operator.permission("recorders")):
            self.cluster.delete(obj["kind"], name_of(obj), obj["metadata"].get("namespace", ""))

    def inventory(self) -> Inventory:
        """Return the present inventory of Pods, StatefulSets, devices, keys and objects."""
        marks = ({LABEL_MANAGED: MANAGED}, RECORDERS)
        proxies = [each for mark in marks for each in self.cluster.listed("statefulsets,pods", labels=mark)]
        objects = [*self.cluster.listed(_KINDS, ""), *self.cluster.listed(_IN_NAMESPACES, self.space)]
        return Inventory(
            {name_of(obj): identity(obj) for obj in proxies if obj["kind"] == "Pod" and not _is_nameserver(obj)},
            {name_of(obj): _version(obj) for obj in proxies if obj["kind"] == "StatefulSet"},
            {device["name"]: device["nodeId"] for device in self._management.devices()},
            len(self._management.keys()),
            {f"{obj['kind']} {name_of(obj)}": obj["metadata"]["uid"] for obj in objects},
            self._endpoints(),
        )

    def _endpoints(self) -> dict[str, object]:
        balancers = self.cluster.listed("services", labels=relays.OF_RELAYS)
        return {
            **{name_of(each): (each["metadata"]["uid"], each["status"]) for each in balancers},
            **{name_of(each): each["status"]["endpoints"] for each in self.cluster.listed("peerrelays", "")},
        }

    def check(self, acme_root: Path) -> None:
        """Wait until all objects work for their users, and their statuses say so."""
        for each in self._sets:
            cluster_names = [
                f"{name_of(obj)}.{self.space}.svc.cluster.local" for obj in (each.by_name, each.by_address)
            ]
            for host in (PEER_NAME, *cluster_names):
                self._gets(GREETING, partial(self.cluster.curl, self._client, f"http://{host}:{WEB_PORT}/"))
            for scheme, obj in (("http", each.balanced), ("https", each.shown)):
                name = f"{name_of(obj)}.{control.DOMAIN}"
                self._gets(PAGE, partial(self._outside.curl, "--cacert", acme_root, f"{scheme}://{name}/"))
                self._shows([name], obj)
            self._shows([f"{name_of(each.gate)}-{number}.{control.DOMAIN}" for number in range(REPLICAS)], each.gate)
            self._shows([f"{name_of(each.recorder)}-{number}" for number in range(REPLICAS)], each.recorder)
        self._check_relays()

    def _check_relays(self) -> None:
        """Wait until all relays are ready, and check that each has an address of its own."""
        found = [address for each in self._sets for address in self._address(each.relay)]
        assert len({*found}) == len(self._sets)

    def _address(self, relay: Object) -> list[str]:
        return eventually(lambda: relays.addresses(self.cluster, relay), f"the address of {name_of(relay)}")

    def policy_is_enforced(self) -> bool:
        """Tell whether the API server lets the namespace `POLICED` use the allowed ProxyGroup and no other group."""
        for group in ("allowed", "forbidden"):
            service = group_service(POLICED, "new", group, tailnet_ip="100.64.0.9")
            try:
                self.cluster.bed.kubectl("create", "--dry-run=server", "--filename=-", stdin=json.dumps(service))
            except BedError:
                return group == "forbidden"
        return False

    def _gets(self, page: str, fetch: Callable[[], str]) -> None:
        eventually(lambda: fetch().strip() == page.strip(), f"{page!r} by {fetch}")

    def _shows(self, names: list[str], obj: Object) -> None:
        """Wait until the status of *obj* shows the devices with these *names*."""

        def shown() -> list[str]:
            live = self.cluster.look(obj)
            return sorted(
                shown_hostnames(live) or [each["hostname"] for each in live.get("status", {}).get("devices", ())]
            )

        eventually(lambda: shown() == names, f"{names} in the status of {name_of(obj)}")


def _is_nameserver(pod: Object) -> bool:
    owner = owner_of(pod)
    return owner is not None and owner.type == PARENT_NAMESERVER


def _version(obj: Object) -> tuple[str, int]:
    return obj["metadata"]["uid"], obj["metadata"]["generation"]


def name_of(obj: Object) -> str:
    return str(obj["metadata"]["name"])
