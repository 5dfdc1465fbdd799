"""A view and feeds for tests of reconcilers that expose objects, in a world without Tailscale Services."""

from collections.abc import Mapping
from typing import Final

from tsoperator.api.objects import IDENTITY, TAILSCALE_SERVICE, Object, Signal
from tsoperator.group.claims import LabelClaim, claim_of
from tsoperator.group.hosts import NO_SERVICE, ServiceView
from tsoperator.reconcilers.hosting import HostingView, HostingWorld
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.manager import Feed
from tsoperator.settings import Settings
from tsoperator.tailnet.tailnet import Tailnets

from tests.support.objects import settings

QUIET: Final[Mapping[Signal, Feed]] = dict.fromkeys((TAILSCALE_SERVICE, IDENTITY), Tailnets([]))
"""Feeds that announce nothing."""


def no_hosting(cache: Cache, settings: Settings) -> HostingView:
    """Return the view of a world without Tailscale Services, in which the operator has no identity yet."""

    def service(tailnet: str, label: str, /, *, hosts: bool = False) -> ServiceView:
        return NO_SERVICE

    world = HostingWorld(service, lambda: [""], lambda: "", lambda: "")
    return HostingView(cache, settings, world)


def claimed(of: Object) -> LabelClaim:
    """Return the claim of the object *of* on a label. Fail if it has none."""
    found = claim_of(of, settings())
    assert found is not None
    return found
