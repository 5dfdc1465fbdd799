"""Tests of label and field selectors."""

import pytest
from clustersim.objects import Object
from clustersim.selection import Selector
from clustersim.store import ApiError

POD: Object = {
    "metadata": {"name": "web-0", "namespace": "default", "labels": {"app": "web", "example.org/tier": "front"}},
    "status": {"phase": "Running"},
}


@pytest.mark.parametrize(
    ("labels", "fields", "matches"),
    [
        ("", "", True),
        ("app==web, example.org/tier=front", "", True),
        ("app=db", "", False),
        ("app=web,example.org/tier=back", "", False),
        ("missing=", "", False),
        ("app in (db, web),missing!=web,app notin (db)", "", True),
        ("app notin (db,web)", "", False),
        ("app!=web", "", False),
        ("app,!missing", "", True),
        ("!app", "", False),
        ("", "metadata.name=web-0", True),
        ("", "metadata.name=web-0,metadata.namespace=other", False),
        ("", "status.reason=,status.phase=Running", True),
        ("app=db", "metadata.name=web-0", False),
    ],
)
def test_a_selector_selects_by_labels_and_fields(labels: str, fields: str, matches: bool) -> None:
    assert Selector.parse(labels, fields).matches(POD) is matches


@pytest.mark.parametrize("text", ["a=b=c d", "a in b", "=b", "a b"])
def test_the_api_server_refuses_a_malformed_label_selector(text: str) -> None:
    with pytest.raises(ApiError, match="unable to parse") as refusal:
        Selector.parse(text, "")
    assert refusal.value.status == 400
