"""Looks, decides, acts and reports for one ProxyClass at a time."""

from collections.abc import Iterable, Mapping

from tsoperator.api.objects import CRD, PROXYCLASS, SERVICEMONITOR, Key, Object, Resource, is_deleting, key_of
from tsoperator.api.v1alpha1.proxyclass import ProxyClass
from tsoperator.reconcilers.proxyclass import desired, ports
from tsoperator.reconcilers.proxyclass.cluster import NodePorts
from tsoperator.runtime.apply import Applier
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.manager import Mapper
from tsoperator.runtime.result import DONE, Result


class ProxyClassReconciler:
    """Says whether ProxyClasses can be used; other reconcilers make the proxies that use them."""

    name = "proxyclass"

    def __init__(self, cache: Cache, applier: Applier, node_ports: NodePorts) -> None:
        self._cache = cache
        self._applier = applier
        self._node_ports = node_ports
        self.watches: Mapping[Resource, Mapper] = {PROXYCLASS: self._keys_of_class, CRD: self._keys_with_monitors}

    async def reconcile(self, key: Key) -> Result:
        """Tell the user whether the ProxyClass named *key* can be used."""
        obj = self._cache.get(PROXYCLASS, key)
        if obj is None:
            return DONE
        observed = self._observe()  # look
        plan = desired.plan(obj, ProxyClass.parse(obj), observed)  # decide
        stored = await self._applier.act(obj, plan, desired.failed)  # act
        return await self._applier.report(stored, plan, desired.failed)  # report

    def _observe(self) -> desired.Observed:
        crd = self._cache.get(CRD, Key("", str(SERVICEMONITOR)))
        serves_monitors = crd is not None and not is_deleting(crd)
        return desired.Observed(
            self._cache.all(PROXYCLASS), serves_monitors, self._node_ports.range, self._node_ports.asked
        )

    def _keys_of_class(self, proxy_class: Object) -> Iterable[Key]:
        """Map a class to itself; a class with node ports also maps to all other such classes, as they may clash."""
        if not ports.ranges(ProxyClass.parse(proxy_class)):
            return [key_of(proxy_class)]
        others = (key_of(obj) for obj in self._cache.all(PROXYCLASS) if ports.ranges(ProxyClass.parse(obj)))
        return {key_of(proxy_class), *others}

    def _keys_with_monitors(self, _crd: Object) -> Iterable[Key]:
        return [key_of(obj) for obj in self._cache.all(PROXYCLASS) if desired.asks_for_monitors(obj)]
