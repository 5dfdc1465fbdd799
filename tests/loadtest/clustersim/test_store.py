"""The store's rules for writing objects."""

import asyncio
from typing import NamedTuple

import pytest
from clustersim.objects import (
    CONFIGMAP,
    DEPLOYMENT,
    INGRESS,
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

from tests.loadtest.clustersim.serving import configmap, service


def deployment(**spec: object) -> Object:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web"}]}}
    selector = {"matchLabels": {"app": "web"}}
    return {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": selector, "template": template, **spec},
    }


def ingress(tls_host: str) -> Object:
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    spec = {"defaultBackend": backend, "tls": [{"hosts": [tls_host]}]}
    return {"metadata": {"name": "web", "namespace": "default"}, "spec": spec}


def refusal(status: int, reason: str) -> "pytest.RaisesExc[ApiError]":
    return pytest.raises(ApiError, check=lambda error: (error.status, error.reason) == (status, reason))


def test_a_created_object_carries_what_the_server_adds() -> None:
    created = Store().create(CONFIGMAP, configmap())
    metadata = created["metadata"]
    assert (created["apiVersion"], created["kind"]) == ("v1", "ConfigMap")
    assert metadata["resourceVersion"].isdecimal()
    assert metadata["uid"]
    assert metadata["creationTimestamp"].endswith("Z")
    assert "generation" not in metadata


def test_a_created_object_is_no_longer_the_callers() -> None:
    store, mine = Store(), configmap()
    store.create(CONFIGMAP, mine)
    mine["data"]["a"] = "2"
    assert store.get(CONFIGMAP, "default", "settings")["data"] == {"a": "1"}


def test_fields_that_are_null_are_absent() -> None:
    store = Store()
    created = store.create(CONFIGMAP, configmap() | {"immutable": None, "binaryData": {"a": None}})
    assert "immutable" not in created
    assert created["binaryData"] == {}


def test_a_name_is_generated() -> None:
    store = Store()
    names = {
        store.create(CONFIGMAP, {"metadata": {"generateName": "a-", "namespace": "default"}})["metadata"]["name"]
        for _ in range(9)
    }
    assert len(names) == 9
    assert all(name.startswith("a-") and len(name) == 7 for name in names)


def test_a_name_is_taken_once() -> None:
    store = Store()
    store.create(CONFIGMAP, configmap())
    with refusal(409, "AlreadyExists"):
        store.create(CONFIGMAP, configmap())


def test_nothing_is_created_in_a_namespace_that_is_missing() -> None:
    with refusal(404, "NotFound"):
        Store(namespaces=()).create(CONFIGMAP, configmap())


def test_an_older_version_conflicts() -> None:
    store = Store()
    seen = store.create(CONFIGMAP, configmap())
    store.merge(CONFIGMAP, "default", "settings", {"data": {"a": "2"}})
    with refusal(409, "Conflict"):
        store.replace(CONFIGMAP, {**seen, "data": {}})


def test_another_uid_conflicts() -> None:
    store = Store()
    store.create(CONFIGMAP, configmap())
    with refusal(409, "Conflict"):
        store.replace(CONFIGMAP, configmap(uid="another"))


def test_a_write_that_changes_nothing_is_none() -> None:
    store = Store()
    created = store.create(SERVICE, service())
    with store.subscribe() as changes:
        assert store.replace(SERVICE, service(clusterIP=created["spec"]["clusterIP"])) is created
        assert not changes.pending


def test_generation_counts_changes_of_the_specification_only() -> None:
    store = Store()
    store.create(DEPLOYMENT, deployment())
    labelled = store.merge(DEPLOYMENT, "default", "web", {"metadata": {"labels": {"a": "b"}}})
    reported = store.merge(DEPLOYMENT, "default", "web", {"status": {"replicas": 1}}, "status")
    scaled = store.merge(DEPLOYMENT, "default", "web", {"spec": {"replicas": 2}})
    assert [each["metadata"]["generation"] for each in (labelled, reported, scaled)] == [1, 1, 2]


def test_an_annotation_is_a_generation_of_a_deployment_and_of_no_other_kind() -> None:
    store, noted = Store(), {"metadata": {"annotations": {"a": "b"}}}
    store.create(DEPLOYMENT, deployment())
    store.create(INGRESS, ingress("a.example.org"))
    annotated = [store.merge(resource, "default", "web", noted) for resource in (DEPLOYMENT, INGRESS)]
    assert [each["metadata"]["generation"] for each in annotated] == [2, 1]


def test_a_status_is_written_by_its_subresource_only() -> None:
    store = Store()
    store.create(PROXYCLASS, {"metadata": {"name": "a"}, "spec": {"x": 1}, "status": {"ready": 1}})
    both = {"spec": {"x": 2}, "status": {"ready": 2}}
    assert "status" not in store.merge(PROXYCLASS, "", "a", both)
    reported = store.merge(PROXYCLASS, "", "a", {"spec": {"x": 3}, "status": {"ready": 3}}, "status")
    assert (reported["spec"], reported["status"]) == ({"x": 2}, {"ready": 3})
    assert store.merge(PROXYCLASS, "", "a", {"spec": {"x": 4}})["status"] == {"ready": 3}


def test_a_finalizer_holds_a_deleted_object() -> None:
    store = Store()
    store.create(CONFIGMAP, configmap(finalizers=["example.org/a"]))
    assert "deletionTimestamp" in store.delete(CONFIGMAP, "default", "settings")["metadata"]
    store.merge(CONFIGMAP, "default", "settings", {"metadata": {"finalizers": None}})
    assert store.find(CONFIGMAP, "default", "settings") is None


def test_a_deleted_object_gets_no_new_finalizers() -> None:
    store = Store()
    store.create(CONFIGMAP, configmap(finalizers=["example.org/a"]))
    store.delete(CONFIGMAP, "default", "settings")
    with refusal(422, "Invalid"):
        store.merge(CONFIGMAP, "default", "settings", {"metadata": {"finalizers": ["example.org/b"]}})


def test_foreground_deletion_waits_for_the_garbage_collector() -> None:
    store = Store()
    store.create(CONFIGMAP, configmap())
    lingering = store.delete(CONFIGMAP, "default", "settings", "Foreground")
    assert lingering["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert store.delete(CONFIGMAP, "default", "settings", "")["metadata"]["finalizers"] == ["foregroundDeletion"]
    store.delete(CONFIGMAP, "default", "settings", "Background")
    assert store.find(CONFIGMAP, "default", "settings") is None


def test_a_deletion_can_ask_for_a_uid() -> None:
    store = Store()
    store.create(CONFIGMAP, configmap())
    with refusal(409, "Conflict"):
        store.delete(CONFIGMAP, "default", "settings", uid="another")


def test_a_deleted_namespace_takes_its_objects_along() -> None:
    store = Store(("default", "shop"))
    store.create(CONFIGMAP, configmap(namespace="shop"))
    store.create(SECRET, {"metadata": {"name": "s", "namespace": "default"}})
    store.delete(NAMESPACE, "", "shop")
    assert store.find(NAMESPACE, "", "shop") is None
    assert store.list(CONFIGMAP) == []
    assert len(store.list(SECRET)) == 1


def test_a_namespace_waits_for_finalizers_in_it() -> None:
    store = Store(("default", "shop"))
    store.create(CONFIGMAP, configmap(namespace="shop", finalizers=["example.org/a"]))
    assert store.delete(NAMESPACE, "", "shop")["status"]["phase"] == "Terminating"
    with refusal(403, "Forbidden"):
        store.create(CONFIGMAP, configmap("other", namespace="shop"))
    store.merge(CONFIGMAP, "shop", "settings", {"metadata": {"finalizers": None}})
    assert store.find(NAMESPACE, "", "shop") is None


def test_the_first_namespaces_stay() -> None:
    store = Store()
    with refusal(403, "Forbidden"):
        store.delete(NAMESPACE, "", "default")


async def test_an_adopted_object_is_held_as_it_is_until_it_is_disowned() -> None:
    store = Store(())
    obj = {"metadata": {"name": "s", "namespace": "shop", "uid": "of-another-cluster"}}
    with store.subscribe() as changes:
        store.adopt(SECRET, obj)
        store.adopt(SECRET, {**obj, "data": {"key": "bmV3"}})
        assert store.get(SECRET, "shop", "s")["metadata"]["uid"] == "of-another-cluster"
        store.disown(SECRET, "shop", "s")
        store.disown(SECRET, "shop", "s")
        changes.close()
        assert [change.type async for change in changes] == ["ADDED", "MODIFIED", "DELETED"]
    assert store.find(SECRET, "shop", "s") is None


def test_a_list_is_sorted_and_chosen_by_namespace_and_labels() -> None:
    store = Store()
    for name, color in (("b", "red"), ("c", "blue"), ("a", "red")):
        store.create(CONFIGMAP, configmap(name, labels={"color": color}))
    store.create(CONFIGMAP, {"metadata": {"name": "d", "namespace": "tailscale", "labels": {"color": "red"}}})
    names = [obj["metadata"]["name"] for obj in store.list(CONFIGMAP, "default", {"color": "red"})]
    assert names == ["a", "b"]


async def test_a_subscription_sees_the_changes_of_its_kinds() -> None:
    store = Store()
    with store.subscribe(SERVICE) as changes:
        store.create(CONFIGMAP, configmap())
        created = store.create(SERVICE, service())
        last = store.delete(SERVICE, "default", "web")
        async with asyncio.timeout(30):
            seen = await changes.batch()
    assert [(change.type, change.object) for change in seen] == [("ADDED", created), ("DELETED", last)]
    assert [change.revision for change in seen] == [
        int(each["metadata"]["resourceVersion"]) for each in (created, last)
    ]


def test_history_is_forgotten_past_its_window() -> None:
    store = Store(window=3)
    first = store.create(CONFIGMAP, configmap("a"))
    start = int(first["metadata"]["resourceVersion"])
    for name in "bcd":
        store.create(CONFIGMAP, configmap(name))
    assert len(store.changes_since(CONFIGMAP, start)) == 3
    with refusal(410, "Expired"):
        store.changes_since(CONFIGMAP, start - 1)


def test_a_restore_takes_back_what_came_after() -> None:
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


class Refused(NamedTuple):
    resource: Resource
    obj: Object


@pytest.mark.parametrize(
    "case",
    [
        Refused(CONFIGMAP, configmap("Upper")),
        Refused(CONFIGMAP, configmap("a" * 254)),
        Refused(CONFIGMAP, configmap("")),
        Refused(CONFIGMAP, configmap(labels={"a": "b" * 64})),
        Refused(CONFIGMAP, configmap(labels={"a": "-"})),
        Refused(CONFIGMAP, configmap(annotations={"a b": "c"})),
        Refused(CONFIGMAP, {**configmap(), "data": {"a": "x" * (1024 * 1024 + 1)}}),
        Refused(SERVICE, service("a" * 64)),
        Refused(SERVICE, service("a.b")),
        Refused(POD, {"metadata": {"name": "a", "namespace": "default"}, "spec": {"containers": []}}),
        Refused(INGRESS, ingress("A.example.org")),
        Refused(INGRESS, ingress("a_b")),
        Refused(INGRESS, ingress("*.*.example.org")),
    ],
)
def test_what_kubernetes_finds_invalid_is_refused(case: Refused) -> None:
    with refusal(422, "Invalid"):
        Store().create(case.resource, case.obj)


def test_a_selector_is_immutable() -> None:
    store = Store()
    store.create(DEPLOYMENT, deployment())
    with refusal(422, "Invalid"):
        store.merge(DEPLOYMENT, "default", "web", {"spec": {"selector": {"matchLabels": {"app": "other"}}}})


class Fixed(NamedTuple):
    resource: Resource
    content: Object
    allowed: Object
    refused: Object


@pytest.mark.parametrize(
    "case",
    [
        Fixed(SECRET, {"type": "a"}, {"data": {"b": ""}}, {"type": "c"}),
        Fixed(ROLEBINDING, {"roleRef": {"name": "a"}}, {"subjects": []}, {"roleRef": {"name": "b"}}),
        Fixed(CONFIGMAP, {"immutable": True}, {"metadata": {"labels": {"a": "b"}}}, {"data": {"a": "b"}}),
    ],
)
def test_some_fields_never_change(case: Fixed) -> None:
    store = Store()
    store.create(case.resource, {"metadata": {"name": "a", "namespace": "default"}, **case.content})
    store.merge(case.resource, "default", "a", case.allowed)
    with pytest.raises(ApiError, match=r"immutable|cannot change"):
        store.merge(case.resource, "default", "a", case.refused)
