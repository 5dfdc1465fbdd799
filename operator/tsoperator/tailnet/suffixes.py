"""The known suffixes of MagicDNS names, from the devices of each tailnet and from what proxies report.

Headscale lists devices by their short names, so there only the proxies say which suffix their names have. The reports
of the proxies are in the cluster, so they are known even while a control server can't be reached.
"""

from collections import Counter
from collections.abc import Callable

from tsoperator.api.device import domain_of, lookup_name
from tsoperator.api.names import ANNOTATION_TAILNET_FQDN
from tsoperator.api.objects import SECRET, SERVICE, SUFFIXES, TAILNET, Object, annotations, key_of
from tsoperator.proxy.secret import fqdn_of, login_url_of
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.clock import loop_time
from tsoperator.runtime.feeds import Announcer
from tsoperator.tailnet.tailnet import OWN, Tailnets
from tsoperator.tailnet.zones import Reported, Suffixes, TailnetNames, known_suffixes


class KnownSuffixes:
    """The suffixes that the operator knows now. It announces a change of them as a watch event of `SUFFIXES`."""

    def __init__(
        self,
        cache: Cache,
        tailnets: Tailnets,
        leads_to: Callable[[str], bool] = lambda name: False,
        patience: float = 5.0,
    ) -> None:
        """*leads_to* tells for a name whether a Service leads to the device with this name.

        For *patience* seconds after the first call of `current`, its result can say that the suffixes are pending,
        which means that the operator possibly finds more suffixes in a moment.
        """
        self._leads_to = leads_to
        self._patience = patience
        self._due: float | None = None  # when the patience ends, by the event loop's clock; None before the first call
        self._cache = cache
        self._tailnets = tailnets
        self._reported: Counter[Reported] = Counter()
        self.feed = Announcer(SUFFIXES)
        """The announcer of changes of the known suffixes."""
        self._told = Suffixes()
        cache.listen(SECRET, self._count)
        cache.listen(TAILNET, lambda *_: self._tell())
        cache.listen(SERVICE, self._look_for_shared)
        tailnets.listen_to_names(self._tell)

    def current(self) -> Suffixes:
        """Return the known suffixes, and request a read of each list of devices that has shown no device so far."""
        for each in self._tailnets.all_registered():
            each.devices.want_names()
        if self._due is None:
            self._due = loop_time() + self._patience
        known = self._known()
        if known.pending:
            self._told = known  # so that the listeners are called when the suffixes are no longer pending
        return known

    def _known(self) -> Suffixes:
        names = [OWN, *(key_of(each).name for each in self._cache.all(TAILNET))]
        return known_suffixes(map(self._listed, names), self._reported, self._leads_to)

    def _listed(self, name: str) -> TailnetNames:
        """Return the names that the tailnet called *name* lists; no names if the operator can't use the tailnet."""
        pending = self._due is not None and loop_time() < self._due and self._tailnets.is_pending(name)
        tailnet = self._tailnets.registered(name)
        if tailnet is None:
            return TailnetNames("", pending=pending)
        names = tailnet.devices.names()
        return TailnetNames(tailnet.client.url, *names) if names else TailnetNames(tailnet.client.url, pending=pending)

    def _look_for_shared(self, old: Object | None, new: Object | None) -> None:
        """Announce changes of the suffixes if the Service leads to a device that another tailnet shares with ours.

        *old* and *new* are the Service before and after its change. It is enough if one of them leads to such a device.
        """
        led_to = {lookup_name(annotations(each).get(ANNOTATION_TAILNET_FQDN, "")) for each in (old, new) if each}
        known = (each.devices.names() for each in self._tailnets.all_registered())
        if any(names.shared & led_to for names in known if names):
            self._tell()

    def _count(self, old: Object | None, new: Object | None) -> None:
        """Count the suffix that the proxy's Secret *new* reports, and no longer count the suffix that *old* reports."""
        before, after = _report(old), _report(new)
        if before == after:
            return
        known = set(self._reported)
        for report, sign in ((before, -1), (after, 1)):
            if report is not None:
                self._reported[report] += sign
        self._reported = +self._reported
        if known != set(self._reported):
            self._tell()

    def _tell(self) -> None:
        known = self._known()
        if known != self._told:
            self._told = known
            self.feed.announce()


def _report(secret: Object | None) -> Reported | None:
    """Return the suffix that a proxy's *secret* reports; None if it reports none."""
    if secret is None or not (domain := domain_of(fqdn_of(secret))):
        return None
    return Reported(login_url_of(secret), domain)
