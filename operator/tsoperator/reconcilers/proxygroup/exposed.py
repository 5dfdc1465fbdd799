"""Gathers the facts about the Tailscale Services of groups, and finds the groups that a change concerns."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from tsoperator.api.names import CONFIG_SUFFIX, PROXY_GROUP
from tsoperator.api.objects import (
    CONFIGMAP,
    ENDPOINTSLICE,
    INGRESS,
    PROXYGROUP,
    ROLE,
    ROLEBINDING,
    SECRET,
    SERVICE,
    Key,
    Object,
    annotations,
    has_finalizer,
    is_deleting,
    key_of,
    spec_text,
    uid,
)
from tsoperator.api.tailscaleservice import PREFIX, service_name
from tsoperator.group.apihosting import APIHost, APIHosting
from tsoperator.group.claims import BY_LABEL, LabelClaim, by_label, finalizer_of
from tsoperator.group.exposing import Exposed, Exposing, Host, kept_label
from tsoperator.group.grouptype import INGRESS as INGRESS_TYPE
from tsoperator.group.grouptype import type_of
from tsoperator.group.hosted import is_host
from tsoperator.group.hostnotes import APPROVAL_PATIENCE
from tsoperator.group.hosts import NO_SERVICE, by_certificate, domain_of_group
from tsoperator.proxy.endpoints import BY_SERVICE, changed_service, has_ready_endpoint
from tsoperator.proxy.hosting import Hosted, hosted
from tsoperator.proxy.paths import BY_BACKEND, backend_names
from tsoperator.proxy.proxy import Children
from tsoperator.proxy.replica import ReplicaSecrets
from tsoperator.proxy.secret import (
    TLS,
    advertised_services,
    certificate_of,
    has_logged_in,
    host_report_of,
    served_service_of,
)
from tsoperator.reconcilers.hosting import HostingView, tailnet_of
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.clock import loop_time
from tsoperator.runtime.memory import Memory
from tsoperator.settings import Settings


class ExposedView:
    """Gathers the facts about the objects that groups expose."""

    def __init__(self, cache: Cache, settings: Settings, hosting: HostingView) -> None:
        self._cache = cache
        self._settings = settings
        self._hosting = hosting
        # The times since which a group waits for a certificate, advertises its name, and gives up another one, by the
        # loop's clock
        self._uncertified, self._advertising, self._draining = (Memory[float](cache) for _ in range(3))

    def look(self, group: Object, children: Children, configmap: Object | None) -> Exposing:
        """Return the facts about the objects that name *group*, which has these *children* and this *configmap*."""
        there, hosts = hosted(configmap), _hosts(children)
        domain = domain_of_group(each for each in children.secrets if not key_of(each).name.endswith(CONFIG_SUFFIX))
        claims = self._hosting.claims_of_group(key_of(group).name)
        exposed = [self._exposed(each, group, there, domain) for each in claims]
        unclaimed = there.names.difference(each.name for each in exposed)
        return Exposing(
            exposed,
            there,
            hosts,
            domain,
            self._hosting.world.operator_id(),
            not any(each.resource in (INGRESS, SERVICE) for each in self._cache.refused_selections()),
            frozenset(name for name in unclaimed if self._is_awaited(tailnet_of(group), name.removeprefix(PREFIX))),
        )

    def look_at_api(self, group: Object, children: Children) -> APIHosting | None:
        """Return the facts about *group*, which has these *children*, or None if its type isn't ``kube-apiserver``."""
        claim, tailnet = self._hosting.claim(group), tailnet_of(group)
        if claim is None:
            return None
        view, world = self._hosting, self._hosting.world
        domain = domain_of_group(each for each in children.secrets if not key_of(each).name.endswith(CONFIG_SUFFIX))
        found = APIHosting(
            claim,
            NO_SERVICE if claim.wrong else world.service(tailnet, claim.label),
            view.claimant(tailnet, claim.label),
            _api_hosts(children),
            domain,
            bool(domain) and self._has_certificate(f"{claim.label}.{domain}"),
            world.operator_id(),
            world.no_identity(),
            view.remainder_of_group(group) if is_deleting(group) else None,
        )
        certificate = Key(self._settings.namespace, f"{claim.label}.{domain}")
        is_prepared = all(self._cache.get(kind, certificate) for kind in (ROLE, ROLEBINDING, SECRET))
        found = replace(
            found,
            is_prepared=is_prepared,
            advertised_for=_seconds(self._advertising, group, lasts=found.advertising > 0),
            drained_for=_seconds(self._draining, group, lasts=found.drains),
        )
        waited = _seconds(self._uncertified, group, lasts=found.awaits_certificate)
        if waited is None or waited < APPROVAL_PATIENCE:
            return replace(found, waited=waited)
        read = world.service(tailnet, claim.label, hosts=True)
        return replace(found, waited=waited, candidates=read.hosts, unread=read.pending)

    def _is_awaited(self, tailnet: str, label: str) -> bool:
        """Tell whether *label* in a *tailnet* is reserved, and no claim on it counts.

        The reason is an object that perhaps had the label earlier, and can get it back.
        """
        return self._hosting.is_reserved(tailnet, label) and self._hosting.holder(tailnet, label) is None

    def _exposed(self, claim: LabelClaim, group: Object, there: Hosted, domain: str) -> Exposed:
        tailnet, label = tailnet_of(group), kept_label(claim, there)
        namespace = claim.key.namespace
        names = [*dict.fromkeys(backend_names(claim.obj))] if claim.is_web else [claim.key.name]
        has_nothing = bool(claim.wrong) and service_name(label) not in there.names
        services = {name: self._cache.get(SERVICE, Key(namespace, name)) for name in names} if claim.is_web else {}
        return Exposed(
            claim,
            label,
            NO_SERVICE if has_nothing else self._hosting.world.service(tailnet, label),
            self._hosting.claimant(tailnet, label),
            {name: each for name, each in services.items() if each is not None},
            any(self._is_ready(Key(namespace, name)) for name in names),
            claim.is_web and bool(domain) and self._has_certificate(f"{label}.{domain}"),
        )

    def _is_ready(self, service: Key) -> bool:
        return has_ready_endpoint(self._cache.indexed(ENDPOINTSLICE, BY_SERVICE, str(service)))

    def _has_certificate(self, name: str) -> bool:
        secret = self._cache.get(SECRET, Key(self._settings.namespace, name))
        return secret is not None and certificate_of(secret, TLS).is_there


