"""The ProxyGroups that the ProxyGroupPolicies of a namespace allow, and the indexes of ProxyGroupPolicies."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tsoperator.api.objects import Object
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.api.v1alpha1.proxygrouppolicy import ProxyGroupPolicy

BY_NAMESPACE = "namespace"
"""The index that finds the ProxyGroupPolicies of a namespace."""

BY_GROUP = "named-group"
"""The index that finds the ProxyGroupPolicies that name a ProxyGroup."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """The sorted names of the ProxyGroups that a namespace is allowed to use, for ingress and for egress."""

    ingress: tuple[str, ...] = ()
    egress: tuple[str, ...] = ()


def allowed_by(policies: Iterable[ProxyGroupPolicy]) -> Allowed:
    """Return the ProxyGroups that at least one of *policies* allows."""
    specs = [policy.spec for policy in policies]
    return Allowed(
        tuple(sorted({name for spec in specs for name in spec.ingress})),
        tuple(sorted({name for spec in specs for name in spec.egress})),
    )


def by_namespace(policy: Object) -> Iterable[str]:
    """Return the value for the index `BY_NAMESPACE`: the namespace of *policy*."""
    return (policy["metadata"]["namespace"],)


def by_group(policy: Object) -> Iterable[str]:
    """Return the values for the index `BY_GROUP`: the ProxyGroups that *policy* names; none if it is invalid."""
    parsed = ProxyGroupPolicy.parse(policy)
    return () if isinstance(parsed, Invalid) else named_groups(parsed)


def named_groups(policy: ProxyGroupPolicy) -> Sequence[str]:
    """Return the ProxyGroups that *policy* names, each once."""
    return tuple(dict.fromkeys((*policy.spec.ingress, *policy.spec.egress)))
