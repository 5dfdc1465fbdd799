"""Stand-ins for the feeds and views of reconcilers that expose objects, in a world without Tailscale Services."""

from collections.abc import Mapping
from typing import Final

from tsoperator.api.objects import IDENTITY, TAILSCALE_SERVICE, Signal
from tsoperator.group.hosts import NO_SERVICE, ServiceView
from tsoperator.reconcilers.hosting import HostingView, HostingWorld
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.manager import Feed
from tsoperator.settings import Settings
from tsoperator.tailnet.tailnet import Tailnets

QUIET: Final[Mapping[Signal, Feed]] = dict.fromkeys((TAILSCALE_SERVICE, IDENTITY), Tailnets([]))
"""Feeds that announce nothing."""


def no_hosting(cache: Cache, settings: Settings) -> HostingView:
    """Return the view of a world without Tailscale Services, in which the operator has no identity yet."""

    def service(tailnet: str, label: str, /, *, hosts: bool = False) -> ServiceView:
        return NO_SERVICE

    world = HostingWorld(service, lambda: [""], lambda: "", lambda: "")
    return HostingView(cache, settings, world)
