"""The Tailscale Service by which a ProxyGroup of type kube-apiserver offers the Kubernetes API to the tailnet.

Each proxy serves one Tailscale Service at a time. Replica 0 gets the certificate from the ACME server, and the other
replicas read it from a Secret. So when the group gets another name, replica 0 is the first to serve the new name. The
other replicas do so when the devices of the tailnet have learnt how they reach the new name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tsoperator.api.owners import Ownership, ownership
from tsoperator.api.tailscaleservice import ServiceHost
from tsoperator.group.claims import LabelClaim
from tsoperator.group.hosted import INVALID_SERVICE, LABEL_TAKEN, NO_IDENTITY, UNREADABLE_OWNERS
from tsoperator.proxy.serviceview import NO_SERVICE, ServiceView
from tsoperator.runtime.plan import Refusal

_ISSUER: Final = 0
"""The ordinal of the replica that gets the certificate."""

DRAIN: Final = 20.0
"""The seconds for which replica 0 still serves the old name after it has ceased to advertise it.

In that time, the control server begins to send the traffic to the other proxies, which still advertise the old name.
The proxy's program waits for the same time before it ends.
"""

SETTLE: Final = 8.0
"""The seconds for which replica 0 advertises a new name before the other proxies give up the old name.

In that time, the devices of the tailnet learn how they reach the new name.
"""

_SHORTEST: Final = 0.1
"""The shortest pause, in seconds.

A calculated pause can be a tiny rounding error, and after such a pause the clock would possibly show the same time.
"""


class APIHost(NamedTuple):
    """The facts about a proxy of the group, from its Secrets.

    Its config Secret tells the proxy to serve the Tailscale Service *served*, and to advertise those in *advertised*.
    Its state Secret shows which ones the proxy *advertises* now. If the proxy hasn't joined the tailnet, *has_joined*
    is False: it still needs the auth key in its config.
    """

    served: str = ""
    advertised: tuple[str, ...] = ()
    advertises: tuple[str, ...] = ()
    has_joined: bool = True


@dataclass(frozen=True, slots=True)
class APIHosting:
    """The facts about a ProxyGroup of type kube-apiserver and the Tailscale Service of its *claim* on a label.

    *view* is the Tailscale Service as the tailnet shows it, and *holder* is the claim that has the label. *hosts* are
    the proxies by ordinal. *domain* is the domain of the tailnet's names; it is empty until a proxy has reported it.
    *has_certificate* tells whether there is a certificate for the MagicDNS name. The certificate *is_prepared* if its
    Secret and the rights on it exist. The operator doesn't tell the proxies to serve the name before that, because a
    proxy that doesn't find the Secret looks again only a minute later.

    *operator_id* is the ID of the operator. If the operator has none, *no_identity* says why. Both are empty as long as
    it isn't known whether the operator has an ID. If the group is being deleted, *left* says why its Tailscale Service
    still exists.

    *waited* is the number of seconds for which the proxies have waited for a certificate; None if they don't wait. If
    they have waited for some time, *candidates* are the devices that would host the Tailscale Service. While the
    operator hasn't read these devices yet, *unread* is the exception by which a reconcile waits for them.

    *advertised_for* is the number of seconds for which any proxy has advertised the group's name; None if no proxy
    does. *drained_for* is the number of seconds for which `drains` has been true; None while it is false.
    """

    claim: LabelClaim
    view: ServiceView = NO_SERVICE
    holder: LabelClaim | None = None
    hosts: Mapping[int, APIHost] = field(default_factory=dict)
    domain: str = ""
    has_certificate: bool = False
    operator_id: str = ""
    no_identity: str = ""
    left: Refusal | None = None
    waited: float | None = None
    candidates: Sequence[ServiceHost] = ()
    unread: Exception | None = None
    is_prepared: bool = True
    advertised_for: float | None = None
    drained_for: float | None = None

    @property
    def awaits_certificate(self) -> bool:
        """True if the config of any proxy tells it to serve the Tailscale Service, but there is no certificate yet.

        It is False if the group doesn't have the label, or doesn't own the Tailscale Service.
        """
        is_ours = self.has_label and self.relation is Ownership.OURS
        return (
            is_ours and not self.has_certificate and any(host.served == self.claim.name for host in self.hosts.values())
        )

    @property
    def has_label(self) -> bool:
        """True if the group has the label: its claim has won against all other claims on the label."""
        return self.holder is not None and self.holder.rank == self.claim.rank

    @property
    def advertising(self) -> int:
        """The number of proxies that advertise the Tailscale Service."""
        return sum(self.claim.name in host.advertises for host in self.hosts.values())

    @property
    def drains(self) -> bool:
        """True if replica 0 drains: it serves an old name that other proxies still advertise.

        Its own config no longer tells it to advertise that name.
        """
        issuer = self.hosts.get(_ISSUER)
        return issuer is not None and self._is_left_to_others(issuer) and issuer.served not in issuer.advertised

    @property
    def must_drain(self) -> bool:
        """True if replica 0 has to go on serving an old name that other proxies still advertise.

        This is so while replica 0 advertises the old name, too, and for `DRAIN` seconds after that.
        """
        issuer = self.hosts.get(_ISSUER)
        return issuer is not None and self._is_left_to_others(issuer) and (self.drained_for or 0.0) < DRAIN

    @property
    def is_settled(self) -> bool:
        """True if any proxy has advertised the group's name for so long that all devices know how to reach it."""
        return self.advertised_for is not None and self.advertised_for >= SETTLE

    @property
    def pause(self) -> float | None:
        """The seconds after which the next proxy can begin to serve the name.

        This is None if no proxy waits, or if a proxy waits for something else than time.
        """
        if self.drains and self.must_drain:
            return max(DRAIN - (self.drained_for or 0.0), _SHORTEST)
        is_awaited = any(_serves_another(each, self.claim.name) for each in self.hosts.values())
        if is_awaited and self.advertised_for is not None and not self.is_settled:
            return max(SETTLE - self.advertised_for, _SHORTEST)
        return None

    def _is_left_to_others(self, issuer: APIHost) -> bool:
        """Tell whether replica 0 (*issuer*) serves an old name that other proxies still advertise."""
        others = [each for ordinal, each in self.hosts.items() if ordinal != _ISSUER]
        return issuer.served != self.claim.name and any(issuer.served in each.advertises for each in others)

    @property
    def url(self) -> str:
        """The URL of the Kubernetes API in the tailnet; empty while nobody can reach it there."""
        return f"https://{self.claim.label}.{self.domain}" if self.domain and self.advertising else ""

    @property
    def relation(self) -> Ownership | None:
        """The relation of the operator and the group to the Tailscale Service.

        It is None if the Tailscale Service doesn't exist or isn't known, or if the operator's ID isn't known.
        """
        service = self.view.service
        if not self.operator_id or service is None or not self.view.tells_owner:
            return None
        return ownership(service, self.operator_id, self.claim.sole_owner)


