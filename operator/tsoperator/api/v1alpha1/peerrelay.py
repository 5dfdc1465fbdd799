"""PeerRelay: relays between devices of the tailnet that can't reach each other."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from pydantic import ConfigDict, Field

from tsoperator.api.v1alpha1.kubernetes_types import Conditions
from tsoperator.api.v1alpha1.patterns import ALLOCATION_ID, SUBNET_ID
from tsoperator.api.v1alpha1.tailnet_types import HostnamePrefix, Tag, TailnetName
from tsoperator.api.v1alpha1.wire import (
    SERVER_DEFAULT,
    AtomicList,
    CustomResource,
    Int32,
    WireModel,
    list_map_keywords,
    rules,
)

_RULES: Final = rules(
    (
        "!has(self.aws) || size(self.aws.elasticIPs) >= self.replicas",
        "every replica needs an elastic IP of its own: give as many aws.elasticIPs as replicas, or more",
    ),
)


class ElasticIP(WireModel):
    """A public address in AWS."""

    allocation_id: str = Field(alias="allocationID", pattern=ALLOCATION_ID)
    """The ID by which AWS has allocated the address, such as eipalloc-0123456789abcdef0."""
    subnet_id: str = Field(alias="subnetID", pattern=SUBNET_ID)
    """The subnet of the load balancer that gets the address."""


class AWS(WireModel):
    """Settings that apply in AWS only."""

    elastic_ips: Annotated[AtomicList[ElasticIP], Field(alias="elasticIPs", min_length=1)]
    """The addresses at which the replicas are reached. The first address is that of replica 0."""


class RelayService(WireModel):
    """The Services that the relays are reached by."""

    annotations: Mapping[str, str] = Field(default_factory=dict)
    """Annotations of the Services, for the cloud's load balancers."""


class PeerRelaySpec(WireModel):
    """The wishes of the cluster's users."""

    model_config = ConfigDict(json_schema_extra=_RULES)

    aws: AWS | None = None
    """Settings that apply in AWS only."""
    hostname_prefix: HostnamePrefix | None = None
    """The beginning of the devices' names in the tailnet. Each name ends in the number of its replica."""
    proxy_class: str | None = None
    """The ProxyClass that says how the Pods are made."""
    replicas: Int32 = Field(default=1, ge=0, json_schema_extra={SERVER_DEFAULT: 1})
    """The number of Pods. Each is a device of its own in the tailnet."""
    service: RelayService | None = None
    """The Services that the relays are reached by."""
    tags: Sequence[Tag] = ()
    """The tags of the devices, such as tag:k8s. Unset means the operator's default. The tailnet's policy must let the
    operator's own tag own them."""
    tailnet: TailnetName | None = None
    """The Tailnet to join. Unset means the operator's own tailnet."""


class RelayEndpoint(WireModel):
    """One address of a relay."""

    address: str
    """The address of the relay."""
    port: Int32
    """The UDP port of the relay."""
    replica: Int32
    """The number of the replica that is the relay."""


class PeerRelayStatus(WireModel):
    """The results of the operator's work. Only the operator writes them."""

    conditions: Conditions = ()
    """The condition PeerRelayReady. It is True if the relays are there. If not, its message says what is wrong."""
    endpoints: Annotated[Sequence[RelayEndpoint], Field(json_schema_extra=list_map_keywords("replica", "address"))] = ()
    """The addresses of the relays."""


class PeerRelay(CustomResource):
    """PeerRelay runs relays in the cluster for devices of the tailnet that can't reach each other directly."""

    spec: PeerRelaySpec
    """The wishes of the cluster's users."""
    status: PeerRelayStatus = Field(default_factory=PeerRelayStatus)
    """The results of the operator's work. Only the operator writes them."""
