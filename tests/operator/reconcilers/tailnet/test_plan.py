"""The plan for a Tailnet: whether it can be used, and its condition and Events."""

from collections.abc import Mapping

import pytest
from tsoperator.api.conditions import condition
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import TAILNET, Key, Object
from tsoperator.reconcilers.tailnet import plan as plans
from tsoperator.reconcilers.tailnet.plan import Observed, Probe
from tsoperator.runtime.plan import Note, Plan, Refusal
from tsoperator.tailnet.credentials import SOON

from tests.support.objects import condition_of, deleting, held, obj

NAMED = {"secretName": "lab-oauth"}


def tailnet(**spec: object) -> Object:
    return obj(TAILNET, Key("", "lab"), {"spec": {"credentials": NAMED, **spec}}, generation=7)


LOOK = "check that spec.loginUrl is right, and that the operator's Pod can reach it"
AWAY, DENIED = Refusal("503", is_passing=True), Refusal("403")


HERE, ELSEWHERE, SHARED = "x.tail5678.ts.net", "x.tail9999.ts.net", ""
OURS = {f"n{number}": f"gate-{number}.tail5678.ts.net" for number in range(22)}


def refusal(message: str, reason: str) -> Refusal:
    return Refusal(message, reason, requeue_after=SOON)


UNSUPPORTED = Refusal("no", "Unsupported")
PROBES: dict[str, tuple[Probe, Mapping[str, str], Refusal | None]] = {
    "all works": (Probe((), {"n1": HERE}), {}, None),
    "one is refused": (Probe([DENIED]), {}, refusal("403", "InvalidOAuth")),
    "all are refused": (Probe([DENIED, Refusal("404")]), {}, refusal("403; 404", "InvalidOAuth")),
    "away": (Probe([AWAY, AWAY]), {}, refusal(f"503; 503; {LOOK}", "ControlServerUnreachable")),
    "refused, then away": (Probe([DENIED, AWAY]), {}, refusal("403; 503", "InvalidOAuth")),
    "unsupported": (Probe([DENIED, UNSUPPORTED]), {}, refusal("403; no", "Unsupported")),
    "refused, and elsewhere": (Probe([DENIED], {"n99": ELSEWHERE}), OURS, refusal("403", "InvalidOAuth")),
    "our device, renamed": (Probe((), {"n1": "x.renamed.ts.net", "n99": ELSEWHERE}), OURS, None),
    "our devices are deleted": (Probe((), {"n99": "X.TAIL5678.ts.net."}), OURS, None),
    "no device of ours so far": (Probe((), {"n99": ELSEWHERE}), {}, None),
}


@pytest.mark.parametrize(("probe", "ours", "refusal"), PROBES.values(), ids=PROBES)
def test_credentials_are_good_if_all_requests_to_the_control_server_work_and_concern_the_same_tailnet(
    probe: Probe, ours: Mapping[str, str], refusal: Refusal | None
) -> None:
    assert plans.refusal_of(probe, ours) == refusal


@pytest.mark.parametrize("listed", [{"x9": ELSEWHERE}, {"x9": SHARED}, {"x9": "headscales"}, {}])
def test_credentials_for_another_tailnet_than_before_are_refused(listed: dict[str, str]) -> None:
    for ours in ({"n1": "n1"}, OURS):
        found = plans.refusal_of(Probe((), listed), ours)
        assert found is not None
        assert (found.reason, found.requeue_after) == ("TailnetChanged", SOON)
    assert found is not None
    assert "gate-19.tail5678.ts.net and 2 more)" in found.message
    assert "make another Tailnet" in found.message


def test_a_tailnet_object_with_good_credentials_gets_our_finalizer_and_is_ready() -> None:
    made = plans.plan(tailnet(), Observed(seconds=5))
    assert condition_of(made) == condition("TailnetReady", True, "TailnetValid", "TailnetValid", 7)
    assert made == Plan(hold=FINALIZER, status=made.status, notes=[], requeue_after=5)
    assert plans.refusal(made) == ""


BAD = Refusal("403: no", "InvalidOAuth")


def test_a_condition_and_one_event_say_what_is_wrong_with_a_tailnet_object() -> None:
    made = plans.plan(tailnet(), Observed(BAD, seconds=30))
    assert made == Plan(status=made.status, notes=[Note("Warning", "InvalidOAuth", "403: no")], requeue_after=30)
    assert (condition_of(made)["status"], plans.refusal(made)) == ("False", "403: no")
    told = {**tailnet(), "status": made.status}
    assert plans.plan(told, Observed(BAD)).notes == []
    assert plans.plan(told, Observed(Refusal("401", "InvalidOAuth"))).notes != []


def test_the_conditions_that_others_set_on_a_tailnet_object_stay() -> None:
    theirs = {"type": "Theirs", "status": "True", "reason": "R", "message": ""}
    made = plans.plan({**tailnet(), "status": {"conditions": [theirs], "url": "x"}}, Observed())
    assert made.status is not None
    assert [each["type"] for each in made.status["conditions"]] == ["Theirs", "TailnetReady"]
    assert made.status["url"] == "x"


USERS = ["Connector gate", "ProxyGroup egress"]


@pytest.mark.parametrize("refusal", [None, BAD], ids=["good", "bad"])
def test_a_deleted_tailnet_object_stays_while_other_objects_name_it(refusal: Refusal | None) -> None:
    made = plans.plan(deleting(held(tailnet())), Observed(refusal, USERS, 9))
    ready = condition_of(made)
    assert (ready["status"], ready["reason"]) == ("False", "TailnetInUse")
    assert "Connector gate, ProxyGroup egress" in ready["message"]
    assert "delete the Secrets of their proxies by hand" in ready["message"]
    assert ready["message"].endswith(". If you can, mend it before: 403: no") is (refusal is BAD)
    assert (made.hold, made.release, made.requeue_after) == ("", "", 9)
    assert [note.reason for note in made.notes] == ["TailnetInUse"]


def test_a_deleted_tailnet_object_is_released_when_no_other_object_names_it() -> None:
    going = deleting(held(tailnet()))
    assert [plans.is_idle(going, users) for users in (USERS, [])] == [False, True]
    assert not plans.is_idle(held(tailnet()), [])
    made = plans.plan(going, Observed())
    assert (made, plans.refusal(made)) == (Plan(release=FINALIZER), "")


def test_a_write_of_a_tailnet_object_is_reported_by_an_event_and_repeated_if_the_api_server_refuses_it() -> None:
    error = ValueError("403")
    notes = [Note("Warning", "TailnetInvalid", "no status for you")]
    assert plans.failed(tailnet(), Refusal("no status for you", error=error)) == Plan(notes=notes, error=error)
