"""Decides by the rules of Roles and ClusterRoles whether a user is allowed to make a request."""

import json
from itertools import product
from typing import NamedTuple

from clustersim.errors import ApiError, forbidden
from clustersim.kinds import Target
from clustersim.objects import Object, namespace_of

USER = "clustersim"
"""The name of the kubeconfig's user. It is also the user's token."""


class Right(NamedTuple):
    """The right to one verb on one resource or subresource, in a namespace, or everywhere if *namespace* is "".

    A *name* that isn't "" limits the right to the object of that name.
    """

    namespace: str
    group: str
    resource: str
    verb: str
    name: str = ""


class Rights:
    """The rights of `USER`. Until `give` has given a role to this user, the user is allowed to do everything."""

    def __init__(self) -> None:
        self.granted: set[Right] = set()
        self.used: set[Right] = set()
        """The rights that have allowed at least one request."""
        self.denied: list[str] = []
        """The messages about requests that were denied to the user."""

    def give(self, *roles: Object) -> None:
        """Give the user the rights in *roles*: those in a Role for its namespace, those in a ClusterRole everywhere.

        Unlike on a real API server, the wildcard ``*`` in a rule matches nothing.
        """
        for role in roles:
            for rule in role["rules"]:
                names = rule.get("resourceNames") or [""]
                for right in product(rule["apiGroups"], rule["resources"], rule["verbs"], names):
                    self.granted.add(Right(namespace_of(role), *right))

    def authorize(self, target: Target, verb: str) -> None:
        """Raise ApiError 403 if no rule allows the user to do *verb* with *target*."""
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
    """Return the error for a user who has no right to do *verb* with the object *target*."""
    where = f"in the namespace {json.dumps(target.namespace)}" if target.namespace else "at the cluster scope"
    what = f'cannot {verb} resource "{_resource(target)}" in API group "{target.resource.group}" {where}'
    return forbidden(target.resource, target.name, f'User "{USER}" {what}')


def _resource(target: Target) -> str:
    return f"{target.resource.plural}/{target.subresource}" if target.subresource else target.resource.plural
