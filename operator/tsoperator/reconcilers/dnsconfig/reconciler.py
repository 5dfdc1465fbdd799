"""Looks, decides, acts and reports for one DNSConfig at a time."""

from collections.abc import Iterable, Mapping, Sequence

from tsnameserver.records import CONFIGMAP_NAME

from tsoperator.api.names import NAMESERVER, PARENT_NAMESERVER
from tsoperator.api.objects import (
    CONFIGMAP,
    DEPLOYMENT,
    DNSCONFIG,
    POD,
    ROLE,
    ROLEBINDING,
    SERVICE,
    SERVICEACCOUNT,
    Key,
    Object,
    Resource,
    annotations,
    key_of,
)
from tsoperator.api.v1alpha1.dnsconfig import DNSConfig
from tsoperator.desired.children import BY_OWNER, Owner, owned_keys
from tsoperator.desired.nameserver import ANNOTATION_LEFT_OUT, elected
from tsoperator.reconcilers.dnsconfig import desired
from tsoperator.reconcilers.dnsconfig.answers import Verdict
from tsoperator.reconcilers.dnsconfig.probes import VERDICT, Prober
from tsoperator.reconcilers.dnsconfig.question import Question, question_of
from tsoperator.runtime.apply import Applier
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.manager import Mapper
from tsoperator.runtime.result import DONE, Result
from tsoperator.settings import Settings


class DNSConfigReconciler:
    """Makes the nameserver of a DNSConfig right. The records reconciler writes its ConfigMaps."""

    name = "dnsconfig"

    def __init__(self, cache: Cache, applier: Applier, prober: Prober, settings: Settings) -> None:
        self._cache = cache
        self._applier = applier
        self._prober = prober
        self._settings = settings
        children = (DEPLOYMENT, SERVICE, SERVICEACCOUNT, ROLE, ROLEBINDING)
        self.watches: Mapping[Resource, Mapper] = {
            DNSCONFIG: self._all_keys,
            **dict.fromkeys(children, self._parent_keys),
            VERDICT: lambda _: map(key_of, self._cache.all(DNSCONFIG)),
            CONFIGMAP: lambda records: (
                self._parent_keys(records) if ANNOTATION_LEFT_OUT in annotations(records) else ()
            ),
        }

    async def reconcile(self, key: Key) -> Result:
        """Make the cluster match the DNSConfig named *key*."""
        verdicts = self._prober.follow(self._question())
        obj = self._cache.get(DNSCONFIG, key)
        if obj is None:
            return DONE
        observed = self._observe(obj, verdicts)  # look
        plan = desired.plan(obj, DNSConfig.parse(obj), observed, self._settings)  # decide
        stored = await self._applier.act(obj, plan, desired.failed)  # act
        return await self._applier.report(stored, plan, desired.failed)  # report

    def _question(self) -> Question | None:
        nameserver = Key(self._settings.namespace, NAMESERVER)
        return question_of(
            elected(self._cache.all(DNSCONFIG)),
            self._cache.get(SERVICE, nameserver),
            self._cache.get(DEPLOYMENT, nameserver),
            self._settings.zones,
            self._settings.cluster_dns,
        )

    def _observe(self, obj: Object, verdicts: Sequence[Verdict] | None) -> desired.Observed:
        nameserver = Key(self._settings.namespace, NAMESERVER)
        owner = Owner(PARENT_NAMESERVER, Key(self._settings.namespace, key_of(obj).name))
        return desired.Observed(
            dnsconfigs=self._cache.all(DNSCONFIG),
            service=self._cache.get(SERVICE, nameserver),
            records=self._cache.get(CONFIGMAP, Key(self._settings.namespace, CONFIGMAP_NAME)),
            deployment=self._cache.get(DEPLOYMENT, nameserver),
            verdicts=verdicts,
            pods=self._cache.indexed(POD, BY_OWNER, str(owner)),
        )

    def _all_keys(self, dnsconfig: Object) -> Iterable[Key]:
        """Map a DNSConfig to all DNSConfigs, because whether one counts depends on the others."""
        return {key_of(dnsconfig), *map(key_of, self._cache.all(DNSCONFIG))}

    def _parent_keys(self, child: Object) -> Iterable[Key]:
        """Map a child to its DNSConfig, which has no namespace: the labels of the child have the child's namespace."""
        return [Key("", key.name) for key in owned_keys(child, PARENT_NAMESERVER, self._settings.namespace)]
