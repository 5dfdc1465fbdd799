"""Connector: asks for proxies that connect networks to the tailnet."""

from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import ConfigDict, Field

from tsoperator.api.v1alpha1.kubernetes_types import Conditions
from tsoperator.api.v1alpha1.patterns import CONNECTOR_HOSTNAME
from tsoperator.api.v1alpha1.tailnet_types import HostnamePrefix, Tag, TailnetName
from tsoperator.api.v1alpha1.wire import CustomResource, Int32, WireModel, rules

Cidr = Annotated[str, Field(json_schema_extra={"format": "cidr"})]
Routes = Annotated[list[Cidr], Field(min_length=1)]

_RULES: Final = rules(
    (
        "has(self.subnetRouter) || has(self.appConnector) || (has(self.exitNode) && self.exitNode)",
        "a Connector must be a subnet router, an exit node or an app connector: "
        "set subnetRouter, exitNode or appConnector",
    ),
    (
        "!has(self.appConnector) || !(has(self.subnetRouter) || (has(self.exitNode) && self.exitNode))",
        "an app connector can't be a subnet router or an exit node too: make a Connector for each",
    ),
    (
        "!has(self.hostname) || !has(self.replicas) || self.replicas <= 1",
        "one hostname can't be that of several replicas: use hostnamePrefix instead of hostname",
    ),
    (
        "!(has(self.hostname) && has(self.hostnamePrefix))",
        "hostname and hostnamePrefix exclude each other: remove one of them",
    ),
)


class SubnetRouter(WireModel):
    """Makes networks reachable from the tailnet."""

    advertise_routes: Routes
    """The networks, each in CIDR notation, such as 10.40.0.0/14. The tailnet's policy must approve them."""


class AppConnector(WireModel):
    """Sends the tailnet's traffic for certain applications through the Connector; the tailnet's policy names them."""

    routes: Routes | None = None
    """Networks of the applications, each in CIDR notation. They are advertised, besides those learnt from DNS."""


class ConnectorSpec(WireModel):
    """The wishes of the cluster's users."""

    model_config = ConfigDict(json_schema_extra=_RULES)

    app_connector: AppConnector | None = None
    """Makes the Connector an app connector, which can't be a subnet router or an exit node. An empty object is
    enough."""
    exit_node: bool = False
    """Makes the Connector an exit node: devices of the tailnet can send all their traffic through it."""
    hostname: str | None = Field(default=None, pattern=CONNECTOR_HOSTNAME)
    """The name of the one device in the tailnet. Unset means <name>-connector, with the Connector's name."""
    hostname_prefix: HostnamePrefix | None = None
    """The beginning of the devices' names in the tailnet. Each name ends in the number of its replica."""
    proxy_class: str | None = None
    """The ProxyClass that says how the Pods are made; nothing is made or changed until it is there and valid."""
    replicas: Int32 = Field(default=1, ge=0)
    """The number of Pods. Each is a device of its own in the tailnet. Unset means 1."""
    subnet_router: SubnetRouter | None = None
    """Makes the Connector a subnet router."""
    tags: Sequence[Tag] = ()
    """The tags of the devices, such as tag:k8s. Unset means the operator's default. The tailnet's policy must let the
    operator's own tag own them."""
    tailnet: TailnetName | None = None
    """The Tailnet to join. Unset means the operator's own tailnet."""


class ConnectorDevice(WireModel):
    """A device of the Connector in the tailnet."""

    hostname: str = ""
    """The device's MagicDNS name."""
    tailnet_ips: Sequence[str] = Field(default=(), alias="tailnetIPs")
    """The device's addresses in the tailnet."""


class ConnectorStatus(WireModel):
    """The results of the operator's work. Only the operator writes them."""

    conditions: Conditions = ()
    """The condition ConnectorReady. It is True if the proxies were made. If not, its message says what is wrong."""
    devices: Sequence[ConnectorDevice] = ()
    """The devices, in the order of the replicas."""
    hostname: str = ""
    """The MagicDNS name of the first device."""
    is_app_connector: bool = False
    """True if this is an app connector."""
    is_exit_node: bool = False
    """True if this is an exit node."""
    subnet_routes: str = ""
    """The networks that this is a subnet router for, separated by commas."""
    tailnet_ips: Sequence[str] = Field(default=(), alias="tailnetIPs")
    """The addresses of the first device."""


class Connector(CustomResource):
    """Connector runs proxies that connect networks to the tailnet: as a subnet router, an exit node, both of these, or
    an app connector.
    """

    spec: ConnectorSpec
    """The wishes of the cluster's users."""
    status: ConnectorStatus = Field(default_factory=ConnectorStatus)
    """The results of the operator's work. Only the operator writes them."""
