"""Gathers the facts about egress Pods that `plan` needs."""

from collections.abc import Iterable

from tsoperator.api.objects import (
    CONFIGMAP,
    ENDPOINTSLICE,
    POD,
    PROXYGROUP,
    SERVICE,
    Key,
    Object,
    is_deleting,
    key_of,
    uid,
)
from tsoperator.group.egress import BY_SERVING_GROUP, by_serving_group
from tsoperator.group.grouptype import EGRESS
from tsoperator.group.proxygroup import group_owner
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import NotFound
from tsoperator.proxy.entries import entries_of
from tsoperator.reconcilers.egresspod import plan as plans
from tsoperator.reconcilers.egresspod.probes import GateProber
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.gathering import Gathering
from tsoperator.runtime.kind import Kind
from tsoperator.runtime.manager import Watches
from tsoperator.runtime.ownership import BY_OWNER
from tsoperator.runtime.result import Pending
from tsoperator.settings import Settings


def egresspods(cache: Cache, client: KubeClient, prober: GateProber, settings: Settings) -> Kind[plans.Observed]:
    """Return the `Kind` of egress Pods, which opens the readiness gates of these Pods.

    A gate opens when each egress Service of the Pod's ProxyGroup leads to the Pod. The prober asks the Services in
    the background. When all of them have been found to lead to the Pod, the key of the Pod is queued again. A
    change of another object queues only Pods whose gate is closed.
    """
    view = _View(cache, client, prober, settings)
    watches: Watches = {
        POD: lambda pod: (key_of(pod),) if plans.group_of(pod) else (),
        PROXYGROUP: lambda group: view.waiting_pods(key_of(group).name),
        CONFIGMAP: lambda config: view.waiting_pods(plans.group_of(config)),
        **dict.fromkeys((SERVICE, ENDPOINTSLICE), view.pods_waiting_behind),
    }
    return Kind(POD, watches, view.look, plans.plan, plans.failed, name="egresspod", gathering=Gathering(0.1))


class _View:
    """Gathers the facts about egress Pods, and finds the Pods that a change concerns."""

    def __init__(self, cache: Cache, client: KubeClient, prober: GateProber, settings: Settings) -> None:
        self._cache = cache
        self._client = client
        self._prober = prober
        self._settings = settings

    async def look(self, key: Key, pod: Object) -> plans.Observed:
        """Gather the facts about *pod*; while its gate is closed, let the prober ask the Services if they lead to it.

        If all of them lead to the Pod, read the Pod from the API server: the plan adds a condition to its
        status, and the cache keeps only a part of that status.
        """
        question = self._question(pod) if pod and plans.is_waiting(pod) else None
        if (asking := self._prober.follow(key, question)) is not None:
            return plans.Observed(pending=Pending(asking))
        if question is None or question.unserved:  # a change of an EndpointSlice enqueues the Pod
            return plans.Observed()
        try:
            live = await self._client.get(POD, key)
        except NotFound:
            return plans.Observed()
        is_same = uid(live) == question.pod and not is_deleting(live)
        return plans.Observed(live if is_same else None, len(question.checks))

    def _question(self, pod: Object) -> plans.GateQuestion | None:
        group = plans.group_of(pod)
        config = self._cache.get(CONFIGMAP, Key(self._settings.namespace, EGRESS.config_name(group)))
        served = plans.ServedGroup(
            self._cache.get(PROXYGROUP, Key("", group)),
            self._cache.indexed(SERVICE, BY_SERVING_GROUP, group),
            self._cache.indexed(ENDPOINTSLICE, BY_SERVING_GROUP, group),
            entries_of(config),
        )
        return plans.question(pod, served, self._settings.cluster_domain)

    def waiting_pods(self, group: str) -> Iterable[Key]:
        """Return the Pods of *group* whose gate is closed."""
        pods = self._cache.indexed(POD, BY_OWNER, str(group_owner(group)))
        return [key_of(pod) for pod in pods if plans.is_waiting(pod)]

    def pods_waiting_behind(self, child: Object) -> Iterable[Key]:
        """Return the Pods whose gates are closed, in the ProxyGroup that *child* belongs to.

        *child* is the ClusterIP Service or an EndpointSlice of an egress Service.
        """
        return [pod for group in by_serving_group(child) for pod in self.waiting_pods(group)]
