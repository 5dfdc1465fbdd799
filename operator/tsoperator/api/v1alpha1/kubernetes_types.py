"""Structures of Kubernetes that custom resources embed.

The aliases at the end are types of fields. The value of such a field is the structure as it is on the wire, after a
check against its model.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from tsoperator.api.objects import Object
from tsoperator.api.v1alpha1.wire import (
    ATOMIC_MAP,
    SERVER_DEFAULT,
    AtomicList,
    Embedded,
    Int32,
    Int64,
    WireModel,
    list_map_keywords,
)


class Condition(WireModel):
    """One thing that is known about the object."""

    last_transition_time: str = Field(json_schema_extra={"format": "date-time"})
    """The time of the last change of the status."""
    message: str = Field(max_length=32768)
    """An explanation for people. It may be empty."""
    observed_generation: Int64 = Field(default=0, ge=0)
    """The object's metadata.generation when this condition was set. The condition is out of date if it is higher
    now."""
    reason: str = Field(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
    """The reason, in one word for programs."""
    status: Literal["True", "False", "Unknown"]
    """True if the condition holds, False if it doesn't, or Unknown."""
    type: str = Field(
        max_length=316,
        pattern=(
            r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
            r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
        ),
    )
    """The name of the condition."""


class LocalObjectReference(WireModel):
    """Names an object in the namespace of the Pod."""

    model_config = ConfigDict(json_schema_extra=ATOMIC_MAP)

    name: str = Field(default="", json_schema_extra={SERVER_DEFAULT: ""})
    """The object's name."""


class Toleration(WireModel):
    """Lets the Pod run on nodes with a matching taint."""

    effect: str | None = None
    """The taint's effect: NoSchedule, PreferNoSchedule or NoExecute. Empty means all effects."""
    key: str | None = None
    """The taint's key. Empty means all taints; the operator must be Exists then."""
    operator: str | None = None
    """The comparison of value with the taint's: Equal (the default) or Exists, which needs no value."""
    toleration_seconds: Int64 | None = None
    """The seconds for which the Pod may stay after a NoExecute taint appears. Unset means for ever."""
    value: str | None = None
    """The taint's value, for the operator Equal."""


class Requirement(WireModel):
    """A test on one label or field."""

    key: str
    """The label's key, or the field's name."""
    operator: str
    """The test: In, NotIn, Exists or DoesNotExist; for nodes also Gt and Lt."""
    values: AtomicList[str] | None = None
    """The values to test with: none for Exists and DoesNotExist, one for Gt and Lt."""


class LabelSelector(WireModel):
    """Selects objects that have all these labels and pass all these tests. An empty selector selects every object."""

    model_config = ConfigDict(json_schema_extra=ATOMIC_MAP)

    match_expressions: AtomicList[Requirement] | None = None
    """Tests that the labels must all pass."""
    match_labels: dict[str, str] | None = None
    """Labels that the object must have."""


class NodeSelectorTerm(WireModel):
    """Selects nodes that pass all these tests. An empty term selects no node."""

    model_config = ConfigDict(json_schema_extra=ATOMIC_MAP)

    match_expressions: AtomicList[Requirement] | None = None
    """Tests on the node's labels."""
    match_fields: AtomicList[Requirement] | None = None
    """Tests on the node's fields."""


class PreferredSchedulingTerm(WireModel):
    """Makes the scheduler prefer the nodes that match."""

    preference: NodeSelectorTerm
    """The nodes to prefer."""
    weight: Int32
    """The weight of the preference, from 1 to 100."""


class NodeSelector(WireModel):
    """Selects nodes that match any of its terms."""

    model_config = ConfigDict(json_schema_extra=ATOMIC_MAP)

    node_selector_terms: AtomicList[NodeSelectorTerm]
    """The terms, of which one is enough."""


class NodeAffinity(WireModel):
    """The nodes that the Pod may or should run on."""

    preferred_during_scheduling_ignored_during_execution: AtomicList[PreferredSchedulingTerm] | None = None
    """Nodes to prefer. The scheduler adds up the weights of the preferences that a node matches."""
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    """Nodes that the Pod may be placed on. A Pod that runs already stays where it is."""


class PodAffinityTerm(WireModel):
    """Selects Pods, and says which nodes are near to these Pods."""

    label_selector: LabelSelector | None = None
    """The labels of the Pods. Unset selects no Pods."""
    match_label_keys: AtomicList[str] | None = None
    """Label keys. Only Pods that have the same values of these labels as the new Pod are selected."""
    mismatch_label_keys: AtomicList[str] | None = None
    """Label keys. Only Pods that have other values of these labels than the new Pod are selected."""
    namespace_selector: LabelSelector | None = None
    """The labels of namespaces whose Pods are selected, besides the listed namespaces; an empty selector means all."""
    namespaces: AtomicList[str] | None = None
    """The names of the namespaces whose Pods are selected. Without names and without a selector, this is the Pod's own
    namespace."""
    topology_key: str
    """A node label such as kubernetes.io/hostname. Nodes with the same value of this label are near to each other."""


class WeightedPodAffinityTerm(WireModel):
    """Makes the scheduler prefer nodes that are near to some Pods, or far from them."""

    pod_affinity_term: PodAffinityTerm
    """The Pods, and the nodes that are near to them."""
    weight: Int32
    """The weight of the preference, from 1 to 100."""


class PodAffinity(WireModel):
    """The Pods that the Pod must or should run near to."""

    preferred_during_scheduling_ignored_during_execution: AtomicList[WeightedPodAffinityTerm] | None = None
    """Pods to prefer being near to. The scheduler adds up the weights of the terms that a node matches."""
    required_during_scheduling_ignored_during_execution: AtomicList[PodAffinityTerm] | None = None
    """Pods that the Pod must be placed near to. A Pod that runs already stays where it is."""


class PodAntiAffinity(WireModel):
    """The Pods that the Pod must or should run away from."""

    preferred_during_scheduling_ignored_during_execution: AtomicList[WeightedPodAffinityTerm] | None = None
    """Pods to avoid where possible. The scheduler adds up the weights of the terms that a node matches."""
    required_during_scheduling_ignored_during_execution: AtomicList[PodAffinityTerm] | None = None
    """Pods that the Pod must not be placed near to. A Pod that runs already stays where it is."""


class Affinity(WireModel):
    """The rules about the nodes on which the Pod may or should run."""

    node_affinity: NodeAffinity | None = None
    """The rules about the nodes that the Pod runs on."""
    pod_affinity: PodAffinity | None = None
    """The rules about the Pods to run near to."""
    pod_anti_affinity: PodAntiAffinity | None = None
    """The rules about the Pods to run away from."""


EmbeddedAffinity = Annotated[Object, Embedded(Affinity)]
Tolerations = Sequence[Annotated[Object, Embedded(Toleration)]]
LocalObjectReferences = Sequence[Annotated[Object, Embedded(LocalObjectReference)]]
Conditions = Annotated[
    Sequence[Annotated[Object, Embedded(Condition)]],
    Field(json_schema_extra=list_map_keywords("type")),
]
