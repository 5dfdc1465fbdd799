"""Makes the plan for a Service that a ProxyGroup of type ingress exposes (docs/development/groups.md).

Other reconcilers do the work. The reconciler of Tailscale Services makes the Tailscale Service, and the reconciler of
ProxyGroups tells the proxies about it. The Service itself gets only a finalizer, its status and Events.
"""

from collections.abc import Sequence
from typing import Final

from tsoperator.api.conditions import TRUE, condition
from tsoperator.api.names import (
    CONDITION_INGRESS_CONFIGURED,
    CONDITION_INGRESS_VALID,
    CONDITION_PROXY_READY,
    HA_SERVICE_FINALIZER,
    LOAD_BALANCER_CLASS,
)
from tsoperator.api.objects import Object, has_finalizer
from tsoperator.group.claims import label_of
from tsoperator.group.hosted import (
    INVALID,
    INVALID_SERVICE,
    LABEL_TAKEN,
    NO_GROUP,
    NO_IDENTITY,
    Hosting,
    awaits_group,
    obstacle,
)
from tsoperator.group.hostnotes import APPROVAL_PATIENCE, host_notes
from tsoperator.reconcilers.service import exposure
from tsoperator.reconcilers.service.ask import Ask
from tsoperator.runtime.plan import Note, Plan, Refusal

UNAPPROVED: Final = "unapproved"
"""The name of a fact: proxies advertise a Service's Tailscale Service, and none is known to be approved as a host."""

CONDITIONS: Final = (CONDITION_INGRESS_VALID, CONDITION_INGRESS_CONFIGURED)

_FAULT: Final = "IngressSvcInvalid"
_FAULTS: Final = (INVALID, INVALID_SERVICE, LABEL_TAKEN, NO_GROUP)
"""The reasons of obstacles that the user has to remove.

Other obstacles are in the tailnet, or at the control server.
"""
_WITH_A_CLAIM: Final = (LABEL_TAKEN, NO_IDENTITY)
"""The reasons of those obstacles that don't keep a Service from making its claim."""
_IDLE: Final = "IngressSvcNoBackendsConfigured"
_NO_PODS: Final = (
    "none of its Pods is ready: the proxies advertise it as soon as one is. If that stays, see that spec.selector "
    "chooses Pods"
)
_SOUND: Final = condition(CONDITION_INGRESS_VALID, True, "IngressSvcValid", "IngressSvcValid")


def plan(ask: Ask, hosting: Hosting | None, unapproved_for: float | None, proxy_tags: Sequence[str]) -> Plan:
    """Return the plan for a Service that has no proxy of its own; *hosting* is None if no group can expose it.

    *unapproved_for* is the number of seconds in which proxies have advertised the Tailscale Service, but the operator
    has known no approved host of it. It is None if a host is approved, or if no proxy advertises the Tailscale Service.
    *proxy_tags* are the tags of proxies for which nobody chose other tags.
    """
    refusal = refusal_of(ask, hosting)
    if hosting is None or (refusal is not None and refusal.reason == INVALID):
        return refused(ask, refusal)
    is_gone = refusal is not None and refusal.reason == NO_GROUP
    if is_gone and hosting.is_kept:
        return refused(ask, refusal)
    if refusal is None and hosting.view.pending:
        return Plan(error=hosting.view.pending)
    hold = hosting.claim.finalizer if refusal is None or refusal.reason in _WITH_A_CLAIM else ""
    shown = [_validity(refusal), _configured(ask, hosting, refusal)]
    status = ask.status_with(*shown, without={CONDITION_PROXY_READY})
    if ask.is_balanced and (is_gone or refusal is None):
        status["loadBalancer"] = exposure.load_balancer(ask, _entries(hosting))
    notes = [*_notes(ask, hosting, refusal), *host_notes(hosting, unapproved_for, proxy_tags)]
    again = None if unapproved_for is None else max(APPROVAL_PATIENCE - unapproved_for, 0) or None
    return Plan(hold=hold, status=status, notes=notes, requeue_after=again)


def refusal_of(ask: Ask, hosting: Hosting | None) -> Refusal | None:
    """Return why a ProxyGroup can't expose a Service now; None if it can.

    *hosting* is None if no group can expose the Service.
    """
    return _unsuitable(ask) if hosting is None else obstacle(hosting)


def refused(ask: Ask, refusal: Refusal | None) -> Plan:
    """Return the plan that only reports *refusal*: the reason why a ProxyGroup can't expose a Service now.

    With None, the plan reports that the Service is valid. The plan stops no proxy.
    """
    status = ask.status_with(_validity(refusal))
    return Plan(status=status, notes=[_event(refusal)] if refusal else [])


def failed(ask: Ask, refusal: Refusal) -> Plan:
    """Return the plan that tells the user of a Service why a write failed. The operator tries again."""
    notes = [refusal.note("ProxyFailed")]
    if any(each["type"] == CONDITION_INGRESS_CONFIGURED and each["status"] == TRUE for each in ask.conditions):
        return Plan(notes=notes, error=refusal.error)  # the proxies still serve
    shown = condition(CONDITION_INGRESS_CONFIGURED, False, "ProxyFailed", refusal.message)
    return Plan(status=ask.status_with(shown), notes=notes, error=refusal.error)


