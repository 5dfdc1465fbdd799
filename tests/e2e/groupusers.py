"""Users of ProxyGroups and Tailnets: they create objects, make connections, and take an inventory."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from tsoperator.api.names import (
    CONDITION_TAILNET_READY,
    LABEL_MANAGED,
    LABEL_SERVICE_TYPE,
    MANAGED,
    SERVICE_TYPE_EGRESS,
)

from tests.e2e import go_operator
from tests.e2e.cluster import Cluster, Object, condition, identity
from tests.e2e.groups import await_group, await_served
from tests.e2e.load import Load
from tests.e2e.product import NAMESPACE
from tests.e2e.testbed.control import SECOND
from tests.e2e.testbed.management import Management
from tests.e2e.testbed.peer import Peer
from tests.e2e.waiting import eventually
from tests.e2e.workloads import group_service, proxy_group, tailnet, targets
from tests.support.manifests import credentials

TAILNET = tailnet("other", SECOND.url, "other-credentials")
CREDENTIALS = credentials(client_id=SECOND.client_id, client_secret=SECOND.client_secret)
GROUPS = {"gate": proxy_group("gate", replicas=2), "away": proxy_group("away", replicas=1, tailnet="other")}
"""Two ProxyGroups: `gate` in the operator's own tailnet, and `away` in another tailnet."""

_RATE = 5  # connections a second through each group
_KINDS = "customresourcedefinitions,proxygroups,tailnets"


class Inventory(NamedTuple):
    """The inventory that a change of operators must leave unchanged.

    It has the Pods and StatefulSets of groups, the devices and the number of auth keys of both tailnets, the ports at
    which proxies listen, and users' objects.
    """

    pods: Mapping[str, tuple[str, int]]
    statefulsets: Mapping[str, tuple[str, int]]
    devices: Mapping[str, str]
    keys: Sequence[int]
    ports: Mapping[str, tuple[str, list[Object]]]
    objects: Mapping[str, str]


class GroupUsers:
    """Users who have ProxyGroups, a Tailnet, and Services that use them."""

    def __init__(self, cluster: Cluster, space: str, peers: Sequence[Peer]) -> None:
        """*space* is the users' namespace.

        *peers* are the devices outside the cluster, those of the first tailnet first.
        """
        self.cluster = cluster
        self._space = space
        self._peers = peers
        wan = cluster.bed.machines["wan"]
        self._tailnets = [Management.log_in(wan, peer.tailnet) for peer in peers]

    def begin(self) -> None:
        """Make a Tailnet and both `GROUPS`, and wait until the proxies of the groups are ready.

        Also give the Go operator a permission that its chart lacks. Without the permission, an API server with the
        admission plugin OwnerReferencesPermissionEnforcement, such as that of the bed, refuses the children that the
        Go operator makes for ProxyGroups.
        """
        self.cluster.apply(*go_operator.permission("proxygroups"), CREDENTIALS, TAILNET)

        def known() -> bool:
            return condition(self.cluster.look(TAILNET), CONDITION_TAILNET_READY).get("status") == "True"

        eventually(known, "the Tailnet is ready")
        self.cluster.apply(*GROUPS.values())
        for group in GROUPS.values():
            await_group(self.cluster, group, group["spec"]["replicas"])

    def add(self, maker: str) -> None:
        """Apply Services of both `GROUPS` with names that begin with *maker*, and wait until all proxies serve them."""
        here, there = self._peers
        services = [
            group_service(self._space, f"{maker}-db", "gate", tailnet_fqdn=here.fqdn),
            group_service(self._space, f"{maker}-printer", "gate", tailnet_ip=here.address),
            group_service(self._space, f"{maker}-far", "away", tailnet_fqdn=there.fqdn),
        ]
        self.cluster.apply(*services)
        for service in services:
            await_served(self.cluster, service)

    @contextmanager
    def at_work(self, maker: str) -> Iterator[list[Load]]:
        """Run Pods that open new connections through the Services of *maker*, and yield the two `Load`s.

        Each device gets connections through only one Service, because connections of two Services to one port would
        have the same addresses.
        """
        here, there = self._peers
        db, far = (group_service(self._space, f"{maker}-{what}", "") for what in ("db", "far"))
        with (
            Load.on(self.cluster, self._space, here.greeting, targets(db), _RATE) as load,
            Load.on(self.cluster, "default", there.greeting, targets(far), _RATE) as far_load,
        ):
            yield [load, far_load]

    def inventory(self) -> Inventory:
        """Return the present inventory of the groups, devices and objects."""
        pods, sets = self._children("pods"), self.statefulsets()
        devices = [device for each in self._tailnets for device in each.devices()]
        objects = [*self.cluster.listed(_KINDS, ""), *self.cluster.listed("services", self._space)]
        return Inventory(
            {_name(pod): identity(pod) for pod in pods},
            {_name(each): (each["metadata"]["uid"], each["metadata"]["generation"]) for each in sets},
            {device["name"]: device["nodeId"] for device in devices},
            [len(each.keys()) for each in self._tailnets],
            {_name(each): (each["metadata"]["uid"], each["spec"]["ports"]) for each in self.cluster_ips()},
            {f"{obj['kind']} {_name(obj)}": obj["metadata"]["uid"] for obj in objects},
        )

    def statefulsets(self) -> list[Object]:
        """Return the StatefulSets of both groups."""
        return self._children("statefulsets")

    def cluster_ips(self) -> list[Object]:
        """Return the Services that lead to the groups' proxies."""
        return self.cluster.listed("services", labels={LABEL_MANAGED: MANAGED, LABEL_SERVICE_TYPE: SERVICE_TYPE_EGRESS})

    def leave(self) -> None:
        """Delete the Services, the groups and the Tailnet, one after the other, and wait until they are gone."""
        words = ["delete", "services", "--all", "--timeout=90s"]
        self.cluster.bed.kubectl("-n", self._space, *words, timeout=100)
        for group in GROUPS.values():
            self.cluster.remove(group)
        self.cluster.delete("tailnet", _name(TAILNET))
        eventually(lambda: self.cluster.get("tailnet", _name(TAILNET)) is None, "the Tailnet is gone")
        self.cluster.delete("secret", _name(CREDENTIALS), NAMESPACE)
        for obj in go_operator.permission("proxygroups"):
            self.cluster.delete(obj["kind"], _name(obj))

    def _children(self, resource: str) -> list[Object]:
        return [child for group in GROUPS.values() for child in self.cluster.children(group, resource)]


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])
