"""Gathers the facts about ProxyGroups that `plan` needs."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from tsoperator.api.names import (
    AUTH_PROXY_SERVICE_ACCOUNT,
    CONFIG_SUFFIX,
    LABEL_SECRET_TYPE,
    PARENT_PROXYGROUP,
    SECRET_TYPE_CONFIG,
    SECRET_TYPE_STATE,
)
from tsoperator.api.objects import (
    CONFIGMAP,
    DEVICE,
    ENDPOINTSLICE,
    IDENTITY,
    INGRESS,
    NODE,
    POD,
    PROXYCLASS,
    PROXYGROUP,
    ROLE,
    ROLEBINDING,
    SECRET,
    SECRET_METADATA,
    SERVICE,
    SERVICEACCOUNT,
    SERVICEMONITOR,
    STATEFULSET,
    TAILNET,
    TAILSCALE_SERVICE,
    Key,
    Object,
    Resource,
    key_of,
    labels,
)
from tsoperator.group.egress import BY_SERVING_GROUP, by_serving_group
from tsoperator.group.exposing import Offer, offer
from tsoperator.group.proxygroup import group_owner, in_order, replica_count
from tsoperator.kube.watch import Selection
from tsoperator.proxy.proxy import Children
from tsoperator.reconcilers.hosting import HostingView
from tsoperator.reconcilers.proxies import Proxies, Seen
from tsoperator.reconcilers.proxygroup import plan as plans
from tsoperator.reconcilers.proxygroup.accounts import account_key
from tsoperator.reconcilers.proxygroup.ask import Ask, class_name, parse
from tsoperator.reconcilers.proxygroup.exposed import ExposedChanges, ExposedView
from tsoperator.reconcilers.proxygroup.nodeports import (
    ANY,
    BY_NODE_PORT,
    SUFFIX,
    by_node_port,
    has_static_endpoints,
    slim_node,
)
from tsoperator.runtime.cache import Source
from tsoperator.runtime.gathering import Gathering
from tsoperator.runtime.kind import Kind
from tsoperator.runtime.manager import Comparison, Watches
from tsoperator.runtime.ownership import BY_METRICS_OWNER, BY_OWNER, is_anothers, owned_keys
from tsoperator.runtime.plan import Plan

NODES: Final = Source(Selection(NODE), slim=slim_node, optional=True)
"""The nodes of the cluster, without those parts that this kind doesn't read."""


def proxygroups(proxies: Proxies, hosting: HostingView) -> Kind[Seen[Ask, plans.Observed] | Plan]:
    """Return the `Kind` of ProxyGroups, which makes their proxies and writes their ConfigMaps."""
    view, changes = _View(proxies, hosting), ExposedChanges(proxies.cache, proxies.settings)

    def of_service(old: Object | None, new: Object | None) -> set[Key]:
        children = (key for each in (old, new) if each is not None for key in view.keys_of_service(each))
        return {*children, *changes.of_claimant(old, new), *changes.of_backend(old, new)}

    owned = (CONFIGMAP, POD, ROLE, ROLEBINDING, SERVICEMONITOR, STATEFULSET)
    watches: Watches = {
        PROXYGROUP: Comparison(changes.of_group),
        **dict.fromkeys(owned, view.parent_keys),
        SERVICEACCOUNT: view.keys_of_account,
        SECRET: lambda secret: [*view.keys_of_secret(secret), *changes.of_certificate(secret)],
        SERVICE: Comparison(of_service),
        INGRESS: Comparison(changes.of_claimant),
        ENDPOINTSLICE: Comparison(changes.of_slice),
        TAILSCALE_SERVICE: changes.of_tailscale_service,
        IDENTITY: changes.all,
        PROXYCLASS: proxies.naming(PROXYGROUP, "proxyClass", proxies.settings.proxy_class),
        TAILNET: proxies.naming(PROXYGROUP, "tailnet"),
        NODE: view.keys_of_node,
        DEVICE: lambda device: proxies.parents_of_device(device, PARENT_PROXYGROUP),
    }
    kind = proxies.kind(PROXYGROUP, watches, parse, view.look, plans, left=proxies.collected)
    return replace(
        kind,
        sources=[NODES],
        indexes={SERVICE: {BY_NODE_PORT: by_node_port}},
        gathering=Gathering(0.05, 0.5),  # a burst of changes should cause one write of the ConfigMap
    )


