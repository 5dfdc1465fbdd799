"""Tests of the store of the simulated API server: its rules for writing objects."""

from datetime import UTC, datetime

import pytest
from clustersim.objects import (
    CONFIGMAP,
    DEPLOYMENT,
    NAMESPACE,
    POD,
    PROXYCLASS,
    ROLEBINDING,
    SECRET,
    SERVICE,
    Object,
    Resource,
)
from clustersim.store import ApiError, Store

from tests.loadtest.clustersim.running import statefulset
from tests.loadtest.clustersim.serving import configmap, service


def refusal(status: int, reason: str) -> "pytest.RaisesExc[ApiError]":
    return pytest.raises(ApiError, check=lambda error: (error.status, error.reason) == (status, reason))


def test_the_store_generates_different_names_for_objects_with_the_same_generatename() -> None:
    store, obj = Store(), {"metadata": {"generateName": "a-", "namespace": "default"}}
    generated = {store.create(CONFIGMAP, obj)["metadata"]["name"] for _ in range(9)}
    assert len(generated) == 9
    assert all(name.startswith("a-") and len(name) == 7 for name in generated)


def test_a_null_in_a_patch_removes_a_field() -> None:
    store = Store()
    store.create(CONFIGMAP, configmap())
    assert store.merge(CONFIGMAP, "default", "settings", {"data": {"a": None, "b": "2"}})["data"] == {"b": "2"}


def test_a_write_with_an_older_version_or_another_uid_is_a_conflict() -> None:
    store = Store()
    seen = store.create(CONFIGMAP, configmap())
    store.merge(CONFIGMAP, "default", "settings", {"data": {"a": "2"}})
    with refusal(409, "Conflict"):
        store.replace(CONFIGMAP, {**seen, "data": {}})
    for stale in ({"resourceVersion": seen["metadata"]["resourceVersion"]}, {"uid": "of-another"}):
        with refusal(409, "Conflict"):
            store.merge(CONFIGMAP, "default", "settings", {"metadata": stale})


def test_only_the_status_subresource_writes_a_status() -> None:
    store = Store()
    store.create(PROXYCLASS, {"metadata": {"name": "a"}, "spec": {"x": 1}, "status": {"ready": 1}})
    both = {"spec": {"x": 2}, "status": {"ready": 2}}
    assert "status" not in store.merge(PROXYCLASS, "", "a", both)
    reported = store.merge(PROXYCLASS, "", "a", {"spec": {"x": 3}, "status": {"ready": 3}}, "status")
    assert (reported["spec"], reported["status"]) == ({"x": 2}, {"ready": 3})


def test_a_write_that_changes_nothing_makes_no_new_resource_version() -> None:
    store = Store()
    created = store.create(SERVICE, service())
    with store.subscribe() as changes:
        assert store.replace(SERVICE, service(clusterIP=created["spec"]["clusterIP"])) is created
        assert not changes.pending


def test_generation_counts_changes_of_the_specification_only() -> None:
    store = Store()
    store.create(DEPLOYMENT, statefulset())
    labelled = store.merge(DEPLOYMENT, "default", "web", {"metadata": {"labels": {"a": "b"}}})
    reported = store.merge(DEPLOYMENT, "default", "web", {"status": {"replicas": 1}}, "status")
    scaled = store.merge(DEPLOYMENT, "default", "web", {"spec": {"replicas": 2}})
    assert [each["metadata"]["generation"] for each in (labelled, reported, scaled)] == [1, 1, 2]


def test_a_deleted_object_stays_for_its_finalizer_and_gets_no_new_finalizers() -> None:
    store = Store()
    store.create(CONFIGMAP, configmap(finalizers=["example.org/a"]))
    assert "deletionTimestamp" in store.delete(CONFIGMAP, "default", "settings")["metadata"]
    with refusal(422, "Invalid"):
        store.merge(CONFIGMAP, "default", "settings", {"metadata": {"finalizers": ["example.org/b"]}})
    store.merge(CONFIGMAP, "default", "settings", {"metadata": {"finalizers": None}})
    assert store.find(CONFIGMAP, "default", "settings") is None


def test_the_deletion_of_a_namespace_deletes_its_objects_and_waits_for_their_finalizers() -> None:
    store = Store(("default", "shop"))
    store.create(CONFIGMAP, configmap(namespace="shop", finalizers=["example.org/a"]))
    assert store.delete(NAMESPACE, "", "shop")["status"]["phase"] == "Terminating"
    with refusal(403, "Forbidden"):
        store.create(CONFIGMAP, configmap("other", namespace="shop"))
    store.merge(CONFIGMAP, "shop", "settings", {"metadata": {"finalizers": None}})
    assert (store.find(NAMESPACE, "", "shop"), store.list(CONFIGMAP)) == (None, [])


