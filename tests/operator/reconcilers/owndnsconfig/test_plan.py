"""The plan for the DNSConfig that the operator makes by itself."""

from typing import NamedTuple

import pytest
from tsoperator.api.objects import DNSCONFIG, Object, labels
from tsoperator.kube.errors import Denied
from tsoperator.reconcilers.owndnsconfig import plan as plans
from tsoperator.reconcilers.owndnsconfig.plan import Observed, own_dnsconfig
from tsoperator.runtime.plan import Creation, Deletion, Plan, Refusal, Step

from tests.support.objects import deleting, live_dnsconfig, settings

OURS = live_dnsconfig(labels={"tailscale.com/managed": "true"})
THEIRS = live_dnsconfig()
CREATED = (Creation(own_dnsconfig()),)
DELETED = (Deletion(DNSCONFIG, OURS),)


class Case(NamedTuple):
    """The DNSConfigs that are *there*, and the steps for both values of the setting that asks for a DNSConfig.

    The steps are *if_wanted* if the operator is to make a DNSConfig, and *if_unwanted* if it isn't.
    """

    there: list[Object]
    if_wanted: tuple[Step, ...] = ()
    if_unwanted: tuple[Step, ...] = ()


CASES = {
    "none": Case([], CREATED),
    "ours": Case([OURS], if_unwanted=DELETED),
    "ours, which goes": Case([deleting(OURS)]),
    "another one": Case([live_dnsconfig("other")]),
    "another one with our label": Case([live_dnsconfig("other", labels=labels(OURS))]),
    "another one of the same name": Case([THEIRS]),
    "another one, which goes": Case([deleting(THEIRS)]),
    "ours and another one": Case([OURS, live_dnsconfig("other")], if_unwanted=DELETED),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_operator_makes_a_dnsconfig_if_there_is_none_and_removes_only_its_own(case: Case) -> None:
    seen = Observed(case.there, sees_all=True)
    steps = [tuple(plans.plan(seen, settings(makes_dnsconfig=wanted)).steps) for wanted in (True, False)]
    assert steps == [case.if_wanted, case.if_unwanted]


@pytest.mark.parametrize("wanted", [True, False])
def test_an_operator_that_is_not_allowed_to_see_dnsconfigs_changes_nothing_and_looks_again(wanted: bool) -> None:
    assert plans.plan(Observed([], sees_all=False), settings(makes_dnsconfig=wanted)) == Plan(requeue_after=10.0)


def test_a_refused_deletion_of_a_dnsconfig_is_reported_by_an_event() -> None:
    refusal = Refusal("forbidden", error=Denied(403, "Forbidden", "no"), step=DELETED[0])
    (report,) = plans.failed(refusal).reports
    (note,) = report.notes
    assert (report.obj, note.type, note.reason) == (OURS, "Warning", "DNSConfigNotRemoved")
    assert note.message.endswith("delete it yourself. forbidden")
    assert plans.failed(Refusal("no", step=CREATED[0])) == Plan()
