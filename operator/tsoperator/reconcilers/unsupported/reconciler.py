"""Reports on objects of unsupported kinds that the operator does nothing for them."""

from tsoperator.api.objects import Key, Object, Resource, key_of
from tsoperator.reconcilers.unsupported.desired import CONDITIONS
from tsoperator.runtime import unsupported
from tsoperator.runtime.kind import Kind
from tsoperator.runtime.plan import Plan, Refusal


def unsupported_kind(resource: Resource) -> Kind[None]:
    """Return the kind of *resource*, whose objects only get a condition."""

    def look(_key: Key, _obj: Object) -> None:
        """Return no facts, because the plan needs none."""

    def plan(obj: Object, _observed: None) -> Plan:
        return unsupported.plan_nothing(obj, CONDITIONS[resource]) if obj else Plan()

    def refused(_observed: None, obj: Object, refusal: Refusal) -> Plan:
        return unsupported.failed(obj, refusal)

    return Kind(resource, {resource: lambda obj: (key_of(obj),)}, look, plan, refused)
