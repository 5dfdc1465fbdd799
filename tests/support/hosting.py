"""The facts from outside of the cluster that the reconcilers of exposed objects need."""

from tsoperator.group.hosts import NO_SERVICE, ServiceView
from tsoperator.reconcilers.hosting import HostingView, HostingWorld
from tsoperator.runtime.cache import Cache
from tsoperator.settings import Settings


def no_hosting(cache: Cache, settings: Settings) -> HostingView:
    """Return the view of a world without Tailscale Services, in which the operator has no identity yet."""

    def service(tailnet: str, label: str, /, *, hosts: bool = False) -> ServiceView:
        return NO_SERVICE

    world = HostingWorld(service, lambda: [""], lambda: "", lambda: "")
    return HostingView(cache, settings, world)
