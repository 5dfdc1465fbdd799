from clustersim.conditions import with_condition


def test_the_transition_time_changes_only_with_the_status_of_the_condition() -> None:
    other, old = ({"type": kind, "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"} for kind in "AB")
    kept = with_condition([other, old], {"type": "B", "status": "True", "reason": "C"})
    assert kept == [other, {**old, "reason": "C"}]
    moved = with_condition(kept, {"type": "B", "status": "False"})
    assert (moved[0], moved[1]["lastTransitionTime"] > old["lastTransitionTime"]) == (other, True)
