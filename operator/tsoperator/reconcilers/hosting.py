"""The facts about the objects that ProxyGroups expose to the tailnet. Several reconcilers need these facts."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple, Protocol

from tsoperator.api.device import domain_of
from tsoperator.api.names import (
    LABEL_DOMAIN,
    LABEL_SECRET_TYPE,
    PARENT_PROXYGROUP,
    PROXY_GROUP,
    SECRET_HTTPS_ENDPOINT,
    SECRET_TYPE_CERTS,
    SECRET_TYPE_STATE,
)
from tsoperator.api.objects import (
    CONFIGMAP,
    INGRESS,
    PROXYGROUP,
    ROLE,
    ROLEBINDING,
    SECRET,
    SERVICE,
    Key,
    Object,
    Resource,
    annotations,
    has_finalizer,
    is_deleting,
    key_of,
    labels,
    spec_text,
    uid,
)
from tsoperator.api.owners import ownership, sole_owner
from tsoperator.api.policy import UNSUPPORTED
from tsoperator.api.tailscaleservice import PREFIX, TailscaleService, service_name
from tsoperator.group.claims import BY_LABEL, LabelClaim, by_label, claim_of, finalizer_of, label_of, winner
from tsoperator.group.exposing import served_label
from tsoperator.group.hosted import TYPE, Hosting, is_host, is_host_in, is_owned
from tsoperator.group.hosts import BY_CERTIFICATE, NO_SERVICE, ServiceView, advertising, by_certificate, domain_of_group
from tsoperator.group.proxygroup import BY_GROUP, group_owner, in_order, is_available, replica_count
from tsoperator.proxy.endpoints import changed_service
from tsoperator.proxy.hosting import hosted
from tsoperator.proxy.secret import advertised_services, fqdn_of, served_service_of
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.memory import Memory
from tsoperator.runtime.ownership import BY_OWNER, owner_of
from tsoperator.runtime.plan import Refusal
from tsoperator.settings import Settings
from tsoperator.tsclient.errors import Forbidden

_REMOVING = Refusal("its Tailscale Service is being removed from the tailnet", is_passing=True)


class ShowsServices(Protocol):
    """The function that returns the operator's knowledge of a Tailscale Service."""

    def __call__(self, tailnet: str, label: str, /, *, hosts: bool = False) -> ServiceView:
        """Return the Tailscale Service with this *label* in a *tailnet*, together with its hosts if *hosts* is true."""
        ...


class HostingWorld(NamedTuple):
    """The facts about Tailscale Services that come from outside of the cluster, such as from control servers.

    *service* returns the operator's knowledge about a Tailscale Service. *tailnets* returns the names of the tailnets
    in which the operator can own Tailscale Services. *operator_id* returns the ID of the operator, and *no_identity*
    the reason why it has none. *knows_id* tells whether the operator has looked up its ID. *known* returns a key for
    each Tailscale Service that the operator knows; the key has the tailnet and the label of the Tailscale Service.

    The control server can refuse a write of a Tailscale Service. When the Tailscale Service needs no write any more,
    its reconciler calls *settled* with the tailnet and the label, so that the operator forgets the refusal.
    """

    service: ShowsServices
    tailnets: Callable[[], Iterable[str]]
    operator_id: Callable[[], str]
    no_identity: Callable[[], str]
    knows_id: Callable[[], bool] = lambda: True
    known: Callable[[], Iterable[Key]] = tuple
    settled: Callable[[str, str], None] = lambda _tailnet, _label: None


class _Parsed(NamedTuple):
    """An Ingress, a Service or a ProxyGroup, and its *claim*, which is None if the object has no claim."""

    obj: Object
    claim: LabelClaim | None


