"""Gauges of proxies and their certificates, of custom resources and of Tailscale Services, computed for each scrape."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from tsoperator.api.conditions import conditions_of
from tsoperator.api.names import (
    CONDITION_PEERRELAY_READY,
    CONDITION_PROXYGROUP_READY,
    CONDITION_RECORDER_READY,
    CONDITION_TAILNET_READY,
)
from tsoperator.api.objects import (
    CONFIGMAP,
    PEERRELAY,
    PROXYGROUP,
    RECORDER,
    SECRET,
    STATEFULSET,
    TAILNET,
    Key,
    Object,
    Resource,
    key_of,
    spec_text,
)
from tsoperator.group.grouptype import EGRESS, type_of
from tsoperator.proxy.entries import entries_of
from tsoperator.proxy.readiness import is_serving
from tsoperator.proxy.secret import expiries_of
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.ownership import owner_of
from tsoperator.tailnet.tailnet import Tailnets
from tsoperator.tsclient.timeslice import TimeSlice

_COUNTED: Final = {TAILNET: CONDITION_TAILNET_READY, RECORDER: CONDITION_RECORDER_READY}
"""The kinds whose objects the gauges count by the reason of a condition, each with the type of that condition."""


async def count_proxies(cache: Cache) -> Metric:
    """Count the proxies that serve, and those that don't, by the kind of their parents."""
    family = GaugeMetricFamily(
        "tsoperator_proxies",
        "Proxies by the kind of object that asked for them, and by whether they serve.",
        labels=["parent", "ready"],
    )
    parents, ready, time_slice = Counter[str](), Counter[str](), TimeSlice()
    for each in cache.all(STATEFULSET):
        await time_slice.pause()
        owner = owner_of(each)
        parent = owner.type if owner else ""
        parents[parent] += 1
        ready[parent] += is_serving(each, lambda key: cache.get(SECRET, key))
    for parent, count in parents.items():
        family.add_metric([parent, "true"], ready[parent])
        family.add_metric([parent, "false"], count - ready[parent])
    return family


async def certificate_expiries(cache: Cache) -> Metric:
    """Return the gauge of the times at which the certificates of proxies expire.

    The times come from the Secrets in which the proxies keep their certificates. Several Secrets can have a certificate
    of one domain. The gauge shows the latest expiry among them, because a proxy whose certificate expires earlier
    renews its certificate.
    """
    family = GaugeMetricFamily(
        "tsoperator_certificate_expiry_timestamp_seconds",
        "When the certificate of a domain expires, in seconds since the epoch.",
        labels=["domain"],
    )
    last, time_slice = dict[str, float](), TimeSlice()
    for secret in cache.all(SECRET):
        await time_slice.pause()
        for domain, ends in expiries_of(secret).items():
            last[domain] = max(ends.timestamp(), last.get(domain, 0.0))
    for domain, seconds in last.items():
        await time_slice.pause()
        family.add_metric([domain], seconds)
    return family


class GroupGauges(Collector):
    """Counts the ProxyGroups, the entries of egress groups, and the objects of the kinds in `_COUNTED`."""

    def __init__(self, cache: Cache, namespace: str) -> None:
        """*namespace* is the operator's namespace, where the ConfigMaps of ProxyGroups are."""
        self._cache = cache
        self._namespace = namespace

    def collect(self) -> Iterator[Metric]:
        """Yield the counts; prometheus_client calls this for each scrape."""
        found = self._cache.all(PROXYGROUP)
        groups = GaugeMetricFamily(
            "tsoperator_proxygroups", "ProxyGroups by type and by why they are ready or not.", labels=["type", "reason"]
        )
        for values, count in Counter(
            (spec_text(each, "type"), _reason(each, CONDITION_PROXYGROUP_READY)) for each in found
        ).items():
            groups.add_metric(values, count)
        entries = GaugeMetricFamily(
            "tsoperator_egress_entries",
            "Services that the proxies of a ProxyGroup are told to serve.",
            labels=["group"],
        )
        for name, type_ in ((key_of(each).name, type_of(each)) for each in found):
            if type_ is EGRESS:
                config = self._cache.get(CONFIGMAP, Key(self._namespace, type_.config_name(name)))
                entries.add_metric([name], len(entries_of(config)))
        yield from (groups, entries, *(self._by_reason(*each) for each in _COUNTED.items()))

    def _by_reason(self, resource: Resource, type_: str) -> Metric:
        """Return the counts of the objects of *resource* by the reason of their condition *type_*."""
        words = f"{resource.kind}s by why they are ready or not."
        family = GaugeMetricFamily(f"tsoperator_{resource.plural}", words, labels=["reason"])
        for reason, count in Counter(_reason(each, type_) for each in self._cache.all(resource)).items():
            family.add_metric([reason], count)
        return family


class RelayGauges(Collector):
    """Counts the PeerRelays, and the endpoints of each."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def collect(self) -> Iterator[Metric]:
        """Yield the counts; prometheus_client calls this for each scrape."""
        found = self._cache.all(PEERRELAY)
        relays = GaugeMetricFamily(
            "tsoperator_peerrelays", "PeerRelays by why they are ready or not.", labels=["reason"]
        )
        for reason, count in Counter(_reason(each, CONDITION_PEERRELAY_READY) for each in found).items():
            relays.add_metric([reason], count)
        endpoints = GaugeMetricFamily(
            "tsoperator_peerrelay_endpoints",
            "Addresses at which devices can reach the relays of a PeerRelay.",
            labels=["peerrelay"],
        )
        for each in found:
            endpoints.add_metric([key_of(each).name], len((each.get("status") or {}).get("endpoints") or ()))
        yield from (relays, endpoints)


class ServiceGauges(Collector):
    """Counts the Tailscale Services that the operator owns."""

    def __init__(self, tailnets: Tailnets, operator_id: Callable[[], str]) -> None:
        """*operator_id* returns the ID by which the operator owns Tailscale Services."""
        self._tailnets = tailnets
        self._operator_id = operator_id

    def collect(self) -> Iterator[Metric]:
        """Yield the counts; prometheus_client calls this for each scrape.

        The operator's ID is read only if a tailnet has Tailscale Services, because the first read of the ID reads a
        Secret.
        """
        family = GaugeMetricFamily(
            "tsoperator_tailscale_services", "Tailscale Services that this operator owns.", labels=["tailnet"]
        )
        for each in self._tailnets.all_registered():
            owned = each.services.owned(self._operator_id()) if each.services.labels() else frozenset()
            family.add_metric([each.name], len(owned))
        yield family


def _reason(obj: Object, type_: str) -> str:
    """Return the reason of the condition *type_* of *obj*; empty while *obj* has no such condition."""
    return next((str(each["reason"]) for each in conditions_of(obj) if each["type"] == type_), "")
