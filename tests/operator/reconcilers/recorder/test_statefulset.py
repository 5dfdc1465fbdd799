"""The StatefulSet of a Recorder: labels, selector and Pod template are those of the Go operator."""

from typing import Any

import pytest
from tsoperator.api.objects import Object
from tsoperator.runtime.diff import write_for

from tests.operator.reconcilers.recorder.recorders import OWNER, S3, UI, live_recorder, made
from tests.support.objects import stored


def statefulset(spec: Object) -> Any:
    return made(live_recorder(spec))[("StatefulSet", "rec")]


def container(spec: Object) -> Any:
    (found,) = statefulset(spec)["spec"]["template"]["spec"]["containers"]
    return found


def pod(**fields: object) -> Object:
    return {"statefulSet": {"pod": fields}}


def of_container(**fields: object) -> Object:
    return pod(container=fields)


HEAD = [
    {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    {"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
    {"name": "TS_AUTHKEY_FILE", "value": "/etc/tailscaled/$(POD_NAME)/authkey"},
    {"name": "TS_STATE", "value": "kube:$(POD_NAME)"},
    {"name": "TSRECORDER_HOSTNAME", "value": "$(POD_NAME)"},
    {"name": "TSRECORDER_LOGIN_SERVER", "value": "https://controlplane.tailscale.com"},
]
DISK = {"name": "TSRECORDER_DST", "value": "/data/recordings"}
BUCKET = [
    {"name": "TSRECORDER_DST", "value": "s3://s3.eu-central-1.amazonaws.com"},
    {"name": "TSRECORDER_BUCKET", "value": "sessions"},
]
SERVES = {"name": "TSRECORDER_UI", "value": "true"}
MORE = {"name": "TSRECORDER_DST", "value": "elsewhere"}


@pytest.mark.parametrize(
    ("spec", "rest"),
    [(UI, [DISK, SERVES]), (S3, BUCKET), ({**UI, **S3, **of_container(env=[MORE])}, [MORE, *BUCKET, SERVES])],
    ids=["disk", "S3", "variables of the spec"],
)
def test_the_environment_of_a_recorder_has_the_variables_of_its_spec_before_those_of_its_storage(
    spec: Object, rest: list[Object]
) -> None:
    assert container(spec)["env"] == [*HEAD, *rest]


def test_the_pod_template_of_a_recorder_with_two_replicas_mounts_an_auth_key_for_each_replica() -> None:
    found = statefulset({"replicas": 2, **S3})
    assert found["spec"]["selector"] == {"matchLabels": OWNER.labels}
    assert {"serviceName", "podManagementPolicy"}.isdisjoint(found["spec"])
    template = found["spec"]["template"]
    assert template["metadata"] == {"name": "rec", "namespace": "tailscale", "labels": OWNER.labels, "annotations": {}}
    assert template["spec"]["serviceAccountName"] == "rec"
    assert template["spec"]["volumes"] == [
        {"name": "data", "emptyDir": {}},
        *(
            {
                "name": f"authkey-{n}",
                "secret": {"secretName": f"rec-auth-{n}", "items": [{"key": "authkey", "path": "authkey"}]},
            }
            for n in (0, 1)
        ),
    ]
    (made,) = template["spec"]["containers"]
    assert (made["name"], made["image"], made["command"]) == (
        "recorder",
        "tailscale/tsrecorder:v1.102.5",
        ["/tsrecorder"],
    )
    assert made["envFrom"] == [{"secretRef": {"name": "s3-keys"}}]
    assert made["volumeMounts"] == [
        {"name": "data", "mountPath": "/data"},
        *({"name": f"authkey-{n}", "mountPath": f"/etc/tailscaled/rec-{n}", "readOnly": True} for n in (0, 1)),
    ]


PASSED = {
    "affinity": {"nodeAffinity": {}},
    "securityContext": {"runAsUser": 1},
    "imagePullSecrets": [{"name": "pull"}],
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
}
CONTAINER = {
    "image": "example.org/tsrecorder:v1",
    "imagePullPolicy": "Always",
    "securityContext": {"readOnlyRootFilesystem": True},
    "resources": {"limits": {"cpu": "1"}},
}


def test_the_fields_of_a_recorders_spec_reach_the_pod_template() -> None:
    assert PASSED.items() <= statefulset({**UI, **pod(**PASSED)})["spec"]["template"]["spec"].items()
    assert CONTAINER.items() <= container({**UI, **of_container(**CONTAINER)}).items()
    plain = statefulset(UI)["spec"]["template"]["spec"]
    assert {*PASSED, *CONTAINER, "envFrom"}.isdisjoint({*plain, *plain["containers"][0]} - {"image"})


def test_the_operators_labels_on_a_recorders_pods_win_over_labels_from_the_spec() -> None:
    given = {"labels": {"team": "a", "app.kubernetes.io/name": "other"}, "annotations": {"a": "b"}}
    found = statefulset({**UI, "statefulSet": {**given, "pod": given}})
    wanted = {"team": "a", **OWNER.labels}
    template = found["spec"]["template"]["metadata"]
    assert found["metadata"]["labels"] == template["labels"] == found["spec"]["selector"]["matchLabels"] == wanted
    assert (found["metadata"]["annotations"]["a"], template["annotations"]) == ("b", {"a": "b"})


def test_the_pods_of_a_recorder_of_the_go_operator_do_not_restart() -> None:
    """Compare with a live object that has the API server's defaults, but no digest and no empty fields."""
    wanted = statefulset({"replicas": 2, **S3, "statefulSet": {"labels": {"team": "a"}}})
    live = stored({**wanted, "metadata": {**wanted["metadata"], "annotations": {}}})
    written = write_for(wanted, live)
    assert written is not None
    assert written["spec"] == live["spec"]
