"""ProxyClass: the settings of proxies."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from tsoperator.api.v1alpha1.kubernetes_types import Conditions, EmbeddedAffinity, LocalObjectReferences, Tolerations
from tsoperator.api.v1alpha1.patterns import LABEL_VALUE, VARIABLE_NAME
from tsoperator.api.v1alpha1.pod_types import (
    EmbeddedDNSConfig,
    EmbeddedPodSecurityContext,
    EmbeddedResources,
    EmbeddedSecurityContext,
    TopologySpreadConstraints,
)
from tsoperator.api.v1alpha1.wire import CustomResource, WireModel, rules

LabelValue = Annotated[str, Field(max_length=63, pattern=LABEL_VALUE)]

MONITOR_NEEDS_METRICS: Final = "a ServiceMonitor needs metrics: set metrics.enable to true"
_METRICS_RULES: Final = rules(
    ("self.enable || !(has(self.serviceMonitor) && self.serviceMonitor.enable)", MONITOR_NEEDS_METRICS)
)


class EnvironmentVariable(WireModel):
    """An environment variable of a container."""

    name: Annotated[str, Field(pattern=VARIABLE_NAME)]
    """The variable's name.

    Its value replaces a value that the operator sets; the proxy may then not work as it should.
    """
    value: str | None = None
    """The variable's value; $(NAME) stands for the value of a variable before it."""


class Debug(WireModel):
    """The debug endpoint of tailscaled, on port 9001."""

    enable: bool = False
    """Serves the endpoint."""


class Container(WireModel):
    """The settings of a container of the proxy."""

    debug: Debug | None = None
    """The debug endpoint of tailscaled, on port 9001 of tailscaleContainer; can't be set for tailscaleInitContainer.
    Unset means that it is served if the proxy serves metrics."""
    env: Sequence[EnvironmentVariable] = ()
    """Environment variables besides those that the operator sets."""
    image: str | None = None
    """The image to run instead of the operator's default."""
    image_pull_policy: Literal["Always", "Never", "IfNotPresent"] | None = None
    """The policy for pulling the image."""
    resources: EmbeddedResources | None = None
    """The container's share of the node's CPU, memory and other resources."""
    security_context: EmbeddedSecurityContext | None = None
    """The container's rights, in place of those that the operator gives it: privileged, unless the proxy runs in
    userspace."""


class Pod(WireModel):
    """The settings of the proxy's Pods. If this is set, a field that is empty here is empty in the Pods, too. But the
    containers, dnsConfig and dnsPolicy keep the operator's values for fields that are empty here.
    """

    affinity: EmbeddedAffinity | None = None
    """The Pods' affinity rules."""
    annotations: Mapping[str, str] = Field(default_factory=dict)
    """Annotations of the Pods, besides the operator's own."""
    dns_config: EmbeddedDNSConfig | None = None
    """The contents of the Pods' resolv.conf."""
    dns_policy: Literal["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"] | None = None
    """The source of the DNS servers that the Pods ask."""
    image_pull_secrets: LocalObjectReferences = ()
    """Secrets in the operator's namespace to pull images with."""
    labels: Mapping[str, LabelValue] = Field(default_factory=dict)
    """Labels of the Pods, besides the operator's own."""
    node_name: str | None = None
    """The one node to run on."""
    node_selector: Mapping[str, str] = Field(default_factory=dict)
    """Labels that a node must have for the Pods to run there."""
    priority_class_name: str | None = None
    """The Pods' priority class, in place of the operator's default."""
    security_context: EmbeddedPodSecurityContext | None = None
    """Rights of all containers of the Pods."""
    tailscale_container: Container | None = None
    """The container that runs tailscaled."""
    tailscale_init_container: Container | None = None
    """The container that turns IP forwarding on; proxies that run in userspace have none."""
    tolerations: Tolerations = ()
    """Taints of nodes that the Pods tolerate."""
    topology_spread_constraints: TopologySpreadConstraints = ()
    """The rules that spread the Pods over the cluster."""


