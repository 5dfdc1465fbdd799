"""Gathers the facts about the ProxyGroupPolicies of a namespace."""

from collections.abc import Iterable

from tsoperator.api.names import ADMISSION_EGRESS, ADMISSION_INGRESS
from tsoperator.api.objects import (
    ADMISSIONBINDING,
    ADMISSIONPOLICY,
    PROXYGROUP,
    PROXYGROUPPOLICY,
    Key,
    Object,
    key_of,
    spec_text,
)
from tsoperator.reconcilers.proxygrouppolicy import plan as decisions
from tsoperator.reconcilers.proxygrouppolicy.ask import BY_GROUP, BY_NAMESPACE, by_group, by_namespace
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.kind import Kind
from tsoperator.runtime.manager import Watches
from tsoperator.runtime.plan import Plan, Refusal
from tsoperator.settings import Settings


def proxygrouppolicies(cache: Cache, settings: Settings) -> Kind[decisions.Observed]:
    """Return the `Kind` of ProxyGroupPolicies, which makes the admission policies of namespaces.

    Each of its keys names a namespace, and a plan is about all ProxyGroupPolicies of that namespace.
    """

    def look(key: Key, _obj: Object | None) -> decisions.Observed:
        policies = cache.indexed(PROXYGROUPPOLICY, BY_NAMESPACE, key.name)
        names = {name for policy in policies for name in by_group(policy)}
        admission = (
            cache.get(resource, Key("", prefix + key.name))
            for prefix in (ADMISSION_INGRESS, ADMISSION_EGRESS)
            for resource in (ADMISSIONPOLICY, ADMISSIONBINDING)
        )
        return decisions.Observed(
            key.name,
            policies,
            # If the API server lacks the CRD for a moment, that doesn't mean that nobody wants the policies any more.
            sees_policies=cache.sees(PROXYGROUPPOLICY, key.name) and cache.serves(PROXYGROUPPOLICY),
            admission=[obj for obj in admission if obj],
            serves_admission=cache.serves(ADMISSIONPOLICY),
            sees_admission=all(cache.sees(resource, "") for resource in (ADMISSIONPOLICY, ADMISSIONBINDING)),
            groups={
                name: spec_text(group, "type") for name in names if (group := cache.get(PROXYGROUP, Key("", name)))
            },
        )

    def plan(_obj: Object | None, observed: decisions.Observed) -> Plan:
        return decisions.plan(observed, settings)

    def refused(observed: decisions.Observed, _obj: Object | None, refusal: Refusal) -> Plan:
        return decisions.failed(observed, refusal)

    def keys_of_group(group: Object) -> Iterable[Key]:
        return {namespace_key(each) for each in cache.indexed(PROXYGROUPPOLICY, BY_GROUP, key_of(group).name)}

    watches: Watches = {
        PROXYGROUPPOLICY: lambda policy: (namespace_key(policy),),
        PROXYGROUP: keys_of_group,
        **dict.fromkeys((ADMISSIONPOLICY, ADMISSIONBINDING), namespace_keys),
    }
    indexes = {PROXYGROUPPOLICY: {BY_NAMESPACE: by_namespace, BY_GROUP: by_group}}
    return Kind(None, watches, look, plan, refused, name=PROXYGROUPPOLICY.kind, indexes=indexes)


def namespace_key(policy: Object) -> Key:
    """Return the key of the namespace of a ProxyGroupPolicy."""
    return Key("", key_of(policy).namespace)


def namespace_keys(admission: Object) -> Iterable[Key]:
    """Return the key of the namespace that the name of an admission policy or a binding contains.

    Return no key for a name that we don't give to such objects.
    """
    name = key_of(admission).name
    return [
        Key("", name.removeprefix(prefix))
        for prefix in (ADMISSION_INGRESS, ADMISSION_EGRESS)
        if name.startswith(prefix)
    ]
