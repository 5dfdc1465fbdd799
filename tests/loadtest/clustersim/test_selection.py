"""Label and field selectors."""

from typing import NamedTuple

import pytest
from clustersim.objects import Object
from clustersim.selection import Selector
from clustersim.store import ApiError

POD: Object = {
    "metadata": {"name": "web-0", "namespace": "default", "labels": {"app": "web", "example.org/tier": "front"}},
    "spec": {"nodeName": "node1", "hostNetwork": True},
    "status": {"phase": "Running"},
}


class Case(NamedTuple):
    selector: str
    matches: bool


@pytest.mark.parametrize(
    "case",
    [
        Case("", True),
        Case("app=web", True),
        Case("app==web", True),
        Case("app=db", False),
        Case("app!=db", True),
        Case("app!=web", False),
        Case("missing!=web", True),
        Case("app in (db, web),example.org/tier=front", True),
        Case("app in (db)", False),
        Case("app notin (db,cache)", True),
        Case("app notin (web)", False),
        Case("missing notin (web)", True),
        Case("example.org/tier", True),
        Case("!example.org/tier", False),
        Case("!missing", True),
        Case("missing=", False),
    ],
)
def test_labels(case: Case) -> None:
    assert Selector.parse(case.selector, "").matches(POD) is case.matches


@pytest.mark.parametrize(
    "case",
    [
        Case("metadata.name=web-0", True),
        Case("metadata.name=web-0,metadata.namespace=other", False),
        Case("spec.nodeName==node1,status.phase!=Pending", True),
        Case("status.phase!=Running", False),
        Case("spec.nodeName=", False),
        Case("status.reason=", True),
        Case("status.phase.deeper!=a", True),
        Case("spec.hostNetwork=true", True),
    ],
)
def test_fields(case: Case) -> None:
    assert Selector.parse("", case.selector).matches(POD) is case.matches


@pytest.mark.parametrize("text", ["a=b=c d", "a in", "a in b", "=b", "a b"])
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(ApiError, match="unable to parse") as refusal:
        Selector.parse(text, "")
    assert refusal.value.status == 400
