"""Checks that the API server serves the operator's kinds, and that no webhook stops the operator's writes."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tsoperator.api.names import GROUP, LABEL_MANAGED, MANAGED
from tsoperator.api.objects import OWN_KINDS, Key, Object, Resource, key_of
from tsoperator.check.findings import Finding, failed, ok

_WRITTEN: Final = {
    "": {"pods", "services", "services/status", "secrets", "configmaps", "serviceaccounts", "events"},
    "apps": {"statefulsets", "deployments"},
    "networking.k8s.io": {"ingresses", "ingresses/status"},
    "discovery.k8s.io": {"endpointslices"},
    "coordination.k8s.io": {"leases"},
    "rbac.authorization.k8s.io": {"roles", "rolebindings"},
    GROUP: {word for kind in OWN_KINDS for word in (kind.plural, f"{kind.plural}/status")},
}
"""The kinds of the objects that the operator writes, and Pods, which Kubernetes makes for its StatefulSets.

Each kind is named by its plural, under its API group.
"""

_LABELS: Final = {LABEL_MANAGED: MANAGED}
"""The labels of nearly all objects that the operator writes."""


def check_kinds(served: Collection[Resource]) -> Iterator[Finding]:
    """Check that the API server's *served* kinds include all of the operator's own kinds."""
    missing = [each for each in OWN_KINDS if each not in served]
    for each in missing:
        yield failed(
            "crds",
            f"the cluster has no {each.kind}: CustomResourceDefinition {each} is missing, or doesn't serve "
            f"{each.version}",
            f"`kubectl apply --server-side -f charts/tailscale-operator/files/crds/{GROUP}_{each.plural}.yaml`, or "
            "`helm upgrade` with installCRDs=true",
        )
    if not missing:
        yield ok("crds", f"the cluster serves all {len(OWN_KINDS)} kinds of {GROUP}")


@dataclass(frozen=True, slots=True)
class Webhooks:
    """The webhook configurations of the cluster, and the facts that say whether they stop the operator.

    *namespace* has the labels of the operator's namespace. *ready* are the Services that have a ready Pod.
    """

    configurations: Sequence[Object]
    namespace: Mapping[str, str]
    ready: Collection[Key]


def check_webhooks(webhooks: Webhooks) -> Iterator[Finding]:
    """Check that each webhook that the API server must ask about the operator's writes has a ready Pod to answer."""
    asked, wrong = 0, []
    for configuration in webhooks.configurations:
        for webhook in configuration.get("webhooks") or ():
            concerned = _intercepted_writes(webhook)
            if not concerned or not _selects(webhook, "namespaceSelector", webhooks.namespace):
                continue
            if not _selects(webhook, "objectSelector", _LABELS):
                continue
            asked += 1
            service = _service(webhook)
            if service is not None and webhook.get("failurePolicy") != "Ignore" and service not in webhooks.ready:
                wrong.append(_unanswered_finding(configuration, webhook["name"], service, concerned))
    yield from wrong
    if not wrong:
        count = f"; the API server asks {asked} about it" if asked else ""
        yield ok("webhooks", f"no webhook stops what the operator writes{count}")


def webhook_services(configurations: Iterable[Object]) -> set[Key]:
    """Return the Services that the webhooks in *configurations* call."""
    found = (_service(webhook) for each in configurations for webhook in each.get("webhooks") or ())
    return {service for service in found if service is not None}


def has_ready_endpoint(slices: Iterable[Object]) -> bool:
    """Tell whether one of *slices*, the EndpointSlices of a Service, has an endpoint that is ready."""
    endpoints = (endpoint for each in slices for endpoint in each.get("endpoints") or ())
    return any((each.get("conditions") or {}).get("ready", True) for each in endpoints)


def _unanswered_finding(configuration: Object, webhook: str, service: Key, concerned: Sequence[str]) -> Finding:
    kind = configuration["kind"]
    name = key_of(configuration).name
    return failed(
        "webhooks",
        f"the API server asks the webhook {webhook} ({kind} {name}) about {', '.join(concerned)}, but Service "
        f"{service} has no ready Pod, so writes fail",
        f"mend what runs behind Service {service}; if that is gone for good, `kubectl delete {kind.lower()} {name}`",
    )


def _service(webhook: Object) -> Key | None:
    """Return the Service that *webhook* calls; None if it calls a URL, which we can't look at."""
    service = (webhook.get("clientConfig") or {}).get("service")
    return Key(service["namespace"], service["name"]) if service else None


def _intercepted_writes(webhook: Object) -> list[str]:
    """Return the resources that the operator writes, and whose writes *webhook* checks."""
    found: set[str] = set()
    for rule in webhook.get("rules") or ():
        if set(rule.get("operations") or ()) <= {"CONNECT"}:
            continue
        for group, plurals in _WRITTEN.items():
            if {group, "*"} & {*(rule.get("apiGroups") or ())}:
                found |= {plural for plural in plurals if _matches(plural, rule.get("resources") or ())}
    return sorted(found)


def _matches(plural: str, patterns: Iterable[str]) -> bool:
    """Tell whether *plural*, a resource or subresource, matches one of the *patterns* in a rule of a webhook."""
    resource, _, subresource = plural.partition("/")
    fitting = {plural, "*/*"}
    fitting |= {f"{resource}/*", f"*/{subresource}"} if subresource else {"*", f"{resource}/*"}
    return not fitting.isdisjoint(patterns)


def _selects(webhook: Object, field: str, labels: Mapping[str, str]) -> bool:
    """Tell whether the label selector in a *field* of *webhook* selects an object with *labels*."""
    selector = webhook.get(field) or {}
    wanted: Mapping[str, str] = selector.get("matchLabels") or {}
    return all(labels.get(name) == value for name, value in wanted.items()) and all(
        _holds(each, labels) for each in selector.get("matchExpressions") or ()
    )


def _holds(expression: Object, labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
    return key not in labels
