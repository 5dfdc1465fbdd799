"""Decides about the Tailscale Service of a label in a tailnet, and its certificate (docs/development/groups.md)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

from tsoperator.api.objects import PROXYGROUP, Key, Object, is_deleting, resource_of
from tsoperator.api.owners import Ownership, joined, left, ownership, sole_owner
from tsoperator.api.policy import UNSUPPORTED
from tsoperator.api.tailscaleservice import TailscaleService
from tsoperator.group.claims import LabelClaim
from tsoperator.proxy.serviceview import NO_SERVICE, ServiceView
from tsoperator.reconcilers.tailscaleservice.certificate import certificate_steps
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import DeleteService, Deletion, Note, Plan, PutService, Refusal, Report, Step

PARENT: Final = "tailscaleservice"
"""The type of the owner that stands for a label in the calls to the control server, and the name of the reconciler."""

COMMENT: Final = "This Tailscale Service is managed by the Tailscale Kubernetes Operator, do not modify"
FAILED: Final = "TailscaleServiceFailed"
NAME_TAKEN: Final = "CertificateNameTaken"

_SHARED: Final = range(5, 10)  # minutes until the next look at a Service that other operators own, too


@dataclass(frozen=True, slots=True)
class Observed:
    """The facts about a *label* in a *tailnet*.

    *view* is the Tailscale Service as the tailnet shows it. The operator has the ID *operator_id*, by which it owns
    Tailscale Services. The ID is empty if the operator has none, or if the ID isn't known yet; *knows_id* is true if it
    is known.

    *holder* is the claim that has the label, None if no claim counts. Without a holder, the Tailscale Service still
    stays if it *is_reserved*, because an object that names the label can get its claim back; or if it *is_used*,
    because a ProxyGroup still has it in its configuration. *serves_web* tells whether proxies end TLS for the Tailscale
    Service. The Tailscale Service *is_left_over* if no object that claims the label can have it, and no proxy uses it.

    *certificate* is the key of the certificate's objects for the holder, None as long as the domain isn't known.
    *secret* is the live Secret with that key, if it is that of a certificate; if it is another Secret, it is the
    *stranger*. If the Secret *is_hidden*, it lacks our labels, so it is perhaps somebody else's. *leftovers* are the
    objects of certificates that no claim on the label needs. The operator looks at the label again after *again*
    seconds; if *again* is None, only after a change.
    """

    tailnet: str
    label: str
    view: ServiceView = NO_SERVICE
    operator_id: str = ""
    knows_id: bool = True
    holder: LabelClaim | None = None
    is_reserved: bool = False
    is_used: bool = False
    serves_web: bool = False
    is_left_over: bool = False
    certificate: Key | None = None
    secret: Object | None = None
    stranger: Object | None = None
    is_hidden: bool = False
    leftovers: Sequence[Object] = ()
    again: float | None = None

    @property
    def owner(self) -> Owner:
        """The owner that stands for the label in the calls to the control server."""
        return Owner(PARENT, Key(self.tailnet, self.label))


def plan(observed: Observed) -> Plan:
    """Return the plan for the Tailscale Service of a label in a tailnet, and for the certificate of it."""
    if observed.view.pending is not None:
        return Plan(error=observed.view.pending)
    made = _held(observed, observed.holder) if observed.holder else _freed(observed)
    return replace(made, requeue_after=observed.again)


def refused(observed: Observed, refusal: Refusal) -> Plan:
    """Return the plan that reports a refusal on the object that has the label.

    A refusal of the control server isn't reported here, but by the reconciler of the object.
    """
    by_control_server = isinstance(refusal.step, PutService | DeleteService)
    note = refusal.note(NAME_TAKEN if refusal.is_taken else FAILED)
    told = [] if by_control_server or observed.holder is None else [_report(observed.holder, note)]
    return Plan(reports=told, error=refusal.error, whole=False)


def has_settled(observed: Observed, made: Plan) -> bool:
    """Tell whether the control server refused an earlier write, and the plan *made* needs no such write any more."""
    was_refused = observed.view.refusal is not None and observed.view.refusal.step is not None
    return was_refused and not any(isinstance(step, PutService | DeleteService) for step in made.steps)


def pause_after(observed: Observed, made: Plan) -> float | None:
    """Return the seconds after which to look at the label again, if the plan *made* ends our ownership of the Service.

    Another owner can have written the Tailscale Service at the same time, and so made the operator an owner again. The
    seconds depend on the operator's ID, so that not all operators look, and write, at the same time.
    """
    if observed.holder or not any(isinstance(step, PutService) for step in made.steps):
        return None
    digest = sha256(f"{observed.operator_id}/{observed.owner}".encode()).digest()
    return _SHARED[digest[0] % len(_SHARED)] * 60.0


def _held(observed: Observed, holder: LabelClaim) -> Plan:
    """Return the plan for a label that *holder* has.

    If the operator can't write the Tailscale Service, the reconciler of the holder's object reports why.
    """
    service = observed.view.service
    if not observed.operator_id or not observed.view.is_shown:
        return Plan()
    if service is not None and not ownership(service, observed.operator_id, holder.sole_owner).may_write:
        ends = observed.is_left_over and _is_ours_alone(observed, service)
        return Plan(steps=[DeleteService(observed.tailnet, observed.owner, service)] if ends else [])
    wanted = wanted_service(holder, service, observed.operator_id)
    is_right = service is not None and _is_alike(service, wanted)
    put: list[Step] = [] if is_right else [PutService(observed.tailnet, observed.owner, wanted, service)]
    certificate = [*_certificate(observed, holder)]
    # The proxies ask for the certificate as soon as they serve. But a strange Secret must not keep HTTP from working.
    steps = [*put, *certificate] if observed.is_hidden else [*certificate, *put]
    if observed.certificate if holder.is_web else not observed.serves_web:
        steps += _deletions(observed.leftovers)
    notes = [_taken(observed.stranger)] if holder.is_web and observed.stranger else []
    return Plan(steps=steps, reports=[_report(holder, *notes)])  # without notes, it ends an earlier warning


def _freed(observed: Observed) -> Plan:
    """Return the plan for a label that no claim has.

    Once no proxy uses the label, the plan removes our Tailscale Service and the objects of its certificate.
    """
    service = observed.view.service
    is_reserved = observed.is_reserved and not observed.is_left_over
    if is_reserved or observed.is_used or not _is_decided(observed):
        return Plan()
    steps: list[Step] = []
    if service is not None and observed.operator_id:
        if _is_ours_alone(observed, service):
            steps.append(DeleteService(observed.tailnet, observed.owner, service))
        elif ownership(service, observed.operator_id) is Ownership.SHARED:
            without = left(service.annotations or {}, observed.operator_id)
            after = replace(service, annotations=without)
            steps.append(PutService(observed.tailnet, observed.owner, after, service))
    return Plan(steps=[*steps, *_deletions(observed.leftovers)])


def _is_ours_alone(observed: Observed, service: TailscaleService) -> bool:
    """Tell whether this operator, or a ProxyGroup of its cluster, is the only owner of *service*.

    That ProxyGroup is gone, or it has another hostname now; otherwise its claim would have the label.
    """
    kind, _ = sole_owner(service, observed.operator_id) or ("", "")
    return ownership(service, observed.operator_id) is Ownership.OURS or kind == PROXYGROUP.kind


def wanted_service(claim: LabelClaim, live: TailscaleService | None, operator_id: str) -> TailscaleService:
    """Return the Tailscale Service for *claim*. It keeps all fields of the *live* one that the claim doesn't decide."""
    if live is None:
        annotations = joined({}, operator_id, claim.sole_owner)
        return TailscaleService(claim.name, (), claim.ports, claim.tags, annotations, {"comment": COMMENT})
    annotations = joined(live.annotations or {}, operator_id, claim.sole_owner)
    return replace(live, ports=claim.ports, tags=claim.tags, annotations=annotations)


