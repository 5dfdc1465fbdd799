"""Structures of Kubernetes that configure Pods and containers, embedded in custom resources.

The aliases at the end are types of fields. The value of such a field is the structure as it is on the wire, after a
check against its model.
"""

from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import AfterValidator, Field, WithJsonSchema

from tsoperator.api.objects import Object
from tsoperator.api.quantities import PATTERN, is_quantity
from tsoperator.api.v1alpha1.kubernetes_types import LabelSelector
from tsoperator.api.v1alpha1.wire import AtomicList, Embedded, Int32, Int64, WireModel, list_map_keywords

_QUANTITY_SCHEMA: Final[Object] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": PATTERN,
    "x-kubernetes-int-or-string": True,
}


def _checked(value: int | str) -> int | str:
    if not is_quantity(value):
        raise ValueError("give an amount such as 100m, 0.5 or 64Mi")
    return value


Quantity = Annotated[int | str, AfterValidator(_checked), WithJsonSchema(_QUANTITY_SCHEMA)]


class SELinuxOptions(WireModel):
    """The SELinux context."""

    level: str | None = None
    """The SELinux level."""
    role: str | None = None
    """The SELinux role."""
    type: str | None = None
    """The SELinux type."""
    user: str | None = None
    """The SELinux user."""


class WindowsOptions(WireModel):
    """Settings that apply on Windows only."""

    gmsa_credential_spec: str | None = None
    """The GMSA credential spec, inlined."""
    gmsa_credential_spec_name: str | None = None
    """The name of the GMSA credential spec."""
    host_process: bool | None = None
    """Runs the container as a host process."""
    run_as_user_name: str | None = None
    """The user that the entry point runs as."""


class Profile(WireModel):
    """A profile that confines processes."""

    localhost_profile: str | None = None
    """The profile's name on the node, for the type Localhost."""
    type: str
    """The kind of profile: Localhost, RuntimeDefault or Unconfined."""


class Sysctl(WireModel):
    """A kernel parameter."""

    name: str
    """The parameter's name."""
    value: str
    """The parameter's value."""


class PodSecurityContext(WireModel):
    """Rights of all containers of the Pod."""

    app_armor_profile: Profile | None = None
    """The AppArmor profile."""
    fs_group: Int64 | None = None
    """A group that owns the Pod's volumes."""
    fs_group_change_policy: str | None = None
    """The policy for setting the owner of volumes: Always, or OnRootMismatch, if the owner of the root differs."""
    run_as_group: Int64 | None = None
    """The group that entry points run as."""
    run_as_non_root: bool | None = None
    """Refuses images that run as root."""
    run_as_user: Int64 | None = None
    """The user that entry points run as."""
    se_linux_change_policy: str | None = None
    """The way in which volumes get their SELinux label: MountOption or Recursive."""
    se_linux_options: SELinuxOptions | None = None
    """The SELinux context."""
    seccomp_profile: Profile | None = None
    """The seccomp profile."""
    supplemental_groups: AtomicList[Int64] | None = None
    """Further groups of the containers' first processes."""
    supplemental_groups_policy: str | None = None
    """The policy for the groups of the image: with Merge the processes have these groups, with Strict they don't."""
    sysctls: AtomicList[Sysctl] | None = None
    """Kernel parameters of the Pod."""
    windows_options: WindowsOptions | None = None
    """Settings that apply on Windows only."""


class Capabilities(WireModel):
    """Changes to the Linux capabilities that the container runtime gives by default."""

    add: AtomicList[str] | None = None
    """The capabilities that are added."""
    drop: AtomicList[str] | None = None
    """The capabilities that are taken away."""


class SecurityContext(WireModel):
    """Rights of one container."""

    allow_privilege_escalation: bool | None = None
    """Lets a process get more rights than its parent."""
    app_armor_profile: Profile | None = None
    """The AppArmor profile."""
    capabilities: Capabilities | None = None
    """Linux capabilities."""
    privileged: bool | None = None
    """Runs the container with all rights on the node."""
    proc_mount: str | None = None
    """The kind of mount of /proc: Default or Unmasked."""
    read_only_root_filesystem: bool | None = None
    """Makes the root file system read-only."""
    run_as_group: Int64 | None = None
    """The group that the entry point runs as."""
    run_as_non_root: bool | None = None
    """Refuses an image that runs as root."""
    run_as_user: Int64 | None = None
    """The user that the entry point runs as."""
    se_linux_options: SELinuxOptions | None = None
    """The SELinux context."""
    seccomp_profile: Profile | None = None
    """The seccomp profile."""
    windows_options: WindowsOptions | None = None
    """Settings that apply on Windows only."""


class ResourceClaim(WireModel):
    """Names a resource claim of the Pod, by which a container gets a device such as a GPU."""

    name: str
    """The name that the Pod's spec.resourceClaims gives to the resource claim."""
    request: str | None = None
    """The name of one request in the resource claim; unset means all its requests."""


class Resources(WireModel):
    """A container's share of the node's CPU, memory and other resources."""

    claims: Annotated[Sequence[ResourceClaim] | None, Field(json_schema_extra=list_map_keywords("name"))] = None
    """Resource claims. They are accepted, but not applied: a proxy's Pod has no resource claims."""
    limits: dict[str, Quantity] | None = None
    """The most of each resource that the container may use."""
    requests: dict[str, Quantity] | None = None
    """The amount of each resource that the scheduler keeps free for the container."""


class TopologySpreadConstraint(WireModel):
    """Spreads Pods over parts of the cluster."""

    label_selector: LabelSelector | None = None
    """The labels of the Pods that are counted."""
    match_label_keys: AtomicList[str] | None = None
    """Label keys. Only Pods that have the same values of these labels as the new Pod are counted."""
    max_skew: Int32
    """The most by which the numbers of Pods in two parts may differ."""
    min_domains: Int32 | None = None
    """The least number of parts."""
    node_affinity_policy: str | None = None
    """The policy for nodes that the Pod's affinity excludes: with Honor (the default) they don't count, with Ignore
    they do."""
    node_taints_policy: str | None = None
    """The policy for nodes with taints that the Pod doesn't tolerate: with Honor they don't count, with Ignore (the
    default) they do."""
    topology_key: str
    """The node label whose values are the parts, such as topology.kubernetes.io/zone."""
    when_unsatisfiable: str
    """The policy for a Pod that no node can take within these limits: DoNotSchedule or ScheduleAnyway."""


class DNSOption(WireModel):
    """An option of the resolver."""

    name: str | None = None
    """The option's name."""
    value: str | None = None
    """The option's value, if it takes one."""


class PodDNSConfig(WireModel):
    """Additions to the Pod's resolv.conf, besides the entries that follow from the DNS policy."""

    nameservers: AtomicList[str] | None = None
    """Addresses of DNS servers."""
    options: AtomicList[DNSOption] | None = None
    """Options of the resolver."""
    searches: AtomicList[str] | None = None
    """Domains to search for short names."""


EmbeddedPodSecurityContext = Annotated[Object, Embedded(PodSecurityContext)]
EmbeddedSecurityContext = Annotated[Object, Embedded(SecurityContext)]
EmbeddedResources = Annotated[Object, Embedded(Resources)]
EmbeddedDNSConfig = Annotated[Object, Embedded(PodDNSConfig)]
TopologySpreadConstraints = Sequence[Annotated[Object, Embedded(TopologySpreadConstraint)]]
