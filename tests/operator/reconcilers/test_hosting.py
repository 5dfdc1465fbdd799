"""The facts about objects that ProxyGroups expose: the leftovers of a Tailscale Service that nobody claims."""

import json

import pytest
from tsoperator.api.names import HA_INGRESS_FINALIZER
from tsoperator.api.owners import ANNOTATION_OWNERS
from tsoperator.api.tailscaleservice import TailscaleService
from tsoperator.group.hosts import NO_SERVICE, ServiceView
from tsoperator.reconcilers.hosting import HostingView, HostingWorld
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.plan import Refusal
from tsoperator.sources import sources

from tests.support.objects import OPERATOR_NAMESPACE, deleting, live_ingress, settings

OURS = ServiceView(
    TailscaleService("svc:web", annotations={ANNOTATION_OWNERS: json.dumps({"ownerRefs": [{"operatorID": "nOP"}]})})
)
PASSING, STUCK = True, False


@pytest.mark.parametrize(
    ("view", "known", "problem", "left"),
    [
        (NO_SERVICE, True, "", None),
        (OURS, True, "", PASSING),
        (NO_SERVICE, False, "", None),
        (OURS, False, "", PASSING),
        (OURS, False, "the Secret can't be read", STUCK),
        (ServiceView(pending=ValueError("unread")), True, "", PASSING),
        (ServiceView(refusal=Refusal("no scope")), True, "", STUCK),
        (ServiceView(refusal=Refusal("Headscale", "UnsupportedByControlServer")), True, "", None),
    ],
)
def test_a_tailscale_service_that_our_operator_may_own_counts_as_a_leftover(
    view: ServiceView, known: bool, problem: str, left: bool | None
) -> None:
    def service(tailnet: str, label: str, /, *, hosts: bool = False) -> ServiceView:
        return view

    world = HostingWorld(service, lambda: [""], lambda: "nOP" if known else "", lambda: problem, lambda: known)
    found = HostingView(Cache(sources(OPERATOR_NAMESPACE)), settings(), world)
    remainder = found.remainder(deleting(live_ingress(finalizers=[HA_INGRESS_FINALIZER])))
    assert (remainder and remainder.is_passing) is left
