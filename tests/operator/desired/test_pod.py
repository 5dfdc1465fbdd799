import pytest
from tsoperator.api.objects import Object
from tsoperator.desired.pod import slim

WHOLE: Object = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "ts-db-x7k2p-0",
        "generateName": "ts-db-x7k2p-",
        "namespace": "tailscale",
        "uid": "1-2",
        "resourceVersion": "7",
        "labels": {"tailscale.com/managed": "true"},
        "annotations": {"example.org/a": "b"},
        "deletionTimestamp": "2030-01-01T00:00:00Z",
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "ts-db-x7k2p", "uid": "1-1"}],
        "managedFields": [{"manager": "kubelet"}],
    },
    "spec": {"containers": [{"name": "tailscale", "image": "tailscale/tailscale"}]},
    "status": {
        "podIP": "192.0.2.1",
        "podIPs": [{"ip": "192.0.2.1"}],
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "tailscale", "restartCount": 3, "ready": True}],
    },
}


def test_of_a_pod_is_kept_what_is_read() -> None:
    assert slim(WHOLE) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "ts-db-x7k2p-0",
            "namespace": "tailscale",
            "uid": "1-2",
            "resourceVersion": "7",
            "labels": {"tailscale.com/managed": "true"},
            "deletionTimestamp": "2030-01-01T00:00:00Z",
            "ownerReferences": [{"kind": "StatefulSet"}],
        },
        "status": {
            "podIP": "192.0.2.1",
            "podIPs": [{"ip": "192.0.2.1"}],
            "containerStatuses": [{"restartCount": 3}],
        },
    }


@pytest.mark.parametrize("status", [{}, {"status": {}}, {"status": {"phase": "Pending"}}], ids=str)
def test_a_pod_that_has_not_begun_has_no_address_and_no_containers(status: Object) -> None:
    metadata = {"name": "a", "namespace": "tailscale", "uid": "1-2", "resourceVersion": "7"}
    made = slim({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}, **status})
    assert made["metadata"] == {**metadata, "ownerReferences": []}
    assert made["status"] == {"podIP": "", "podIPs": [], "containerStatuses": []}
