"""Gauges of the ProxyGroups and Tailnets, computed from the cache for each scrape."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from tsoperator.api.names import CONDITION_PROXYGROUP_READY, CONDITION_TAILNET_READY
from tsoperator.api.objects import CONFIGMAP, PROXYGROUP, TAILNET, Key, Object, key_of
from tsoperator.desired.egressgroup import config_name, entries_of
from tsoperator.runtime.cache import Cache

_EGRESS: Final = "egress"


class GroupGauges(Collector):
    """Counts the ProxyGroups, the entries of those of type egress, and the Tailnets."""

    def __init__(self, cache: Cache, namespace: str) -> None:
        """The ConfigMaps of ProxyGroups are in the operator's *namespace*."""
        self._cache = cache
        self._namespace = namespace

    def collect(self) -> Iterator[Metric]:
        """Yield the counts; prometheus_client calls this for each scrape."""
        found = self._cache.all(PROXYGROUP)
        groups = GaugeMetricFamily(
            "tsoperator_proxygroups", "ProxyGroups by type and by why they are ready or not.", labels=["type", "reason"]
        )
        for labels, count in Counter(
            (_type(each), _reason(each, CONDITION_PROXYGROUP_READY)) for each in found
        ).items():
            groups.add_metric(labels, count)
        entries = GaugeMetricFamily(
            "tsoperator_egress_entries",
            "Services that the proxies of a ProxyGroup are told to serve.",
            labels=["group"],
        )
        for name in (key_of(each).name for each in found if _type(each) == _EGRESS):
            config = self._cache.get(CONFIGMAP, Key(self._namespace, config_name(name)))
            entries.add_metric([name], len(entries_of(config)))
        tailnets = GaugeMetricFamily("tsoperator_tailnets", "Tailnets by why they are ready or not.", labels=["reason"])
        reasons = (_reason(each, CONDITION_TAILNET_READY) for each in self._cache.all(TAILNET))
        for reason, count in Counter(reasons).items():
            tailnets.add_metric([reason], count)
        yield from (groups, entries, tailnets)


def _type(group: Object) -> str:
    return str((group.get("spec") or {}).get("type", ""))


def _reason(obj: Object, type_: str) -> str:
    """Return the reason of the condition *type_*; empty while there is none."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((str(each["reason"]) for each in conditions if each["type"] == type_), "")
