"""The operator's knowledge about a Tailscale Service, as a value for reconcilers."""

from collections.abc import Sequence
from dataclasses import dataclass

from tsoperator.api.tailscaleservice import ServiceHost, TailscaleService
from tsoperator.runtime.plan import Refusal


@dataclass(frozen=True, slots=True)
class ServiceView:
    """The operator's knowledge about a Tailscale Service.

    *service* is None if the tailnet has no Tailscale Service of that name. *hosts* are the devices that host it.
    *pending* is the exception that a reconcile raises to wait until the Tailscale Service, and its hosts if the
    reconcile needs them, have been read. *refusal* says why the control server doesn't show the Tailscale Service, or
    why it refused the most recent change of it.

    If *is_shown* is false, the operator doesn't know whether the Tailscale Service exists, or who owns it.
    """

    service: TailscaleService | None = None
    hosts: Sequence[ServiceHost] = ()
    refusal: Refusal | None = None
    pending: Exception | None = None

    @property
    def is_shown(self) -> bool:
        """True if *service* shows the present state of the tailnet. None as *service* means that the tailnet has none.

        If there is a *refusal* as well, the control server refused the change that the *step* of the refusal describes.
        """
        return self.pending is None and (self.refusal is None or self.refusal.step is not None)

    @property
    def tells_owner(self) -> bool:
        """True if the operator knows who owns the Tailscale Service, or that the tailnet has none."""
        return self.is_shown and (self.service is None or self.service.annotations is not None)


NO_SERVICE = ServiceView()
"""The view of a Tailscale Service that certainly isn't there."""