class HostingView:
    """Gathers the facts about the objects that ProxyGroups expose, and finds the objects that a change concerns."""

    def __init__(self, cache: Cache, settings: Settings, world: HostingWorld) -> None:
        self.world = world
        self._cache = cache
        self._settings = settings
        self._claims = Memory[_Parsed](cache)

    def look(self, obj: Object, *, with_hosts: bool = True) -> Hosting | None:
        """Return the facts about *obj*, an Ingress or a Service; None if *obj* doesn't ask a ProxyGroup to expose it.

        If *with_hosts* is true, and proxies advertise the Tailscale Service, the facts include the hosts of
        that Service.
        """
        claim = self.claim(obj)
        return self.of(claim, with_hosts=with_hosts) if claim else None

    def claim(self, obj: Object) -> LabelClaim | None:
        """Return the claim of an Ingress, a Service or a ProxyGroup; None if it asks for no Tailscale Service.

        An object is parsed only once, because each reconcile of a group needs the claims of all objects of the group.
        """
        known = self._claims.get(obj)
        if known is None or known.obj is not obj:
            known = _Parsed(obj, claim_of(obj, self._settings))
            self._claims.note(obj, known)
        return known.claim

    def of(self, claim: LabelClaim, *, with_hosts: bool = True) -> Hosting:
        """Return the facts about the object that has this *claim*. The parameter *with_hosts* is that of `look`."""
        group, states = self.group(claim.group), self.states(claim.group)
        view, holder = NO_SERVICE, None
        if group is not None and not claim.wrong:
            tailnet, is_hosted = tailnet_of(group), with_hosts and bool(advertising(states, claim.name))
            view = self.world.service(tailnet, claim.label, hosts=is_hosted)
            holder = self.claimant(tailnet, claim.label)
        return Hosting(
            claim,
            group,
            view,
            holder,
            states,
            domain_of_group(states),
            self.world.operator_id(),
            self.world.no_identity(),
            group is None and self.is_advertised(claim.name),
        )

    def hosts(self, hosting: Hosting) -> ServiceView:
        """Return the view of an object's Tailscale Service with its hosts, even if no proxy advertises the Service."""
        if hosting.group is None:
            return NO_SERVICE
        return self.world.service(tailnet_of(hosting.group), hosting.claim.label, hosts=True)

    def is_advertised(self, name: str) -> bool:
        """Tell whether a proxy of any ProxyGroup advertises the Tailscale Service *name*."""
        groups = (key_of(group).name for group in self._cache.all(PROXYGROUP))
        return any(name in advertised_services(state) for group in groups for state in self.states(group))

    def group(self, name: str) -> Object | None:
        """Return the ProxyGroup called *name*; None if it doesn't exist."""
        return self._cache.get(PROXYGROUP, Key("", name))

    def groups_of(self, tailnet: str) -> list[Object]:
        """Return those ProxyGroups in a tailnet that are of a type which serves Tailscale Services."""
        return [each for each in self._cache.all(PROXYGROUP) if is_host_in(each, tailnet)]

    def states(self, group: str) -> list[Object]:
        """Return the slim state Secrets of the ProxyGroup called *group*, by ordinal."""
        return [each for each in self._secrets(group) if _secret_type(each) == SECRET_TYPE_STATE]

    def configs(self, group: str) -> list[Object]:
        """Return the slim config Secrets of the ProxyGroup called *group*, by ordinal."""
        return [
            each for each in self._secrets(group) if _secret_type(each) not in (SECRET_TYPE_STATE, SECRET_TYPE_CERTS)
        ]

    def claims_on(self, label: str) -> Iterator[LabelClaim]:
        """Yield the claims of all objects on *label*, in all tailnets."""
        for resource in (INGRESS, SERVICE, PROXYGROUP):
            for obj in self._cache.indexed(resource, BY_LABEL, label):
                if claim := self.claim(obj):
                    yield claim

    def holder(self, tailnet: str, label: str) -> LabelClaim | None:
        """Return the claim that has won *label* in a tailnet, if this claim counts. Otherwise return None."""
        found = self.claimant(tailnet, label)
        return found if found is not None and found.counts else None

    def claimant(self, tailnet: str, label: str) -> LabelClaim | None:
        """Return the claim that has won *label* in a tailnet; None if no claim has.

        Unlike `holder`, this includes the claim of an invalid object that is still served under the label. Such an
        object keeps the label, so that a wrong edit doesn't lead the traffic to another object.

        A ProxyGroup is the only owner of its Tailscale Service; that of an Ingress or a Service can have several
        owners. If claims of both sorts ask for the label, and the Tailscale Service exists, only a claim of the same
        sort as the owner of the Tailscale Service can win. While the owner isn't known, no claim wins.
        """
        counting = (
            each for each in self.claims_on(label) if each.counts or (each.may_be_kept and self._is_served(each))
        )
        claims = [each for each in counting if self.tailnet(each) == tailnet]
        if len({each.sole_owner is None for each in claims}) < 2:
            return winner(claims)
        view = self.world.service(tailnet, label)
        if not view.tells_owner:
            return None
        if view.service is not None:
            is_alone = sole_owner(view.service, self.world.operator_id()) is not None
            claims = [each for each in claims if (each.sole_owner is not None) is is_alone]
        return winner(claims)

    def _is_served(self, claim: LabelClaim) -> bool:
        """Tell whether the ConfigMap of the claim's ProxyGroup has an entry for the claim's object and label."""
        configmap = self._cache.get(CONFIGMAP, Key(self._settings.namespace, f"{claim.group}-ingress-config"))
        return served_label(claim, hosted(configmap)) == claim.label

    def is_reached(self, hosting: Hosting) -> bool:
        """Tell whether devices reach an object by its MagicDNS name, as far as the operator knows.

        They do only if the operator owns the Tailscale Service of the object. While the owner isn't known, the
        ConfigMap of the group decides, because it lists only objects whose Tailscale Service the operator owns. So an
        operator that starts removes no name while it asks the control server.
        """
        if hosting.operator_id and hosting.view.tells_owner:
            return hosting.has_label and hosting.is_owned
        return hosting.has_label and self._is_served(hosting.claim)

    def tailnet(self, claim: LabelClaim) -> str | None:
        """Return the name of the tailnet of *claim*; None if its Ingress or Service names no existing ingress group."""
        if claim.sole_owner is not None:
            return tailnet_of(claim.obj)
        group = self.group(claim.group)
        return tailnet_of(group) if group and spec_text(group, "type") == TYPE else None

    def is_reserved(self, tailnet: str, label: str) -> bool:
        """Tell whether the Tailscale Service with *label* in a tailnet has to stay, although no claim counts there.

        It has to stay if an object perhaps had the label earlier, and its claim doesn't count now, because the object
        is invalid or its group is missing. A missing group can have been in any tailnet.
        """
        return any(self.tailnet(each) in (None, tailnet) for each in self.reserving(label))

    def is_wanted(self, tailnet: str, service: TailscaleService) -> bool:
        """Tell whether the operator can write *service* for an object that reserves its label in *tailnet*."""
        claims = (each for each in self.reserving(service.label) if self.tailnet(each) in (None, tailnet))
        operator_id = self.world.operator_id()
        return any(ownership(service, operator_id, each.sole_owner).may_write for each in claims)

    def reserving(self, label: str) -> Iterator[LabelClaim]:
        """Yield the claims on *label* of objects that are valid or have our finalizer, and aren't being deleted."""
        for claim in self.claims_on(label):
            if not is_deleting(claim.obj) and (not claim.wrong or has_finalizer(claim.obj, claim.finalizer)):
                yield claim

    def claims_of_group(self, group: str) -> Iterator[LabelClaim]:
        """Yield the claims of all objects that name the ProxyGroup called *group*."""
        for resource in (INGRESS, SERVICE):
            for obj in self._cache.indexed(resource, BY_GROUP, group):
                if claim := self.claim(obj):
                    yield claim

    def uses(self, tailnet: str, name: str) -> bool:
        """Tell whether a ProxyGroup of a tailnet has an entry for the Tailscale Service *name*, or advertises it."""
        return any(self._has(key_of(group).name, name) for group in self.groups_of(tailnet))

    def _has(self, group: str, name: str) -> bool:
        configmap = self._cache.get(CONFIGMAP, Key(self._settings.namespace, f"{group}-ingress-config"))
        told = ((*advertised_services(each), served_service_of(each)) for each in self.configs(group))
        return name in hosted(configmap).names or any(name in each for each in told)

    def certificates(self, label: str) -> list[Object]:
        """Return the Secrets, Roles and RoleBindings of the certificates for *label*, in all tailnets.

        They are in the order in which they should be deleted. The Secrets are slim.
        """
        kinds = (ROLEBINDING, ROLE, SECRET)
        found = (each for kind in kinds for each in self._cache.indexed(kind, BY_CERTIFICATE, label))
        return [each for each in found if self._is_hosts(labels(each).get(PROXY_GROUP, ""))]

    def _is_hosts(self, name: str) -> bool:
        """Tell whether the ProxyGroup called *name* is of a type that has Tailscale Services, or doesn't exist."""
        group = self.group(name)
        return group is None or is_host(group)

    def remainder(self, obj: Object) -> Refusal | None:
        """Return why the Tailscale Service of *obj* isn't completely removed. The object *obj* has no claim any more.

        Return None if nothing of the Tailscale Service remains. The refusal is passing if the operator is removing it.
        """
        label = label_of(obj)
        group = self.group(annotations(obj).get(PROXY_GROUP, ""))
        tailnets = self._open_tailnets(label) if group is None else [tailnet_of(group)]
        claimed = [each for each in tailnets if self.holder(each, label) or self.is_reserved(each, label)]
        for tailnet in tailnets:
            if tailnet not in claimed and (left := self._left(tailnet, label)):
                return left
        certificates = () if claimed else self.certificates(label)
        return _REMOVING if any(self._may_be_in(each, tailnets) for each in certificates) else None

    def remainder_of_group(self, group: Object) -> Refusal | None:
        """Return why the Tailscale Services of a ProxyGroup of type kube-apiserver aren't completely removed.

        Return None if nothing of them remains. A group has had several if its hostname was changed.
        """
        tailnet, label, name = tailnet_of(group), label_of(group), key_of(group).name
        if not self.holder(tailnet, label) and (left := self._left(tailnet, label, uid(group))):
            return left
        found = (each for kind in (ROLEBINDING, ROLE, SECRET) for each in self._cache.all(kind))
        is_there = any(LABEL_DOMAIN in labels(each) and labels(each).get(PROXY_GROUP) == name for each in found)
        return _REMOVING if is_there else None

    def _open_tailnets(self, label: str) -> list[str]:
        """Return the tailnets in which the operator has perhaps made a Tailscale Service with *label*.

        It hasn't made one where it isn't even permitted to see Tailscale Services.
        """
        views = {each: self.world.service(each, label) for each in self.world.tailnets()}
        return [
            each for each, view in views.items() if not (view.refusal and isinstance(view.refusal.error, Forbidden))
        ]

    def _may_be_in(self, certificate: Object, tailnets: Iterable[str]) -> bool:
        """Tell whether the ProxyGroup to which *certificate* belongs is in one of *tailnets*, or is gone."""
        group = self.group(labels(certificate).get(PROXY_GROUP, ""))
        return group is None or tailnet_of(group) in tailnets

    def _left(self, tailnet: str, label: str, group: str = "") -> Refusal | None:
        """Return why the Tailscale Service with *label*, which nobody claims in this tailnet, isn't completely removed.

        Return None if nothing of it remains. With *group*, the UID of a ProxyGroup, only a Tailscale Service of that
        group matters.
        """
        view, name = self.world.service(tailnet, label), service_name(label)
        if view.refusal and view.refusal.reason != UNSUPPORTED:
            return replace(view.refusal, message=f"Tailscale Service {name} can't be removed: {view.refusal.message}")
        if view.service is not None and not self.world.knows_id():
            return Refusal(why, is_passing=False) if (why := self.world.no_identity()) else _REMOVING
        is_there = view.pending is not None or self._owns(view, group)
        return _REMOVING if is_there or self.uses(tailnet, name) else None

    def _owns(self, view: ServiceView, group: str) -> bool:
        """Tell whether the operator owns the Tailscale Service in *view*.

        If *group* isn't empty, tell whether the ProxyGroup with this UID owns the Tailscale Service.
        """
        if not group:
            return is_owned(view, self.world.operator_id())
        is_known = view.service is not None and view.tells_owner
        found = sole_owner(view.service, self.world.operator_id()) if view.service and is_known else None
        return found is not None and found[1] == group

    def _secrets(self, group: str) -> list[Object]:
        owned = self._cache.indexed(SECRET, BY_OWNER, str(group_owner(group)))
        return in_order(owned, group)


