"""Makes the plan for an Ingress that a ProxyGroup of type ingress serves (docs/development/groups.md).

Other reconcilers make the Tailscale Service and configure the proxies. The Ingress itself only gets a finalizer, its
status and Events.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tsoperator.api.names import HA_INGRESS_FINALIZER
from tsoperator.api.objects import Object, is_deleting
from tsoperator.api.policy import UNSUPPORTED
from tsoperator.api.tailscaleservice import ServiceHost
from tsoperator.group.claims import label_of
from tsoperator.group.hosted import INVALID, LABEL_TAKEN, NO_GROUP, NO_IDENTITY, Hosting, awaits_group, obstacle
from tsoperator.group.hostnotes import APPROVAL_PATIENCE, awaits_approval, host_notes
from tsoperator.proxy import advice
from tsoperator.proxy.certificate import News, ObservedCertificate, news
from tsoperator.proxy.paths import hosted_paths
from tsoperator.proxy.secret import ReportedDevice
from tsoperator.reconcilers.ingress.ask import Ask
from tsoperator.reconcilers.ingress.notices import ignored_notes
from tsoperator.reconcilers.ingress.serve import reached_notes, renamed_notes, secret_notes
from tsoperator.runtime.plan import Note, Plan, Refusal, earliest
from tsoperator.settings import Settings

_STILL_THERE: Final = 30.0  # s until another look for an ended Tailscale Service, if no watch event comes
_WITH_A_CLAIM: Final = (LABEL_TAKEN, NO_IDENTITY)  # the obstacles that don't keep an Ingress from making its claim


@dataclass(frozen=True, slots=True)
class AtGroups:
    """The facts about an Ingress and the ProxyGroups that serve it, or served it before.

    *hosting* is None if the Ingress asks for no group. If the Ingress asks for no group any more, *left* says why its
    Tailscale Service isn't completely removed; None if nothing of that Service remains. *without_https* is the device
    of a proxy of the group that can't get certificates. The Ingress *is_advertised* if a proxy of any group advertises
    the name in its status. *approval* tells how long the Ingress has waited for an approved host; it is None if the
    Ingress needs no such host, or if a host is approved.
    """

    hosting: Hosting | None = None
    left: Refusal | None = None
    without_https: ReportedDevice | None = None
    is_advertised: bool = False
    approval: "Approval | None" = None


@dataclass(frozen=True, slots=True)
class Approval:
    """The time for which an Ingress has waited to be served, and the hosts of its Tailscale Service.

    *waited* is in seconds. The hosts are read only after a while. *hosts* is None until then, and *pending* is the
    exception that a reconcile raises to wait for the answer.
    """

    waited: float
    hosts: Sequence[ServiceHost] | None = None
    pending: Exception | None = None


NOWHERE: Final = AtGroups()
"""The facts about an Ingress that no ProxyGroup serves now, and that none has served before."""


def may_lack_approval(ask: Ask, hosting: Hosting, certificate: ObservedCertificate | None) -> bool:
    """Tell whether an Ingress perhaps has no certificate because no proxy of its group is approved as a host."""
    has_certificate = certificate is not None and certificate.certificate.is_there
    is_set_up = ask.is_held and hosting.is_owned and obstacle(hosting) is None and not awaits_group(hosting)
    return is_set_up and not has_certificate


def can_take_over(ask: Ask, hosting: Hosting, services: Mapping[str, Object]) -> bool:
    """Tell whether a group can serve an Ingress that has a proxy of its own, so that this proxy can be removed.

    The Tailscale Service needn't exist yet. It can't exist as long as the device of the proxy has its name.
    """
    if ask.is_held:
        return True
    is_ready = bool(hosting.operator_id) and hosting.view.pending is None and not awaits_group(hosting)
    return is_ready and obstacle(hosting) is None and bool(hosted_paths(ask.ingress, services, "").origins)


def blocked_notes(hosting: Hosting) -> list[Note]:
    """Return the Events that say why a group can't serve an Ingress now. The Ingress keeps its own proxy."""
    refusal = obstacle(hosting)
    return [_note(refusal)] if refusal else _waiting_notes(hosting)


def plan(
    ask: Ask,
    hosting: Hosting,
    at: AtGroups,
    services: Mapping[str, Object] | None,
    certificate: ObservedCertificate | None,
    settings: Settings,
) -> Plan:
    """Return the plan for an Ingress that names a ProxyGroup, and has no proxy of its own.

    *services* are the Services in the namespace of the Ingress to which its rules lead; None if it is too early to
    judge the rules. *certificate* is the certificate for the name of the Ingress; None if the Ingress needs no
    certificate.
    """
    refusal = _hindrance(ask, hosting)
    unread = hosting.view.pending if refusal is None and not ask.is_held else None
    told = _served(hosting, at, certificate, settings) if refusal is None else Plan()
    notes = [
        *([_note(refusal)] if refusal else _waiting_notes(hosting)),
        *ignored_notes(ask),
        *secret_notes(ask),
        *(renamed_notes(ask, hosting.dns_name) if refusal is None else ()),
        *(_path_notes(ask, hosting, services) if services is not None else ()),
        *told.notes,
    ]
    status, service = _status(ask, at, hosting, certificate), hosting.view.service
    notes += reached_notes(ask, status, service.addresses if service else ())
    claims = not unread and (refusal is None or refusal.reason in _WITH_A_CLAIM)
    return Plan(
        hold=HA_INGRESS_FINALIZER if claims else "",
        status=status,
        notes=notes,
        requeue_after=told.requeue_after,
        error=unread or told.error,
        whole=unread is None,
    )


