"""The differences between a desired child and a live one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.api.names import ANNOTATION_DIGEST, ANNOTATION_LAST_CLUSTER_IP, ANNOTATION_MAGIC_DNSNAME, DNS_FINALIZER
from tsoperator.api.objects import Object, annotations
from tsoperator.runtime.diff import contains, digest_of, write_for
from tsoperator.runtime.plan import earliest

from tests.support.objects import deleting, stored

NAMES = st.sampled_from(["a", "b", "example.org/c", "x-y"])
SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=5
)
MAPS = st.dictionaries(NAMES, VALUES, max_size=3)
TEXTS = st.dictionaries(NAMES, st.text(max_size=5), max_size=3)
FINALIZERS = st.lists(NAMES, unique=True, max_size=2)
DESIRED = st.fixed_dictionaries(
    {
        "apiVersion": st.just("v1"),
        "kind": st.just("Service"),
        "metadata": st.fixed_dictionaries(
            {"name": st.just("ts"), "labels": TEXTS, "annotations": TEXTS, "finalizers": FINALIZERS}
        ),
        "spec": MAPS,
    }
)


def desired(spec: Object | None = None, **metadata: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": "tailscale", "name": "ts-db", "labels": {"managed": "true"}, **metadata},
        "spec": spec or {"clusterIP": "None"},
    }


def live(spec: Object | None = None, **metadata: Any) -> Object:
    """Return a child without a digest, as the Go operator or an early version of ours left it."""
    return stored(desired(spec), **metadata)


def written(wanted: Object, found: Object | None) -> Object:
    result = write_for(wanted, found)
    assert result is not None
    return result


@pytest.mark.parametrize(
    ("there", "wanted", "contained"),
    [
        ({"a": 1, "defaulted": 2}, {"a": 1}, True),
        ({"a": 2}, {"a": 1}, False),
        ({}, {"a": 1}, False),
        ({"list": [1, 2]}, {"list": [1]}, False),
        ({"list": [1]}, {"list": [1, 2]}, False),
        ({"list": [2, 1]}, {"list": [1, 2]}, False),
        ({"list": [{"a": 1, "defaulted": 2}]}, {"list": [{"a": 1}]}, True),
        ({}, {"list": []}, True),
        ({}, {"map": {}}, True),
        ({}, {"text": ""}, True),
        ({}, {"nothing": None}, True),
        ({}, {"said": False}, False),
        ({}, {"said": 0}, False),
        ({"map": "text"}, {"map": {}}, False),
        ({"list": {}}, {"list": []}, False),
        ({"list": [1]}, {"list": []}, False),
    ],
)
def test_a_live_object_that_contains_a_desired_one_can_have_more_keys_in_maps_but_not_more_items_in_lists(
    there: Any, wanted: Any, contained: bool
) -> None:
    assert contains(there, wanted) is contained


@pytest.mark.parametrize(
    ("values", "contained"), [("A=0 A=1 B=2", True), ("A=1 A=0 B=2", False), ("A=1", False), ("A=1 B=2 C=3", True)]
)
def test_the_last_of_several_variables_with_one_name_is_compared(values: str, contained: bool) -> None:
    there, wanted = ([{"name": each[0], "value": each[2]} for each in env.split()] for env in (values, "A=1 B=2"))
    assert contains({"env": there}, {"env": wanted}) is contained


@pytest.mark.parametrize(
    ("live", "wanted", "contained"),
    [("1", "1000m", True), ("1536Mi", "1.5Gi", True), ("1", "1001m", False), ("1", "1Ki", False)],
)
def test_amounts_of_resources_are_compared_as_numbers(live: str, wanted: str, contained: bool) -> None:
    for what in ("limits", "requests"):
        assert contains({what: {"cpu": live}}, {what: {"cpu": wanted}}) is contained


def test_a_digest_depends_on_the_values_but_not_on_the_order_of_fields() -> None:
    assert digest_of({"a": {"b": 1, "c": 2}, "d": 3}) == digest_of({"d": 3, "a": {"c": 2, "b": 1}})
    assert digest_of({"a": [1, 2]}) != digest_of({"a": [2, 1]})


def with_defaults(value: Any) -> Any:
    """Return *value* with one more field in every map, as if the API server had set defaults."""
    if isinstance(value, dict):
        return {"defaulted": 1, **{name: with_defaults(inner) for name, inner in value.items()}}
    return [with_defaults(inner) for inner in value] if isinstance(value, list) else value


@given(DESIRED, TEXTS, FINALIZERS)
def test_fields_that_the_api_server_or_others_add_to_a_written_child_cause_no_write(
    wanted: Object, words: Object, others: list[str]
) -> None:
    found = stored(write_for(wanted, None))
    meta = found["metadata"]
    meta = meta | {name: {**words, **meta[name]} for name in ("labels", "annotations")}
    meta = meta | {"finalizers": [*others, *meta["finalizers"]]}
    assert write_for(wanted, found) is None
    assert write_for(wanted, {**found, "metadata": meta, "spec": with_defaults(found["spec"]), "status": {}}) is None


@given(DESIRED, DESIRED)
def test_a_child_is_right_after_a_single_write_whatever_it_was_before(wanted: Object, before: Object) -> None:
    found = stored(before)
    result = write_for(wanted, found)
    assert write_for(wanted, stored(result) if result else found) is None


def test_a_child_that_is_missing_is_created_with_its_digest() -> None:
    wanted = desired(annotations={"a": "b"})
    noted = {"a": "b", ANNOTATION_DIGEST: digest_of(wanted)}
    assert written(wanted, None) == {**wanted, "metadata": {**wanted["metadata"], "annotations": noted}}


def test_a_child_of_the_go_operator_that_is_right_only_gets_the_digest() -> None:
    theirs = live({"clusterIP": "None", "sessionAffinity": "None"}, generateName="ts-db-", annotations={"a": "b"})
    made = written(desired(), theirs)
    digest = {ANNOTATION_DIGEST: digest_of(desired())}
    assert made == {**theirs, "metadata": {**theirs["metadata"], "annotations": {"a": "b"} | digest}}


def test_a_child_of_the_go_operator_that_differs_is_replaced() -> None:
    made = written(desired(), live({"clusterIP": "None", "selector": {}, "externalName": "x"} | {"clusterIP": "1"}))
    assert made["spec"] == {"clusterIP": "None"}
    assert made["metadata"]["resourceVersion"] == "2"


def test_a_write_restores_changed_fields_and_removes_fields_that_are_no_longer_wanted() -> None:
    wanted, more = {"clusterIP": "None", "ports": [1]}, {"clusterIP": "None", "ports": [1], "priority": "high"}
    found = stored(write_for(desired(wanted), None))
    for changed in ({**wanted, "clusterIP": "192.0.2.1"}, {**wanted, "ports": [1, 2]}):
        assert written(desired(wanted), {**found, "spec": changed})["spec"] == wanted
    assert written(desired(wanted), stored(write_for(desired(more), None)))["spec"] == wanted


def test_a_correct_spec_stays_unchanged_when_metadata_is_repaired() -> None:
    found = stored(write_for(desired(), None), labels={})
    more = {**found["spec"], "restartedAt": "by hand"}
    assert written(desired(), {**found, "spec": more})["spec"] == more


LOST: list[Object] = [{"labels": {}}, {"annotations": {"other": "x"}}, {"finalizers": None}, {"ownerReferences": []}]


@pytest.mark.parametrize("lost", [*LOST, {"finalizers": ["other"]}])
def test_a_write_restores_the_lost_labels_annotations_finalizers_and_owners_of_a_child(lost: Object) -> None:
    owner = {"kind": "DNSConfig", "uid": "u"}
    wanted = desired(annotations={"a": "b"}, finalizers=["ours"], ownerReferences=[owner])
    made = written(wanted, stored(write_for(wanted, None), **lost))["metadata"]
    assert (made["labels"], annotations({"metadata": made})["a"]) == ({"managed": "true"}, "b")
    assert "ours" in made["finalizers"]
    assert made["ownerReferences"] == [owner]


def test_a_replaced_child_keeps_the_metadata_that_others_have_added() -> None:
    theirs = live({"clusterIP": "1"}, labels={"team": "web"}, annotations={"note": "x"}, finalizers=["their/own"])
    made = written(desired(finalizers=["ours"]), theirs)["metadata"]
    assert (made["labels"], made["annotations"]["note"]) == ({"team": "web", "managed": "true"}, "x")
    assert made["finalizers"] == ["ours", "their/own"]


@pytest.mark.parametrize("spec", [{"clusterIP": "None"}, {"clusterIP": "1"}])
def test_the_annotation_with_an_unwanted_magicdns_name_is_removed_together_with_the_finalizer_for_dns(
    spec: Object,
) -> None:
    notes = {ANNOTATION_MAGIC_DNSNAME: "old.tail1234.ts.net", ANNOTATION_LAST_CLUSTER_IP: "192.0.2.4", "note": "x"}
    made = written(desired(), live(spec, annotations=notes, finalizers=[DNS_FINALIZER, "their/own"]))
    assert annotations(made) == {"note": "x", ANNOTATION_DIGEST: digest_of(desired())}
    assert made["metadata"]["finalizers"] == ["their/own"]


def test_a_child_that_is_being_deleted_is_left_alone() -> None:
    assert write_for(desired(), deleting(live({"clusterIP": "1"}))) is None


def test_the_earliest_of_several_times_is_chosen_from_those_that_are_not_none() -> None:
    assert [earliest(), earliest(None), earliest(7.0, None, 5.0), earliest(0.0, 5.0)] == [None, None, 5.0, 0.0]
