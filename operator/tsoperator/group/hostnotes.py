"""The Events of an Ingress or a Service about the Tailscale Service by which a ProxyGroup exposes it."""

from collections.abc import Sequence
from typing import Final

from tsoperator.api.objects import spec_of
from tsoperator.api.owners import Ownership, ownership
from tsoperator.api.policy import CONSOLE, policy_place, service_approvers
from tsoperator.api.tailscaleservice import ServiceHost
from tsoperator.group.hosted import Hosting
from tsoperator.proxy.secret import reported_id_of
from tsoperator.runtime.plan import Note

APPROVAL_PATIENCE: Final = 30.0
"""The seconds after which an Event says that no proxy is approved as a host.

If the tailnet's policy approves hosts, it does so within a few seconds.
"""


def awaits_approval(hosting: Hosting) -> bool:
    """Tell whether the control server lists proxies of the group as hosts, but none of them as approved."""
    return bool(_hosts(hosting)) and lacks_approval(hosting)


def lacks_approval(hosting: Hosting) -> bool:
    """True if no proxy of the group is approved as a host, as far as the operator knows.

    So it is also true while the operator hasn't read the hosts yet.
    """
    return not any(host.is_approved for host in _hosts(hosting))


def _hosts(hosting: Hosting) -> list[ServiceHost]:
    """Return the proxies of the group that the control server lists as hosts of the Tailscale Service."""
    ids = {reported_id_of(state) for state in hosting.states}
    return [host for host in hosting.view.hosts if host.node_id in ids]


def host_notes(hosting: Hosting, unapproved_for: float | None, default_tags: Sequence[str]) -> list[Note]:
    """Return the Events about the hosts and the owners of the Tailscale Service.

    *unapproved_for* is the number of seconds for which the operator has known of no approved proxy; None if it knows of
    one. A group without tags of its own has the *default_tags*.
    """
    late = unapproved_for is not None and unapproved_for >= APPROVAL_PATIENCE and awaits_approval(hosting)
    return [*([_unapproved(hosting, default_tags)] if late else ()), *_shared(hosting)]


def _unapproved(hosting: Hosting, default_tags: Sequence[str]) -> Note:
    given = spec_of(hosting.group).get("tags") if hosting.group else None
    lines = service_approvers(hosting.claim.tags, given or default_tags)
    message = (
        f"no proxy of ProxyGroup {hosting.claim.group!r} is approved as a host of Tailscale Service "
        f"{hosting.claim.name}, so nobody reaches it: approve the hosts at {CONSOLE}/services, or let "
        f"{policy_place('')} approve them, which needs {lines}"
    )
    return Note("Warning", "HostsNotApproved", message)


def _shared(hosting: Hosting) -> list[Note]:
    service = hosting.view.service
    if service is None or service.annotations is None or not hosting.operator_id:
        return []
    if ownership(service, hosting.operator_id) is not Ownership.SHARED:
        return []
    message = (
        f"operators of other clusters expose something as {hosting.claim.name}, too, so a connection may end in any of "
        "these clusters: if you don't want that, choose another name here or there"
    )
    return [Note("Normal", "SharedTailscaleService", message, once=True)]
