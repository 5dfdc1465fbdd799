"""Gathers the facts about objects for the report, from the cache, the journal and the tables of tailnets."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tsoperator.api.names import NAMESERVER, PROXY_GROUP
from tsoperator.api.objects import (
    DEPLOYMENT,
    DNSCONFIG,
    ENDPOINTSLICE,
    INGRESS,
    POD,
    PROXYGROUP,
    SECRET,
    SERVICE,
    STATEFULSET,
    Key,
    Object,
    Resource,
    annotations,
    key_of,
    spec_text,
)
from tsoperator.dns.clusternames import names_ingresses
from tsoperator.group.claims import label_of
from tsoperator.proxy.endpoints import BY_SERVICE
from tsoperator.proxy.readiness import secret_keys
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.journal import Journal
from tsoperator.runtime.ownership import BY_OWNER, OWNER_TYPES, is_child
from tsoperator.settings import Settings
from tsoperator.status.conditions import ours
from tsoperator.status.rows import API_SERVER_PROXY, EGRESS, Served, Surroundings, role_of, target_of
from tsoperator.tailnet.tailnet import Tailnets


class ServedDevice(NamedTuple):
    """The keys of the objects of the operator's own device, if this device serves the API server.

    *deployment* is the Deployment of the API server proxy, and *secret* the Secret of the device. *own* is the
    operator's own Deployment, which has the Events about the proxy.
    """

    deployment: Key
    secret: Key
    own: Key


class Knowledge(NamedTuple):
    """The objects from which a `Look` reads the facts. *device* is None unless the operator serves the API server."""

    cache: Cache
    journal: Journal
    tailnets: Tailnets
    settings: Settings
    device: ServedDevice | None = None


class Look:
    """Gathers the facts about objects for one report."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._cache, self._journal, self._tailnets, self._settings, self._device = knowledge
        self._names_ingresses = names_ingresses(self._cache.all(DNSCONFIG))
        self._groups: dict[str, Served] = {}

    def around(self, resource: Resource, obj: Object) -> Surroundings | None:
        """Return the facts about *obj* from other objects; None if the report has no row for *obj*."""
        role = role_of(obj, self._settings)
        if resource is DEPLOYMENT:
            return self._around_deployment(obj)
        warnings = self._journal.warnings(obj)
        if not role:
            return Surroundings(warnings=warnings) if warnings or ours(obj) else None
        if resource is DNSCONFIG:
            deployment = self._cache.get(DEPLOYMENT, Key(self._settings.namespace, NAMESERVER))
            return Surroundings(role, [deployment] if deployment else (), warnings=warnings)
        key = key_of(obj)
        if resource is not SERVICE and resource is not INGRESS:
            workloads = self._workloads(resource, key)
            return Surroundings(role, workloads, self._replicas(SECRET, workloads), warnings=warnings)
        if is_child(obj, self._settings.namespace):
            return None  # not a user's object: a Service in front of proxies can have annotations of a user's Service
        served = self._served(obj, role)
        workloads = () if served else self._workloads(resource, key)
        return Surroundings(
            role,
            workloads,
            self._replicas(SECRET, workloads) if role != EGRESS else (),
            self._replicas(POD, workloads) if role == EGRESS else (),
            served,
            self._addresses(obj, role, served),
            self._names_ingresses,
            warnings,
        )

    def _around_deployment(self, deployment: Object) -> Surroundings | None:
        """Return the facts about *deployment*; None if it isn't the Deployment of the API server proxy."""
        device = self._device
        if device is None or key_of(deployment) != device.deployment:
            return None
        secret, own = self._cache.get(SECRET, device.secret), self._cache.get(DEPLOYMENT, device.own)
        warnings = self._journal.warnings(own) if own else ()
        return Surroundings(API_SERVER_PROXY, [deployment], [secret] if secret else (), warnings=warnings)

    def _workloads(self, resource: Resource, key: Key) -> Sequence[Object]:
        """Return the StatefulSets of the proxies that the operator made for the object of *resource* with *key*."""
        type_ = OWNER_TYPES.get(resource)
        return self._cache.indexed(STATEFULSET, BY_OWNER, f"{type_}:{key.namespace}/{key.name}") if type_ else ()

    def _replicas(self, resource: Resource, workloads: Iterable[Object]) -> Sequence[Object]:
        """Return the Pods of *workloads* if *resource* is POD, or the Secrets of their replicas if it is SECRET."""
        keys = (key for workload in workloads for key in secret_keys(workload))
        return [found for key in keys if (found := self._cache.get(resource, key)) is not None]

    def _served(self, obj: Object, role: str) -> Served | None:
        """Return the facts about the ProxyGroup that *obj* names; None if *obj* names no ProxyGroup.

        If *obj* has the *role* of an egress Service, the facts are those that `Served` has for an egress Service.
        """
        name = annotations(obj).get(PROXY_GROUP)
        if not name:
            return None
        if name not in self._groups:
            group = self._cache.get(PROXYGROUP, Key("", name))
            self._groups[name] = Served(group, self._replicas(SECRET, self._workloads(PROXYGROUP, Key("", name))))
        served = self._groups[name]
        if role != EGRESS:
            return served
        place = Key(self._settings.namespace, spec_text(obj, "externalName").partition(".")[0])
        slices = self._cache.indexed(ENDPOINTSLICE, BY_SERVICE, str(place))
        return Served(served.group, (), self._cache.get(SERVICE, place), slices)

    def _addresses(self, obj: Object, role: str, served: Served | None) -> Sequence[str]:
        """Return the tailnet addresses of the target of an egress Service, or of the Tailscale Service of *obj*."""
        group = served.group if served else None
        tailnet = self._tailnets.registered(spec_text(group, "tailnet") if group else "")
        if tailnet is None or (served is not None and group is None):
            return ()
        if role == EGRESS:
            device = tailnet.devices.at(target_of(obj))
            return device.addresses if device else ()
        found = tailnet.services.known(label_of(obj)) if served else None
        return found.addresses if found else ()
