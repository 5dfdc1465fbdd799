"""Objects that the operator says it can't serve."""

import pytest
from tsoperator.api import names
from tsoperator.api.objects import Object
from tsoperator.cli.cluster.conditions import OURS, check_conditions

from tests.operator.cli.cluster.samples import wrong


def service(*conditions: tuple[str, str]) -> Object:
    listed = [
        {"type": kind, "status": status, "reason": "TargetNotFound", "message": "no such name"}
        for kind, status in conditions
    ]
    return {"kind": "Service", "metadata": {"namespace": "a", "name": "db"}, "status": {"conditions": listed}}


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (service(), False),
        (service(("TailscaleProxyReady", "True")), False),
        (service(("Progressing", "False")), False),
        (service(("TailscaleProxyReady", "False")), True),
        (service(("TailscaleEgressSvcValid", "True"), ("TailscaleEgressSvcReady", "False")), True),
    ],
)
def test_an_object_that_is_not_served_is_told(found: Object, told: bool) -> None:
    assert bool(wrong([*check_conditions([found])])) is told


def test_a_finding_has_the_operators_own_words_once() -> None:
    twice = service(("TailscaleEgressSvcValid", "False"), ("TailscaleEgressSvcReady", "False"))
    (found,) = check_conditions([twice, service(("TailscaleProxyReady", "True"))])
    assert found.words == "Service a/db: TailscaleEgressSvcValid is False: no such name"
    assert found.cure == "docs/conditions.md says more about the reason TargetNotFound"


def test_every_condition_but_that_a_group_is_available_counts() -> None:
    ours = {value for name, value in vars(names).items() if name.startswith("CONDITION_")}
    assert ours - OURS == {names.CONDITION_PROXYGROUP_AVAILABLE}


def test_objects_with_conditions_are_counted() -> None:
    (found,) = check_conditions([service(), service(("TailscaleProxyReady", "True"))])
    assert found.words == "all 1 objects with a condition of the operator are served"
