"""Looks, decides, acts and reports for one DNSConfig at a time."""

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
    Resource,
    annotations,
    key_of,
)
from tsoperator.dns.cluster.address import Addresses
from tsoperator.dns.cluster.platforms import COREDNS, OPENSHIFT_DNS, OPENSHIFT_NAME, configmap_names
from tsoperator.dns.cluster.platforms import NAMESPACE as DNS_NAMESPACE
from tsoperator.dns.cluster.results import DNSObjects
from tsoperator.dns.nameserver import ANNOTATION_LEFT_OUT, elected, parse
from tsoperator.dns.probe.prober import VERDICT, DNSProber, Found
from tsoperator.dns.probe.question import Asked, CanaryQuestion, question_of
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import Denied, NotFound
from tsoperator.reconcilers.dnsconfig import clusterdns, desired
from tsoperator.runtime.apply import Applier, Failed
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.manager import Mapper
from tsoperator.runtime.ownership import BY_OWNER, Owner, owned_keys
from tsoperator.runtime.plan import Child, Plan, Refusal
from tsoperator.runtime.result import DONE, Result
from tsoperator.runtime.reverts import Reverts, last_writer
from tsoperator.runtime.rewrites import Rewrites
from tsoperator.settings import Settings
from tsoperator.tailnet.zones import Suffixes, forwarded_zones

_NO_DNSCONFIG: Final = Key("", "")
"""The key of the reconcile that looks at the cluster's DNS while there is no DNSConfig."""


