"""The facts about Ingresses and Services that ProxyGroups expose, for the reconcilers that share them."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tsoperator.api.names import LABEL_SECRET_TYPE, SECRET_TYPE_CERTS, SECRET_TYPE_STATE
from tsoperator.api.objects import (
    CONFIGMAP,
    INGRESS,
    PROXYGROUP,
    SECRET,
    SERVICE,
    Key,
    Object,
    key_of,
    labels,
    spec_text,
)
from tsoperator.group.claims import BY_LABEL, LabelClaim, claim_of, label_of, winner
from tsoperator.group.hosted import TYPE, Hosting, is_owned
from tsoperator.group.hosts import BY_CERTIFICATE, NO_SERVICE, ServiceView, domain_of_group
from tsoperator.group.proxygroup import BY_GROUP, group_owner, in_order
from tsoperator.proxy.hosting import hosted
from tsoperator.proxy.secret import advertised_services
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.ownership import BY_OWNER
from tsoperator.settings import Settings


class HostingWorld(NamedTuple):
    """The facts from outside of the cluster.

    *service* returns the view of a Tailscale Service, by its tailnet and its label. *tailnets* returns the names of the
    tailnets that are registered. *operator_id* returns the ID of the operator, and *no_identity* why it has none.
    """

    service: Callable[[str, str], ServiceView]
    tailnets: Callable[[], Iterable[str]]
    operator_id: Callable[[], str]
    no_identity: Callable[[], str]


class HostingView:
    """Gathers the facts about the objects that ProxyGroups expose, and finds the objects that a change concerns."""

    def __init__(self, cache: Cache, settings: Settings, world: HostingWorld) -> None:
        self.world = world
        self._cache = cache
        self._settings = settings

    def look(self, obj: Object) -> Hosting | None:
        """Return the facts about an Ingress or a Service; None if it asks for no ProxyGroup to expose it."""
        claim = claim_of(obj, self._settings)
        return self.of(claim) if claim else None

    def of(self, claim: LabelClaim) -> Hosting:
        """Return the facts about the object of *claim*."""
        group = self.group(claim.group)
        states = self.states(claim.group)
        tailnet = tailnet_of(group) if group else None
        return Hosting(
            claim,
            group,
            NO_SERVICE if tailnet is None else self.world.service(tailnet, claim.label),
            None if tailnet is None else self.holder(tailnet, claim.label),
            states,
            domain_of_group(states),
            self.world.operator_id(),
            self.world.no_identity(),
        )

    def group(self, name: str) -> Object | None:
        """Return the ProxyGroup called *name*, if it exists."""
        return self._cache.get(PROXYGROUP, Key("", name))

    def groups_of(self, tailnet: str) -> list[Object]:
        """Return the ProxyGroups of type ingress in a tailnet."""
        groups = self._cache.all(PROXYGROUP)
        return [each for each in groups if spec_text(each, "type") == TYPE and tailnet_of(each) == tailnet]

    def states(self, group: str) -> list[Object]:
        """Return the *slim* state Secrets of the ProxyGroup called *group*, by ordinal."""
        return [each for each in self._secrets(group) if _secret_type(each) == SECRET_TYPE_STATE]

    def configs(self, group: str) -> list[Object]:
        """Return the *slim* config Secrets of the ProxyGroup called *group*, by ordinal."""
        return [
            each for each in self._secrets(group) if _secret_type(each) not in (SECRET_TYPE_STATE, SECRET_TYPE_CERTS)
        ]

    def claims_on(self, label: str) -> Iterator[LabelClaim]:
        """Yield the claims of all objects on *label*, in all tailnets."""
        for resource in (INGRESS, SERVICE):
            for obj in self._cache.indexed(resource, BY_LABEL, label):
                if claim := claim_of(obj, self._settings):
                    yield claim

    def holder(self, tailnet: str, label: str) -> LabelClaim | None:
        """Return the claim that has *label* in a tailnet; None if no claim counts there."""
        return winner(each for each in self.claims_on(label) if self.tailnet(each) == tailnet)

    def tailnet(self, claim: LabelClaim) -> str | None:
        """Return the name of the tailnet of *claim*; None if it names no ProxyGroup of type ingress."""
        group = self.group(claim.group)
        return tailnet_of(group) if group and spec_text(group, "type") == TYPE else None

    def claims_of_group(self, group: str) -> Iterator[LabelClaim]:
        """Yield the claims of all objects that name the ProxyGroup called *group*."""
        for resource in (INGRESS, SERVICE):
            for obj in self._cache.indexed(resource, BY_GROUP, group):
                if claim := claim_of(obj, self._settings):
                    yield claim

    def uses(self, tailnet: str, name: str) -> bool:
        """Tell whether a ProxyGroup of a tailnet has an entry for the Tailscale Service *name*, or advertises it."""
        return any(self._has(key_of(group).name, name) for group in self.groups_of(tailnet))

    def _has(self, group: str, name: str) -> bool:
        configmap = self._cache.get(CONFIGMAP, Key(self._settings.namespace, f"{group}-ingress-config"))
        advertised = (advertised_services(each) for each in self.configs(group))
        return name in hosted(configmap).names or any(name in each for each in advertised)

    def certificates(self, label: str) -> list[Object]:
        """Return the *slim* Secrets with certificates for names that begin with *label*, in all tailnets."""
        return self._cache.indexed(SECRET, BY_CERTIFICATE, label)

    def is_clear(self, obj: Object) -> bool:
        """Tell whether nothing is left of the Tailscale Service of *obj*, which has no claim any more.

        Another object may have the label now.
        """
        label = label_of(obj)
        tailnets = [*self.world.tailnets()]
        is_held = any(self.holder(tailnet, label) for tailnet in tailnets)
        has_left = any(self._has_left(tailnet, label) for tailnet in tailnets)
        return not has_left and (is_held or not self.certificates(label))

    def _has_left(self, tailnet: str, label: str) -> bool:
        if self.holder(tailnet, label):
            return False
        view = self.world.service(tailnet, label)
        name = f"svc:{label}"
        return view.pending is not None or is_owned(view, self.world.operator_id()) or self.uses(tailnet, name)

    def _secrets(self, group: str) -> list[Object]:
        owned = self._cache.indexed(SECRET, BY_OWNER, str(group_owner(group)))
        return in_order(owned, group)


def tailnet_of(group: Object) -> str:
    """Return the name of the Tailnet of a ProxyGroup; empty for the operator's own tailnet."""
    return spec_text(group, "tailnet")


def _secret_type(secret: Object) -> str:
    return labels(secret).get(LABEL_SECRET_TYPE, "")