def _seconds(since: Memory[float], group: Object, *, lasts: bool) -> float | None:
    """Return the seconds for which a fact about *group* has been true; None if it isn't true now.

    *lasts* says whether it is true now. *since* has the time at which it became true.
    """
    if not lasts:
        since.note(group, None)
        return None
    now = loop_time()
    began = since.get(group)
    if began is None:
        since.note(group, began := now)
    return now - began


def _hosts(children: Children) -> Mapping[int, Host]:
    """Return the proxies of a group that have both a config Secret and a state Secret, by ordinal."""
    pods = {key_of(each).name: each for each in children.pods}
    return {
        ordinal: Host(
            pods.get(key_of(state).name),
            host_report_of(state),
            advertised_services(config),
            has_logged_in(ReplicaSecrets(config, state)),
        )
        for ordinal, config, state in _replicas(children)
    }


def _api_hosts(children: Children) -> Mapping[int, APIHost]:
    """Return the proxies of a group that offers the Kubernetes API, by ordinal.

    A proxy whose config Secret somebody has deleted is among them. It still runs, so its new config must say what it
    serves.
    """
    return {
        ordinal: APIHost(
            served_service_of(config) if config else "",
            advertised_services(config) if config else (),
            advertised_services(state),
            has_logged_in(ReplicaSecrets(config, state)),
        )
        for ordinal, config, state in _states(children)
    }


def _replicas(children: Children) -> Iterator[tuple[int, Object, Object]]:
    """Yield the ordinal, the config Secret and the state Secret of each replica that has both Secrets."""
    return ((ordinal, config, state) for ordinal, config, state in _states(children) if config is not None)


def _states(children: Children) -> Iterator[tuple[int, Object | None, Object]]:
    """Yield the ordinal, the config Secret and the state Secret of each replica that has a state Secret.

    None stands for a config Secret that doesn't exist.
    """
    secrets = {key_of(each).name: each for each in children.secrets}
    for name, state in secrets.items():
        if not name.endswith(CONFIG_SUFFIX):
            yield int(name.rpartition("-")[2]), secrets.get(f"{name}{CONFIG_SUFFIX}"), state


