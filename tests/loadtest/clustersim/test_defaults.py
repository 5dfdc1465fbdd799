"""The fields that the API server fills in."""

from typing import NamedTuple

import pytest
from clustersim.objects import (
    DEPLOYMENT,
    ENDPOINTSLICE,
    INGRESS,
    POD,
    ROLE,
    ROLEBINDING,
    SECRET,
    STATEFULSET,
    Object,
    Resource,
)
from clustersim.store import ApiError, Store


def create(resource: Resource, **fields: object) -> Object:
    return Store().create(resource, {"metadata": {"name": "a", "namespace": "default"}, **fields})


def container(**fields: object) -> Object:
    created = create(POD, spec={"containers": [{"name": "a", "image": "example.org/a:1", **fields}]})
    found: Object = created["spec"]["containers"][0]
    return found


def test_a_statefulset_is_filled() -> None:
    spec = create(STATEFULSET, spec={"template": {"spec": {}}})["spec"]
    assert spec.pop("template")["spec"]["restartPolicy"] == "Always"
    assert spec == {
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
    }


def test_a_deployment_is_filled() -> None:
    spec = create(DEPLOYMENT, spec={})["spec"]
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
    assert (spec["replicas"], spec["progressDeadlineSeconds"], spec["strategy"]) == (1, 600, rolling)
    assert create(DEPLOYMENT, spec={"strategy": {"type": "Recreate"}})["spec"]["strategy"] == {"type": "Recreate"}


def test_a_pod_template_is_filled() -> None:
    template = {"spec": {"serviceAccountName": "proxies", "volumes": [{"name": "a", "secret": {"secretName": "b"}}]}}
    spec = create(STATEFULSET, spec={"template": template})["spec"]["template"]["spec"]
    assert spec == {
        "serviceAccountName": "proxies",
        "serviceAccount": "proxies",
        "volumes": [{"name": "a", "secret": {"secretName": "b", "defaultMode": 420}}],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "securityContext": {},
    }


def test_a_container_is_filled() -> None:
    env = [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    filled = container(ports=[{"containerPort": 80}], env=env, readinessProbe={"httpGet": {"port": 80}})
    assert filled["terminationMessagePath"] == "/dev/termination-log"
    assert (filled["terminationMessagePolicy"], filled["resources"]) == ("File", {})
    assert filled["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert filled["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"
    assert filled["readinessProbe"]["periodSeconds"] == 10
    assert filled["readinessProbe"]["httpGet"] == {"port": 80, "path": "/", "scheme": "HTTP"}


class Pull(NamedTuple):
    image: str
    policy: str


@pytest.mark.parametrize(
    "case",
    [
        Pull("example.org/a", "Always"),
        Pull("example.org/a:latest", "Always"),
        Pull("example.org/a:1", "IfNotPresent"),
        Pull("example.org:5000/a", "Always"),
        Pull("example.org/a@sha256:00", "IfNotPresent"),
    ],
)
def test_the_tag_decides_whether_an_image_is_pulled(case: Pull) -> None:
    assert container(image=case.image)["imagePullPolicy"] == case.policy


def test_plain_secret_data_is_encoded() -> None:
    secret = create(SECRET, stringData={"a": "1"}, data={"b": "Mg=="})
    assert secret["data"] == {"a": "MQ==", "b": "Mg=="}
    assert (secret["type"], "stringData" in secret) == ("Opaque", False)


def test_secret_data_is_base64() -> None:
    with pytest.raises(ApiError, match="cannot be handled as a Secret"):
        create(SECRET, data={"a": "not base64!"})


def test_subjects_and_ports_are_filled() -> None:
    subjects = [{"kind": "ServiceAccount", "name": "a"}, {"kind": "User", "name": "b"}]
    binding = create(ROLEBINDING, subjects=subjects, roleRef={"kind": "Role", "name": "c"})
    assert binding["subjects"][0]["namespace"] == "default"
    assert binding["subjects"][1]["apiGroup"] == binding["roleRef"]["apiGroup"] == "rbac.authorization.k8s.io"
    assert create(ENDPOINTSLICE, ports=[{"port": 80}])["ports"] == [{"port": 80, "name": "", "protocol": "TCP"}]


class First(NamedTuple):
    resource: Resource
    status: Object


@pytest.mark.parametrize("case", [First(INGRESS, {"loadBalancer": {}}), First(STATEFULSET, {"replicas": 0})])
def test_a_new_object_begins_with_the_servers_status(case: First) -> None:
    assert create(case.resource, spec={}, status={"mine": True})["status"] == case.status


@pytest.mark.parametrize(("resource", "fields"), [(ENDPOINTSLICE, ("endpoints", "ports")), (ROLE, ("rules",))])
def test_some_empty_lists_are_null(resource: Resource, fields: tuple[str, ...]) -> None:
    created = create(resource)
    assert {field: created[field] for field in fields} == dict.fromkeys(fields)
