"""Gathers the facts about ProxyClasses that `plan` needs."""

from collections.abc import Iterable

from tsoperator.api.objects import CRD, PROXYCLASS, SERVICEMONITOR, Key, Object, is_deleting, key_of
from tsoperator.api.v1alpha1.proxyclass import ProxyClass
from tsoperator.reconcilers.proxyclass import plan as plans
from tsoperator.reconcilers.proxyclass import ports
from tsoperator.reconcilers.proxyclass.cluster import NodePorts
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.kind import Kind
from tsoperator.runtime.manager import Watches
from tsoperator.runtime.plan import Plan, Refusal


def proxyclasses(cache: Cache, node_ports: NodePorts) -> Kind[plans.Observed]:
    """Return the `Kind` of ProxyClasses, which reports whether a class can be used.

    Other kinds make the proxies.
    """

    def look(_key: Key, _obj: Object) -> plans.Observed:
        crd = cache.get(CRD, Key("", str(SERVICEMONITOR)))
        serves_monitors = crd is not None and not is_deleting(crd)
        return plans.Observed(cache.all(PROXYCLASS), serves_monitors, node_ports.range, node_ports.asked)

    def plan(obj: Object, observed: plans.Observed) -> Plan:
        return plans.plan(obj, ProxyClass.parse(obj), observed) if obj else Plan()

    def refused(_observed: plans.Observed, obj: Object, refusal: Refusal) -> Plan:
        return plans.failed(obj, refusal)

    def keys_of_class(proxy_class: Object) -> Iterable[Key]:
        """Return the key of *proxy_class*.

        If the class has node ports, return the keys of all other such classes, too, because their ports can be the
        same.
        """
        if not ports.ranges(ProxyClass.parse(proxy_class)):
            return [key_of(proxy_class)]
        others = (key_of(obj) for obj in cache.all(PROXYCLASS) if ports.ranges(ProxyClass.parse(obj)))
        return {key_of(proxy_class), *others}

    def keys_with_monitors(_crd: Object) -> Iterable[Key]:
        return [key_of(obj) for obj in cache.all(PROXYCLASS) if plans.asks_for_monitors(obj)]

    watches: Watches = {PROXYCLASS: keys_of_class, CRD: keys_with_monitors}
    return Kind(PROXYCLASS, watches, look, plan, refused)