def _is_alike(one: TailscaleService, other: TailscaleService) -> bool:
    """Tell whether two Tailscale Services are the same, whatever the order of their ports and tags."""
    return {*one.ports} == {*other.ports} and {*one.tags} == {*other.tags} and one.annotations == other.annotations


def _certificate(observed: Observed, holder: LabelClaim) -> Iterator[Step]:
    """Yield the steps that make the objects of the certificate for *holder*."""
    if holder.is_web and observed.certificate and not observed.stranger:
        yield from certificate_steps(observed.certificate, holder, observed.secret)


def _deletions(objects: Sequence[Object]) -> list[Step]:
    return [Deletion(resource_of(each), each) for each in objects if not is_deleting(each)]


def _is_decided(observed: Observed) -> bool:
    """Tell whether the operator knows already if it owns the Tailscale Service.

    At a control server without Tailscale Services, the operator certainly owns none.
    """
    view = observed.view
    if view.refusal is not None and view.refusal.reason == UNSUPPORTED:
        return True
    return view.is_shown and (view.service is None or observed.knows_id)


def _taken(stranger: Object) -> Note:
    name = stranger["metadata"]["name"]
    message = (
        f"Secret {name} is needed for the certificate, but something else uses it, so it is left alone, and HTTPS does "
        "not work: delete the Secret if nothing needs it, or choose another name"
    )
    return Note("Warning", NAME_TAKEN, message)


def _report(holder: LabelClaim, *notes: Note) -> Report:
    return Report(holder.obj, notes=notes)
