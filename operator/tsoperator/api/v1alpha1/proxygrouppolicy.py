"""ProxyGroupPolicy: which ProxyGroups a namespace may use."""

from collections.abc import Sequence

from pydantic import Field

from tsoperator.api.v1alpha1.kubernetes_types import Conditions
from tsoperator.api.v1alpha1.wire import CustomResource, WireModel


class ProxyGroupPolicySpec(WireModel):
    """The ProxyGroups that the namespace may use."""

    egress: Sequence[str] = ()
    """The ProxyGroups that Services of the namespace may name for egress. Unset or empty means none."""
    ingress: Sequence[str] = ()
    """The ProxyGroups that Ingresses and Services of the namespace may be exposed by. Unset or empty means none."""


class ProxyGroupPolicyStatus(WireModel):
    """The results of the operator's work. Only the operator writes them."""

    conditions: Conditions = ()
    """The conditions of the policy."""


class ProxyGroupPolicy(CustomResource):
    """ProxyGroupPolicy says which ProxyGroups the objects of its namespace may use."""

    spec: ProxyGroupPolicySpec
    """The ProxyGroups that the namespace may use."""
    status: ProxyGroupPolicyStatus = Field(default_factory=ProxyGroupPolicyStatus)
    """The results of the operator's work. Only the operator writes them."""
