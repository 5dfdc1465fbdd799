"""Gathers the facts about DNSConfigs that `plan` needs."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from tsnameserver.records import CONFIGMAP_NAME

from tsoperator.api.names import NAMESERVER, PARENT_NAMESERVER
from tsoperator.api.objects import (
    CONFIGMAP,
    DAEMONSET,
    DEPLOYMENT,
    DNSCONFIG,
    POD,
    ROLE,
    ROLEBINDING,
    SERVICE,
    SERVICEACCOUNT,
    SUFFIXES,
    Key,
    Object,
    annotations,
    key_of,
)
from tsoperator.dns.cluster.address import NO_ADDRESSES
from tsoperator.dns.cluster.platforms import COREDNS, OPENSHIFT_DNS, OPENSHIFT_NAME, configmap_names
from tsoperator.dns.cluster.platforms import NAMESPACE as DNS_NAMESPACE
from tsoperator.dns.cluster.results import DNSObjects
from tsoperator.dns.nameserver import ANNOTATION_LEFT_OUT, elected
from tsoperator.dns.probe.prober import VERDICT, DNSProber
from tsoperator.dns.probe.question import Asked, CanaryQuestion, question_of
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import Denied, NotFound
from tsoperator.reconcilers.dnsconfig import clusterdns
from tsoperator.reconcilers.dnsconfig import plan as plans
from tsoperator.reconcilers.dnsconfig.clusterdns import ClusterDNSPlan
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.kind import Kind
from tsoperator.runtime.manager import Watches
from tsoperator.runtime.ownership import BY_OWNER, Owner, owned_keys
from tsoperator.runtime.plan import Plan, Question, Refusal
from tsoperator.runtime.reverts import Reverts, last_writer
from tsoperator.runtime.rewrites import Rewrites
from tsoperator.settings import Settings
from tsoperator.tailnet.zones import Suffixes, forwarded_zones

_NO_DNSCONFIG: Final = Key("", "")
"""The key that is reconciled while there is no DNSConfig, to look after the cluster's DNS."""


def dnsconfigs(
    cache: Cache,
    client: KubeClient,
    prober: DNSProber,
    settings: Settings,
    suffixes: Callable[[], Suffixes] = Suffixes,
) -> Kind[plans.Observed]:
    """Return the `Kind` of DNSConfigs, which makes their nameserver and writes into the cluster's DNS.

    Another `Kind` writes the records. *suffixes* returns the known suffixes of MagicDNS names.
    """
    view = _View(cache, client, prober, settings, suffixes)

    def decision(obj: Object, observed: plans.Observed) -> Question:
        wanted = plans.cluster_dns(obj, observed, settings)
        return Question(
            partial(view.reverts, wanted, observed.dns), partial(plans.plan, obj, wanted, observed, settings)
        )

    return Kind(DNSCONFIG, view.watches, view.look, decision, view.refused, view.written)