def awaiting_end(ask: Ask) -> Plan:
    """Return the plan that reports that the Service waits until its own proxy has left the tailnet."""
    message = "its own proxy is leaving the tailnet; then the ProxyGroup gets the name"
    shown = condition(CONDITION_INGRESS_CONFIGURED, False, _IDLE, message)
    return Plan(status=ask.status_with(_SOUND, shown, without={CONDITION_PROXY_READY}))


def is_held(ask: Ask) -> bool:
    """Tell whether a Service has the finalizer of a Service that a ProxyGroup exposes."""
    return has_finalizer(ask.service, HA_SERVICE_FINALIZER)


def without_traces(ask: Ask, status: Object) -> Object:
    """Return *status* without the parts that are about the Tailscale Service of a Service."""
    left = [each for each in status.get("conditions") or () if each["type"] not in CONDITIONS]
    kept = {**status, "conditions": left} if "conditions" in status else status
    entries = (status.get("loadBalancer") or {}).get("ingress") or ()
    is_ours = any(each.get("hostname", "").partition(".")[0] == label_of(ask.service) for each in entries)
    return {**kept, "loadBalancer": {}} if is_ours else kept


def left_notes(left: Refusal) -> Sequence[Note]:
    """Return an Event if the remainder of a Tailscale Service can't be removed now. *left* says why."""
    return () if left.is_passing else (Note("Warning", "DeletionBlocked", left.message),)


def _unsuitable(ask: Ask) -> Refusal:
    """Return why no ProxyGroup can expose a Service that has no cluster IP, or isn't a load balancer of our class."""
    spec = ask.service["spec"]
    if spec.get("type") == "ExternalName":
        cure = "it has no cluster IP: remove annotation tailscale.com/proxy-group to give it a proxy of its own"
    elif spec.get("clusterIP") == "None":
        cure = "it is headless: use a Service with a cluster IP"
    else:
        cure = f"it has no class: make it anew with spec.loadBalancerClass: {LOAD_BALANCER_CLASS}"
    return Refusal(f"a ProxyGroup can't expose this Service, because {cure}", INVALID)


def _validity(refusal: Refusal | None) -> Object:
    if refusal is None or refusal.reason not in _FAULTS:
        return _SOUND
    reason = refusal.reason if refusal.reason == NO_GROUP else _FAULT
    return condition(CONDITION_INGRESS_VALID, False, reason, refusal.message)


def _configured(ask: Ask, hosting: Hosting, refusal: Refusal | None) -> Object:
    """Return the condition that says how many proxies advertise the Service, and what keeps it from working."""
    count = hosting.advertising
    said = [f"{count}/{hosting.replicas} proxy backends ready and advertising"]
    if refusal is None and awaits_group(hosting):
        said.append(f"no proxy of ProxyGroup {ask.group!r} is in the tailnet yet: its conditions say why")
    elif refusal is None and _awaits_pods(hosting):
        said.append(_NO_PODS)
    if refusal is not None and refusal.reason not in _FAULTS:
        said.append(refusal.message)
    if count and not ask.is_balanced:
        said.append(_reached(hosting))
    reason = "IngressSvcConfigured" if count else _IDLE
    return condition(CONDITION_INGRESS_CONFIGURED, count > 0, reason, "; ".join(said))


def _entries(hosting: Hosting) -> list[Object]:
    """Return the load balancer entry with the name and the IPv4 address of the Tailscale Service."""
    service = hosting.view.service
    if service is None or not (hosting.advertising and hosting.dns_name):
        return []
    address = service.address(4)
    return [{"hostname": hosting.dns_name} | ({"ip": address} if address else {})]


def _notes(ask: Ask, hosting: Hosting, refusal: Refusal | None) -> list[Note]:
    if refusal is not None:
        return [_event(refusal)]
    if _awaits_pods(hosting) and not awaits_group(hosting):
        return [Note("Normal", _IDLE, _NO_PODS, once=True)]
    is_shown = any(each["type"] == CONDITION_INGRESS_CONFIGURED and each["status"] == TRUE for each in ask.conditions)
    if not hosting.advertising or is_shown:
        return []
    return [Note("Normal", "IngressSvcConfigured", _reached(hosting))]


def _awaits_pods(hosting: Hosting) -> bool:
    """Tell whether a Service has no ready Pod, and no proxy advertises its Tailscale Service for that reason."""
    return not hosting.has_pods and not hosting.advertising


def _reached(hosting: Hosting) -> str:
    return f"it is reached in the tailnet as {hosting.dns_name or hosting.claim.label}"


def _event(refusal: Refusal) -> Note:
    reason = _FAULT if refusal.reason in ("", INVALID, LABEL_TAKEN) else refusal.reason
    return Note("Warning", reason, refusal.message)
