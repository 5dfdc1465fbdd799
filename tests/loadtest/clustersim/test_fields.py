from typing import Any

import pytest
from clustersim.objects import CRD, SERVICE

from tests.loadtest.clustersim.serving import MERGE, SERVICES, Api, service

CONNECTORS = "/apis/tailscale.com/v1alpha1/connectors"
STRATEGIC = "application/strategic-merge-patch+json"
SCHEMA: Any = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["hostname"],
            "properties": {
                "hostname": {"type": "string", "pattern": "^[a-z]+$"},
                "replicas": {"type": "integer", "minimum": 1},
                "mode": {"type": "string", "enum": ["A", "B"]},
                "routes": {"type": "array", "items": {"type": "string"}},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        }
    },
}
DEFINITION: Any = {
    "metadata": {"name": "connectors.tailscale.com"},
    "spec": {
        "group": "tailscale.com",
        "names": {"kind": "Connector", "plural": "connectors"},
        "scope": "Cluster",
        "versions": [{"name": "v1alpha1", "schema": {"openAPIV3Schema": SCHEMA}}],
    },
}


def connector(**spec: Any) -> Any:
    return {"metadata": {"name": "exit"}, "spec": {"hostname": "exit", **spec}}


@pytest.mark.parametrize(
    ("spec", "status", "words"),
    [
        ({"labels": {"any": "value"}, "routes": ["a"]}, 201, ""),
        ({"hostnam": "a"}, 400, 'strict decoding error: unknown field "spec.hostnam"'),
        ({"hostname": None}, 422, "spec.hostname: Required value"),
        ({"hostname": "A1"}, 422, "spec.hostname: Invalid value: \"A1\": should match '^[a-z]+$'"),
        ({"replicas": "2"}, 422, 'spec.replicas: Invalid value: "string": must be of type integer'),
        ({"replicas": 0}, 422, "spec.replicas: Invalid value: 0: should be greater than or equal to 1"),
        ({"mode": "C"}, 422, 'spec.mode: Unsupported value: "C": supported values: "A", "B"'),
        ({"routes": [1]}, 422, 'spec.routes[0]: Invalid value: "integer": must be of type string'),
    ],
)
async def test_the_api_server_checks_the_fields_of_a_custom_object_by_the_schema_of_its_crd(
    api: Api, spec: Any, status: int, words: str
) -> None:
    api.store.create(CRD, DEFINITION)
    code, answer = await api.call("POST", f"{CONNECTORS}?fieldValidation=Strict", connector(**spec))
    assert (code, words in answer.get("message", "")) == (status, True)


async def test_the_api_server_accepts_unknown_fields_unless_the_client_asks_for_field_validation(api: Api) -> None:
    api.store.create(CRD, DEFINITION)
    assert (await api.call("POST", CONNECTORS, connector(hostnam="a")))[0] == 201


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"selectr": {}}, 'unknown field "spec.selectr"'),
        ({"ports": [{"port": "80"}]}, 'spec.ports[0].port: Invalid value: "string": must be of type integer'),
        ({"ports": [{"port": 80, "targetPort": "web"}, {"port": 81, "targetPort": 8080}]}, ""),
    ],
)
async def test_the_api_server_checks_the_fields_of_a_builtin_kind_by_the_schema_of_the_kubernetes_package(
    api: Api, spec: Any, words: str
) -> None:
    code, answer = await api.call("POST", f"{SERVICES}?fieldValidation=Strict", service(**spec))
    assert (code, words in answer.get("message", "")) == (400 if words else 201, True)


async def test_the_api_server_checks_the_fields_of_the_result_of_a_patch(api: Api) -> None:
    api.store.create(SERVICE, service())
    code, _ = await api.call(
        "PATCH", f"{SERVICES}/web?fieldValidation=Strict", {"spec": {"selectr": {}}}, Content_Type=MERGE
    )
    assert code == 400


async def test_a_strategic_merge_patch_changes_one_port_of_a_list(api: Api) -> None:
    api.store.create(SERVICE, service(ports=[{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]))
    patch = {"spec": {"ports": [{"port": 81, "name": "c"}], "$setElementOrder/ports": [{"port": 81}, {"port": 80}]}}
    _, patched = await api.call("PATCH", f"{SERVICES}/web", patch, Content_Type=STRATEGIC)
    assert [(port["port"], port["name"]) for port in patched["spec"]["ports"]] == [(81, "c"), (80, "a")]