class _View:
    """Gathers the facts about ProxyGroups, and finds the ProxyGroups that a change concerns."""

    def __init__(self, proxies: Proxies, hosting: HostingView) -> None:
        self._proxies = proxies
        self._exposed = ExposedView(proxies.cache, proxies.settings, hosting)
        self._cache = proxies.cache
        self._settings = proxies.settings
        self._auth_proxy = Key(proxies.settings.namespace, AUTH_PROXY_SERVICE_ACCOUNT)

    def look(self, ask: Ask) -> plans.Observed:
        """Gather the facts about a ProxyGroup."""
        name = ask.key.name
        config = ask.type.config_name(name)
        named = self._named(ask, config, replica_count(ask.group))
        children = self._children(name, named)
        proxy_class = self._proxies.proxy_class(ask.class_name)
        configmap = self._cache.get(CONFIGMAP, Key(self._settings.namespace, config))
        is_static = has_static_endpoints(proxy_class)
        return plans.Observed(
            children,
            named,
            configmap,
            self._cache.indexed(SERVICE, BY_SERVING_GROUP, name),
            proxy_class,
            self._proxies.tailnet(ask.tailnet, ask.owner, children),
            node_ports=[*children.services, *self._cache.indexed(SERVICE, BY_NODE_PORT, ANY)] if is_static else (),
            nodes=self._cache.all(NODE) if is_static else (),
            offer=offer(self._exposed.look(ask.group, children, configmap)) if ask.type.exposes else Offer(),
            account=self._account() if ask.type.shares_account(ask.group, self._settings) else None,
            api=self._exposed.look_at_api(ask.group, children) if ask.type.offers_api else None,
            misnamed=self._misnamed(name) if ask.type.offers_api else (),
            lacks_account=not ask.has_account and self._cache.get(SERVICEACCOUNT, self._auth_proxy) is None,
        )

    def _account(self) -> Object | None:
        """Return the Secret with the ACME accounts that groups share; None if it doesn't exist.

        If the Secret lacks the label of our objects, only its metadata is known.
        """
        key = account_key(self._settings.namespace)
        if secret := self._cache.get(SECRET, key):
            return secret
        found = self._cache.get(SECRET_METADATA, key)
        return {**found, "apiVersion": SECRET.api_version, "kind": SECRET.kind} if found else None

    def _named(self, ask: Ask, config: str, replicas: int) -> list[Object]:
        """Return the objects that have the names of children of a ProxyGroup, whoever made them.

        *config* is the name of its ConfigMap, if it has one.
        """
        name = ask.key.name
        secrets = [f"{name}-{ordinal}{suffix}" for ordinal in range(replicas) for suffix in ("", CONFIG_SUFFIX)]
        wanted = [
            *((resource, name) for resource in (ROLE, ROLEBINDING, STATEFULSET)),
            *([(SERVICEACCOUNT, name)] if ask.has_account else ()),
            *((SECRET, secret) for secret in secrets),
            *([(CONFIGMAP, config)] if config else ()),
            (SERVICE, f"{name}-metrics"),
            *((SERVICE, f"{name}-{ordinal}{SUFFIX}") for ordinal in range(replicas)),
        ]
        found = (self._cache.get(resource, Key(self._settings.namespace, each)) for resource, each in wanted)
        return [each for each in found if each is not None]

    def _children(self, name: str, named: Iterable[Object]) -> Children:
        """Return the children of the ProxyGroup called *name*.

        They are those objects among *named* that belong to the group, and the objects of surplus replicas.
        """
        owner = group_owner(name)

        def labelled(resource: Resource, index: str = BY_OWNER) -> list[Object]:
            return self._cache.indexed(resource, index, str(owner))

        ours = [each for each in [*labelled(SECRET), *named] if not is_anothers(each, owner)]
        secrets = {key_of(each): each for each in ours if each["kind"] == SECRET.kind}
        pods = in_order(labelled(POD), name)
        return Children(
            services=[each for each in labelled(SERVICE) if not is_anothers(each, owner)],
            statefulsets=[each for each in ours if each["kind"] == STATEFULSET.kind],
            secrets=in_order(secrets.values(), name),
            pods=pods,
            metrics=[*labelled(SERVICE, BY_METRICS_OWNER), *labelled(SERVICEMONITOR, BY_METRICS_OWNER)],
            overdue=self._proxies.overdue(pods),
        )

    def _misnamed(self, name: str) -> list[Object]:
        """Return the Secrets with the labels of a replica of the ProxyGroup called *name*, but no name of a replica."""
        labelled = self._cache.indexed(SECRET, BY_OWNER, str(group_owner(name)))
        fine = {*map(key_of, in_order(labelled, name))}
        kinds = (SECRET_TYPE_CONFIG, SECRET_TYPE_STATE)
        return [each for each in labelled if labels(each).get(LABEL_SECRET_TYPE) in kinds and key_of(each) not in fine]

    def parent_keys(self, child: Object) -> Iterable[Key]:
        return owned_keys(child, PARENT_PROXYGROUP, self._settings.namespace)

    def keys_of_account(self, account: Object) -> Iterable[Key]:
        """Return the group of *account*; for the chart's ServiceAccount, all groups whose Pods run under it."""
        if key_of(account) != self._auth_proxy:
            return self.parent_keys(account)
        asked = (parse(each, self._settings) for each in self._cache.all(PROXYGROUP))
        return [each.key for each in asked if not each.has_account]

    def keys_of_secret(self, secret: Object) -> Iterable[Key]:
        """Return the group of *secret*; for the Secret with the shared ACME accounts, all groups."""
        if key_of(secret) == account_key(self._settings.namespace):
            return [key_of(each) for each in self._cache.all(PROXYGROUP)]
        return self.parent_keys(secret)

    def keys_of_service(self, service: Object) -> Iterable[Key]:
        """Return the group of *service*, a child of the group or the ClusterIP Service of an egress Service."""
        return [*self.parent_keys(service), *(Key("", name) for name in by_serving_group(service))]

    def keys_of_node(self, node: Object) -> Iterable[Key]:
        """Return the groups whose class has static endpoints, whichever *node* has changed.

        The selector of the class doesn't matter, because it can have matched the node before the node changed.
        """
        del node
        classes = {key_of(each).name for each in self._cache.all(PROXYCLASS) if has_static_endpoints(each)}
        groups = self._cache.all(PROXYGROUP) if classes else ()
        return [key_of(each) for each in groups if class_name(each, self._settings) in classes]
