"""Gathers the facts about a label in a tailnet, and finds the labels that a change concerns."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from tsoperator.api.device import domain_of
from tsoperator.api.names import LABEL_SECRET_TYPE, PARENT_PROXYGROUP, PROXY_GROUP, SECRET_TYPE_STATE
from tsoperator.api.objects import (
    CONFIGMAP,
    IDENTITY,
    INGRESS,
    PROXYGROUP,
    ROLE,
    ROLEBINDING,
    SECRET,
    SECRET_METADATA,
    SERVICE,
    STATEFULSET,
    TAILNET,
    TAILSCALE_SERVICE,
    Key,
    Object,
    annotations,
    is_deleting,
    key_of,
    labels,
    spec_of,
)
from tsoperator.api.tailscaleservice import PREFIX, service_name
from tsoperator.group.claims import LabelClaim, by_label, label_of
from tsoperator.group.hosted import is_host
from tsoperator.group.hosts import advertising, by_certificate, domain_of_group, may_be_certificates
from tsoperator.group.proxygroup import BY_GROUP
from tsoperator.proxy.hosting import hosted
from tsoperator.proxy.secret import advertised_services, fqdn_of, served_service_of
from tsoperator.proxy.serviceview import ServiceView
from tsoperator.reconcilers.hosting import HostingView, HostingWorld, tailnet_of
from tsoperator.reconcilers.tailscaleservice import plan as plans
from tsoperator.reconcilers.tailscaleservice.plan import Observed
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.clock import loop_time
from tsoperator.runtime.kind import Kind
from tsoperator.runtime.manager import Comparison, Watches
from tsoperator.runtime.ownership import owner_of
from tsoperator.runtime.plan import Plan, Refusal
from tsoperator.settings import Settings

NAME: Final = "TailscaleService"

WITHDRAWAL: Final = 30.0
"""The longest time, in seconds, for which a label without a claim waits for the proxies that still advertise it."""

_CONFIG_SUFFIX: Final = "-ingress-config"


def tailscaleservices(cache: Cache, settings: Settings, world: HostingWorld) -> Kind[Observed]:
    """Return the `Kind` of Tailscale Services, which also makes the objects of their certificates.

    Each of its keys names a tailnet and a label.
    """
    look, mappers = _Look(cache, settings, world), _Mappers(cache, settings, world)

    def plan(_obj: Object, observed: Observed) -> Plan:
        return plans.plan(observed)

    def refused(observed: Observed, _obj: Object, refusal: Refusal) -> Plan:
        return plans.refused(observed, refusal)

    def acted(_obj: Object, observed: Observed, made: Plan) -> None:
        look.note(observed, plans.pause_after(observed, made))
        if plans.has_settled(observed, made):
            world.settled(observed.tailnet, observed.label)

    watches: Watches = {
        **dict.fromkeys((INGRESS, SERVICE), Comparison(mappers.of_user)),
        PROXYGROUP: Comparison(mappers.of_group),
        CONFIGMAP: Comparison(mappers.of_configmap),
        SECRET: Comparison(mappers.of_secret),
        STATEFULSET: Comparison(mappers.of_statefulset),
        SECRET_METADATA: Comparison(mappers.of_strange_secret, at_start=False),
        **dict.fromkeys((ROLE, ROLEBINDING), mappers.of_certificate),
        TAILNET: mappers.of_tailnet,
        TAILSCALE_SERVICE: lambda service: (key_of(service),),
        IDENTITY: mappers.of_identity,
    }
    return Kind(None, watches, look.look, plan, refused, acted, name=NAME)


class _Look:
    """Gathers the facts about a label in a tailnet."""

    def __init__(self, cache: Cache, settings: Settings, world: HostingWorld) -> None:
        self._cache = cache
        self._settings = settings
        self._world = world
        self._view = HostingView(cache, settings, world)
        self._again: dict[Key, float] = {}  # the times of the next looks at labels, by the event loop's clock
        self._withdrawn: dict[Key, float] = {}  # when to give up waiting for proxies that still advertise a label

    def note(self, observed: Observed, seconds: float | None) -> None:
        """Remember to look at the label again after *seconds*; with None, do nothing."""
        if seconds is not None:
            self._again[observed.owner.key] = loop_time() + seconds

    def look(self, key: Key, _obj: Object) -> Observed:
        """Gather the facts about the label and the tailnet that *key* names."""
        tailnet, label = key
        name, view = service_name(label), self._view
        holders = {each: view.holder(each, label) for each in {tailnet, *self._world.tailnets()}}
        holder = self._as_it_runs(holders[tailnet])
        certificate = self._certificate(holder)
        secret = self._cache.get(SECRET, certificate) if certificate else None
        is_certificates = secret is not None and may_be_certificates(secret)
        shown = self._world.service(tailnet, label)
        is_reserved = holder is None and (view.is_reserved(tailnet, label) or self._is_elsewhere(shown, key, holders))
        is_used, leftovers = holder is None and view.uses(tailnet, name), [*self._leftovers(key, holders)]
        is_free = holder is None and not is_reserved and not is_used
        is_fading = self._is_fading(key, may_fade=is_free and bool(leftovers))
        return Observed(
            tailnet,
            label,
            shown,
            self._world.operator_id(),
            self._world.knows_id(),
            holder,
            is_reserved,
            is_used or is_fading,
            self._serves(tailnet, name),
            self._is_left_over(shown, tailnet),
            certificate,
            secret if is_certificates else None,
            None if is_certificates else secret,
            certificate is not None and self._cache.get(SECRET_METADATA, certificate) is not None,
            leftovers,
            self._pause(key, is_fading=is_fading),
        )

    def _is_fading(self, key: Key, *, may_fade: bool) -> bool:
        """Tell whether the removal of a label has to wait, because proxies still advertise it.

        If *may_fade* is true, nobody needs the label any more, and objects of its certificate are left. A proxy ceases
        to advertise the label only when the kubelet has mounted its changed config. The proxy that writes certificates
        has to see that the label is gone: if it doesn't, and a new Ingress gets the same label, the proxy looks at the
        new Secret only a day later. A proxy that doesn't run sees nothing, so the wait ends after `WITHDRAWAL`.
        """
        states = (
            state for group in self._view.groups_of(key.namespace) for state in self._view.states(key_of(group).name)
        )
        if not may_fade or not advertising(states, service_name(key.name)):
            self._withdrawn.pop(key, None)
            return False
        now = loop_time()
        return now < self._withdrawn.setdefault(key, now + WITHDRAWAL)

    def _pause(self, key: Key, *, is_fading: bool) -> float | None:
        """Return the seconds until the label has to be looked at again; None if it needn't be."""
        if is_fading:
            return self._withdrawn[key] - loop_time()
        pause = self._again.get(key, 0.0) - loop_time()
        if pause <= 0:
            self._again.pop(key, None)
        return pause if pause > 0 else None

    def _certificate(self, holder: LabelClaim | None) -> Key | None:
        """Return the key of the objects of the certificate for *holder*.

        Return None without a *holder*, if *holder* needs no certificate, or while the tailnet's domain isn't known.
        """
        domain = domain_of_group(self._view.states(holder.group)) if holder and holder.is_web else ""
        return Key(self._settings.namespace, f"{holder.label}.{domain}") if holder and domain else None

    def _is_elsewhere(self, shown: ServiceView, key: Key, holders: Mapping[str, LabelClaim | None]) -> bool:
        """Tell whether another claim has the same Tailscale Service.

        That is so if the claim is in the tailnet of another Tailnet object, and both objects describe the same tailnet.
        """
        addresses = shown.service.addresses if shown.service else ()
        others = (
            self._world.service(each, key.name).service for each in holders if each != key.namespace and holders[each]
        )
        return bool(addresses) and any(other is not None and other.addresses == addresses for other in others)

    def _as_it_runs(self, holder: LabelClaim | None) -> LabelClaim | None:
        """Return the claim *holder* with the ServiceAccount under which its proxies run now.

        The Pods of a ProxyGroup sometimes have to wait before they run under another ServiceAccount.
        """
        if holder is None or holder.sole_owner is None:
            return holder
        live = self._cache.get(STATEFULSET, Key(self._settings.namespace, holder.group))
        return replace(holder, account=_account(live) or holder.account)

    def _is_left_over(self, shown: ServiceView, tailnet: str) -> bool:
        """Tell whether no object that claims the label of a Tailscale Service can have it, and no proxy uses it."""
        service = shown.service
        if service is None or not shown.tells_owner or self._view.is_wanted(tailnet, service):
            return False
        return not self._view.uses(tailnet, service.name)

    def _serves(self, tailnet: str, name: str) -> bool:
        """Tell whether proxies in a tailnet end TLS for the Tailscale Service *name*."""
        groups = [key_of(group).name for group in self._view.groups_of(tailnet)]
        if any(name in hosted(self._cache.get(CONFIGMAP, self._config(group))).served for group in groups):
            return True
        return any(name == served_service_of(config) for group in groups for config in self._view.configs(group))

    def _config(self, group: str) -> Key:
        return Key(self._settings.namespace, f"{group}{_CONFIG_SUFFIX}")

    def _leftovers(self, key: Key, holders: Mapping[str, LabelClaim | None]) -> Iterator[Object]:
        """Yield the objects of certificates that no claim on the label needs, and that belong to this tailnet.

        An object names a group, and the group tells the tailnet of the object. If that group is gone, the
        object can belong to any tailnet.
        """
        found = self._view.certificates(key.name)
        if not found:
            return
        needed = {each: self._certificate(holder) for each, holder in holders.items() if holder and holder.is_web}
        is_vague = None in needed.values() or any(
            self._view.tailnet(each) is None for each in self._view.reserving(key.name)
        )
        for each in found:
            group = self._view.group(labels(each).get(PROXY_GROUP, ""))
            if group is None:
                is_left = not is_vague and key_of(each) not in needed.values()
            else:
                is_left = tailnet_of(group) == key.namespace and key_of(each) != needed.get(key.namespace)
            if is_left:
                yield each


