"""The rights of the Pods of a ProxyGroup, and the order of their Secrets (docs/development/proxies.md)."""

from collections.abc import Iterable

from tsoperator.api.names import CONFIG_SUFFIX
from tsoperator.api.objects import Object, key_of


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


def rules(group: str, ordinals: Iterable[int]) -> list[Object]:
    """Return the rules of the Role for the Secrets of the replicas of *group* with these *ordinals*.

    Without ordinals there are no rules, because a rule without names would allow access to all Secrets.
    """
    secrets = [f"{group}-{each}{suffix}" for each in sorted(ordinals) for suffix in (CONFIG_SUFFIX, "")]
    own = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": secrets, "verbs": ["get", "patch", "update"]}
    return [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"]},
        *([own] if secrets else []),
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch", "get"]},
    ]
