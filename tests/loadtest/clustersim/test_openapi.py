from clustersim.objects import CRD, RECORDER
from clustersim.openapi import kind_schema

from tests.loadtest.clustersim.serving import Api
from tests.loadtest.clustersim.test_fields import DEFINITION, SCHEMA

TAILSCALE = "apis/tailscale.com/v1alpha1"
CONNECTOR = "com.tailscale.v1alpha1.Connector"


async def test_the_openapi_document_of_an_api_group_has_all_schemas_to_which_it_refers(api: Api) -> None:
    _, root = await api.call("GET", "/openapi/v3")
    _, core = await api.call("GET", root["paths"]["api/v1"]["serverRelativeURL"])
    schemas = core["components"]["schemas"]
    assert schemas["Service"]["x-kubernetes-group-version-kind"] == [{"group": "", "version": "v1", "kind": "Service"}]
    assert schemas["ServicePort"]["properties"]["targetPort"]["x-kubernetes-int-or-string"]
    patch = core["paths"]["/api/v1/namespaces/{namespace}/services/{name}"]["patch"]
    assert [each["name"] for each in patch["parameters"]] == ["fieldValidation"]


async def test_the_url_of_an_openapi_document_changes_with_the_definition_of_a_kind(api: Api) -> None:
    _, before = await api.call("GET", "/openapi/v3")
    api.store.create(CRD, DEFINITION)
    _, after = await api.call("GET", "/openapi/v3")
    assert [path for path in before["paths"] if before["paths"][path] != after["paths"][path]] == [TAILSCALE]
    _, document = await api.call("GET", f"/openapi/v3/{TAILSCALE}")
    assert document["components"]["schemas"][CONNECTOR]["properties"]["spec"] == SCHEMA["properties"]["spec"]


async def test_version_2_of_openapi_has_all_api_groups_in_one_document(api: Api) -> None:
    api.store.create(CRD, DEFINITION)
    _, document = await api.call("GET", "/openapi/v2")
    definitions = document["definitions"]
    assert definitions["Deployment"]["properties"]["spec"]["allOf"] == [{"$ref": "#/definitions/DeploymentSpec"}]
    assert {CONNECTOR, "DeploymentSpec", "Ingress"} <= definitions.keys()


async def test_a_kind_without_a_schema_accepts_anything(api: Api) -> None:
    (kind,) = [each for each in (await api.call("GET", f"/{TAILSCALE}"))[1]["resources"] if each["name"] == "recorders"]
    assert kind["kind"] == "Recorder"
    assert kind_schema(api.store, RECORDER)["x-kubernetes-preserve-unknown-fields"]
