"""Label and field selectors."""

from typing import NamedTuple

import pytest
from clustersim.objects import Object
from clustersim.selection import Selector
from clustersim.store import ApiError

POD: Object = {
    "metadata": {"name": "web-0", "namespace": "default", "labels": {"app": "web", "example.org/tier": "front"}},
    "status": {"phase": "Running"},
}


class Case(NamedTuple):
    matches: bool
    labels: str = ""
    fields: str = ""


@pytest.mark.parametrize(
    "case",
    [
        Case(True),
        Case(True, "app==web, example.org/tier=front"),
        Case(False, "app=db"),
        Case(False, "app=web,example.org/tier=back"),
        Case(False, "missing="),
        Case(True, "app in (db, web),missing!=web,app notin (db)"),
        Case(False, "app notin (db,web)"),
        Case(False, "app!=web"),
        Case(True, "app,!missing"),
        Case(False, "!app"),
        Case(True, fields="metadata.name=web-0"),
        Case(False, fields="metadata.name=web-0,metadata.namespace=other"),
        Case(True, fields="status.reason=,status.phase=Running"),
        Case(False, "app=db", "metadata.name=web-0"),
    ],
)
def test_a_selector_chooses_by_labels_and_fields(case: Case) -> None:
    assert Selector.parse(case.labels, case.fields).matches(POD) is case.matches


@pytest.mark.parametrize("text", ["a=b=c d", "a in b", "=b", "a b"])
def test_a_senseless_selector_is_refused(text: str) -> None:
    with pytest.raises(ApiError, match="unable to parse") as refusal:
        Selector.parse(text, "")
    assert refusal.value.status == 400
