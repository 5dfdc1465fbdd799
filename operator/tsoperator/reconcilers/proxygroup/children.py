"""The rights of the Pods of a ProxyGroup (docs/development/proxies.md)."""

from collections.abc import Iterable

from tsoperator.api.names import CONFIG_SUFFIX
from tsoperator.api.objects import Object


def rules(group: str, ordinals: Iterable[int], others: Iterable[str] = ()) -> list[Object]:
    """Return the rules of the Role for the Secrets of the replicas of *group* with these *ordinals*, and for *others*.

    *others* are names of Secrets. Without any Secrets, no rule is about Secrets by name, because a rule without
    names would allow access to all Secrets.
    """
    secrets = [f"{group}-{each}{suffix}" for each in sorted(ordinals) for suffix in (CONFIG_SUFFIX, "")]
    secrets += others
    own = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": secrets, "verbs": ["get", "patch", "update"]}
    return [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"]},
        *([own] if secrets else []),
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch", "get"]},
    ]