class StatefulSet(WireModel):
    """The settings of a proxy's StatefulSet."""

    annotations: Mapping[str, str] = Field(default_factory=dict)
    """Annotations of the StatefulSet, besides the operator's own."""
    labels: Mapping[str, LabelValue] = Field(default_factory=dict)
    """Labels of the StatefulSet, besides the operator's own."""
    pod: Pod | None = None
    """The settings of the proxy's Pods. If this is set, a field that is empty here is empty in the Pods, too. But the
    containers, dnsConfig and dnsPolicy keep the operator's values for fields that are empty here."""


class ServiceMonitor(WireModel):
    """A ServiceMonitor of the Prometheus operator for each proxy."""

    enable: bool
    """Makes a ServiceMonitor. The Prometheus operator's CRDs must be installed."""
    labels: Mapping[str, LabelValue] = Field(default_factory=dict)
    """Labels of the ServiceMonitor, besides the operator's own, for Prometheus to select it by."""


class Metrics(WireModel):
    """Metrics of the proxies, on port 9002. Egress proxies, and those that forward cluster traffic, serve none."""

    model_config = ConfigDict(json_schema_extra=_METRICS_RULES)

    enable: bool
    """Serves the metrics, at /metrics and by a Service of each proxy."""
    service_monitor: ServiceMonitor | None = None
    """A ServiceMonitor of the Prometheus operator for each proxy."""


class PortRange(WireModel):
    """A port, or all from port to endPort."""

    end_port: int | None = None
    """The last port; unset means port alone."""
    port: int
    """The first port."""


class NodePort(WireModel):
    """Services of type NodePort, one for each replica of a ProxyGroup."""

    ports: Annotated[Sequence[PortRange], Field(min_length=1)]
    """The ports to choose from. No other ProxyClass may have them."""
    selector: Mapping[str, str] = Field(default_factory=dict)
    """Labels of the nodes whose external addresses are advertised; empty means all nodes."""


class StaticEndpointsConfig(WireModel):
    """Addresses at which proxies of a ProxyGroup can be reached without NAT traversal."""

    node_port: NodePort
    """Services of type NodePort, one for each replica of a ProxyGroup."""


class TailscaleConfig(WireModel):
    """Configuration of the proxies' tailscaled."""

    accept_routes: bool = False
    """Makes the proxies use the routes that other devices of the tailnet advertise."""


class ProxyClassSpec(WireModel):
    """The settings of the proxies that name this class."""

    metrics: Metrics | None = None
    """Metrics of the proxies, on port 9002. Egress proxies, and those that forward cluster traffic, serve none."""
    stateful_set: StatefulSet | None = None
    """The settings of a proxy's StatefulSet."""
    static_endpoints: StaticEndpointsConfig | None = None
    """Addresses at which proxies of a ProxyGroup can be reached without NAT traversal."""
    tailscale: TailscaleConfig | None = None
    """Configuration of the proxies' tailscaled."""
    use_lets_encrypt_staging_environment: bool = False
    """Gets the certificates of Ingress proxies from Let's Encrypt's staging environment, which has higher rate
    limits, and which browsers don't trust."""

    @property
    def is_measured(self) -> bool:
        """True if the class turns on the metrics of those proxies that can serve them."""
        return self.metrics is not None and self.metrics.enable

    @property
    def tailscale_container(self) -> Container | None:
        """The container that runs tailscaled; None if the class doesn't say anything about it."""
        pod = self.stateful_set.pod if self.stateful_set else None
        return pod.tailscale_container if pod else None


class ProxyClassStatus(WireModel):
    """The findings of the operator. Only the operator writes them."""

    conditions: Conditions = ()
    """The condition ProxyClassReady. It is True if the class can be used. If not, its message says what is wrong."""


class ProxyClass(CustomResource):
    """ProxyClass says how proxies run: where, with what image, environment, rights and resources, and with metrics.

    Services and Ingresses name a ProxyClass by the label or annotation tailscale.com/proxy-class.
    """

    spec: ProxyClassSpec
    """The settings of the proxies that name this class."""
    status: ProxyClassStatus = Field(default_factory=ProxyClassStatus)
    """The findings of the operator. Only the operator writes them."""