async def test_the_store_keeps_the_uid_of_an_object_that_it_copies_from_another_cluster_and_can_remove_the_copy() -> (
    None
):
    store = Store(())
    obj = {"metadata": {"name": "s", "namespace": "shop", "uid": "of-another-cluster"}}
    with store.subscribe() as changes:
        for data in ({}, {"key": "bmV3"}):
            store.adopt(SECRET, {**obj, "data": data})
        assert store.get(SECRET, "shop", "s")["metadata"]["uid"] == "of-another-cluster"
        for _ in range(2):
            store.disown(SECRET, "shop", "s")
        assert [change.type for change in await changes.batch()] == ["ADDED", "MODIFIED", "DELETED"]


def test_restoring_a_revision_of_the_store_undoes_all_later_writes() -> None:
    store = Store()
    kept, changed = (store.create(CONFIGMAP, configmap(name)) for name in ("kept", "changed"))
    revision = store.revision
    store.merge(CONFIGMAP, "default", "changed", {"data": {"a": "2"}})
    store.delete(CONFIGMAP, "default", "changed")
    store.delete(CONFIGMAP, "default", "kept")
    store.create(CONFIGMAP, configmap("later"))
    store.restore(revision)
    assert (store.revision, store.list(CONFIGMAP)) == (revision, [changed, kept])
    assert store.changes_since(CONFIGMAP, revision) == []


@pytest.mark.parametrize(
    ("resource", "obj"),
    [
        (CONFIGMAP, configmap("Upper")),
        (CONFIGMAP, configmap("a" * 254)),
        (CONFIGMAP, configmap("")),
        (ROLEBINDING, configmap("a/b")),
        (CONFIGMAP, configmap(labels={"a": "b" * 64})),
        (CONFIGMAP, configmap(labels={"a": "-"})),
        (CONFIGMAP, configmap(annotations={"a b": "c"})),
        (CONFIGMAP, {**configmap(), "data": {"a": "x" * (1024 * 1024 + 1)}}),
        (SERVICE, service("a" * 64)),
        (SERVICE, service("a.b")),
    ],
)
def test_the_store_refuses_an_invalid_object(resource: Resource, obj: Object) -> None:
    with refusal(422, "Invalid"):
        Store().create(resource, obj)


@pytest.mark.parametrize(
    ("resource", "content", "allowed", "refused"),
    [
        (SECRET, {"type": "a"}, {"data": {"b": ""}}, {"type": "c"}),
        (ROLEBINDING, {"roleRef": {"name": "a"}}, {"subjects": []}, {"roleRef": {"name": "b"}}),
        (DEPLOYMENT, statefulset(), {"spec": {"replicas": 2}}, {"spec": {"selector": {"matchLabels": {"a": "b"}}}}),
    ],
)
def test_a_write_cannot_change_an_immutable_field(
    resource: Resource, content: Object, allowed: Object, refused: Object
) -> None:
    store = Store()
    store.create(resource, {**content, "metadata": {"name": "a", "namespace": "default"}})
    store.merge(resource, "default", "a", allowed)
    with pytest.raises(ApiError, match=r"immutable|cannot change"):
        store.merge(resource, "default", "a", refused)


HOOKED = {"containers": [{"name": "c", "lifecycle": {"preStop": {"sleep": {"seconds": 5}}}}]}


@pytest.mark.parametrize(
    ("spec", "grace"),
    [
        ({**HOOKED, "nodeName": "node1"}, 30),
        ({**HOOKED, "nodeName": "node1", "terminationGracePeriodSeconds": 360}, 360),
        (HOOKED, None),
        ({"containers": [{"name": "c"}], "nodeName": "node1"}, None),
    ],
)
def test_only_a_running_pod_with_a_prestop_hook_has_a_grace_period(spec: Object, grace: int | None) -> None:
    store = Store()
    store.create(POD, {"metadata": {"name": "a", "namespace": "default"}, "spec": spec})
    last = store.delete(POD, "default", "a")
    assert (last["metadata"]["deletionGracePeriodSeconds"] or None) == grace
    assert (store.find(POD, "default", "a") is None) is (grace is None)
    if grace:
        assert store.delete(POD, "default", "a", grace=400) == last
        store.delete(POD, "default", "a", grace=0)
    assert store.find(POD, "default", "a") is None


def test_the_deletion_timestamp_of_a_pod_is_the_end_of_its_grace_period() -> None:
    store = Store(clock=lambda: datetime(2030, 1, 1, tzinfo=UTC))
    spec = {**HOOKED, "nodeName": "node1"}
    store.create(POD, {"metadata": {"name": "a", "namespace": "default"}, "spec": spec})
    given = {None: "2030-01-01T00:00:30Z", 40: "2030-01-01T00:00:30Z", 20: "2030-01-01T00:00:20Z"}
    for grace, time in given.items():
        assert store.delete(POD, "default", "a", grace=grace)["metadata"]["deletionTimestamp"] == time
