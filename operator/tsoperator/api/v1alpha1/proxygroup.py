"""ProxyGroup: proxies that share their work."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from tsoperator.api.v1alpha1.kubernetes_types import Conditions
from tsoperator.api.v1alpha1.patterns import GROUP_HOSTNAME
from tsoperator.api.v1alpha1.tailnet_types import HostnamePrefix, Tag, TailnetName
from tsoperator.api.v1alpha1.wire import CustomResource, Int32, WireModel, immutable_keyword, list_map_keywords


class KubeAPIServer(WireModel):
    """The way in which the Kubernetes API is offered to the tailnet."""

    hostname: str | None = Field(default=None, pattern=GROUP_HOSTNAME)
    """The name in the tailnet. Unset means the ProxyGroup's name."""
    mode: Literal["auth", "noauth"] | None = None
    """auth: a request gets the rights of the tailnet's user who makes it. noauth: a request needs credentials of its
    own.
    Unset means auth."""


class ProxyGroupSpec(WireModel):
    """The wishes of the cluster's users."""

    hostname_prefix: HostnamePrefix | None = None
    """The beginning of the devices' names in the tailnet. Each name ends in the number of its replica. Unset means the
    ProxyGroup's name. It may be changed: the devices are renamed as they run."""
    kube_api_server: KubeAPIServer | None = Field(default=None, alias="kubeAPIServer")
    """The way in which the Kubernetes API is offered to the tailnet, for the type kube-apiserver."""
    proxy_class: str | None = None
    """The ProxyClass that says how the Pods are made. Unset means the operator's default. The Pods are made and changed
    only while the class is ready."""
    replicas: Int32 = Field(default=2, ge=0)
    """The number of Pods. Each is a device of its own in the tailnet. Unset means 2. A change restarts the Pods one by
    one."""
    tags: Sequence[Tag] = ()
    """The tags of the devices, such as tag:k8s. Unset means the operator's default. The tailnet's policy must let the
    operator's own tag own them."""
    tailnet: TailnetName | None = None
    """The Tailnet to join. Unset means the operator's own tailnet. It can't be changed: make another ProxyGroup, and
    name that one in your Services."""
    type: Annotated[
        Literal["egress", "ingress", "kube-apiserver"],
        Field(json_schema_extra=immutable_keyword("a ProxyGroup can't change its type: make another")),
    ]
    """The work of the proxies: they lead out of the cluster (egress), into it (ingress), or to the Kubernetes API
    (kube-apiserver). It can't be changed."""


class ProxyGroupDevice(WireModel):
    """A device of the ProxyGroup in the tailnet."""

    hostname: str
    """The device's name in the tailnet, without the tailnet's domain."""
    static_endpoints: Sequence[str] = ()
    """Addresses and ports at which the device can be reached without NAT traversal."""
    tailnet_ips: Sequence[str] = Field(default=(), alias="tailnetIPs")
    """The device's addresses in the tailnet."""


class ProxyGroupStatus(WireModel):
    """The results of the operator's work. Only the operator writes them."""

    conditions: Conditions = ()
    """The condition ProxyGroupReady, which is True if all proxies have joined the tailnet, and ProxyGroupAvailable,
    which is True if at least one has. A group of type kube-apiserver also has KubeAPIServerProxyValid, which is True
    if it can have its name, and KubeAPIServerProxyConfigured, which is True if a proxy serves the name. The message of
    a condition that isn't True says what is wrong."""
    devices: Annotated[Sequence[ProxyGroupDevice], Field(json_schema_extra=list_map_keywords("hostname"))] = ()
    """The devices of the Pods that run now."""
    proxies: str | None = None
    """The number of proxies that run now, and the number of those that should, such as 2/2."""
    url: str | None = None
    """The URL of the Kubernetes API in the tailnet, for the type kube-apiserver. Unset while no proxy serves it."""


class ProxyGroup(CustomResource):
    """ProxyGroup runs several proxies that share their work, so that the work goes on while one proxy is away. A
    Service names its ProxyGroup in the annotation tailscale.com/proxy-group.
    """

    spec: ProxyGroupSpec
    """The wishes of the cluster's users."""
    status: ProxyGroupStatus = Field(default_factory=ProxyGroupStatus)
    """The results of the operator's work. Only the operator writes them."""
