"""The operator's judgement of an object by its conditions: it is served, isn't served yet, or somebody has to act."""

import re
from pathlib import Path

import pytest
from tsoperator.api.objects import Object
from tsoperator.status.conditions import judge, judge_conditions

CONDITIONS = Path(__file__).resolve().parents[3] / "docs" / "conditions.md"
_ROW = re.compile(r"^\| `(\w+)` \| (False|Unknown|True) \| (.*?) \|$")


def told(type_: str, status: str, reason: str = "Told") -> Object:
    return {"type": type_, "status": status, "reason": reason, "message": "words"}


@pytest.mark.parametrize(
    ("conditions", "grade", "reason"),
    [
        ([("TailscaleProxyReady", "True", "ProxyCreated")], "ok", "ProxyCreated"),
        ([("TailscaleProxyReady", "False", "ProxyPending")], "waiting", "ProxyPending"),
        ([("TailscaleProxyReady", "False", "ProxyFailed")], "failed", "ProxyFailed"),
        (
            [("TailscaleEgressSvcReady", "False", "B"), ("TailscaleEgressSvcValid", "False", "A")],
            "failed",
            "A",
        ),
        ([("TailscaleEgressSvcValid", "Unknown", "A"), ("TailscaleEgressSvcReady", "True", "B")], "failed", "A"),
        ([("NameserverReady", "True", "A"), ("ClusterDNSReady", "Unknown", "NotAsked")], "waiting", "NotAsked"),
        ([("NameserverReady", "Unknown", "NotAsked"), ("ClusterDNSReady", "True", "B")], "waiting", "NotAsked"),
        ([("NameserverReady", "True", "A"), ("ClusterDNSReady", "True", "B")], "ok", "B"),
        ([("Progressing", "False", "Other"), ("ConnectorReady", "True", "B")], "ok", "B"),
        ([("ProxyGroupReady", "True", "A"), ("ProxyGroupAvailable", "True", "B")], "ok", "A"),
    ],
)
def test_an_object_is_judged_by_its_first_false_condition_else_by_an_unknown_one_else_by_its_last_one(
    conditions: list[tuple[str, str, str]], grade: str, reason: str
) -> None:
    found = judge_conditions({"status": {"conditions": [told(*each) for each in conditions]}})
    assert found is not None
    assert (found.grade, found.reason) == (grade, reason)


def test_a_condition_of_another_program_can_lack_fields() -> None:
    assert judge_conditions({"status": {"conditions": [{"reason": "A"}]}}) is None
    found = judge_conditions({"status": {"conditions": [{}, {"type": "TailscaleProxyReady"}]}})
    assert found is not None
    assert found.grade == "waiting"


def test_an_object_counts_as_waiting_if_the_docs_say_that_the_user_need_only_wait() -> None:
    rows = [match.groups() for line in CONDITIONS.read_text().splitlines() if (match := _ROW.match(line))]
    waiting = {reason for reason, status, words in rows if status != "True" and words.lower().startswith("wait")}
    assert len(waiting) > 5
    assert [each for each in waiting if judge(told("ConnectorReady", "False", each)).grade != "waiting"] == []
