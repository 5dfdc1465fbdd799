"""An Ingress or a Service that a ProxyGroup of type ingress should expose, and the obstacles to exposing it.

docs/development/groups.md describes Tailscale Services.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tsoperator.api.names import PROXY_GROUP
from tsoperator.api.objects import Object, is_deleting, spec_text
from tsoperator.api.owners import ANNOTATION_OWNERS, Ownership, ownership
from tsoperator.group.claims import KUBE_APISERVER, LabelClaim
from tsoperator.group.hosts import NO_SERVICE, ServiceView, advertising
from tsoperator.group.proxygroup import is_available, replica_count
from tsoperator.runtime.plan import Refusal

INVALID: Final = "Invalid"
NO_GROUP: Final = "ProxyGroupNotFound"
INVALID_SERVICE: Final = "InvalidTailscaleService"
LABEL_TAKEN: Final = "LabelTaken"
NO_IDENTITY: Final = "NoOperatorDevice"

TYPE: Final = "ingress"
"""The type of the ProxyGroups that expose Ingresses and Services."""

UNREADABLE_OWNERS: Final = (
    f"has an annotation {ANNOTATION_OWNERS} that can't be read, so its owners aren't known: correct the annotation, or "
    "delete the Tailscale Service if nothing uses it"
)
"""Words about a Tailscale Service that the operator doesn't use until a person has corrected it."""


@dataclass(frozen=True, slots=True)
class Hosting:
    """The facts about an Ingress or a Service that has a *claim* on a label.

    *group* is the ProxyGroup that the object names; None if that group doesn't exist. *view* is the Tailscale Service
    as the tailnet of the group shows it. *domain* is the domain of the MagicDNS names in that tailnet; it is empty as
    long as it isn't known. *holder* is the claim that has the label; None if no claim has it, or if the object is
    invalid. *states* are the *slim* state Secrets of the group, by ordinal.

    The proxies advertise a Service only while it *has_pods*, that is, while one of its Pods is ready.

    The Tailscale Service *is_kept* while *group* doesn't exist, and proxies of another group still advertise it.

    *operator_id* is the ID by which the operator owns Tailscale Services. If the operator has no ID, *no_identity* says
    why. Both are empty as long as it isn't known whether the operator has an ID.
    """

    claim: LabelClaim
    group: Object | None = None
    view: ServiceView = NO_SERVICE
    holder: LabelClaim | None = None
    states: Sequence[Object] = ()
    domain: str = ""
    operator_id: str = ""
    no_identity: str = ""
    is_kept: bool = False
    has_pods: bool = True

    @property
    def dns_name(self) -> str:
        """The MagicDNS name; empty as long as the domain isn't known."""
        return f"{self.claim.label}.{self.domain}" if self.domain else ""

    @property
    def has_label(self) -> bool:
        """True if the object has the label: its claim has won against all other claims on the label."""
        return self.holder is not None and self.holder.rank == self.claim.rank

    @property
    def is_owned(self) -> bool:
        """True if this operator certainly owns the Tailscale Service."""
        return is_owned(self.view, self.operator_id)

    @property
    def advertising(self) -> int:
        """The number of proxies that advertise the Tailscale Service."""
        return len(advertising(self.states, self.claim.name))

    @property
    def replicas(self) -> int:
        """The number of proxies that the group should have."""
        return replica_count(self.group) if self.group else 0


def is_host(group: Object) -> bool:
    """Tell whether *group* is of a type whose proxies advertise Tailscale Services."""
    return spec_text(group, "type") in (TYPE, KUBE_APISERVER)


def is_host_in(group: Object, tailnet: str) -> bool:
    """Tell whether *group* is in the tailnet called *tailnet*, and its proxies advertise Tailscale Services."""
    return is_host(group) and spec_text(group, "tailnet") == tailnet


def is_owned(view: ServiceView, operator_id: str) -> bool:
    """Tell whether the operator with the ID *operator_id* certainly owns the Tailscale Service in *view*."""
    service = view.service
    is_known = service is not None and service.annotations is not None
    return bool(operator_id) and service is not None and is_known and ownership(service, operator_id).is_owner


def obstacle(hosting: Hosting) -> Refusal | None:
    """Return the first obstacle to exposing the object; None if there is none.

    The *reason* of the obstacle is a constant of this module, or the reason of a refusal by the control server.
    """
    claim, view = hosting.claim, hosting.view
    if claim.wrong:
        return Refusal("; ".join(claim.wrong), INVALID)
    if refusal := group_obstacle(claim.group, hosting.group):
        return refusal
    if (holder := hosting.holder) and (holder.rank < claim.rank or holder.sole_owner):
        why = "is older and has" if holder.rank < claim.rank else "has"
        return Refusal(
            f"{holder.title} {why} the name {claim.label} in this tailnet: choose another name for one of the two",
            LABEL_TAKEN,
        )
    if view.refusal:
        return view.refusal
    if hosting.no_identity:
        return Refusal(hosting.no_identity, NO_IDENTITY)
    return service_obstacle(view, hosting.operator_id) if hosting.operator_id else None


def group_obstacle(name: str, group: Object | None) -> Refusal | None:
    """Return the obstacle that keeps the ProxyGroup called *name* from exposing anything; None if there is none.

    *group* is the ProxyGroup, or None if it doesn't exist.
    """
    if group is None or is_deleting(group):
        what = "does not exist: create it" if group is None else "is being deleted: create it anew"
        return Refusal(f"ProxyGroup {name!r} {what}, or name another one in annotation {PROXY_GROUP}", NO_GROUP)
    if (type_ := spec_text(group, "type")) != TYPE:
        return Refusal(
            f"ProxyGroup {name!r} is of type {type_}, which can't expose anything to the tailnet: name one of type "
            f"{TYPE} in annotation {PROXY_GROUP}",
            INVALID,
        )
    return None


def service_obstacle(view: ServiceView, operator_id: str) -> Refusal | None:
    """Return the obstacle that keeps our operator from using the Tailscale Service in *view*; None if there is none.

    *operator_id* is the ID of our operator.
    """
    service = view.service
    if service is None or service.annotations is None:
        return None
    name = service.name
    match ownership(service, operator_id):
        case Ownership.FOREIGN:
            why = "exists already, and no operator made it: delete it in the admin console, or choose another name"
        case Ownership.EXCLUSIVE:
            why = "belongs to another object, such as a ProxyGroup of type kube-apiserver: choose another name"
        case Ownership.UNREADABLE:
            why = UNREADABLE_OWNERS
        case _:
            return None
    return Refusal(f"Tailscale Service {name} {why}", INVALID_SERVICE)


def awaits_group(hosting: Hosting) -> bool:
    """Tell whether the object has to wait, because its group exists but has no running proxy."""
    return hosting.group is not None and not is_available(hosting.group)
