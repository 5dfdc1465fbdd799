"""Makes the admission policies by which the API server refuses objects that name a forbidden ProxyGroup.

In a namespace with ProxyGroupPolicies, a ProxyGroup is forbidden unless one of them allows it. Such a namespace has two
ValidatingAdmissionPolicies, one for ingress and one for egress. Each has a binding with the same name.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from tsoperator.api.names import (
    ADMISSION_EGRESS,
    ADMISSION_INGRESS,
    ANNOTATION_EXPOSE,
    LABEL_NAMESPACE_NAME,
    LOAD_BALANCER_CLASS,
    PROXY_GROUP,
)
from tsoperator.api.objects import ADMISSIONBINDING, ADMISSIONPOLICY, Object, Resource
from tsoperator.reconcilers.proxygrouppolicy.ask import Allowed
from tsoperator.settings import Settings

_ANNOTATIONS: Final = "object.metadata.annotations"
_NAMES_NO_GROUP: Final = f'!has({_ANNOTATIONS}) || !("{PROXY_GROUP}" in {_ANNOTATIONS})'
_IS_EXPOSED: Final = (
    f'(has(object.spec.loadBalancerClass) && object.spec.loadBalancerClass == "{LOAD_BALANCER_CLASS}") || '
    f'(has({_ANNOTATIONS}) && "{ANNOTATION_EXPOSE}" in {_ANNOTATIONS} && '
    f'{_ANNOTATIONS}["{ANNOTATION_EXPOSE}"] == "true")'
)
"""The CEL expression that is true for exposed Services. We take all other Services for egress Services."""

_IS_NOT_BEING_DELETED: Final = "oldObject == null || !has(oldObject.metadata.deletionTimestamp)"

_EVERYTHING: Final[Object] = {"matchLabels": None, "matchExpressions": None}
"""A label selector that selects everything.

A field that is None here must be absent from the live object. If we left the field out, we would accept any value that
others add to the live object. Here, an additional field could let the namespace use other ProxyGroups.
"""


def admission_policies(namespace: str, allowed: Allowed, settings: Settings) -> Sequence[Object]:
    """Return the admission policies and bindings that let *namespace* use only the *allowed* ProxyGroups."""
    ingress = [
        _validation(f'request.kind.kind != "Ingress" || {_names_one_of(allowed.ingress)}', "Ingress", allowed.ingress),
        _validation(
            f'request.kind.kind != "Service" || !({_IS_EXPOSED}) || {_names_one_of(allowed.ingress)}',
            "exposed Service",
            allowed.ingress,
        ),
    ]
    egress = [_validation(f"{_IS_EXPOSED} || {_names_one_of(allowed.egress)}", "egress Service", allowed.egress)]
    ingresses, services = _rule("networking.k8s.io", "*", "ingresses"), _rule("", "v1", "services")
    return [
        _policy(ADMISSION_INGRESS + namespace, [ingresses, services], ingress, settings),
        _binding(ADMISSION_INGRESS + namespace, namespace),
        _policy(ADMISSION_EGRESS + namespace, [services], egress, settings),
        _binding(ADMISSION_EGRESS + namespace, namespace),
    ]


def _policy(name: str, rules: Sequence[Object], validations: Sequence[Object], settings: Settings) -> Object:
    spec: Object = {
        "failurePolicy": "Fail",
        "paramKind": None,
        "variables": None,
        "auditAnnotations": None,
        "matchConstraints": _matching(_EVERYTHING, rules),
        "matchConditions": _conditions(settings),
        "validations": validations,
    }
    return _admission(ADMISSIONPOLICY, name, spec)


def _binding(name: str, namespace: str) -> Object:
    # By an expression, not by labels: others could add labels to the live object, but no expressions to this list.
    of_namespace = {"key": LABEL_NAMESPACE_NAME, "operator": "In", "values": [namespace]}
    spec: Object = {
        "policyName": name,
        "paramRef": None,
        "validationActions": ["Deny"],
        "matchResources": _matching({"matchLabels": None, "matchExpressions": [of_namespace]}, None),
    }
    return _admission(ADMISSIONBINDING, name, spec)


def _admission(resource: Resource, name: str, spec: Object) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, "spec": spec}


def _matching(namespaces: Object, rules: Sequence[Object] | None) -> Object:
    return {
        "matchPolicy": "Equivalent",
        "namespaceSelector": namespaces,
        "objectSelector": _EVERYTHING,
        "resourceRules": rules,
        "excludeResourceRules": None,
    }


def _rule(group: str, version: str, plural: str) -> Object:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": [plural],
        "resourceNames": None,
        "operations": ["CREATE", "UPDATE"],
        "scope": "*",
    }


def _conditions(settings: Settings) -> Sequence[Object]:
    """Return the conditions that a request must meet so that the API server applies the admission policy to it.

    An object can be older than the policy, and name a ProxyGroup that the policy doesn't allow. So the policy doesn't
    apply to requests of the operator, which must be able to write its finalizer. It doesn't apply to objects that are
    being deleted either, so that their deletion can end.
    """
    account = f"system:serviceaccount:{settings.namespace}:{settings.service_account}"
    return [
        {"name": "not-by-the-operator", "expression": f"request.userInfo.username != {_literal(account)}"},
        {"name": "not-being-deleted", "expression": _IS_NOT_BEING_DELETED},
    ]


def _validation(expression: str, title: str, names: Sequence[str]) -> Object:
    if names:
        told = f"must be {_one_of(names)}, or not be set: the ProxyGroupPolicies of this namespace allow no other group"
    else:
        told = "must not be set: the ProxyGroupPolicies of this namespace allow no ProxyGroup for it"
    return {
        "expression": expression,
        "message": f"the annotation {PROXY_GROUP} of this {title} {told}",
        "messageExpression": None,
    }


def _names_one_of(names: Iterable[str]) -> str:
    """Return the CEL expression that is true for an object that names no ProxyGroup, or one of *names*."""
    return f'{_NAMES_NO_GROUP} || {_ANNOTATIONS}["{PROXY_GROUP}"] in [{", ".join(map(_literal, names))}]'


def _one_of(names: Sequence[str]) -> str:
    return " or ".join(map(_literal, names))


def _literal(value: Any) -> str:
    """Return the string *value* as a literal of CEL.

    CEL has the same literals as JSON, except for escaped surrogates.
    """
    return json.dumps(value, ensure_ascii=False)
