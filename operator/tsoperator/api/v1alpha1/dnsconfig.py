"""DNSConfig: asks for a nameserver that resolves MagicDNS names inside the cluster."""

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from tsoperator.api.v1alpha1.kubernetes_types import Conditions, EmbeddedAffinity, LocalObjectReferences, Tolerations
from tsoperator.api.v1alpha1.wire import CustomResource, Int32, WireModel


class Image(WireModel):
    """The container image of the nameserver. Unset, or empty, means the operator's default."""

    repo: str | None = None
    """The image's repository. Unset, or empty, means the default for the program that the annotation
    tailscale.com/nameserver names: tsnameserver or, without the annotation, k8s-nameserver."""
    tag: str | None = None
    """The image's tag. Unset, or empty, means the default for the same program."""


class NameserverService(WireModel):
    """The Service in front of the nameserver."""

    cluster_ip: str | None = Field(default=None, alias="clusterIP")
    """The address that the Service is created with, so that the stub domain in the cluster's DNS can be written ahead.
    It must be free and in the cluster's Service range. A Service that exists keeps its address."""


class NameserverPod(WireModel):
    """The settings of the nameserver's Pods."""

    affinity: EmbeddedAffinity | None = None
    """The Pods' affinity rules."""
    image_pull_secrets: LocalObjectReferences = ()
    """Secrets in the operator's namespace to pull the nameserver's image with."""
    node_selector: Mapping[str, str] = Field(default_factory=dict)
    """Labels that a node must have for the Pods to run there."""
    tolerations: Tolerations = ()
    """Taints of nodes that the Pods tolerate."""


class Nameserver(WireModel):
    """The nameserver; an empty object asks for one with the defaults."""

    image: Image = Field(default_factory=Image)
    """The container image of the nameserver."""
    pod: NameserverPod = Field(default_factory=NameserverPod)
    """The settings of the nameserver's Pods."""
    replicas: Int32 = Field(default=1, ge=0)
    """The number of Pods. Unset means 1."""
    service: NameserverService = Field(default_factory=NameserverService)
    """The Service in front of the nameserver."""


class ClusterDNS(WireModel):
    """The way in which the cluster's own DNS (CoreDNS or kube-dns) learns of the nameserver."""

    mode: Literal["Manual", "Managed"] = "Manual"
    """Managed: the operator writes the stub domain into the configuration of the cluster's DNS, puts it back if
    somebody removes it, and takes it out when this DNSConfig goes. Manual: the operator changes nothing there, and
    status.clusterDNS.snippet says what to write where."""
    platform: Literal["CoreDNS", "CoreDNSCustom", "KubeDNS", "OpenShift"] | None = None
    """The configuration that the cluster's DNS reads. CoreDNS: the Corefile in a ConfigMap. CoreDNSCustom: a ConfigMap
    that the Corefile imports, as on K3s and AKS. KubeDNS: the stubDomains of ConfigMap kube-dns. OpenShift: the DNS
    operator's object. Unset means that the operator finds out."""
    ingress_names: bool = False
    """Let Pods reach all Ingresses by their names.

    The proxies of Ingresses then run privileged and serve no metrics. A change restarts these proxies. If an
    Ingress has the annotation tailscale.com/experimental-forward-cluster-traffic-via-ingress, the annotation
    decides.
    """


class DNSConfigSpec(WireModel):
    """The wishes of the cluster's users."""

    nameserver: Nameserver
    """The nameserver to run; it may be an empty object."""
    cluster_dns: ClusterDNS = Field(default_factory=ClusterDNS, alias="clusterDNS")
    """The way in which the cluster's own DNS learns of the nameserver.

    Unset means that you configure that DNS yourself.
    """


class ClusterDNSStatus(WireModel):
    """The kind of the cluster's own DNS, and the text to write into its configuration so that it asks the
    nameserver.
    """

    platform: str | None = None
    """The configuration that the cluster's DNS reads: CoreDNS, CoreDNSCustom, KubeDNS or OpenShift; absent while it
    isn't known."""
    zones: Sequence[str] = ()
    """The zones that the cluster's DNS has to forward."""
    zones_from: str | None = None
    """The origin of the zones. Tailnets: they are the domains of the tailnets. Setting: OPERATOR_DNS_ZONES of the
    operator, which is operatorConfig.zones of its chart."""
    snippet: str | None = None
    """The stub domain for this cluster, ready to paste. Its first line says where to paste it."""


class NameserverStatus(WireModel):
    """The address of the nameserver."""

    ip: str | None = None
    """The ClusterIP of the nameserver's Service: forward status.clusterDNS.zones in the cluster's DNS
    to it."""


class DNSConfigStatus(WireModel):
    """The results of the operator's work. Only the operator writes them."""

    conditions: Conditions = ()
    """NameserverReady: whether a Pod of the nameserver is ready and answers. ClusterDNSReady: whether the cluster's
    own DNS asks the nameserver. ClusterDNSConfigured: whether the operator has written the stub domain.
    NameserverComplete is False, and says why, while the nameserver lacks something. RecordsComplete is False, and says
    how many names don't resolve, while some don't. Otherwise, these two conditions are absent."""
    cluster_dns: ClusterDNSStatus = Field(default_factory=ClusterDNSStatus, alias="clusterDNS")
    """The text to write into the configuration of the cluster's own DNS, so that it asks the nameserver."""
    nameserver: NameserverStatus = Field(default_factory=NameserverStatus)
    """The address of the nameserver."""


class DNSConfig(CustomResource):
    """DNSConfig runs a nameserver for the tailnet's MagicDNS names, by which the cluster's Pods then reach proxies.

    A cluster has at most one DNSConfig. The cluster's own DNS (CoreDNS or kube-dns) forwards MagicDNS names to the
    nameserver by a stub domain.
    """

    spec: DNSConfigSpec
    """The wishes of the cluster's users."""
    status: DNSConfigStatus = Field(default_factory=DNSConfigStatus)
    """The results of the operator's work. Only the operator writes them."""
