from clustersim.conditions import with_condition


def test_the_last_transition_time_of_a_condition_changes_only_with_its_status() -> None:
    other, old = ({"type": kind, "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"} for kind in "AB")
    kept = with_condition([other, old], {"type": "B", "status": "True", "reason": "C"})
    assert kept == [other, {**old, "reason": "C"}]
    moved = with_condition(kept, {"type": "B", "status": "False"})
    assert (moved[0], moved[1]["lastTransitionTime"] > old["lastTransitionTime"]) == (other, True)
