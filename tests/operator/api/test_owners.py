"""The owners of a Tailscale Service: the operators that are allowed to write it, and the annotation that names them."""

import json
from typing import Any

import pytest
from tsoperator.api.owners import ANNOTATION_OWNERS, Ownership, SoleOwner, joined, left, ownership, sole_owner
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


OURS = {**US, "resource": RESOURCE}
API = SoleOwner("ProxyGroup", "api", "u")


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, Ownership.FOREIGN),
        (owned_by(), Ownership.FOREIGN),
        (owned_by(OURS), Ownership.OURS),
        (owned_by({**US, "resource": {**RESOURCE, "name": "old"}}), Ownership.OURS),
        (
            {ANNOTATION_OWNERS: '{"ownerrefs":[{"operatorid":"nUS","resource":{"Kind":"ProxyGroup","UID":"u"}}]}'},
            Ownership.OURS,
        ),
        (owned_by(US), Ownership.TAKEN),
        (owned_by(THEM), Ownership.TAKEN),
        (owned_by(OURS, THEM), Ownership.TAKEN),
        (owned_by({**THEM, "resource": RESOURCE}), Ownership.TAKEN),
        (owned_by({**US, "resource": {**RESOURCE, "uid": "v"}}), Ownership.TAKEN),
        (owned_by({**US, "resource": {**RESOURCE, "kind": "Ingress"}}), Ownership.TAKEN),
        (owned_by({**US, "resource": "api"}), Ownership.TAKEN),
        ({ANNOTATION_OWNERS: "not JSON"}, Ownership.UNREADABLE),
    ],
)
def test_an_object_owns_a_tailscale_service_only_if_its_uid_is_the_only_owner_in_the_annotation(
    annotations: dict[str, str], expected: Ownership
) -> None:
    service = TailscaleService("svc:api", annotations=annotations)
    assert ownership(service, "nUS", API) is expected
    assert (sole_owner(service, "nUS") == ("ProxyGroup", "u")) is (expected is Ownership.OURS)
    assert not expected.may_write or expected.is_owner


@pytest.mark.parametrize("before", [{}, owned_by({**US, "resource": {**RESOURCE, "name": "old"}}), owned_by(OURS)])
def test_the_owner_annotation_gets_the_present_name_of_an_object_that_is_the_only_owner(before: dict[str, str]) -> None:
    after = joined(before, "nUS", API)
    text = '{"ownerRefs":[{"operatorID":"nUS","resource":{"kind":"ProxyGroup","name":"api","uid":"u"}}]}'
    assert json.loads(after[ANNOTATION_OWNERS]) == json.loads(text)
    assert after == before or (after[ANNOTATION_OWNERS], after.get("note")) == (text, before.get("note"))


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
