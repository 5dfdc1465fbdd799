"""Finds the egress Services that a change of a ProxyGroup concerns.

A ProxyGroup may serve hundreds of Services, and its Pods, Secrets and ConfigMap change often, mostly for one of them.
So this module remembers the relevant facts about each object, and returns only the Services whose facts have changed.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tsoperator.api.names import ANNOTATION_EGRESS_LEFT_OUT, PARENT_PROXYGROUP
from tsoperator.api.objects import (
    CONFIGMAP,
    POD,
    PROXYGROUP,
    SECRET,
    SERVICE,
    Key,
    Object,
    Resource,
    annotations,
    is_deleting,
    key_of,
    uid,
)
from tsoperator.group.egress import BY_ENTRY, BY_SERVING_GROUP, by_serving_group, indexed_entry, served_service
from tsoperator.group.ports import BY_PROXY_PORT, by_proxy_port
from tsoperator.group.proxygroup import BY_GROUP, config_name, is_available, replica_count
from tsoperator.proxy.entries import Entry, entries_of
from tsoperator.proxy.pod import is_down
from tsoperator.proxy.secret import egress_report_of
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.ownership import owner_of


class GroupChanges:
    """Remembers facts about the objects of ProxyGroups, and maps their changes to Services."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._seen: dict[tuple[Resource, Key], Any] = {}

    def of_group(self, group: Object) -> Iterable[Key]:
        """Return all Services of *group* if it came, went, or has changed in a way that matters to them."""
        return self._all(key_of(group).name) if self._is_news(PROXYGROUP, group, _group_facts) else ()

    def of_pod(self, pod: Object) -> Iterable[Key]:
        """Return all Services of a ProxyGroup if *pod*, one of its Pods, came, leaves, moved, went down or is back."""
        group = _group_of(pod)
        return self._all(group) if group and self._is_news(POD, pod, _pod_facts) else ()

    def of_secret(self, secret: Object) -> Iterable[Key]:
        """Return the Services about which a proxy has changed its report, if *secret* is a proxy's state Secret."""
        group = _group_of(secret)
        if not group:
            return ()
        live = self._cache.get(SECRET, key_of(secret))
        new = egress_report_of(live) if live else None
        old = self._swap(SECRET, secret, new)
        before, after = (report.entries if report else {} for report in (old, new))
        moved = old and new and (old.ip4, old.ip6) != (new.ip4, new.ip6)
        return self.having(group, {*before, *after} if moved else _changed(before, after))

    def of_configmap(self, configmap: Object) -> Iterable[Key]:
        """Return the Services whose entries in *configmap* have changed, if it is an egress ConfigMap.

        A Service that leaves waits for the end of its entry, and may no longer name the ProxyGroup.
        """
        group = _group_of(configmap)
        if not group or key_of(configmap).name != config_name(group):
            return ()
        live = self._cache.get(CONFIGMAP, key_of(configmap))
        new = entries_of(live), live is not None and ANNOTATION_EGRESS_LEFT_OUT in annotations(live)
        old: tuple[Mapping[str, Entry], bool] = self._swap(CONFIGMAP, configmap, new) or ({}, False)
        if old[1] != new[1]:
            return self._all(group)
        changed = _changed(old[0], new[0])
        ended = {key for name in changed - new[0].keys() for key in _served_by(name)}
        return self.having(group, changed) | {key for key in ended if self._cache.get(SERVICE, key) is not None}

    def having(self, group: str, names: Iterable[str]) -> set[Key]:
        """Return the Services that ask for, or have, the entries with these names."""
        found = (self._cache.indexed(SERVICE, BY_ENTRY, indexed_entry(group, name)) for name in names)
        return {
            served_service(each) if any(by_serving_group(each)) else key_of(each) for some in found for each in some
        }

    def sharing(self, cluster_ip: Object) -> set[Key]:
        """Return the Services that share one of the proxies' ports of *cluster_ip*, an old or a new state of it."""
        found = (self._cache.indexed(SERVICE, BY_PROXY_PORT, port) for port in by_proxy_port(cluster_ip))
        return {served_service(each) for some in found if len(some) > 1 for each in some}

    def _all(self, group: str) -> set[Key]:
        placed = map(served_service, self._cache.indexed(SERVICE, BY_SERVING_GROUP, group))
        return {*map(key_of, self._cache.indexed(SERVICE, BY_GROUP, group)), *placed}

    def _is_news(self, resource: Resource, obj: Object, facts_of: Any) -> bool:
        live = self._cache.get(resource, key_of(obj))
        facts = facts_of(live) if live else None
        return bool(self._swap(resource, obj, facts) != facts)

    def _swap(self, resource: Resource, obj: Object, facts: Any) -> Any:
        """Remember *facts* about an object, and return the facts remembered before; None if there were none."""
        key = resource, key_of(obj)
        old = self._seen.pop(key, None)
        if self._cache.get(*key) is not None:
            self._seen[key] = facts
        return old


def _group_of(child: Object) -> str:
    """Return the ProxyGroup whose child *child* is; empty if it is none's."""
    owner = owner_of(child)
    return owner.key.name if owner and owner.type == PARENT_PROXYGROUP else ""


def _group_facts(group: Object) -> object:
    return uid(group), group["spec"].get("type"), replica_count(group), is_available(group), is_deleting(group)


def _pod_facts(pod: Object) -> object:
    return uid(pod), [each["ip"] for each in pod["status"]["podIPs"]], is_deleting(pod), is_down(pod)


def _served_by(entry: str) -> list[Key]:
    """Return the keys of all Services whose entry would be called *entry*: either name may have hyphens."""
    parts = entry.split("-")
    return [Key("-".join(parts[:count]), "-".join(parts[count:])) for count in range(1, len(parts))]


def _changed(old: Mapping[str, object], new: Mapping[str, object]) -> set[str]:
    return {name for name in {*old, *new} if old.get(name) != new.get(name)}
