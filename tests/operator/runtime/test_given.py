"""Labels and annotations that a ProxyClass gives a child, and that are removed when the class no longer gives them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.api.names import ANNOTATION_DIGEST, ANNOTATION_GIVEN
from tsoperator.api.objects import Object, annotations, labels
from tsoperator.runtime.diff import write_for
from tsoperator.runtime.given import with_given, without_given

from tests.support.objects import stored

TEXTS = st.dictionaries(st.sampled_from(["a", "b.c", "example.org/d"]), st.text("xy", max_size=2), max_size=3)


def child(**metadata: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "ts", **metadata}, "spec": {"a": 1}}


def test_given_labels_and_annotations_are_added_and_noted_in_an_annotation_unless_the_child_has_its_own() -> None:
    own = child(labels={"team": "ours"}, annotations={"note": "ours"})
    made = with_given(own, {"team": "web", "tier": "1"}, {"note": "x", "example.org/note": "x"})
    assert labels(made) == {"team": "ours", "tier": "1"}
    noted = {ANNOTATION_GIVEN: "annotations.example.org/note labels.tier"}
    assert annotations(made) == {"note": "ours", "example.org/note": "x", **noted}
    assert with_given(own, {"team": "web"}, {"note": "x"}) == own


@pytest.mark.parametrize("note", [ANNOTATION_DIGEST, ANNOTATION_GIVEN])
def test_a_class_cannot_set_the_annotations_in_which_the_operator_keeps_facts(note: str) -> None:
    wanted = with_given(child(), {}, {note: "x", "example.org/note": "y"})
    assert annotations(wanted) == {"example.org/note": "y", ANNOTATION_GIVEN: "annotations.example.org/note"}
    assert write_for(wanted, written(wanted, None)) is None
    assert with_given(child(), {}, {note: "x"}) == child()


@given(TEXTS, TEXTS, TEXTS)
def test_given_labels_and_annotations_can_be_removed_from_a_child(
    own: Object, given_labels: Object, given_notes: Object
) -> None:
    plain = child(**({"labels": own} if own else {}))
    assert without_given(with_given(plain, given_labels, given_notes)) == plain


def written(wanted: Object, found: Object | None) -> Object:
    result = write_for(wanted, found)
    assert result is not None
    return stored(result)


def test_labels_that_a_class_no_longer_gives_are_removed_and_those_of_others_stay() -> None:
    live = written(with_given(child(), {"team": "web", "tier": "1"}, {"note": "x"}), None)
    live["metadata"]["labels"]["theirs"] = "1"
    less = written(with_given(child(), {"tier": "1"}, {}), live)
    assert labels(less) == {"tier": "1", "theirs": "1"}
    assert "note" not in annotations(less)
    none = written(child(), less)
    assert labels(none) == {"theirs": "1"}
    assert ANNOTATION_GIVEN not in annotations(none)
    assert write_for(child(), none) is None


def test_a_changed_label_of_a_class_leaves_the_spec_of_the_child_as_it_is() -> None:
    live = written(with_given(child(), {"team": "web"}, {}), None)
    live["spec"]["restarted"] = "by hand"
    made = written(with_given(child(), {"team": "db"}, {}), live)
    assert (labels(made), made["spec"]) == ({"team": "db"}, {"a": 1, "restarted": "by hand"})


def test_a_label_that_another_operator_copied_from_the_class_is_noted_as_given_and_the_spec_stays_unchanged() -> None:
    theirs = stored(child(labels={"team": "web"}))
    theirs["spec"] = {"a": 1, "restarted": "by hand"}
    made = written(with_given(child(), {"team": "web"}, {}), theirs)
    assert (labels(made), made["spec"]) == ({"team": "web"}, theirs["spec"])
    assert labels(written(child(), made)) == {}
