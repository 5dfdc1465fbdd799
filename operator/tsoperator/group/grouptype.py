"""The differences between the types of ProxyGroups, each type as one value (docs/development/groups.md)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tsoperator.api.objects import Object, spec_text
from tsoperator.group.configmap import egress_configmap_steps
from tsoperator.proxy.annotations import Vocabulary, no_annotations
from tsoperator.proxy.proxypod import ProxyPod, egress_group
from tsoperator.runtime.plan import Step


@dataclass(frozen=True, slots=True)
class GroupType:
    """The parts of a ProxyGroup that depend on its type.

    The proxies run in *pod*, and are there to do this *work*. If they *drain*, a Pod that ends first waits until new
    connections go to other Pods, and a new Pod is ready only when its gate is open.

    A ConfigMap, whose name ends in *config_suffix*, tells the proxies what to do. *configmap_steps* returns the steps
    that make it right. Its arguments are the ConfigMap as it should be without its content; the live one; the objects
    that the group serves; the number of replicas, if it is known; and the domain of the cluster.

    *vocabulary* has the annotations that the operator reads on the group.
    """

    pod: ProxyPod
    work: str
    drains: bool
    config_suffix: str
    configmap_steps: Callable[[Object, Object | None, Sequence[Object], int | None, str], Sequence[Step]]
    vocabulary: Vocabulary

    def config_name(self, group: str) -> str:
        """Return the name of the ConfigMap of *group*."""
        return f"{group}{self.config_suffix}"


EGRESS: Final = GroupType(
    pod=egress_group(),
    work="forward traffic to the tailnet",
    drains=True,
    config_suffix="-egress-config",
    configmap_steps=egress_configmap_steps,
    vocabulary=no_annotations("ProxyGroup", "spec.hostnamePrefix"),
)
"""The proxies lead Pods to devices of the tailnet."""

TYPES: Final = {"egress": EGRESS}
"""The types that the operator supports, by name."""

UNSUPPORTED: Final = ("ingress", "kube-apiserver")
"""The names of the types that the operator doesn't support yet."""


def type_of(group: Object) -> GroupType | None:
    """Return the type of the ProxyGroup *group*, which need not be valid; None if the operator doesn't support it."""
    return TYPES.get(spec_text(group, "type"))