def tailnet_of(group: Object) -> str:
    """Return the name of the Tailnet of a ProxyGroup; empty for the operator's own tailnet."""
    return spec_text(group, "tailnet")


def _secret_type(secret: Object) -> str:
    return labels(secret).get(LABEL_SECRET_TYPE, "")


class HostingChanges:
    """Finds the objects of *resource*, Ingresses or Services, whose Tailscale Services a change concerns.

    Only these objects are reconciled, because a group can serve hundreds of objects, and its Secrets and its ConfigMap
    change often. If *old* or *new* is None, the changed object did not exist before, or does not exist now.
    """

    def __init__(self, cache: Cache, resource: Resource) -> None:
        self._cache = cache
        self._resource = resource

    def of_claimant(self, obj: Object) -> list[Key]:
        """Return the objects with the label of *obj*, because they can get or lose it when *obj* changes."""
        return self._labelled(by_label(obj))

    def of_service(self, service: Object) -> list[Key]:
        """Return the objects that have or had a claim on a Tailscale Service."""
        return self._labelled([key_of(service).name])

    def of_group(self, old: Object | None, new: Object | None) -> list[Key]:
        """Return the objects that name a ProxyGroup, if a change of the group can matter to them.

        If the group claims a label itself, return also the objects that claim this label.
        """
        if _group_facts(old) == _group_facts(new):
            return []
        there = [each for each in (new, old) if each]
        asked = self._labelled({label for each in there for label in by_label(each)})
        return [*self._grouped(key_of(there[0]).name), *asked]

    def of_secret(self, old: Object | None, new: Object | None) -> list[Key]:
        """Return the objects whose Tailscale Services a proxy has begun or ceased to advertise.

        If the Secret has a certificate, return the objects with the label of the certificate. Return all objects of the
        group if the proxy has another domain, or begins or ceases to serve HTTPS.
        """
        secret = new or old
        if secret is None:
            return []
        if labels := [*by_certificate(secret)]:
            return self._labelled(labels)
        owner = owner_of(secret)
        if owner is None or owner.type != PARENT_PROXYGROUP:
            return []
        before, after = (_host_facts(each) for each in (old, new))
        if before[1:] != after[1:]:
            return self._grouped(owner.key.name)
        return self._labelled(name.removeprefix(PREFIX) for name in before[0] ^ after[0])

    def of_configmap(self, old: Object | None, new: Object | None) -> list[Key]:
        """Return the objects whose entries a change of an ingress ConfigMap has added or removed."""
        before, after = (hosted(each).names for each in (old, new))
        return self._labelled(name.removeprefix(PREFIX) for name in before ^ after)

    def of_slice(self, old: Object | None, new: Object | None) -> list[Key]:
        """Return the Service whose EndpointSlice got its first ready Pod or lost all, if it has or had a claim."""
        key = changed_service(old, new)
        found = self._cache.get(self._resource, key) if key else None
        return [key_of(found)] if found and any(by_label(found)) else []

    def of_identity(self, _identity: Object) -> list[Key]:
        """Return all objects that name a ProxyGroup."""
        return [key_of(each) for each in self._cache.all(self._resource) if any(by_label(each))]

    def _labelled(self, labels: Iterable[str]) -> list[Key]:
        return [key_of(each) for label in labels for each in self._cache.indexed(self._resource, BY_LABEL, label)]

    def _grouped(self, group: str) -> list[Key]:
        return [key_of(each) for each in self._cache.indexed(self._resource, BY_GROUP, group)]


def _group_facts(group: Object | None) -> object:
    return group and (
        uid(group),
        spec_text(group, "type"),
        tailnet_of(group),
        label_of(group),
        has_finalizer(group, finalizer_of(group)),
        replica_count(group),
        is_available(group),
        is_deleting(group),
    )


def _host_facts(secret: Object | None) -> tuple[frozenset[str], str, str]:
    """Return the Tailscale Services in the slim Secret of a proxy, the domain of its tailnet, and its HTTPS name."""
    if secret is None:
        return frozenset(), "", ""
    data, domain = secret["data"], domain_of(fqdn_of(secret))
    return frozenset(advertised_services(secret)), domain, data.get(SECRET_HTTPS_ENDPOINT, "")