class ExposedChanges:
    """Finds the groups with Tailscale Services that a change of an object concerns.

    In the arguments, None stands for an object that doesn't exist.
    """

    def __init__(self, cache: Cache, settings: Settings) -> None:
        self._cache = cache
        self._settings = settings

    def of_claimant(self, old: Object | None, new: Object | None) -> set[Key]:
        """Return the groups that a change of an Ingress or a Service concerns.

        These are the groups that the object names, or named before, and the groups that have an entry for its label.
        They are also the groups that ask for this label, and the groups of other objects that ask for it.
        """
        if _claim_facts(old) == _claim_facts(new):
            return set()
        there = [each for each in (old, new) if each is not None]
        labels = {label for each in there for label in by_label(each)}
        return {*self._naming(there), *self._labelled(labels), *self._serving(labels)}

    def of_backend(self, old: Object | None, new: Object | None) -> set[Key]:
        """Return the groups that expose an Ingress in front of a Service, if the Service's address or ports changed."""
        there = new or old
        leading = self._leading_to(key_of(there)) if there else []
        if not leading or _backend_facts(old) == _backend_facts(new):
            return set()
        return {*self._naming(leading)}

    def of_slice(self, old: Object | None, new: Object | None) -> set[Key]:
        """Return the groups that expose the Service of an EndpointSlice, or an Ingress which leads to this Service.

        Return none if the change of the EndpointSlice can't have changed the readiness of the Service.
        """
        service = changed_service(old, new)
        if service is None:
            return set()
        found = self._cache.get(SERVICE, service)
        return {*self._naming([*([found] if found else ()), *self._leading_to(service)])}

    def of_certificate(self, secret: Object) -> set[Key]:
        """Return the groups that expose an Ingress with the name for which *secret* has a certificate."""
        return {*self._labelled(by_certificate(secret))}

    def of_tailscale_service(self, service: Object) -> set[Key]:
        """Return the groups that expose an object as this Tailscale Service."""
        return {*self._labelled([key_of(service).name])}

    def of_group(self, old: Object | None, new: Object | None) -> set[Key]:
        """Return the changed group and, if labels can be free now, all other groups with Tailscale Services.

        Labels can be free if the group was created or deleted, or has another claim or tailnet.
        """
        keys = {key_of(each) for each in (old, new) if each is not None}
        return keys if _group_facts(old) == _group_facts(new) else keys | self.all()

    def all(self, _obj: Object | None = None) -> set[Key]:
        """Return all groups with Tailscale Services."""
        return {key_of(each) for each in self._cache.all(PROXYGROUP) if is_host(each)}

    def _leading_to(self, service: Key) -> list[Object]:
        return self._cache.indexed(INGRESS, BY_BACKEND, str(service))

    def _labelled(self, labels: Iterable[str]) -> Iterator[Key]:
        """Yield the keys of the groups that ask for one of *labels*, or that an object with such a label names."""
        for label in labels:
            for resource in (INGRESS, SERVICE):
                yield from self._naming(self._cache.indexed(resource, BY_LABEL, label))
            yield from map(key_of, self._cache.indexed(PROXYGROUP, BY_LABEL, label))

    def _serving(self, labels: Iterable[str]) -> Iterator[Key]:
        """Yield the keys of the ingress groups that have an entry for one of *labels*."""
        names = {service_name(each) for each in labels}
        for group in self.all():
            config = Key(self._settings.namespace, INGRESS_TYPE.config_name(group.name))
            found = hosted(self._cache.get(CONFIGMAP, config))
            if any(name in found.rules or name in found.served for name in names):
                yield group

    def _naming(self, objects: Iterable[Object]) -> Iterator[Key]:
        """Yield the keys of the ingress groups that *objects* name."""
        for name in {annotations(each).get(PROXY_GROUP) for each in objects}:
            group = self._cache.get(PROXYGROUP, Key("", name)) if name else None
            if group is not None and _exposes(group):
                yield key_of(group)


def _exposes(group: Object) -> bool:
    type_ = type_of(group)
    return type_ is not None and type_.exposes


def _claim_facts(obj: Object | None) -> object:
    if obj is None or not any(by_label(obj)):
        return None
    return uid(obj), obj["spec"], annotations(obj), has_finalizer(obj, finalizer_of(obj)), is_deleting(obj)


def _backend_facts(service: Object | None) -> object:
    spec = service["spec"] if service else None
    return spec and (spec.get("type"), spec.get("clusterIP"), spec.get("ports"))


def _group_facts(group: Object | None) -> object:
    if group is None:
        return None
    claim = (*by_label(group), has_finalizer(group, finalizer_of(group)), is_deleting(group)) if is_host(group) else ()
    return uid(group), spec_text(group, "type"), tailnet_of(group), claim
