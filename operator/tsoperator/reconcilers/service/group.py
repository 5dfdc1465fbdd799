"""Services that a ProxyGroup serves, whose objects and finalizer are of its reconcilers (proxygroup-family.md 7).

Such a Service carries the finalizer that ours do, and what was made for it the labels of a proxy's children. This
operator makes no ProxyGroups: what it finds of them it leaves as it is.
"""

from dataclasses import replace

from tsoperator.api.names import CONDITION_PROXY_READY, DNS_FINALIZER, PROXY_GROUP
from tsoperator.api.objects import SERVICE, Object, annotations, is_deleting, key_of, labels
from tsoperator.desired.plan import Deletion, Note, Plan
from tsoperator.desired.proxy import Children


def is_grouped(service: Object) -> bool:
    """Tell whether *service* asks a ProxyGroup to serve it."""
    return PROXY_GROUP in annotations(service)


def without_the_groups(service: Object, children: Children, step: Plan) -> Plan:
    """Return *step* of taking our proxy of *service* away so that it takes nothing from a ProxyGroup.

    The finalizer is the ProxyGroup's while its Service is there. Else it is ours if our children are there, or our
    condition, which goes last; where nothing tells, it stays until *service* is deleted.
    """
    going = [Deletion(SERVICE, obj, release=DNS_FINALIZER) for obj in children.grouped if is_deleting(obj)]
    step = replace(step, steps=[*step.steps, *going]) if going else step
    if not step.release:
        return step
    if not children.grouped:
        ours = is_deleting(service) or not is_grouped(service) or _was_ours(service, children)
        return step if ours else replace(step, release="")
    notes = [_unreleased(service, children.grouped[0])] if is_deleting(service) else []
    return replace(step, release="", notes=notes)


def _was_ours(service: Object, children: Children) -> bool:
    conditions = (service.get("status") or {}).get("conditions") or ()
    made = [*children.services, *children.statefulsets, *children.secrets, *children.metrics]
    return bool(made) or any(each["type"] == CONDITION_PROXY_READY for each in conditions)


def _unreleased(service: Object, made: Object) -> Note:
    key, name = key_of(service), labels(made)[PROXY_GROUP]
    message = (
        f"ProxyGroup {name!r} still serves this Service, and this operator can't manage ProxyGroups yet: run "
        f"the operator that made it, or delete Service {key_of(made)} and the entry {key.namespace}-{key.name} of "
        f"ConfigMap {key_of(made).namespace}/{name}-egress-config; then this Service goes"
    )
    return Note("Warning", "ProxyGroupUnsupported", message)
