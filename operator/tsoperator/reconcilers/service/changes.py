"""Finds the egress Services that a change of a ProxyGroup concerns.

A ProxyGroup can serve hundreds of Services, and its Pods, Secrets and ConfigMap change often, mostly for one of them.
So this module compares the relevant facts about the old and the new object, and returns only the Services whose facts
have changed.
"""

from collections.abc import Iterable, Mapping

from tsoperator.api.names import ANNOTATION_EGRESS_LEFT_OUT, PARENT_PROXYGROUP
from tsoperator.api.objects import SERVICE, Key, Object, annotations, is_deleting, key_of, uid
from tsoperator.group.egress import BY_ENTRY, BY_SERVING_GROUP, by_serving_group, indexed_entry, served_service
from tsoperator.group.grouptype import EGRESS
from tsoperator.group.ports import BY_PROXY_PORT, by_proxy_port
from tsoperator.group.proxygroup import BY_GROUP, is_available, replica_count
from tsoperator.proxy.entries import entries_of
from tsoperator.proxy.pod import is_down
from tsoperator.proxy.secret import egress_report_of
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.ownership import owner_of


class GroupChanges:
    """Finds the Services that a change of a ProxyGroup, or of one of its objects, concerns.

    In the arguments, None stands for an object that doesn't exist.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def of_group(self, old: Object | None, new: Object | None) -> Iterable[Key]:
        """Return all Services of a ProxyGroup if it was created, deleted, or changed in a way that matters to them."""
        name = next(key_of(each).name for each in (new, old) if each)
        return self._all(name) if _group_facts(old) != _group_facts(new) else ()

    def of_pod(self, old: Object | None, new: Object | None) -> Iterable[Key]:
        """Return all Services of a ProxyGroup if one of its Pods has changed in a way that matters to them.

        Such a Pod is new, about to leave, down, or no longer down, or it has another address.
        """
        group = _group_of(new or old)
        return self._all(group) if group and _pod_facts(old) != _pod_facts(new) else ()

    def of_secret(self, old: Object | None, new: Object | None) -> Iterable[Key]:
        """Return the Services about which a proxy has changed its report, if the Secret is a proxy's state Secret."""
        group = _group_of(new or old)
        if not group:
            return ()
        was, now = (egress_report_of(each) if each else None for each in (old, new))
        before, after = (report.entries if report else {} for report in (was, now))
        moved = was and now and (was.ip4, was.ip6) != (now.ip4, now.ip6)
        return self.having(group, {*before, *after} if moved else _changed(before, after))

    def of_configmap(self, old: Object | None, new: Object | None) -> Iterable[Key]:
        """Return the Services whose entries changed between two versions of an egress ConfigMap.

        Return no Services for other ConfigMaps. A Service that leaves the ProxyGroup waits for the end of its
        entry, so it is returned even if it no longer names the group.
        """
        group = _group_of(new or old)
        if not group or EGRESS.config_name(group) not in (key_of(each).name for each in (old, new) if each):
            return ()
        if _leaves_out(old) != _leaves_out(new):
            return self._all(group)
        after = entries_of(new)
        changed = _changed(entries_of(old), after)
        ended = {key for name in changed - after.keys() for key in _served_by(name)}
        return self.having(group, changed) | {key for key in ended if self._cache.get(SERVICE, key) is not None}

    def having(self, group: str, names: Iterable[str]) -> set[Key]:
        """Return the Services that ask for, or have, the entries with these names."""
        found = (self._cache.indexed(SERVICE, BY_ENTRY, indexed_entry(group, name)) for name in names)
        return {
            served_service(each) if any(by_serving_group(each)) else key_of(each) for some in found for each in some
        }

    def sharing(self, cluster_ip: Object) -> set[Key]:
        """Return the Services that have a target port of *cluster_ip*, if several Services have this port.

        The target ports are ports of the proxies. *cluster_ip* is an old or a new state of a ClusterIP Service.
        """
        found = (self._cache.indexed(SERVICE, BY_PROXY_PORT, port) for port in by_proxy_port(cluster_ip))
        return {served_service(each) for some in found if len(some) > 1 for each in some}

    def _all(self, group: str) -> set[Key]:
        placed = map(served_service, self._cache.indexed(SERVICE, BY_SERVING_GROUP, group))
        return {*map(key_of, self._cache.indexed(SERVICE, BY_GROUP, group)), *placed}


def _group_of(child: Object | None) -> str:
    """Return the name of the ProxyGroup that *child* belongs to; empty if it belongs to none."""
    owner = owner_of(child) if child else None
    return owner.key.name if owner and owner.type == PARENT_PROXYGROUP else ""


def _group_facts(group: Object | None) -> object:
    return group and (
        uid(group),
        group["spec"].get("type"),
        replica_count(group),
        is_available(group),
        is_deleting(group),
    )


def _pod_facts(pod: Object | None) -> object:
    return pod and (uid(pod), [each["ip"] for each in pod["status"]["podIPs"]], is_deleting(pod), is_down(pod))


def _leaves_out(configmap: Object | None) -> bool:
    return configmap is not None and ANNOTATION_EGRESS_LEFT_OUT in annotations(configmap)


def _served_by(entry: str) -> list[Key]:
    """Return the keys of all Services whose entry would be called *entry*.

    There can be several keys, because both the namespace and the name of a Service can have hyphens.
    """
    parts = entry.split("-")
    return [Key("-".join(parts[:count]), "-".join(parts[count:])) for count in range(1, len(parts))]


def _changed(old: Mapping[str, object], new: Mapping[str, object]) -> set[str]:
    return {name for name in {*old, *new} if old.get(name) != new.get(name)}