class _View:
    """Gathers the facts about DNSConfigs, their nameserver, and the cluster's DNS."""

    def __init__(
        self,
        cache: Cache,
        client: KubeClient,
        prober: DNSProber,
        settings: Settings,
        suffixes: Callable[[], Suffixes],
    ) -> None:
        self._cache = cache
        self._client = client
        self._prober = prober
        self._rewrites: defaultdict[Key, Rewrites] = defaultdict(Rewrites)  # a revert can delete the object
        self._settings = settings
        self._suffixes = suffixes
        self._addresses = NO_ADDRESSES
        self._configmaps = configmap_names(settings.cluster_dns_configmap)
        children = (SERVICE, SERVICEACCOUNT, ROLE, ROLEBINDING)
        self.watches: Watches = {
            DNSCONFIG: self._all_keys,
            **dict.fromkeys(children, self._parent_keys),
            **dict.fromkeys((DEPLOYMENT, DAEMONSET), self._keys_for_workload),
            CONFIGMAP: self._keys_for_configmap,
            OPENSHIFT_DNS: lambda _: [*self._every_key()] or [_NO_DNSCONFIG],
            **dict.fromkeys((SUFFIXES, VERDICT), lambda _: self._every_key()),
        }

    def look(self, key: Key, _obj: Object) -> plans.Observed:
        """Gather the facts about the DNSConfig named *key*, even if it is gone."""
        nameserver = Key(self._settings.namespace, NAMESERVER)
        owner = Owner(PARENT_NAMESERVER, Key(self._settings.namespace, key.name))
        service, dns = self._cache.get(SERVICE, nameserver), self._dns()
        if service is not None:
            self._addresses = self._addresses.with_last(service)
        found = self._prober.follow(self._question(service, dns))
        return plans.Observed(
            dnsconfigs=self._cache.all(DNSCONFIG),
            sees_all=self._cache.sees(DNSCONFIG, ""),
            service=service,
            addresses=self._addresses,
            services=() if service else self._cache.all(SERVICE),
            records=self._cache.get(CONFIGMAP, Key(self._settings.namespace, CONFIGMAP_NAME)),
            deployment=self._cache.get(DEPLOYMENT, nameserver),
            dns=dns,
            verdicts=found.cluster if found else None,
            nameserver=found.nameserver if found else None,
            pods=self._cache.indexed(POD, BY_OWNER, str(owner)),
            suffixes=self._suffixes() if self._cache.all(DNSCONFIG) else Suffixes(),  # they need the list of devices
        )

    def _question(self, service: Object | None, dns: DNSObjects | None) -> CanaryQuestion | None:
        nameserver, dnsconfig = Key(self._settings.namespace, NAMESERVER), elected(self._cache.all(DNSCONFIG))
        zones = forwarded_zones(dnsconfig, self._settings.zones, self._suffixes()) if dnsconfig else ()
        asked = Asked(zones, self._settings.cluster_dns)
        return question_of(dnsconfig, service, self._cache.get(DEPLOYMENT, nameserver), dns, asked)

    async def reverts(self, wanted: ClusterDNSPlan, dns: DNSObjects | None) -> Mapping[Key, Reverts]:
        """Return how another writer keeps undoing the *wanted* writes, for each object of the cluster's DNS.

        *dns* are these objects, None if the API server doesn't let the operator see them. When a fight begins, read the
        live object to find the name of the other writer.
        """
        due = {write.key: write for write in map(clusterdns.written_by, wanted.steps)}
        versions, found = _versions(dns), {}
        for key in {*versions, *due}:
            fields = [due[key].words] if key in due else []
            found[key] = self._rewrites[key].look(versions.get(key, ""), fields, wanted.goal)
            if key in due and found[key].fields and not found[key].who:
                who = await self._last_writer(due[key]) or "something"
                self._rewrites[key].remember_writer(who)
                found[key] = replace(found[key], who=who)
        return found

    async def _last_writer(self, written: clusterdns.Written) -> str:
        try:
            live = await self._client.get(written.resource, written.key)
        except (NotFound, Denied):  # a role of an earlier chart doesn't let us read it
            return ""
        return last_writer(live, *written.field)

    def written(self, obj: Object, observed: plans.Observed, plan: Plan) -> None:
        """Remember the writes of *plan* into the cluster's DNS, which have been carried out."""
        done = [clusterdns.written_by(step) for step in plan.steps if isinstance(step, clusterdns.Write)]
        goal = plans.cluster_dns(obj, observed, self._settings).goal if done else ""
        for each in done:
            self._rewrites[each.key].rewritten(_versions(observed.dns).get(each.key, ""), goal)

    def refused(self, observed: plans.Observed, obj: Object, refusal: Refusal) -> Plan:
        """Return the plan that reports a refusal on *obj*.

        If the API server refuses the address that a new Service should get, the next try asks for another
        address. If the API server denies us the right to make a Service, the address isn't the cause.
        """
        is_denied = isinstance(refusal.error, Denied)
        address = plans.refused_address(obj, observed, refusal, self._settings)
        if address and not is_denied:
            self._addresses = self._addresses.without(address)
            return Plan()
        return plans.failed(obj, observed, refusal, self._settings, is_denied=is_denied)

    def _dns(self) -> DNSObjects | None:
        """Return the objects that configure the cluster's DNS; None if the API server doesn't let us see them."""
        if not self._cache.sees(CONFIGMAP, DNS_NAMESPACE):
            return None
        found = [self._cache.get(CONFIGMAP, Key(DNS_NAMESPACE, name)) for name in self._configmaps]
        workloads = [self._cache.get(kind, Key(DNS_NAMESPACE, COREDNS)) for kind in (DEPLOYMENT, DAEMONSET)]
        return DNSObjects(
            [each for each in found if each],
            self._cache.get(OPENSHIFT_DNS, Key("", OPENSHIFT_NAME)),
            [each for each in workloads if each],
            self._settings.cluster_dns_configmap,
        )

    def _keys_for_workload(self, workload: Object) -> Iterable[Key]:
        return self._every_key() if key_of(workload) == Key(DNS_NAMESPACE, COREDNS) else self._parent_keys(workload)

    def _keys_for_configmap(self, configmap: Object) -> Iterable[Key]:
        key = key_of(configmap)
        if key.namespace == DNS_NAMESPACE and key.name in self._configmaps:
            return [*self._every_key()] or [_NO_DNSCONFIG]
        return self._parent_keys(configmap) if ANNOTATION_LEFT_OUT in annotations(configmap) else ()

    def _every_key(self) -> Iterable[Key]:
        return map(key_of, self._cache.all(DNSCONFIG))

    def _all_keys(self, dnsconfig: Object) -> Iterable[Key]:
        """Return the keys of all DNSConfigs, because a change of any DNSConfig can decide which one is in force."""
        return {key_of(dnsconfig), *self._every_key()}

    def _parent_keys(self, child: Object) -> Iterable[Key]:
        """Return the key of the DNSConfig to which *child* belongs; none if it belongs to no DNSConfig.

        The child's labels name a namespace, but a DNSConfig has none.
        """
        return [Key("", key.name) for key in owned_keys(child, PARENT_NAMESERVER, self._settings.namespace)]


def _versions(dns: DNSObjects | None) -> Mapping[Key, str]:
    """Return the resourceVersions of the objects that configure the cluster's DNS."""
    return {key_of(each): each["metadata"]["resourceVersion"] for each in (dns.all if dns else ())}