def ended(ask: Ask, at: AtGroups, made: Plan) -> Plan:
    """Return *made*, the plan for an Ingress that asks for no ProxyGroup, with the steps to end its Tailscale Service.

    Once nothing of that Tailscale Service remains, the plan takes the finalizer for groups off the Ingress. If *made*
    already takes off another finalizer, the finalizer for groups waits for the next plan.
    """
    if not ask.is_held:
        return made
    status = made.status
    if status is None and not is_deleting(ask.ingress) and ask.shown_name.partition(".")[0] == label_of(ask.ingress):
        status = _with_entries(ask, [])
    if at.left is None:
        return replace(made, status=status, release=made.release or HA_INGRESS_FINALIZER)
    told = [] if at.left.is_passing else [Note("Warning", "DeletionBlocked", at.left.message)]
    again = earliest(made.requeue_after, _STILL_THERE)
    return replace(made, status=status, notes=[*made.notes, *told], requeue_after=again)


def _served(hosting: Hosting, at: AtGroups, certificate: ObservedCertificate | None, settings: Settings) -> Plan:
    """Return a plan with the Events about the certificate and the hosts of an Ingress that its group can serve."""
    told = news(certificate) if certificate else News()
    approval, unapproved_for, wait = at.approval, None, None
    if approval is not None and approval.waited < APPROVAL_PATIENCE:
        wait = APPROVAL_PATIENCE - approval.waited
    elif approval is not None and approval.hosts is not None:
        hosting = replace(hosting, view=replace(hosting.view, hosts=approval.hosts))
        unapproved_for = approval.waited if awaits_approval(hosting) else None
    return Plan(
        notes=[
            *([advice.no_https(at.without_https, "HTTPS Ingress")] if at.without_https else ()),
            *told.notes,
            *host_notes(hosting, unapproved_for, settings.proxy_tags),
        ],
        requeue_after=earliest(told.requeue_after, wait),
        error=approval.pending if approval else None,
    )


def _path_notes(ask: Ask, hosting: Hosting, services: Mapping[str, Object]) -> list[Note]:
    """Return the Events about the parts of an Ingress's rules that have no effect."""
    paths = hosted_paths(ask.ingress, services, hosting.dns_name)
    return [*paths.notes, *([] if paths.origins else [_NO_BACKENDS])]


def _hindrance(ask: Ask, hosting: Hosting) -> Refusal | None:
    """Return the obstacle that keeps a group from serving an Ingress; None if there is none.

    A passing obstacle is left out if the Ingress has its finalizer already.
    """
    refusal = obstacle(hosting)
    return None if refusal and refusal.is_passing and ask.is_held else refusal


def _note(refusal: Refusal) -> Note:
    """Return the Event about an obstacle.

    If the control server lacks a needed feature, the Event is written only once.
    """
    reason = "InvalidIngressConfiguration" if refusal.reason == INVALID else refusal.reason
    return Note("Warning", reason or "TailscaleServiceFailed", refusal.message, once=refusal.reason == UNSUPPORTED)


def _waiting_notes(hosting: Hosting) -> list[Note]:
    if not awaits_group(hosting):
        return []
    message = (
        f"no proxy of ProxyGroup {hosting.claim.group!r} is in the tailnet yet: the conditions of the ProxyGroup say "
        "why"
    )
    return [Note("Normal", "ProxyGroupNotReady", message, once=True)]


_NO_BACKENDS: Final = Note(
    "Warning", "NoValidBackends", "no backend can be served: give a default backend or a path whose Service exists"
)


def _status(ask: Ask, at: AtGroups, hosting: Hosting, certificate: ObservedCertificate | None) -> Object | None:
    """Return the status of an Ingress with the name by which devices reach it; None if the status stays as it is.

    The status of an invalid Ingress stays, because it has the name that the proxies go on serving.
    """
    refusal = obstacle(hosting)
    if refusal and refusal.reason == INVALID:
        return None
    if refusal and refusal.reason in (NO_GROUP, LABEL_TAKEN):
        return None if refusal.reason == NO_GROUP and at.is_advertised else _with_entries(ask, [])
    if not hosting.advertising:
        return _with_entries(ask, [])
    if not hosting.dns_name:
        return None
    claim = hosting.claim
    ports = [443] if certificate and certificate.certificate.is_there else []
    ports += [80] if claim.serves_http or claim.redirects else []
    shown = [{"port": port, "protocol": "TCP"} for port in ports]
    return _with_entries(ask, [{"hostname": hosting.dns_name, "ports": shown}] if shown else [])


def _with_entries(ask: Ask, entries: Sequence[Object]) -> Object:
    return {**ask.status, "loadBalancer": {"ingress": [*entries]} if entries else {}}
