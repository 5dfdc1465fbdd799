"""The Events about the hosts and the owners of a Tailscale Service."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from tsoperator.api.names import HA_INGRESS_FINALIZER
from tsoperator.api.objects import PROXYGROUP, Key
from tsoperator.api.owners import ANNOTATION_OWNERS
from tsoperator.api.tailscaleservice import NOT_APPROVED, ServiceHost, TailscaleService
from tsoperator.group.claims import claim_of
from tsoperator.group.hosted import Hosting
from tsoperator.group.hostnotes import APPROVAL_PATIENCE, awaits_approval, host_notes, lacks_approval
from tsoperator.group.hosts import ServiceView

from tests.support.objects import live_ingress, obj, settings, slim_secret

OURS, THEIRS = ServiceHost("n1", NOT_APPROVED), ServiceHost("n9", NOT_APPROVED)
APPROVED, OTHER_APPROVED = ServiceHost("n2", "approved:auto"), ServiceHost("n9", "approved:auto")


def hosting(*hosts: ServiceHost, owners: Sequence[str] | None = ("nOP",), **group: Any) -> Hosting:
    """Return the facts about an Ingress whose Tailscale Service has these *hosts* and *owners*.

    If *owners* is None, the annotations of the Tailscale Service are unknown. The Ingress is at a ProxyGroup with the
    devices n1 and n2, whose spec has the further fields *group*.
    """
    web = live_ingress({"tailscale.com/proxy-group": "ing"}, finalizers=[HA_INGRESS_FINALIZER])
    claim = claim_of(web, settings())
    assert claim is not None
    references = json.dumps({"ownerRefs": [{"operatorID": each} for each in owners or ()]})
    service = TailscaleService("svc:web", annotations=None if owners is None else {ANNOTATION_OWNERS: references})
    states = [slim_secret(f"ing-{ordinal}", {"device_id": f"n{ordinal + 1}"}) for ordinal in (0, 1)]
    made = obj(PROXYGROUP, Key("", "ing"), {"spec": {"type": "ingress", **group}})
    return Hosting(claim, made, ServiceView(service, hosts), states=states, operator_id="nOP")


@pytest.mark.parametrize(
    ("hosts", "waits", "lacks"),
    [
        ([], False, True),
        ([OURS], True, True),
        ([OURS, APPROVED], False, False),
        ([OURS, OTHER_APPROVED], True, True),
        ([THEIRS], False, True),
    ],
)
def test_a_group_awaits_an_approval_if_the_control_server_lists_hosts_of_the_group_but_none_as_approved(
    hosts: Sequence[ServiceHost], waits: bool, lacks: bool
) -> None:
    found = hosting(*hosts)
    assert (awaits_approval(found), lacks_approval(found)) == (waits, lacks)


def test_an_event_says_which_lines_the_policy_needs_if_no_host_has_been_approved_for_half_a_minute() -> None:
    assert host_notes(hosting(OURS), APPROVAL_PATIENCE - 1, ["tag:k8s"]) == []
    assert host_notes(hosting(OURS), None, ["tag:k8s"]) == []
    assert host_notes(hosting(), APPROVAL_PATIENCE, ["tag:k8s"]) == []  # the hosts are being read
    for found, tags in ((hosting(OURS), "tag:host"), (hosting(OURS, tags=["tag:ing"]), "tag:ing")):
        (note,) = host_notes(found, APPROVAL_PATIENCE, ["tag:host"])
        assert (note.type, note.reason, note.once) == ("Warning", "HostsNotApproved", False)
        assert f'"autoApprovers": {{"services": {{"tag:k8s": ["{tags}"]}}}}' in note.message


@pytest.mark.parametrize(
    ("owners", "shared"), [(["nOP"], False), (["nOP", "nFAR"], True), (["nFAR"], False), ([], False), (None, False)]
)
def test_an_event_says_once_that_other_operators_own_the_tailscale_service_too(
    owners: Sequence[str] | None, shared: bool
) -> None:
    notes = host_notes(hosting(owners=owners), None, [])
    assert [(note.reason, note.once) for note in notes] == [("SharedTailscaleService", True)] * shared
