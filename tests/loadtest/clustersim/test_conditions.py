from clustersim.conditions import with_condition

OLD = {"type": "Ready", "status": "True", "reason": "A", "lastTransitionTime": "2020-01-01T00:00:00Z"}
OTHER = {"type": "Other", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z"}


def test_the_time_stays_while_the_status_does() -> None:
    (condition,) = with_condition([OLD], {"type": "Ready", "status": "True", "reason": "B"})
    assert condition == {**OLD, "reason": "B"}


def test_the_time_moves_with_the_status() -> None:
    (condition,) = with_condition([OLD], {"type": "Ready", "status": "False"})
    assert condition["lastTransitionTime"] > OLD["lastTransitionTime"]


def test_other_conditions_keep_their_place() -> None:
    conditions = with_condition([OTHER, OLD], {"type": "Ready", "status": "False"})
    assert [conditions[0], conditions[1]["type"]] == [OTHER, "Ready"]
