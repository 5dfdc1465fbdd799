from clustersim.objects import POD, STATEFULSET, Object
from clustersim.pods import controlled_by, is_ready, owner_reference, pod_from_template, selects, template_hash

from tests.loadtest.clustersim.running import statefulset

OWNER = {**statefulset(), "metadata": {"name": "web", "namespace": "default", "uid": "1234-UID"}}


def pod(**metadata: object) -> Object:
    return {"metadata": metadata, "spec": {}}


def test_the_hash_follows_the_content_not_its_order() -> None:
    assert template_hash({"a": 1, "b": 2}) == template_hash({"b": 2, "a": 1})
    assert template_hash({"a": 1}) != template_hash({"a": 2})


def test_a_pod_is_its_template_and_what_its_owner_adds() -> None:
    made = pod_from_template(OWNER, STATEFULSET, {"name": "web-0", "labels": {"index": "0"}}, {"hostname": "web-0"})
    assert made["metadata"]["labels"] == {"app": "web", "index": "0"}
    assert made["metadata"]["namespace"] == "default"
    assert made["spec"] == {**OWNER["spec"]["template"]["spec"], "hostname": "web-0"}
    assert (made["apiVersion"], made["kind"]) == (POD.api_version, POD.kind)


def test_only_the_controller_controls() -> None:
    reference = owner_reference(OWNER, STATEFULSET)
    assert controlled_by(pod(ownerReferences=[reference]), "1234-UID")
    assert not controlled_by(pod(ownerReferences=[reference]), "other")
    assert not controlled_by(pod(ownerReferences=[{**reference, "controller": False}]), "1234-UID")


def test_a_pod_is_ready_when_its_condition_is_true() -> None:
    assert not is_ready(pod())
    assert not is_ready({**pod(), "status": {"conditions": [{"type": "Ready", "status": "False"}]}})
    assert is_ready({**pod(), "status": {"conditions": [{"type": "Ready", "status": "True"}]}})


def test_a_selector_wants_all_its_labels() -> None:
    assert selects({"a": "1"}, pod(labels={"a": "1", "b": "2"}))
    assert not selects({"a": "1", "b": "3"}, pod(labels={"a": "1", "b": "2"}))
    assert not selects({"a": "1"}, pod())
