"""Gathers the facts about all DNSConfigs of the cluster, for the plan of the one that the operator makes by itself."""

import logging
from collections.abc import Iterable
from typing import Final

from tsoperator.api.objects import DNSCONFIG, Key, Object, key_of
from tsoperator.dns.nameserver import OWN_NAME, elected, is_operators
from tsoperator.kube.errors import Denied
from tsoperator.reconcilers.owndnsconfig import plan as plans
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.feeds import START
from tsoperator.runtime.kind import Kind
from tsoperator.runtime.manager import Watches
from tsoperator.runtime.plan import Creation, Plan, Refusal
from tsoperator.settings import Settings

log = logging.getLogger(__name__)

_KEY: Final = Key("", OWN_NAME)


def owndnsconfigs(cache: Cache, settings: Settings) -> Kind[plans.Observed]:
    """Return the `Kind` of the DNSConfig that the operator makes by itself. It has a single key."""
    view = _View(cache, settings)
    watches: Watches = {START: view.keys, DNSCONFIG: view.keys}
    return Kind(None, watches, view.look, view.plan, view.refused, view.acted, name="owndnsconfig")


class _View:
    """Looks up the DNSConfigs, and logs once which one the operator leaves as it is."""

    def __init__(self, cache: Cache, settings: Settings) -> None:
        self._cache = cache
        self._settings = settings
        self._left = ""  # the name of the other DNSConfig that the latest log line was about

    def keys(self, _obj: Object) -> Iterable[Key]:
        return (_KEY,)

    def look(self, _key: Key, _obj: Object) -> plans.Observed:
        sees_all = self._cache.serves(DNSCONFIG) and self._cache.sees(DNSCONFIG, "")
        return plans.Observed(self._cache.all(DNSCONFIG), sees_all)

    def plan(self, _obj: Object, observed: plans.Observed) -> Plan:
        return plans.plan(observed, self._settings)

    def refused(self, _observed: plans.Observed, _obj: Object, refusal: Refusal) -> Plan:
        if isinstance(refusal.step, Creation) and isinstance(refusal.error, Denied):
            refusal.error.add_note(
                "the chart gives the right by dns.enabled, and charts/manifests/cluster-dns.yaml does"
            )
        return plans.failed(refusal)

    def acted(self, _obj: Object, observed: plans.Observed, plan: Plan) -> None:
        """Log that *plan* has made or deleted our DNSConfig, or makes none because somebody else has made one."""
        for step in plan.steps:
            log.info("%s DNSConfig %s", "made" if isinstance(step, Creation) else "deleted", OWN_NAME)
        first = elected(observed.dnsconfigs)
        left = key_of(first).name if first and not is_operators(first) and self._settings.makes_dnsconfig else ""
        if left and left != self._left:
            log.info("DNSConfig %s is there already, so the operator makes none of its own", left)
        self._left = left
