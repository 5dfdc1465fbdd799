"""Tests of the default values that the simulated API server fills in."""

from typing import Any

import pytest
from clustersim.objects import (
    ADMISSIONBINDING,
    ADMISSIONPOLICY,
    DEPLOYMENT,
    ENDPOINTSLICE,
    INGRESS,
    POD,
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


ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
MOUNTED = {"name": "a", "secret": {"secretName": "b"}}
ALL = {"scope": "*"}
CHOSEN: Object = {"namespaceSelector": {"matchLabels": {"a": "b"}}}
MATCHED = {"matchPolicy": "Equivalent", "objectSelector": {}, **CHOSEN}


@pytest.mark.parametrize(
    ("resource", "spec", "path", "expected"),
    [
        (STATEFULSET, {}, "replicas", 1),
        (STATEFULSET, {}, "podManagementPolicy", "OrderedReady"),
        (STATEFULSET, {}, "updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}),
        (STATEFULSET, {}, "template.spec.restartPolicy", "Always"),
        (DEPLOYMENT, {}, "replicas", 1),
        (DEPLOYMENT, {}, "strategy", ROLLING),
        (DEPLOYMENT, {"strategy": {"type": "Recreate"}}, "strategy", {"type": "Recreate"}),
        (POD, {"serviceAccountName": "proxies"}, "serviceAccount", "proxies"),
        (POD, {"volumes": [MOUNTED]}, "volumes", [{"name": "a", "secret": {"secretName": "b", "defaultMode": 420}}]),
        (ADMISSIONPOLICY, {"matchConstraints": {"resourceRules": [{}]}}, "matchConstraints.resourceRules", [ALL]),
        (ADMISSIONPOLICY, {}, "failurePolicy", "Fail"),
        (ADMISSIONBINDING, {"matchResources": CHOSEN}, "matchResources", MATCHED),
    ],
)
def test_the_api_server_fills_in_the_defaults_of_a_spec(
    resource: Resource, spec: Object, path: str, expected: object
) -> None:
    value: Any = create(resource, spec=spec)["spec"]
    for part in path.split("."):
        value = value[part]
    assert value == expected


def test_the_api_server_fills_in_the_defaults_of_a_container() -> None:
    env = [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    filled = container(ports=[{"containerPort": 80}], env=env, readinessProbe={"httpGet": {"port": 80}})
    assert (filled["terminationMessagePolicy"], filled["resources"]) == ("File", {})
    assert filled["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert filled["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"
    assert filled["readinessProbe"]["periodSeconds"] == 10
    assert filled["readinessProbe"]["httpGet"] == {"port": 80, "path": "/", "scheme": "HTTP"}


@pytest.mark.parametrize(("policy", "tags"), [("Always", ["", ":latest"]), ("IfNotPresent", [":1", "@sha256:00"])])
def test_the_image_tag_decides_the_default_pull_policy(policy: str, tags: list[str]) -> None:
    filled = [container(image=f"example.org:5000/a{tag}") for tag in tags]
    assert [each["imagePullPolicy"] for each in filled] == [policy] * 2


def test_the_string_data_of_a_secret_is_stored_as_base64_data() -> None:
    secret = create(SECRET, stringData={"a": "1"}, data={"b": "Mg=="})
    assert (secret["type"], secret["data"], "stringData" in secret) == ("Opaque", {"a": "MQ==", "b": "Mg=="}, False)
    with pytest.raises(ApiError, match="cannot be handled as a Secret"):
        create(SECRET, data={"a": "not base64!"})


@pytest.mark.parametrize(("resource", "status"), [(INGRESS, {"loadBalancer": {}}), (STATEFULSET, {"replicas": 0})])
def test_a_new_object_gets_the_initial_status_that_the_api_server_gives_its_kind(
    resource: Resource, status: Object
) -> None:
    assert create(resource, spec={}, status={"mine": True})["status"] == status


def test_an_endpointslice_without_endpoints_has_null_in_place_of_the_list() -> None:
    created = create(ENDPOINTSLICE, ports=[{"port": 80}])
    assert (created["endpoints"], created["ports"]) == (None, [{"port": 80, "name": "", "protocol": "TCP"}])
