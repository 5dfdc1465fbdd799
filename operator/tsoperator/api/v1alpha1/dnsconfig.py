"""DNSConfig: asks for a nameserver that resolves MagicDNS names inside the cluster (dns-crds-chart.md section 7.2)."""

from collections.abc import Mapping

from pydantic import Field

from tsoperator.api.v1alpha1.kubernetes_types import (
    Conditions,
    EmbeddedAffinity,
    LocalObjectReferences,
    Tolerations,
)
from tsoperator.api.v1alpha1.wire import CustomResource, Int32, WireModel


class Image(WireModel):
    """The container image of the nameserver. Unset, or empty, means the operator's default."""

    repo: str | None = None
    """The image's repository. Unset, or empty, means the default of the same program: the annotation
    tailscale.com/nameserver says whether that is tsnameserver or, as without it, k8s-nameserver."""
    tag: str | None = None
    """The image's tag. Unset, or empty, means the default of the same program."""


class NameserverService(WireModel):
    """The Service in front of the nameserver."""

    cluster_ip: str | None = Field(default=None, alias="clusterIP")
    """The address that the Service is created with, so that the stub domain in the cluster's DNS can be written ahead.
    It must be free and in the cluster's Service range. A Service that exists keeps its address."""


class NameserverPod(WireModel):
    """Where and how the nameserver's Pods run."""

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
    """Where and how the nameserver's Pods run."""
    replicas: Int32 = Field(default=1, ge=0)
    """How many Pods serve. Unset means 1."""
    service: NameserverService = Field(default_factory=NameserverService)
    """The Service in front of the nameserver."""


class DNSConfigSpec(WireModel):
    """What the cluster's users want."""

    nameserver: Nameserver
    """The nameserver to run; it may be an empty object."""


class NameserverStatus(WireModel):
    """The nameserver as it runs."""

    ip: str | None = None
    """The ClusterIP of the nameserver's Service: forward the MagicDNS zone (ts.net) in the cluster's DNS to it."""


class DNSConfigStatus(WireModel):
    """What the operator has done; it writes this, nobody else."""

    conditions: Conditions = ()
    """Whether the nameserver is there (NameserverReady), and what is wrong if not. While it lacks something, what that
    is (NameserverComplete); while its records don't have all names, how many are missing (RecordsComplete)."""
    nameserver: NameserverStatus = Field(default_factory=NameserverStatus)
    """The nameserver as it runs."""


class DNSConfig(CustomResource):
    """DNSConfig runs a nameserver for the tailnet's MagicDNS names, which the cluster's Pods can then reach proxies by.

    A cluster has at most one. Names get to it through a stub domain in the cluster's DNS (CoreDNS or kube-dns).
    """

    spec: DNSConfigSpec
    """What the cluster's users want."""
    status: DNSConfigStatus = Field(default_factory=DNSConfigStatus)
    """What the operator has done; it writes this, nobody else."""
