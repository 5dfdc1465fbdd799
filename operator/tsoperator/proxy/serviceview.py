"""The knowledge of the operator about a Tailscale Service, for reconcilers."""

from collections.abc import Sequence
from dataclasses import dataclass

from tsoperator.api.tailscaleservice import ServiceHost, TailscaleService
from tsoperator.runtime.plan import Refusal


@dataclass(frozen=True, slots=True)
class ServiceView:
    """The knowledge of the operator about a Tailscale Service.

    *service* is None if the tailnet has no Service of that name. *pending* is the exception that a reconcile raises
    to wait until the Service has been read, and also its hosts if the reconcile needs them. *hosts* are the devices
    that host the Service. *refusal* says why the control server doesn't show the Service, or why it refused the
    last change of the Service.

    Unless *is_shown* is true, the operator doesn't know whether the Service exists, or who owns it.
    """

    service: TailscaleService | None = None
    hosts: Sequence[ServiceHost] = ()
    refusal: Refusal | None = None
    pending: Exception | None = None

    @property
    def is_shown(self) -> bool:
        """True if *service* is the Tailscale Service as the tailnet has it now, or None if the tailnet has none.

        If there is a *refusal* as well, the control server has refused a change of the Service, and *step* of the
        refusal is that change.
        """
        return self.pending is None and (self.refusal is None or self.refusal.step is not None)

    @property
    def tells_owner(self) -> bool:
        """True if it is known who owns *service*, or that the tailnet has none."""
        return self.is_shown and (self.service is None or self.service.annotations is not None)


NO_SERVICE = ServiceView()
"""The view of a Tailscale Service that certainly isn't there."""
