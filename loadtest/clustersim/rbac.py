"""Decides by the rules of Roles and ClusterRoles what a user may do."""

import json
from itertools import product
from typing import NamedTuple

from clustersim.errors import ApiError, forbidden
from clustersim.kinds import Target
from clustersim.objects import Object, namespace_of

USER = "clustersim"
"""The user of the kubeconfig, whose token is the same word."""


class Right(NamedTuple):
    """One verb on one resource, which may be a subresource, in a namespace, or everywhere if that is empty.

    If *name* isn't empty, it is the right for the object of that name alone.
    """

    namespace: str
    group: str
    resource: str
    verb: str
    name: str = ""


class Rights:
    """The rights of `USER`, who may do everything as long as it has no role."""

    def __init__(self) -> None:
        self.granted: set[Right] = set()
        self.used: set[Right] = set()
        """The rights that let a request through."""
        self.denied: list[str] = []
        """What the user asked for and had no right to, in the API server's words."""

    def give(self, *roles: Object) -> None:
        """Give the rights of a Role in its namespace, those of a ClusterRole everywhere; wildcards have no effect."""
        for role in roles:
            for rule in role["rules"]:
                names = rule.get("resourceNames") or [""]
                for right in product(rule["apiGroups"], rule["resources"], rule["verbs"], names):
                    self.granted.add(Right(namespace_of(role), *right))

    def authorize(self, target: Target, verb: str) -> None:
        """Raise the 403 ApiError that a request of the user is answered with, if no rule allows it."""
        if not self.granted:
            return
        group, resource = target.resource.group, _resource(target)
        places = product(("", target.namespace), ("", target.name))
        needed = {Right(namespace, group, resource, verb, name) for namespace, name in places}
        if allowed := self.granted & needed:
            self.used |= allowed
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
