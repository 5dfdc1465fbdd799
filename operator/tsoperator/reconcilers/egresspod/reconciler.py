"""Looks, decides, acts and reports for one egress Pod at a time."""

from collections.abc import Iterable, Mapping
from contextlib import suppress

from tsoperator.api.objects import (
    CONFIGMAP,
    ENDPOINTSLICE,
    POD,
    PROXYGROUP,
    SERVICE,
    Key,
    Object,
    Resource,
    is_deleting,
    key_of,
    uid,
)
from tsoperator.group.egress import BY_SERVING_GROUP, by_serving_group
from tsoperator.group.proxygroup import config_name, group_owner
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import NotFound
from tsoperator.proxy.entries import entries_of
from tsoperator.reconcilers.egresspod import desired
from tsoperator.reconcilers.egresspod.probes import GateProber
from tsoperator.runtime.apply import Applier
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.manager import Mapper
from tsoperator.runtime.ownership import BY_OWNER
from tsoperator.runtime.result import DONE, Pending, Result
from tsoperator.settings import Settings


class EgressPodReconciler:
    """Opens the readiness gate of a Pod when each egress Service of its ProxyGroup leads to it.

    The prober asks the Services in the background. When all of them have been found to lead to the Pod, the key of the
    Pod is queued again. A change of another object queues only Pods whose gate is closed.
    """

    name = "egresspod"

    def __init__(
        self, cache: Cache, applier: Applier, client: KubeClient, prober: GateProber, settings: Settings
    ) -> None:
        self._cache = cache
        self._applier = applier
        self._client = client
        self._prober = prober
        self._settings = settings
        self.watches: Mapping[Resource, Mapper] = {
            POD: lambda pod: (key_of(pod),) if desired.group_of(pod) else (),
            PROXYGROUP: lambda group: self._waiting_pods(key_of(group).name),
            CONFIGMAP: lambda config: self._waiting_pods(desired.group_of(config)),
            SERVICE: self._pods_waiting_behind,
            ENDPOINTSLICE: self._pods_waiting_behind,
        }

    async def reconcile(self, key: Key) -> Result:
        """Open the gate of the Pod named *key* if all checks pass. Raises Pending while its Services are asked."""
        pod = self._cache.get(POD, key)
        question = self._question(pod) if pod is not None and desired.is_waiting(pod) else None  # look, decide
        if question is None:
            self._prober.forget(key)
            return DONE
        if (asking := self._prober.follow(key, question)) is not None:
            raise Pending(asking)
        if question.unserved:
            return DONE  # a change of an EndpointSlice enqueues the Pod
        return await self._open(key, question)  # report

    def _question(self, pod: Object) -> desired.GateQuestion | None:
        group = desired.group_of(pod)
        config = self._cache.get(CONFIGMAP, Key(self._settings.namespace, config_name(group)))
        observed = desired.Observed(
            self._cache.get(PROXYGROUP, Key("", group)),
            self._cache.indexed(SERVICE, BY_SERVING_GROUP, group),
            self._cache.indexed(ENDPOINTSLICE, BY_SERVING_GROUP, group),
            entries_of(config),
        )
        return desired.question(pod, observed, self._settings.cluster_domain)

    async def _open(self, key: Key, question: desired.GateQuestion) -> Result:
        """Write the condition on the live Pod, because the cache keeps only a part of its status."""
        with suppress(NotFound):  # the Pod has gone
            pod = await self._client.get(POD, key)
            if uid(pod) == question.pod and not is_deleting(pod):
                plan = desired.opening_plan(pod, len(question.checks))
                return await self._applier.report(pod, plan, desired.failed)
        return DONE

    def _waiting_pods(self, group: str) -> Iterable[Key]:
        """Return the Pods of *group* whose gate is closed."""
        pods = self._cache.indexed(POD, BY_OWNER, str(group_owner(group)))
        return [key_of(pod) for pod in pods if desired.is_waiting(pod)]

    def _pods_waiting_behind(self, child: Object) -> Iterable[Key]:
        """Map a ClusterIP Service or an EndpointSlice of an egress Service to the Pods that wait for it."""
        return [pod for group in by_serving_group(child) for pod in self._waiting_pods(group)]
