"""Recorder: asks for recordings of the SSH and kubectl sessions that go through the tailnet."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from tsoperator.api.v1alpha1.kubernetes_types import Conditions, EmbeddedAffinity, LocalObjectReferences, Tolerations
from tsoperator.api.v1alpha1.patterns import SERVICE_ACCOUNT_NAME
from tsoperator.api.v1alpha1.pod_types import EmbeddedPodSecurityContext, EmbeddedResources, EmbeddedSecurityContext
from tsoperator.api.v1alpha1.proxyclass import EnvironmentVariable
from tsoperator.api.v1alpha1.tailnet_types import Tag, TailnetName
from tsoperator.api.v1alpha1.wire import SERVER_DEFAULT, CustomResource, Int32, WireModel, list_map_keywords, rules

_RULES: Final = rules(
    (
        "!(self.replicas > 1 && (!has(self.storage) || !has(self.storage.s3)))",
        "several replicas can't share a local disk: set storage.s3, or replicas to 1",
    ),
)


class RecorderContainer(WireModel):
    """The settings of the recorder's container."""

    env: Sequence[EnvironmentVariable] = ()
    """Environment variables besides those that the operator sets."""
    image: str | None = None
    """The image to run instead of the operator's default."""
    image_pull_policy: Literal["Always", "Never", "IfNotPresent"] | None = None
    """The policy for pulling the image."""
    resources: EmbeddedResources | None = None
    """The container's share of the node's CPU, memory and other resources."""
    security_context: EmbeddedSecurityContext | None = None
    """The container's rights."""


class RecorderServiceAccount(WireModel):
    """The ServiceAccount that the Pods run as."""

    annotations: Mapping[str, str] = Field(default_factory=dict)
    """The ServiceAccount's annotations, for a cloud's workload identity."""
    name: str | None = Field(default=None, max_length=253, pattern=SERVICE_ACCOUNT_NAME)
    """The ServiceAccount's name. Unset means the Recorder's name."""


class RecorderPod(WireModel):
    """The settings of the recorder's Pods."""

    affinity: EmbeddedAffinity | None = None
    """The Pods' affinity rules."""
    annotations: Mapping[str, str] = Field(default_factory=dict)
    """Annotations of the Pods, besides the operator's own."""
    container: RecorderContainer | None = None
    """The settings of the recorder's container."""
    image_pull_secrets: LocalObjectReferences = ()
    """Secrets in the operator's namespace to pull images with."""
    labels: Mapping[str, str] = Field(default_factory=dict)
    """Labels of the Pods, besides the operator's own."""
    node_selector: Mapping[str, str] = Field(default_factory=dict)
    """Labels that a node must have for the Pods to run there."""
    security_context: EmbeddedPodSecurityContext | None = None
    """Rights of all containers of the Pods."""
    service_account: RecorderServiceAccount | None = None
    """The ServiceAccount that the Pods run as."""
    tolerations: Tolerations = ()
    """Taints of nodes that the Pods tolerate."""


class RecorderStatefulSet(WireModel):
    """The settings of the recorder's StatefulSet."""

    annotations: Mapping[str, str] = Field(default_factory=dict)
    """Annotations of the StatefulSet, besides the operator's own."""
    labels: Mapping[str, str] = Field(default_factory=dict)
    """Labels of the StatefulSet, besides the operator's own."""
    pod: RecorderPod | None = None
    """The settings of the recorder's Pods."""


class S3Secret(WireModel):
    """Names the Secret with the access keys."""

    name: str | None = None
    """A Secret in the operator's namespace whose keys become environment variables: AWS_ACCESS_KEY_ID and
    AWS_SECRET_ACCESS_KEY."""


class S3Credentials(WireModel):
    """The credentials of the recorder for the storage. Unset means those of the recorder's ServiceAccount."""

    secret: S3Secret | None = None
    """The Secret with the access keys."""


class S3(WireModel):
    """A bucket of S3, or of another storage that speaks the protocol of S3."""

    bucket: str | None = None
    """The bucket's name."""
    credentials: S3Credentials | None = None
    """The credentials of the recorder for the storage. Unset means those of the recorder's ServiceAccount."""
    endpoint: str | None = None
    """The host of the storage, such as s3.eu-central-1.amazonaws.com."""


class Storage(WireModel):
    """The place of the recordings. Unset means the Pod's disk, which goes with the Pod."""

    s3: S3 | None = None
    """A bucket of S3, or of another storage that speaks the protocol of S3."""


class RecorderSpec(WireModel):
    """The wishes of the cluster's users."""

    model_config = ConfigDict(json_schema_extra=_RULES)

    enable_ui: bool = Field(default=False, alias="enableUI")
    """Lets people watch recordings in a browser."""
    replicas: Int32 = Field(default=1, ge=0, json_schema_extra={SERVER_DEFAULT: 1})
    """The number of Pods. Each is a device of its own in the tailnet."""
    stateful_set: RecorderStatefulSet | None = None
    """The settings of the recorder's StatefulSet."""
    storage: Storage | None = None
    """The place of the recordings. Unset means the Pod's disk, which goes with the Pod."""
    tags: Sequence[Tag] = ()
    """The tags of the devices. Unset means tag:k8s. The tailnet's policy must let the operator's own tag own them."""
    tailnet: TailnetName | None = None
    """The Tailnet to join. Unset means the operator's own tailnet."""


class RecorderDevice(WireModel):
    """A device of the Recorder in the tailnet."""

    hostname: str
    """The device's name in the tailnet."""
    tailnet_ips: Sequence[str] = Field(default=(), alias="tailnetIPs")
    """The device's addresses in the tailnet."""
    url: str | None = None
    """The URL where recordings can be watched, if they can."""


class RecorderStatus(WireModel):
    """The results of the operator's work. Only the operator writes them."""

    conditions: Conditions = ()
    """The condition RecorderReady. It is True if the recorder is there. If not, its message says what is wrong."""
    devices: Annotated[Sequence[RecorderDevice], Field(json_schema_extra=list_map_keywords("hostname"))] = ()
    """The devices in the tailnet."""


class Recorder(CustomResource):
    """Recorder keeps recordings of SSH and kubectl sessions that go through the tailnet."""

    spec: RecorderSpec
    """The wishes of the cluster's users."""
    status: RecorderStatus = Field(default_factory=RecorderStatus)
    """The results of the operator's work. Only the operator writes them."""