class _Mappers:
    """Finds the keys, each of a tailnet and a label, that a change concerns."""

    def __init__(self, cache: Cache, settings: Settings, world: HostingWorld) -> None:
        self._cache = cache
        self._settings = settings
        self._world = world
        self._view = HostingView(cache, settings, world)

    def of_user(self, old: Object | None, new: Object | None) -> Iterable[Key]:
        """Return the label that an Ingress or a Service claims, in the tailnet of the ProxyGroup that it names.

        If a change gives it another claim, return the label of the old claim, too. If a change doesn't matter to its
        claim, return none.
        """
        given = [
            each
            for each in (old, new)
            if each is not None and annotations(each).get(PROXY_GROUP) and any(by_label(each))
        ]
        if len(given) == 2 and _asked(given[0]) == _asked(given[1]):
            return ()
        return {key for each in given for key in self._keys_of(each)}

    def of_group(self, old: Object | None, new: Object | None) -> Iterable[Key]:
        """Return the labels of a ProxyGroup that has been created or deleted, or that has another tailnet or claim.

        These are the labels of the group, its objects and its proxies. Return them in all tailnets, because the objects
        of a missing ProxyGroup keep their Tailscale Services in all tailnets. Return also an empty label in the
        ProxyGroup's tailnet, so that the list of the Tailscale Services there is read.
        """
        there = [each for each in (old, new) if each is not None and is_host(each)]
        if not there or (len(there) == 2 and _asked_of_group(there[0]) == _asked_of_group(there[1])):
            return ()
        tailnets = {*map(tailnet_of, there), *self._world.tailnets()}
        labels = {label for each in there for label in self._labels_of(each)}
        found = {Key(tailnet, label) for label in labels for tailnet in tailnets}
        return found | {Key(tailnet_of(each), "") for each in there}  # for the list of its Services

    def of_configmap(self, old: Object | None, new: Object | None) -> Iterable[Key]:
        """Return the labels whose entries a change of the ConfigMap of an ingress group has added or removed."""
        obj = new or old or {}
        key = key_of(obj)
        if key.namespace != self._settings.namespace or not key.name.endswith(_CONFIG_SUFFIX):
            return ()
        before, after = hosted(old), hosted(new)
        names = {*before.rules} ^ {*after.rules} | {*before.served} ^ {*after.served}
        return self._in_group(key.name.removesuffix(_CONFIG_SUFFIX), map(_label, names))

    def of_secret(self, old: Object | None, new: Object | None) -> Iterable[Key]:
        """Return the labels that a change of the Secret of a certificate or of a proxy concerns.

        The Secret of a certificate concerns the label of the certificate. The Secret of a proxy concerns the labels of
        those Tailscale Services that the change has added to the Secret, or removed from it. But if it is a state
        Secret, and the proxy now reports another domain, it concerns all labels that the group or its objects claim.
        """
        obj = new or old or {}
        if any(each is not None and by_certificate(each) for each in (old, new)):
            is_same = old is not None and new is not None and old["metadata"]["labels"] == new["metadata"]["labels"]
            return () if is_same else {key for each in (old, new) if each for key in self.of_certificate(each)}
        owner = owner_of(obj)
        if owner is None or owner.type != PARENT_PROXYGROUP or obj["metadata"]["namespace"] != self._settings.namespace:
            return ()
        group = self._view.group(owner.key.name)
        if group is not None and not is_host(group):
            return ()
        if labels(obj).get(LABEL_SECRET_TYPE) == SECRET_TYPE_STATE and _domain(old) != _domain(new):
            claimed = [each.label for each in self._view.claims_of_group(owner.key.name)]
            return self._in_group(owner.key.name, [*claimed, *(by_label(group) if group else ())])
        return self._in_group(owner.key.name, map(_label, _told(old) ^ _told(new)))

    def of_statefulset(self, old: Object | None, new: Object | None) -> Iterable[Key]:
        """Return the label that a ProxyGroup claims, if the ServiceAccount of its StatefulSet changes."""
        owner = owner_of(new or old or {})
        if owner is None or owner.type != PARENT_PROXYGROUP or _account(old) == _account(new):
            return ()
        group = self._view.group(owner.key.name)
        return self._in_group(owner.key.name, by_label(group)) if group else ()

    def of_strange_secret(self, old: Object | None, new: Object | None) -> Iterable[Key]:
        """Return the label whose certificate needs the name of a Secret that has been created or deleted.

        The Secret lacks our labels, so it is perhaps somebody else's.
        """
        if old is not None and new is not None:
            return ()
        key = key_of(new or old or {})
        label, dot, _ = key.name.partition(".")
        if key.namespace != self._settings.namespace or not dot:
            return ()
        return {each for claim in self._view.claims_on(label) for each in self._in_group(claim.group, (label,))}

    def of_certificate(self, obj: Object) -> Iterable[Key]:
        """Return the label of the certificate to which *obj* belongs."""
        if obj["metadata"]["namespace"] != self._settings.namespace:
            return ()
        return self._in_group(labels(obj).get(PROXY_GROUP, ""), by_certificate(obj))

    def of_tailnet(self, tailnet: Object) -> Iterable[Key]:
        """Return the labels of all groups in *tailnet*."""
        groups = self._view.groups_of(key_of(tailnet).name)
        return {Key(tailnet_of(each), label) for each in groups for label in self._labels_of(each)}

    def of_identity(self, _identity: Object) -> Iterable[Key]:
        """Return the labels of all groups, and the labels of all Tailscale Services that the operator knows."""
        groups = [each for each in self._cache.all(PROXYGROUP) if is_host(each)]
        found = {Key(tailnet_of(each), label) for each in groups for label in self._labels_of(each)}
        return found | {*self._world.known()}

    def _keys_of(self, obj: Object) -> Iterator[Key]:
        """Yield the key of the Tailscale Service that *obj*, an Ingress or a Service, asks for.

        If the ProxyGroup of *obj* is missing, its tailnet isn't known. Then yield the key in each tailnet.
        """
        yield from self._in_group(annotations(obj)[PROXY_GROUP], (label_of(obj),))

    def _in_group(self, name: str, found: Iterable[str]) -> set[Key]:
        """Return the keys of the labels *found* in the tailnet of the group *name*.

        If that tailnet isn't known, return the keys in all tailnets.
        """
        group = self._view.group(name)
        tailnets = [tailnet_of(group)] if group is not None and is_host(group) else [*self._world.tailnets()]
        return {Key(tailnet, label) for label in found for tailnet in tailnets}

    def _labels_of(self, group: Object) -> set[str]:
        """Return the labels of a group: those that it or its objects claim, and those that its proxies have."""
        name = key_of(group).name
        configmap = self._cache.get(CONFIGMAP, Key(self._settings.namespace, f"{name}{_CONFIG_SUFFIX}"))
        advertised = (each for config in self._view.configs(name) for each in _told(config))
        claimed = {label_of(obj) for kind in (INGRESS, SERVICE) for obj in self._cache.indexed(kind, BY_GROUP, name)}
        return claimed | {*by_label(group)} | {_label(each) for each in (*hosted(configmap).names, *advertised)}


