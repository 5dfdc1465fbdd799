"""The facts about a ProxyGroup that matter to the objects that it serves (docs/development/groups.md)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tsoperator.api.conditions import is_true
from tsoperator.api.names import CONDITION_PROXYGROUP_AVAILABLE, CONFIG_SUFFIX, PARENT_PROXYGROUP, PROXY_GROUP
from tsoperator.api.objects import Key, Object, annotations, key_of, spec_of
from tsoperator.proxy.entries import Entry, ProxyReport, entries_of
from tsoperator.proxy.replica import REPLICAS_MAX
from tsoperator.runtime.ownership import Owner

BY_GROUP: Final = "group"
"""The index of users' Services and Ingresses by the ProxyGroup that they name."""

DEFAULT_REPLICAS: Final = 2


@dataclass(frozen=True, slots=True)
class Group:
    """The facts about a ProxyGroup, its ConfigMap and its Pods that matter to the objects that the group serves.

    *obj* and *configmap* are None if they don't exist. *reports* are the reports of the proxies, by the names of their
    Pods. *new* has the UIDs of newcomers, with the number of seconds for which each of them remains a newcomer.
    """

    name: str
    obj: Object | None = None
    configmap: Object | None = None
    pods: Sequence[Object] = ()
    reports: Mapping[str, ProxyReport] = field(default_factory=dict)
    new: Mapping[str, float] = field(default_factory=dict)

    def entry(self, name: str) -> Entry | None:
        """Return the entry called *name* in the ConfigMap; None if there is none."""
        return entries_of(self.configmap).get(name)


def group_owner(name: str) -> Owner:
    """Return the owner of the children of the ProxyGroup called *name*."""
    return Owner(PARENT_PROXYGROUP, Key("", name))


def replica_count(group: Object) -> int:
    """Return the number of proxies that the ProxyGroup *group* should have. The group can be invalid."""
    count = spec_of(group).get("replicas")
    return min(count, REPLICAS_MAX) if isinstance(count, int) and count >= 0 else DEFAULT_REPLICAS


def is_available(group: Object) -> bool:
    """Tell whether the condition of the ProxyGroup *group* says that at least one of its proxies runs.

    The condition counts even if it is about an earlier generation of the group.
    """
    return is_true(group, CONDITION_PROXYGROUP_AVAILABLE)


def in_order(named: Iterable[Object], group: str) -> list[Object]:
    """Return the Pods or Secrets among *named* whose names are those of replicas of *group*, by ordinal.

    The state Secret of a replica comes before its config Secret.
    """
    found: list[tuple[int, str, Object]] = []
    for each in named:
        name = key_of(each).name
        stem, _, ordinal = name.removesuffix(CONFIG_SUFFIX).rpartition("-")
        if stem == group and ordinal.isdecimal():
            found.append((int(ordinal), name, each))
    return [each for _, _, each in sorted(found, key=lambda item: item[:2])]


def by_group(obj: Object) -> Iterable[str]:
    """Return the values for the index `BY_GROUP`: the name of the ProxyGroup that *obj* names, or nothing.

    *obj* is a user's Service or Ingress.
    """
    name = annotations(obj).get(PROXY_GROUP)
    return (name,) if name else ()
