"""The owners of a Tailscale Service: the operators that may write the Service, and the annotation that names them."""

import json
from typing import Any

import pytest
from tsoperator.api.owners import ANNOTATION_OWNERS, Ownership, joined, left, ownership
from tsoperator.api.tailscaleservice import TailscaleService

US, THEM, RESOURCE = {"operatorID": "nUS"}, {"operatorID": "nTHEM"}, {"kind": "ProxyGroup", "name": "api", "uid": "u"}


def owned_by(*owners: Any) -> dict[str, str]:
    return {"note": "kept", ANNOTATION_OWNERS: json.dumps({"ownerRefs": owners})}


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        (None, Ownership.FOREIGN),
        ({}, Ownership.FOREIGN),
        ({ANNOTATION_OWNERS: ""}, Ownership.FOREIGN),
        ({ANNOTATION_OWNERS: "{}"}, Ownership.FOREIGN),
        ({ANNOTATION_OWNERS: '{"ownerRefs":null}'}, Ownership.FOREIGN),
        (owned_by(), Ownership.FOREIGN),
        (owned_by(US), Ownership.OURS),
        ({ANNOTATION_OWNERS: '{"OWNERREFS":[{"OperatorId":"nUS"}]}'}, Ownership.OURS),
        (owned_by(THEM, US), Ownership.SHARED),
        (owned_by({**THEM, "resource": RESOURCE}, US), Ownership.SHARED),
        (owned_by(THEM), Ownership.OTHERS),
        (owned_by({**THEM, "resource": RESOURCE}), Ownership.EXCLUSIVE),
        (owned_by({**US, "resource": RESOURCE}), Ownership.EXCLUSIVE),
        ({ANNOTATION_OWNERS: "not JSON"}, Ownership.UNREADABLE),
        ({ANNOTATION_OWNERS: '["nUS"]'}, Ownership.UNREADABLE),
        ({ANNOTATION_OWNERS: '{"ownerRefs":["nUS"]}'}, Ownership.UNREADABLE),
        ({ANNOTATION_OWNERS: '{"ownerRefs":{}}'}, Ownership.UNREADABLE),
    ],
)
def test_the_annotation_of_a_tailscale_service_names_the_owners_of_the_service(
    annotations: dict[str, str] | None, expected: Ownership
) -> None:
    assert ownership(TailscaleService("svc:web", annotations=annotations), "nUS") is expected


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ({}, [US]),
        (owned_by(THEM), [THEM, US]),
        (owned_by({**THEM, "since": 1}), [{**THEM, "since": 1}, US]),
        (owned_by(US, THEM), [US, THEM]),
    ],
)
def test_an_operator_that_becomes_an_owner_is_the_last_owner_in_the_annotation(
    before: dict[str, str], expected: list[Any]
) -> None:
    after = joined(before, "nUS")
    assert json.loads(after[ANNOTATION_OWNERS]) == {"ownerRefs": expected}
    assert after.get("note") == before.get("note")


def test_an_operator_that_is_an_owner_already_leaves_the_annotations_of_the_service_unchanged() -> None:
    before = {ANNOTATION_OWNERS: '{ "ownerrefs": [ {"operatorid": "nUS"} ] }'}
    assert joined(before, "nUS") == before


def test_an_operator_that_gives_up_a_service_removes_only_itself_from_the_owners() -> None:
    exclusive = {**US, "resource": RESOURCE}
    after = left(owned_by(THEM, US, exclusive), "nUS")
    assert json.loads(after[ANNOTATION_OWNERS]) == {"ownerRefs": [THEM, exclusive]}
    assert after["note"] == "kept"


def test_the_annotation_with_the_owners_is_written_as_the_go_operator_writes_it() -> None:
    assert joined({}, "nABC") == {ANNOTATION_OWNERS: '{"ownerRefs":[{"operatorID":"nABC"}]}'}
