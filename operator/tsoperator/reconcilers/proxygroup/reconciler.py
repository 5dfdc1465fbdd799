"""Looks, decides, acts and reports for one ProxyGroup at a time."""

from collections.abc import Iterable, Mapping
from functools import partial

from tsoperator.api.names import CONDITION_PROXYGROUP_READY, CONFIG_SUFFIX, PARENT_PROXYGROUP
from tsoperator.api.objects import (
    CONFIGMAP,
    DEVICE,
    NODE,
    POD,
    PROXYCLASS,
    PROXYGROUP,
    ROLE,
    ROLEBINDING,
    SECRET,
    SERVICE,
    SERVICEACCOUNT,
    SERVICEMONITOR,
    STATEFULSET,
    TAILNET,
    Key,
    Object,
    Resource,
    key_of,
)
from tsoperator.group.egress import BY_SERVING_GROUP, by_serving_group, config_name, group_owner, replica_count
from tsoperator.proxy.proxy import Children
from tsoperator.reconcilers.proxies import Proxies
from tsoperator.reconcilers.proxygroup import desired
from tsoperator.reconcilers.proxygroup.children import in_order
from tsoperator.reconcilers.proxygroup.nodeports import ANY, BY_NODE_PORT, SUFFIX, has_static_endpoints
from tsoperator.runtime import unsupported
from tsoperator.runtime.apply import Applier
from tsoperator.runtime.manager import Mapper
from tsoperator.runtime.ownership import BY_METRICS_OWNER, BY_OWNER, is_anothers, owned_keys
from tsoperator.runtime.result import DONE, Result


class ProxyGroupReconciler:
    """Makes ProxyGroups and their proxies right, and alone writes their ConfigMaps."""

    name = "proxygroup"

    def __init__(self, proxies: Proxies, applier: Applier) -> None:
        self._proxies = proxies
        self._applier = applier
        self._cache = proxies.cache
        self._settings = proxies.settings
        owned = (CONFIGMAP, POD, ROLE, ROLEBINDING, SECRET, SERVICEACCOUNT, SERVICEMONITOR, STATEFULSET)
        self.watches: Mapping[Resource, Mapper] = {
            PROXYGROUP: lambda group: (key_of(group),),
            **dict.fromkeys(owned, self._parent_keys),
            SERVICE: self._keys_of_service,
            PROXYCLASS: self._keys_of_class,
            TAILNET: self._keys_of_tailnet,
            NODE: self._keys_of_node,
            DEVICE: lambda device: proxies.parents_of_device(device, PARENT_PROXYGROUP),
        }

    async def reconcile(self, key: Key) -> Result:
        """Make the cluster match the ProxyGroup named *key*."""
        group, owner = self._cache.get(PROXYGROUP, key), group_owner(key.name)
        if group is None:
            self._proxies.forget(owner)  # the garbage collector removes what it owned
            return DONE
        if desired.group_type(group) in desired.OTHER_TYPES:
            return await self._do_nothing(group)
        observed = self._observe(group)  # look
        wanted = desired.wanted(group, observed, self._settings)  # decide ...
        keys = await self._proxies.auth_keys(group, wanted, observed.children)  # (mint auth keys)
        plan = desired.plan(group, wanted, observed, self._settings, keys)  # ... decide
        failed = partial(desired.failed, observed)
        stored = await self._applier.act(group, plan, failed)  # act
        return await self._proxies.report(owner, stored, plan, failed)  # report

    async def _do_nothing(self, group: Object) -> Result:
        """Say that nothing is done for a group of this type."""
        kind = f"ProxyGroup of type {desired.group_type(group)}"
        plan = unsupported.plan_nothing(group, CONDITION_PROXYGROUP_READY, kind)
        stored = await self._applier.act(group, plan, unsupported.failed)
        return await self._applier.report(stored, plan, unsupported.failed)

    def _observe(self, group: Object) -> desired.Observed:
        name = key_of(group).name
        owner = group_owner(name)
        named = self._named(name, replica_count(group))
        children, tailnet = self._children(name, named), desired.tailnet_name(group)
        proxy_class = self._proxies.proxy_class(desired.class_name(group, self._settings))
        is_static = has_static_endpoints(proxy_class)
        return desired.Observed(
            children,
            named,
            self._cache.get(CONFIGMAP, Key(self._settings.namespace, config_name(name))),
            self._cache.indexed(SERVICE, BY_SERVING_GROUP, name),
            proxy_class,
            self._proxies.tailnet(tailnet, owner, children),
            node_ports=[*children.services, *self._cache.indexed(SERVICE, BY_NODE_PORT, ANY)] if is_static else (),
            nodes=self._cache.all(NODE) if is_static else (),
        )

    def _named(self, name: str, replicas: int) -> list[Object]:
        """Return the objects that have the names of children of the group called *name*, whoever they belong to."""
        secrets = [f"{name}-{ordinal}{suffix}" for ordinal in range(replicas) for suffix in ("", CONFIG_SUFFIX)]
        wanted = [
            *((resource, name) for resource in (SERVICEACCOUNT, ROLE, ROLEBINDING, STATEFULSET)),
            *((SECRET, secret) for secret in secrets),
            (CONFIGMAP, config_name(name)),
            (SERVICE, f"{name}-metrics"),
            *((SERVICE, f"{name}-{ordinal}{SUFFIX}") for ordinal in range(replicas)),
        ]
        found = (self._cache.get(resource, Key(self._settings.namespace, each)) for resource, each in wanted)
        return [each for each in found if each is not None]

    def _children(self, name: str, named: Iterable[Object]) -> Children:
        """Return the children of the group called *name*: those that are *named* so, and those of other ordinals."""
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

    def _parent_keys(self, child: Object) -> Iterable[Key]:
        return owned_keys(child, PARENT_PROXYGROUP, self._settings.namespace)

    def _keys_of_service(self, service: Object) -> Iterable[Key]:
        """Map a metrics Service, or the ClusterIP Service of an egress Service, to its group."""
        return [*self._parent_keys(service), *(Key("", name) for name in by_serving_group(service))]

    def _keys_of_class(self, proxy_class: Object) -> Iterable[Key]:
        name = key_of(proxy_class).name
        groups = self._cache.all(PROXYGROUP)
        return [key_of(each) for each in groups if desired.class_name(each, self._settings) == name]

    def _keys_of_tailnet(self, tailnet: Object) -> Iterable[Key]:
        name = key_of(tailnet).name
        return [key_of(each) for each in self._cache.all(PROXYGROUP) if desired.tailnet_name(each) == name]

    def _keys_of_node(self, node: Object) -> Iterable[Key]:
        """Map any node to the groups whose class has static endpoints: it may have matched the selector before."""
        del node
        classes = {key_of(each).name for each in self._cache.all(PROXYCLASS) if has_static_endpoints(each)}
        groups = self._cache.all(PROXYGROUP) if classes else ()
        return [key_of(each) for each in groups if desired.class_name(each, self._settings) in classes]
