import pytest
from tsoperator.api.objects import Object
from tsoperator.runtime.plan import Note, Plan, Refusal
from tsoperator.runtime.unsupported import failed, plan_nothing

from tests.support.objects import status_of


def group(**metadata: object) -> Object:
    """A ProxyGroup with other conditions, as another operator left it."""
    ready = {"type": "ProxyGroupReady", "status": "True", "reason": "ProxyGroupReady", "message": ""}
    conditions = [{"type": "ProxyGroupAvailable", "status": "True"}, ready]
    status = {"conditions": conditions, "url": "https://api.example.org"}
    return {"kind": "ProxyGroup", "metadata": {"name": "egress", "generation": 3, **metadata}, "status": status}


@pytest.mark.parametrize("kind", [(), ("ProxyGroup of type kube-apiserver",)])
def test_the_status_of_an_unsupported_object_says_that_the_operator_does_nothing_for_it(kind: tuple[str, ...]) -> None:
    plan = plan_nothing(group(), "ProxyGroupReady", *kind)
    other, ready = status_of(plan)["conditions"]
    assert other == {"type": "ProxyGroupAvailable", "status": "True"}
    assert (ready["status"], ready["reason"], ready["observedGeneration"]) == ("False", "NotSupportedYet", 3)
    assert f"does nothing for a {' '.join(kind) or 'ProxyGroup'}: " in ready["message"]
    assert status_of(plan)["url"] == "https://api.example.org"
    assert plan == Plan(status=plan.status)


def test_the_status_of_an_object_that_another_operator_holds_names_the_finalizers() -> None:
    others = ["example.org/held", "tailscale.com/finalizer", "tailscale.com/kube-apiserver-finalizer"]
    leaving = group(deletionTimestamp="2026-01-02T03:04:05Z", finalizers=others)
    message = status_of(plan_nothing(leaving, "ProxyGroupReady"))["conditions"][1]["message"]
    assert "its finalizers tailscale.com/finalizer, tailscale.com/kube-apiserver-finalizer" in message
    assert "example.org" not in message


def test_a_deleted_object_that_no_operator_holds_gets_the_same_status_as_others() -> None:
    leaving = group(deletionTimestamp="2026-01-02T03:04:05Z", finalizers=["example.org/held"])
    assert plan_nothing(leaving, "ProxyGroupReady") == plan_nothing(group(), "ProxyGroupReady")


def test_a_refusal_becomes_an_event_and_an_error_that_is_tried_again() -> None:
    refusal = Refusal("no status for you", error=ValueError("403"))
    notes = [Note("Warning", "NotSupportedYet", "no status for you")]
    assert failed(group(), refusal) == Plan(notes=notes, error=refusal.error)
