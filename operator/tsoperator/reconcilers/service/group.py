"""Services that a ProxyGroup serves; its reconcilers own their objects and finalizer (proxygroup-family.md 7).

Such a Service has the same finalizer as our Services, and the objects that were made for it have the labels of a
proxy's children. This operator makes no ProxyGroups, so it leaves what it finds of them as it is.
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
    """Return *step*, which removes our proxy of *service*, changed so that it takes nothing from a ProxyGroup.

    While a Service of the ProxyGroup is there, the finalizer is the ProxyGroup's. Otherwise it is ours if our children
    are there, or our condition, which goes last. If nothing tells whose it is, it stays until *service* is deleted.
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
