"""Looks, decides and acts for all records at once."""

from collections.abc import Iterable, Mapping
from typing import Final

from tsnameserver.records import CONFIGMAP_NAME

from tsoperator.api.names import (
    ANNOTATION_TAILNET_FQDN,
    LABEL_SERVICE_NAME,
    PARENT_INGRESS,
    PARENT_SERVICE,
)
from tsoperator.api.objects import (
    CONFIGMAP,
    DNSCONFIG,
    ENDPOINTSLICE,
    INGRESS,
    SERVICE,
    Key,
    Object,
    Resource,
    annotations,
    labels,
)
from tsoperator.desired.children import BY_OWNER_TYPE, owner_of
from tsoperator.desired.nameserver import elected
from tsoperator.reconcilers.dnsrecords import desired
from tsoperator.runtime.apply import Applier
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.manager import Mapper
from tsoperator.runtime.result import DONE, Result
from tsoperator.settings import Settings

BY_SERVICE: Final = "service"
"""The index of EndpointSlices by the name of their Service."""

_PARENTS: Final = {PARENT_SERVICE: SERVICE, PARENT_INGRESS: INGRESS}


def by_service(endpoint_slice: Object) -> Iterable[str]:
    """Index EndpointSlices by Service."""
    name = labels(endpoint_slice).get(LABEL_SERVICE_NAME)
    return (name,) if name else ()


class DNSRecordsReconciler:
    """Makes the ConfigMap of records right: its one key is that ConfigMap, and it alone writes it."""

    name = "dnsrecords"

    def __init__(self, cache: Cache, applier: Applier, settings: Settings) -> None:
        self._cache = cache
        self._applier = applier
        self._settings = settings
        self._key = Key(settings.namespace, CONFIGMAP_NAME)
        self.watches: Mapping[Resource, Mapper] = {
            SERVICE: self._of_service,
            ENDPOINTSLICE: self._of_child,
            INGRESS: self._of_ingress,
            DNSCONFIG: lambda _dnsconfig: (self._key,),
            CONFIGMAP: self._of_child,
        }

    async def reconcile(self, _key: Key) -> Result:
        """Make the records match the proxies that there are; without a DNSConfig nobody asks for names."""
        dnsconfig = elected(self._cache.all(DNSCONFIG))
        if dnsconfig is None:
            return DONE
        plan = desired.plan(dnsconfig, self._observe(), self._settings)
        await self._applier.apply(dnsconfig, plan)
        return Result(plan.requeue_after)

    def _observe(self) -> desired.Observed:
        return desired.Observed(
            configmap=self._cache.get(CONFIGMAP, self._key),
            proxies=[
                desired.NamedProxy(
                    service=service,
                    parent=self._cache.get(_PARENTS[owner.type], owner.key),
                    slices=self._cache.indexed(ENDPOINTSLICE, BY_SERVICE, service["metadata"]["name"]),
                )
                for owner_type in _PARENTS
                for service in self._cache.indexed(SERVICE, BY_OWNER_TYPE, owner_type)
                if (owner := owner_of(service))
            ],
        )

    def _of_service(self, service: Object) -> Iterable[Key]:
        concerns = owner_of(service) or ANNOTATION_TAILNET_FQDN in annotations(service)
        return (self._key,) if concerns else ()

    def _of_ingress(self, ingress: Object) -> Iterable[Key]:
        return (self._key,) if ingress["spec"].get("ingressClassName") == self._settings.ingress_class else ()

    def _of_child(self, child: Object) -> Iterable[Key]:
        return (self._key,) if owner_of(child) else ()
