"""Decides by the rules of Roles and ClusterRoles what a user may do."""

import json
from collections import defaultdict
from itertools import product

from clustersim.errors import ApiError, forbidden
from clustersim.kinds import Target
from clustersim.objects import Object, namespace_of

USER = "clustersim"
"""The user of the kubeconfig, whose token is the same word."""

_ALL = ""  # in place of the name of an object


class Rights:
    """The rights of `USER`, who may do everything as long as it has no role."""

    def __init__(self) -> None:
        self._names: defaultdict[tuple[str, str, str, str], set[str]] = defaultdict(set)
        self.denied: list[str] = []
        """What the user asked for and had no right to, in the API server's words."""

    def give(self, *roles: Object) -> None:
        """Give the rights of a Role in its namespace, those of a ClusterRole everywhere; wildcards have no effect."""
        for role in roles:
            for rule in role["rules"]:
                names = rule.get("resourceNames") or (_ALL,)
                for right in product(rule["apiGroups"], rule["resources"], rule["verbs"]):
                    self._names[namespace_of(role), *right].update(names)

    def authorize(self, target: Target, verb: str) -> None:
        """Raise the 403 ApiError that a request of the user is answered with, if no rule allows it."""
        if not self._names:
            return
        group, resource = target.resource.group, _resource(target)
        for namespace in {"", target.namespace}:
            names = self._names.get((namespace, group, resource, verb), ())
            if _ALL in names or target.name in names:
                return
        refusal = denied(target, verb)
        self.denied.append(refusal.message)
        raise refusal


def denied(target: Target, verb: str) -> ApiError:
    """Say that the user has no right to do *verb* with *target*."""
    where = f"in the namespace {json.dumps(target.namespace)}" if target.namespace else "at the cluster scope"
    what = f'cannot {verb} resource "{_resource(target)}" in API group "{target.resource.group}" {where}'
    return forbidden(target.resource, target.name, f'User "{USER}" {what}')


def _resource(target: Target) -> str:
    return f"{target.resource.plural}/{target.subresource}" if target.subresource else target.resource.plural
