"""Decides which admission policies a namespace needs, and what its ProxyGroupPolicies report."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tsoperator.api.conditions import condition, status_with
from tsoperator.api.names import ADMISSION_EGRESS, ADMISSION_INGRESS, CONDITION_PROXYGROUPPOLICY_READY
from tsoperator.api.objects import ADMISSIONPOLICY, Object, generation_of, key_of, resource_of
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.api.v1alpha1.proxygrouppolicy import ProxyGroupPolicy
from tsoperator.reconcilers.proxygrouppolicy.admission import admission_policies
from tsoperator.reconcilers.proxygrouppolicy.ask import allowed_by, named_groups
from tsoperator.runtime.ownership import is_marked
from tsoperator.runtime.plan import Child, Deletion, Note, Plan, Refusal, Report
from tsoperator.settings import Settings

ENFORCED: Final = "ProxyGroupPolicyEnforced"
FAILED: Final = "ProxyGroupPolicyFailed"
INVALID: Final = "ProxyGroupPolicyInvalid"
NO_GROUP: Final = "ProxyGroupNotFound"
UNSUPPORTED: Final = "AdmissionPoliciesUnsupported"

_NO_PATTERNS: Final = ". A name stands for one ProxyGroup: there are no patterns"
_LOOK_AGAIN: Final = 60.0  # s: no change of an object tells that the API server serves a kind now, or lets us see it
_TOO_OLD: Final = (
    "nothing is enforced, because this API server has no ValidatingAdmissionPolicies: update the cluster to Kubernetes "
    f"{ADMISSIONPOLICY.since} or newer"
)
_HIDDEN: Final = (
    "what is enforced stays as it is, because the operator may not see ValidatingAdmissionPolicies and their bindings: "
    "give its ClusterRole the chart's rule for admissionregistration.k8s.io"
)


@dataclass(frozen=True, slots=True)
class Observed:
    """The facts on which the plan for a namespace depends.

    *policies* are its ProxyGroupPolicies; *sees_policies* tells whether these are surely all of them. *admission* are
    the existing admission policies and bindings with the names that the operator gives to those of the namespace.
    *serves_admission* tells whether the API server has such kinds, and *sees_admission* whether it lets the operator
    see them. *groups* are the existing ProxyGroups that the policies name, each with its type.
    """

    namespace: str
    policies: Sequence[Object] = ()
    sees_policies: bool = True
    admission: Sequence[Object] = ()
    serves_admission: bool = True
    sees_admission: bool = True
    groups: Mapping[str, str] = field(default_factory=dict)


def plan(observed: Observed, settings: Settings) -> Plan:
    """Return the plan for the admission policies of a namespace.

    They stay as they are while the operator can't see all ProxyGroupPolicies of the namespace, or one of these is
    invalid.
    """
    if not observed.sees_policies:
        return Plan(requeue_after=_LOOK_AGAIN)
    if not observed.policies:
        return Plan(steps=[Deletion(resource_of(obj), obj) for obj in observed.admission if is_marked(obj)])
    if not observed.serves_admission:
        return replace(_refusal_plan(observed, UNSUPPORTED, _TOO_OLD), requeue_after=_LOOK_AGAIN)
    if not observed.sees_admission:
        return replace(_refusal_plan(observed, FAILED, _HIDDEN), requeue_after=_LOOK_AGAIN)
    parsed = {key_of(obj).name: ProxyGroupPolicy.parse(obj) for obj in observed.policies}
    if invalid := {name: each for name, each in parsed.items() if isinstance(each, Invalid)}:
        return Plan(reports=[*_invalid_reports(observed, invalid)])
    valid = {name: each for name, each in parsed.items() if not isinstance(each, Invalid)}
    wanted = admission_policies(observed.namespace, allowed_by(valid.values()), settings)
    reports = [_enforced_report(obj, valid[key_of(obj).name], observed) for obj in observed.policies]
    return Plan(steps=[Child(obj) for obj in wanted], reports=reports)


def failed(observed: Observed, refusal: Refusal) -> Plan:
    """Return the plan that reports on each ProxyGroupPolicy why the API server refused the admission policies."""
    theirs = next((obj for obj in observed.admission if not is_marked(obj)), None)
    message = _taken(theirs) if theirs and refusal.is_taken else refusal.message
    made = _refusal_plan(observed, refusal.reason or FAILED, message)
    return Plan(reports=made.reports, error=refusal.error)


def _taken(theirs: Object) -> str:
    """Return the message about *theirs*, a binding of somebody else that has the name which our own binding needs."""
    name, binds = key_of(theirs).name, theirs["spec"].get("policyName")
    return (
        f"not all is enforced, because the ValidatingAdmissionPolicyBinding {name} is somebody else's: it binds the "
        f"policy {binds}. Make it anew with another name, and delete this one"
    )


def _enforced_report(obj: Object, policy: ProxyGroupPolicy, observed: Observed) -> Report:
    names = f"{ADMISSION_INGRESS}{observed.namespace} and {ADMISSION_EGRESS}{observed.namespace}"
    enforced = f"enforced by the ValidatingAdmissionPolicies {names}"
    missing = [name for name in named_groups(policy) if name not in observed.groups]
    if not missing:
        wrong = [*_of_another_type(policy, observed.groups)]
        report = _report(obj, ready=True, reason=ENFORCED, message="; ".join([enforced, *wrong]))
        return replace(report, notes=[Note("Warning", "IgnoredField", words, once=True) for words in wrong])
    message = (
        f"{enforced}, but these ProxyGroups are missing: {', '.join(missing)}. Create them, or remove their names from "
        f"this ProxyGroupPolicy{_NO_PATTERNS if '*' in ''.join(missing) else ''}"
    )
    return _report(obj, ready=False, reason=NO_GROUP, message=message)


def _of_another_type(policy: ProxyGroupPolicy, types: Mapping[str, str]) -> Iterator[str]:
    """Yield a message for each ProxyGroup that a policy names in the field for groups of another type."""
    for type_, names in (("egress", policy.spec.egress), ("ingress", policy.spec.ingress)):
        for name in dict.fromkeys(names):
            if types[name] != type_:
                yield (
                    f"ProxyGroup {name} in spec.{type_} is of type {types[name]}, so it is of no use there: name one "
                    f"of type {type_}, or remove it"
                )


def _invalid_reports(observed: Observed, invalid: Mapping[str, Invalid]) -> Iterator[Report]:
    for obj in observed.policies:
        name = key_of(obj).name
        if name in invalid:
            message = f"this ProxyGroupPolicy is invalid, so what is enforced stays as it is: {invalid[name].message}"
        else:
            others = " and ".join(invalid)
            message = f"what is enforced stays as it is until you have mended the invalid ProxyGroupPolicy {others}"
        yield _warning(obj, INVALID, message)


def _refusal_plan(observed: Observed, reason: str, message: str) -> Plan:
    return Plan(reports=[_warning(obj, reason, message) for obj in observed.policies])


def _warning(obj: Object, reason: str, message: str) -> Report:
    report = _report(obj, ready=False, reason=reason, message=message)
    return Report(obj, report.status, [Note("Warning", reason, message)])


def _report(obj: Object, *, ready: bool, reason: str, message: str) -> Report:
    wanted = condition(CONDITION_PROXYGROUPPOLICY_READY, ready, reason, message, generation_of(obj))
    return Report(obj, status_with(obj, wanted))