class APIOffer(NamedTuple):
    """The Tailscale Service that a proxy should serve, and those that it should advertise."""

    served: str = ""
    advertised: tuple[str, ...] = ()


def api_offers(hosting: APIHosting) -> Mapping[int, APIOffer]:
    """Return the Tailscale Services that the proxies of a group should serve and advertise, by ordinal."""
    return {ordinal: _offer(ordinal, host, hosting) for ordinal, host in hosting.hosts.items()}


def _offer(ordinal: int, host: APIHost, hosting: APIHosting) -> APIOffer:
    now, name, relation = APIOffer(host.served, host.advertised), hosting.claim.name, hosting.relation
    # We don't change a config whose auth key is unused, because the changed config would need another auth key.
    if relation is None or not host.has_joined:
        return now
    if not (relation.is_owner and hosting.has_label):
        return APIOffer() if host.served == name else now
    if not hosting.is_prepared:
        return now
    if ordinal == _ISSUER and hosting.must_drain:
        return APIOffer(host.served)
    if ordinal != _ISSUER and _serves_another(host, name) and not hosting.is_settled:
        return now  # the other proxies serve the old name until devices can reach the new name at replica 0
    return APIOffer(name, (name,) if hosting.has_certificate else ())


def _serves_another(host: APIHost, name: str) -> bool:
    """Tell whether the config of *host* makes the proxy serve and advertise a Tailscale Service not called *name*."""
    return host.served not in ("", name) and host.served in host.advertised


def api_obstacle(hosting: APIHosting) -> Refusal | None:
    """Return the first obstacle to offering the Kubernetes API by the group; None if there is none.

    The *reason* of the obstacle is a constant of the module `hosted`, or the reason of a refusal by the control server.
    """
    claim, holder = hosting.claim, hosting.holder
    if holder is not None and not hosting.has_label:
        message = f"{holder.title} has the name {claim.label} in this tailnet: choose another {_WHERE}"
        return Refusal(message, LABEL_TAKEN)
    if hosting.view.refusal:
        return hosting.view.refusal
    if hosting.no_identity:
        return Refusal(hosting.no_identity, NO_IDENTITY)
    match hosting.relation:
        case Ownership.FOREIGN:
            why = f"exists already, and no operator made it: delete it in the admin console, or choose another {_WHERE}"
        case Ownership.TAKEN:
            why = f"belongs to something else, such as an Ingress or another cluster: choose another {_WHERE}"
        case Ownership.UNREADABLE:
            why = UNREADABLE_OWNERS
        case _:
            return None
    return Refusal(f"Tailscale Service {claim.name} {why}", INVALID_SERVICE)


_WHERE: Final = "name in spec.kubeAPIServer.hostname"