class DNSConfigReconciler:
    """Reconciles a DNSConfig: its nameserver and the cluster's DNS. Another reconciler writes the records."""

    name = "dnsconfig"

    def __init__(
        self,
        cache: Cache,
        applier: Applier,
        client: KubeClient,
        prober: DNSProber,
        settings: Settings,
        suffixes: Callable[[], Suffixes] = Suffixes,
    ) -> None:
        """*suffixes* returns the known suffixes of MagicDNS names."""
        self._cache = cache
        self._applier = applier
        self._client = client
        self._prober = prober
        self._rewrites = Rewrites()
        self._settings = settings
        self._suffixes = suffixes
        self._addresses = Addresses()
        self._configmaps = configmap_names(settings.cluster_dns_configmap)
        children = (SERVICE, SERVICEACCOUNT, ROLE, ROLEBINDING)
        self.watches: Mapping[Resource, Mapper] = {
            DNSCONFIG: self._all_keys,
            **dict.fromkeys(children, self._parent_keys),
            **dict.fromkeys((DEPLOYMENT, DAEMONSET), self._keys_for_workload),
            CONFIGMAP: self._keys_for_configmap,
            OPENSHIFT_DNS: lambda _: [*self._every_key()] or [_NO_DNSCONFIG],
            **dict.fromkeys((SUFFIXES, VERDICT), lambda _: self._every_key()),
        }

    async def reconcile(self, key: Key) -> Result:
        """Make the cluster match the DNSConfig named *key*."""
        found = self._prober.follow(self._question())
        obj = self._cache.get(DNSCONFIG, key)
        if obj is None:
            return await self._forget()
        observed = self._observe(obj, found)  # look
        dnsconfig = parse(obj)
        wanted = desired.cluster_dns(obj, dnsconfig, observed, self._settings)  # decide ...
        dns = clusterdns.without_reverted_writes(wanted, await self._reverts(wanted, observed.dns))
        plan = desired.plan(obj, dnsconfig, dns, observed, self._settings)  # ... decide
        failed = partial(desired.failed, asked=desired.answer_conditions(obj, observed, self._settings))
        stored = await self._act(obj, plan, observed.address, failed)  # act
        self._remember(dns, observed.dns)
        return await self._applier.report(stored, plan, failed)  # report

    async def _forget(self) -> Result:
        """Remove our stub domain from the cluster's DNS if the last DNSConfig didn't wait for the removal."""
        dns = self._dns() if self._cache.sees(DNSCONFIG, "") and not self._cache.all(DNSCONFIG) else None
        if dns is None:
            return DONE
        wanted = clusterdns.removal(dns, self._settings)
        removal = clusterdns.without_reverted_writes(wanted, await self._reverts(wanted, dns))
        await self._applier.apply({}, Plan(steps=removal.steps))
        self._remember(removal, dns)
        return Result(removal.again)

    async def _reverts(self, wanted: clusterdns.ClusterDNSPlan, dns: DNSObjects | None) -> Mapping[Key, Reverts]:
        """Return how another writer keeps undoing the *wanted* writes; a rare live read tells its name."""
        due = {write.key: write for write in map(clusterdns.written_by, wanted.steps)}
        versions, found = _versions(dns), {}
        for key in {*versions, *due}:
            fields = [due[key].words] if key in due else []
            found[key] = self._rewrites.look(key, versions.get(key, ""), fields, wanted.goal)
            if key in due and found[key].fields and not found[key].who:
                who = await self._last_writer(due[key]) or "something"
                self._rewrites.remember_writer(key, who)
                found[key] = replace(found[key], who=who)
        return found

    async def _last_writer(self, written: clusterdns.Written) -> str:
        try:
            live = await self._client.get(written.resource, written.key)
        except (NotFound, Denied):  # a role of an earlier chart doesn't let us read it
            return ""
        return last_writer(live, *written.field)

    def _remember(self, done: clusterdns.ClusterDNSPlan, dns: DNSObjects | None) -> None:
        """Remember the writes of *done*, which have been carried out on the versions of the objects in *dns*."""
        versions = _versions(dns)
        for each in map(clusterdns.written_by, done.steps):
            self._rewrites.rewritten(each.key, versions.get(each.key, ""), done.goal)

    def _question(self) -> CanaryQuestion | None:
        nameserver, dnsconfig = Key(self._settings.namespace, NAMESERVER), elected(self._cache.all(DNSCONFIG))
        zones = forwarded_zones(dnsconfig, self._settings.zones, self._suffixes()) if dnsconfig else ()
        return question_of(
            dnsconfig,
            self._cache.get(SERVICE, nameserver),
            self._cache.get(DEPLOYMENT, nameserver),
            self._dns(),
            Asked(zones, self._settings.cluster_dns),
        )

    async def _act(self, obj: Object, plan: Plan, address: str, failed: Failed) -> Object:
        """Carry out *plan*: first write the children of the nameserver, and then the objects of the cluster's DNS.

        If the API server refuses the latter, the nameserver doesn't count as failed. If it refuses the children, the
        cause may be the *address* that a new Service should get, so the next try gives no address.
        """
        children = [step for step in plan.steps if isinstance(step, Child)]
        others = [step for step in plan.steps if not isinstance(step, Child)]
        to_children = partial(self._without, address, failed) if address else failed
        notes = () if others else plan.notes
        stored = await self._applier.act(obj, replace(plan, steps=children, notes=notes), to_children)
        if not others:
            return stored
        return await self._applier.act(stored, replace(plan, hold="", steps=others), partial(_not_written, plan))

    def _without(self, address: str, failed: Failed, obj: Object, refusal: Refusal) -> Plan:
        if isinstance(refusal.error, Denied):  # a denial isn't about the address
            return failed(obj, refusal)
        self._addresses.refuse(address)
        return Plan()

    def _observe(self, obj: Object, found: Found | None) -> desired.Observed:
        nameserver = Key(self._settings.namespace, NAMESERVER)
        owner = Owner(PARENT_NAMESERVER, Key(self._settings.namespace, key_of(obj).name))
        service, dns = self._cache.get(SERVICE, nameserver), self._dns()
        return desired.Observed(
            dnsconfigs=self._cache.all(DNSCONFIG),
            service=service,
            address=self._address(obj, service, dns),
            records=self._cache.get(CONFIGMAP, Key(self._settings.namespace, CONFIGMAP_NAME)),
            deployment=self._cache.get(DEPLOYMENT, nameserver),
            dns=dns,
            verdicts=found.cluster if found else None,
            nameserver=found.nameserver if found else None,
            pods=self._cache.indexed(POD, BY_OWNER, str(owner)),
            suffixes=self._suffixes(),
        )

    def _address(self, obj: Object, service: Object | None, dns: DNSObjects | None) -> str:
        """Return the address that a new Service should get; empty if the Service exists."""
        if service is not None:
            self._addresses.note(service)
            return ""
        zones = forwarded_zones(obj, self._settings.zones, self._suffixes())
        return self._addresses.choose(dns, zones, self._cache.all(SERVICE))

    def _dns(self) -> DNSObjects | None:
        """Return the objects that the cluster's DNS reads; None if the API server doesn't let us see them."""
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
        """Map a DNSConfig to all DNSConfigs, because the election depends on all of them."""
        return {key_of(dnsconfig), *self._every_key()}

    def _parent_keys(self, child: Object) -> Iterable[Key]:
        """Map a child to its DNSConfig, without the namespace in the child's labels, because a DNSConfig has none."""
        return [Key("", key.name) for key in owned_keys(child, PARENT_NAMESERVER, self._settings.namespace)]


def _not_written(plan: Plan, obj: Object, refusal: Refusal) -> Plan:
    return desired.unwritten_plan(plan, obj, refusal, is_denied=isinstance(refusal.error, Denied))


def _versions(dns: DNSObjects | None) -> Mapping[Key, str]:
    """Return the resourceVersions of the objects of the cluster's DNS."""
    return {key_of(each): each["metadata"]["resourceVersion"] for each in (dns.all if dns else ())}
