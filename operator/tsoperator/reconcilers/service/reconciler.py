"""Gathers the facts about Services that `plan` needs."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace

from tsoperator.api.names import (
    LABEL_MANAGED,
    LABEL_SERVICE_NAME,
    LABEL_SERVICE_TYPE,
    MANAGED,
    PARENT_SERVICE,
    SERVICE_TYPE_EGRESS,
)
from tsoperator.api.objects import (
    CONFIGMAP,
    DEVICE,
    DNSCONFIG,
    ENDPOINTSLICE,
    IDENTITY,
    INGRESS,
    POD,
    PROXYCLASS,
    PROXYGROUP,
    SECRET,
    SERVICE,
    SERVICEMONITOR,
    STATEFULSET,
    SUFFIXES,
    TAILSCALE_SERVICE,
    Key,
    Object,
    key_of,
    labels,
)
from tsoperator.dns.nameserver import before, elected
from tsoperator.group.egress import by_serving_group, entry_name, served_service
from tsoperator.group.hosted import Hosting
from tsoperator.group.hostnotes import lacks_approval
from tsoperator.group.places import Places, unused
from tsoperator.group.proxygroup import by_group
from tsoperator.kube.client import KubeClient
from tsoperator.proxy.classref import class_name
from tsoperator.proxy.endpoints import BY_SERVICE, has_ready_endpoint
from tsoperator.proxy.orphan import plan_orphan
from tsoperator.proxy.proxy import Children
from tsoperator.reconcilers.hosting import HostingChanges, HostingView
from tsoperator.reconcilers.proxies import Proxies, Seen
from tsoperator.reconcilers.service import egress, exposure, grouped, hosted
from tsoperator.reconcilers.service import plan as plans
from tsoperator.reconcilers.service.ask import BY_DESTINATION, Ask, ServiceMode, by_destination, needs_suffix, parse
from tsoperator.reconcilers.service.changes import GroupChanges
from tsoperator.reconcilers.service.names import NamesView
from tsoperator.reconcilers.service.view import PlacesView, Timers
from tsoperator.runtime.clock import loop_time
from tsoperator.runtime.kind import Kind
from tsoperator.runtime.manager import Comparison, Watches
from tsoperator.runtime.memory import Memory
from tsoperator.runtime.ownership import BY_GROUPED_OWNER, Owner, grouped_owner_of, owned_keys, owner_of, parent_of
from tsoperator.runtime.plan import Plan
from tsoperator.runtime.reverts import NO_REVERTS, Reverts, last_writer
from tsoperator.runtime.rewrites import Rewrites
from tsoperator.tailnet.tailnet import OWN
from tsoperator.tailnet.zones import NO_SUFFIXES, Suffixes


def services(proxies: Proxies, client: KubeClient, hosting: HostingView) -> Kind[Seen[Ask, plans.Observed] | Plan]:
    """Return the `Kind` of Services, which makes the proxies and the places of egress Services and exposed Services."""
    view = _View(proxies, client, hosting)
    kind = proxies.kind(SERVICE, view.watches, parse, view.look, plans, left=view.left)
    return replace(kind, acted=view.rewritten, indexes={SERVICE: {BY_DESTINATION: by_destination}})


_OldAndNew = Callable[[Object | None, Object | None], Iterable[Key]]


def _both(one: _OldAndNew, other: _OldAndNew) -> _OldAndNew:
    """Return a mapper that yields the keys of both mappers, *one* and *other*."""
    return lambda old, new: [*one(old, new), *other(old, new)]


class _View:
    """Gathers the facts about Services, and finds the Services that a change concerns."""

    def __init__(self, proxies: Proxies, client: KubeClient, hosting: HostingView) -> None:
        self._proxies = proxies
        self._hosting = hosting
        self._client = client
        self._cache = proxies.cache
        self._rewrites = Memory[Rewrites](self._cache)
        self._timers = Timers(self._cache)
        self._settings = proxies.settings
        self._view = PlacesView(self._cache, self._settings)
        self._changes = GroupChanges(self._cache)
        self._hosted = HostingChanges(self._cache, SERVICE)
        self._names = NamesView(self._cache, self._settings)
        self._reads_places = asyncio.Lock()
        self._has_read_places = False
        self.watches: Watches = {
            SERVICE: self._keys_of_service,
            **dict.fromkeys((STATEFULSET, SERVICEMONITOR), self._parent_keys),
            SECRET: self._with_parents(_both(self._changes.of_secret, self._hosted.of_secret)),
            POD: self._with_parents(self._changes.of_pod),
            ENDPOINTSLICE: Comparison(self._keys_of_slices),
            PROXYGROUP: Comparison(_both(self._changes.of_group, self._hosted.of_group)),
            CONFIGMAP: Comparison(_both(self._changes.of_configmap, self._hosted.of_configmap)),
            INGRESS: self._hosted.of_claimant,
            TAILSCALE_SERVICE: self._hosted.of_service,
            IDENTITY: self._hosted.of_identity,
            PROXYCLASS: self._keys_of_class,
            DEVICE: self._keys_of_device,
            DNSCONFIG: Comparison(self._keys_of_dnsconfig),
            SUFFIXES: self._keys_of_suffixes,
        }

    def rewritten(self, service: Object, seen: Seen[Ask, plans.Observed] | Plan, plan: Plan) -> None:
        """Remember that *plan* has pointed *service* at a proxy, if it has."""
        if isinstance(seen, Seen) and (name := plans.rewritten_to(seen.ask, plan)):
            rewrites = self._rewrites.get(service) or Rewrites()
            rewrites.rewritten(service["metadata"]["resourceVersion"], name)
            self._rewrites.note(service, rewrites)

    async def look(self, ask: Ask) -> plans.Observed:
        """Gather the facts about a Service."""
        if ask.mode is ServiceMode.GROUP:
            await self._read_places()
        children = self._proxies.children(ask.owner)
        own_name = plans.own_key(ask, children, self._settings).name
        suffixes = self._proxies.suffixes() if ask.fqdn else NO_SUFFIXES
        is_hosted = ask.mode is ServiceMode.HOSTED
        hosting = self._hosting.look(ask.service) if is_hosted else None
        if hosting is not None:
            slices = self._cache.indexed(ENDPOINTSLICE, BY_SERVICE, str(ask.key))
            hosting = replace(hosting, has_pods=has_ready_endpoint(slices))
        places = self._places(ask, children, own_name, suffixes, hosting)
        return plans.Observed(
            children,
            self._proxies.proxy_class(ask.class_name),
            self._proxies.tailnet(OWN, ask.owner, children, ask.destination if ask.mode is ServiceMode.PROXY else ""),
            places=places,
            suffixes=suffixes,
            has_dnsconfig=elected(self._cache.all(DNSCONFIG)) is not None,
            holder=self._names.holder(ask.service),
            hosting=hosting,
            left=self._hosting.remainder(ask.service) if hosted.is_held(ask) and not is_hosted else None,
            reverts=await self._reverts(ask, own_name, places),
        )

    def _parse(self, service: Object) -> Ask:
        return parse(service, self._settings)

    async def _read_places(self) -> None:
        """Read the places of all Services from the API server, once, before this process allocates proxy ports.

        When this process begins to lead, its cache can still lack ports that the previous leader allocated a second
        ago.
        """
        async with self._reads_places:
            if self._has_read_places:
                return
            selector = f"{LABEL_MANAGED}={MANAGED},{LABEL_SERVICE_TYPE}={SERVICE_TYPE_EGRESS}"
            self._view.take_live((await self._client.list(SERVICE, self._settings.namespace, selector)).items)
            self._has_read_places = True

    def _places(
        self, ask: Ask, children: Children, own_name: str, suffixes: Suffixes, hosting: Hosting | None
    ) -> Places:
        """Return the places of a Service: those at ProxyGroups, and that of its own proxy.

        The result also says for how long facts about the Service have been true. One such fact comes from
        *hosting*: no proxy is known to be approved as a host.
        """
        found = self._view.of(ask, suffixes)
        if ask.mode is not ServiceMode.NOTHING or found.services:
            found = replace(found, own=self._view.own_place(children, own_name))
        if ask.mode is ServiceMode.GROUP and found.own is None:
            self._proxies.forget(ask.owner)
        facts = {grouped.FRESH} if ask.mode is ServiceMode.GROUP and grouped.is_fresh(ask) else set()
        if ask.mode in (ServiceMode.GROUP, ServiceMode.PROXY):
            facts |= {*unused(ask.points_at, plans.current_place(ask, own_name, found), found)}
        if hosting is not None and hosting.advertising and lacks_approval(hosting):
            facts.add(hosted.UNAPPROVED)
        return replace(found, ages=self._timers.ages(ask.service, facts, loop_time()))

    async def _reverts(self, ask: Ask, own_name: str, places: Places) -> Reverts:
        """Return how another writer keeps reverting an egress Service.

        To find the name of that writer, read the live Service once, and remember the name.
        """
        if ask.mode is ServiceMode.NOTHING or ask.is_exposed:
            self._rewrites.note(ask.service, None)
            return NO_REVERTS
        if (rewrites := self._rewrites.get(ask.service)) is None:
            return NO_REVERTS
        name = plans.leading_place(ask, own_name, places)
        version, goal = ask.service["metadata"]["resourceVersion"], f"{name}{ask.proxies_domain}"
        reverts = rewrites.look(version, egress.strays(ask, name), goal)
        if reverts.who or not reverts.fields:
            return reverts
        live = await self._client.get(SERVICE, ask.key)
        who = last_writer(live, "spec", "externalName", "type") or "something"
        rewrites.remember_writer(who)
        return replace(reverts, who=who)

    def left(self, owner: Owner) -> Plan:
        """Return the plan with the next step of removing the leftovers of a Service that is gone."""
        is_seen = self._cache.sees(SERVICE, owner.key.namespace)
        proxy = plan_orphan(self._proxies.orphan(SERVICE, owner))
        return plans.plan_left(self._view.made_for(owner), proxy, is_seen=is_seen)

    def _keys_of_class(self, proxy_class: Object) -> Iterable[Key]:
        name = key_of(proxy_class).name
        default = self._settings.proxy_class
        found = (each for each in self._cache.all(SERVICE) if class_name(each, default) == name)
        return [ask.key for ask in map(self._parse, found) if ask.mode is not ServiceMode.NOTHING]

    def _keys_of_service(self, service: Object) -> Iterable[Key]:
        """Return the keys that a change of *service*, a child or a user's Service, concerns.

        A child concerns its parent. A user's Service concerns itself, and the Services that ask for the same label in a
        tailnet. Both concern the Services that can get or lose their name by the change, and those that ask for the
        same entry at a ProxyGroup. A place at a ProxyGroup also concerns the Services that share a port of the proxies
        with it. A place that is gone also concerns the Services that found no free port at the ProxyGroup.
        """
        key, owner = key_of(service), parent_of(service, self._settings.namespace)
        if owner:
            keys = {*self._changes.sharing(service), *self._names.concerned_by_child(service)}
            keys |= {owner.key} if owner.type == PARENT_SERVICE else set()
        else:
            keys = {key, *self._names.concerned(service), *self._hosted.of_claimant(service)}
        groups = by_serving_group(service) if owner else by_group(service)
        for group in groups:
            name = entry_name(served_service(service) if owner else key)
            keys |= self._changes.having(group, [name])
            if owner and self._cache.get(SERVICE, key) is None:
                keys |= {*self._view.starved(group)}
        return keys

    def _keys_of_slices(self, old: Object | None, new: Object | None) -> Iterable[Key]:
        """Return the Services that a change of an EndpointSlice concerns.

        The EndpointSlice of a place concerns the Service that has the place. Another EndpointSlice concerns its Service
        only when it has got its first ready endpoint, or lost all ready endpoints. In addition, this Service must claim
        a label at a ProxyGroup, or have claimed one earlier.
        """
        there = [each for each in (old, new) if each]
        if len(there) == 2 and labels(there[0]) == labels(there[1]):
            del there[0]  # both states concern the same Service
        of_places = (key for each in there for key in self._keys_of_slice(each))
        return [*of_places, *self._hosted.of_slice(old, new)]

    def _keys_of_slice(self, endpoint_slice: Object) -> Iterable[Key]:
        """Return the Service that has the place of *endpoint_slice*, if it depends on the EndpointSlice.

        A Service always depends on the EndpointSlices of its places at ProxyGroups. It depends on those of its own
        proxy while it doesn't point at that proxy, and while it moves.
        """
        if grouped_owner_of(endpoint_slice):
            return self._parent_keys(endpoint_slice)
        owner = owner_of(endpoint_slice)
        parent = self._cache.get(SERVICE, owner.key) if owner and owner.type == PARENT_SERVICE else None
        ask = self._parse(parent) if parent else None
        if ask is None or not ask.is_egress:
            return ()
        leads = ask.points_at == labels(endpoint_slice).get(LABEL_SERVICE_NAME)
        moves = bool(self._cache.indexed(SERVICE, BY_GROUPED_OWNER, str(owner)))
        return self._parent_keys(endpoint_slice) if moves or not leads else ()

    def _parent_keys(self, child: Object) -> Iterable[Key]:
        return owned_keys(child, PARENT_SERVICE, self._settings.namespace)

    def _with_parents(self, of: Callable[[Object | None, Object | None], Iterable[Key]]) -> Comparison:
        """Return the mapper from a changed object to its parents, and to the keys that the function *of* returns."""

        def keys(old: Object | None, new: Object | None) -> Iterable[Key]:
            return [*(key for each in (old, new) if each for key in self._parent_keys(each)), *of(old, new)]

        return Comparison(keys)

    def _keys_of_dnsconfig(self, old: Object | None, new: Object | None) -> Iterable[Key]:
        """Return Services when the cluster gets its first DNSConfig, or loses its only one; otherwise none.

        These are the Services whose status or Events say something about their names.
        """
        there = self._cache.all(DNSCONFIG)
        if bool(elected(there)) == bool(elected(before(there, old, new))):
            return ()
        asks = map(self._parse, self._cache.all(SERVICE))
        return [
            ask.key
            for ask in asks
            if self._names.holder(ask.service) or (ask.is_exposed and exposure.cluster_naming(ask).why)
        ]

    def _keys_of_suffixes(self, _suffixes: Object) -> Iterable[Key]:
        """Return the Services whose validity depends on the known suffixes."""
        return [key_of(service) for service in self._cache.all(SERVICE) if needs_suffix(service)]

    def _keys_of_device(self, device: Object) -> Iterable[Key]:
        """Yield the Services whose proxies have *device*, and those that lead to *device*."""
        yield from self._proxies.parents_of_device(device, PARENT_SERVICE)
        for alias in device["aliases"]:
            for service in self._cache.indexed(SERVICE, BY_DESTINATION, alias):
                yield key_of(service)