def _asked(obj: Object) -> object:
    """Return the fields of an Ingress or a Service that decide about its claim."""
    metadata = obj["metadata"]
    return annotations(obj), spec_of(obj), metadata.get("finalizers"), is_deleting(obj)


def _asked_of_group(group: Object) -> object:
    """Return the tailnet of a ProxyGroup, and the fields that decide about its own claim, if it has one."""
    return tailnet_of(group), _asked(group) if any(by_label(group)) else None


def _told(secret: Object | None) -> set[str]:
    """Return the names of the Tailscale Services in the slim Secret of a proxy.

    These are the ones that the proxy advertises, and the one by which it should serve the Kubernetes API, if any.
    """
    return {*advertised_services(secret), served_service_of(secret)} - {""} if secret else set()


def _account(statefulset: Object | None) -> str:
    """Return the ServiceAccount of the Pods of a StatefulSet; empty if there is none."""
    spec = statefulset["spec"]["template"]["spec"] if statefulset else {}
    return str(spec.get("serviceAccountName", ""))


def _domain(state: Object | None) -> str:
    """Return the domain of the device that a slim state Secret reports; empty if there is none."""
    return domain_of(fqdn_of(state)) if state else ""


def _label(name: str) -> str:
    return name.removeprefix(PREFIX).lower()
