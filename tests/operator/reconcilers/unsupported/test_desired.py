from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import Object
from tsoperator.reconcilers.unsupported import desired


def group(**metadata: object) -> Object:
    """A ProxyGroup with other conditions, as another operator left it."""
    ready = {"type": "ProxyGroupReady", "status": "True", "reason": "ProxyGroupReady", "message": ""}
    status = {
        "conditions": [{"type": "ProxyGroupAvailable", "status": "True"}, ready],
        "url": "https://api.example.org",
    }
    return {"kind": "ProxyGroup", "metadata": {"name": "egress", "generation": 3, **metadata}, "status": status}


def test_an_object_is_told_that_nothing_is_done_for_it() -> None:
    plan = desired.plan(group(), "ProxyGroupReady")
    assert plan.status is not None
    other, ready = plan.status["conditions"]
    assert other == {"type": "ProxyGroupAvailable", "status": "True"}
    assert (ready["status"], ready["reason"], ready["observedGeneration"]) == ("False", "NotSupportedYet", 3)
    assert "does nothing for a ProxyGroup" in ready["message"]
    assert plan.status["url"] == "https://api.example.org"
    assert (plan.hold, plan.release, plan.apply, plan.delete) == (False, False, (), ())


def test_one_that_is_held_by_another_operator_is_told_the_way_out() -> None:
    leaving = group(deletionTimestamp="2026-01-02T03:04:05Z", finalizers=[FINALIZER])
    plan = desired.plan(leaving, "ProxyGroupReady")
    assert plan.status is not None
    assert f"take the finalizer {FINALIZER} off it" in plan.status["conditions"][1]["message"]
