"""The requests that kubectl makes, as it makes them."""

from typing import NamedTuple

import pytest
from clustersim.objects import EVENT, SERVICE, Object

from tests.loadtest.clustersim.serving import MERGE, SERVICES, STRATEGIC, TABLE, Api, service

APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Get(NamedTuple):
    path: str
    columns: list[str]


@pytest.mark.parametrize(
    "case",
    [
        Get("/api/v1/namespaces/default/services?limit=500", ["Name", "Type", "Cluster-IP", "External-IP", "Port(s)"]),
        Get("/api/v1/namespaces/default/services/web", ["Name", "Type", "Cluster-IP", "External-IP", "Port(s)"]),
        Get("/api/v1/pods?limit=500", ["Name", "Ready", "Status", "Restarts", "Age"]),
        Get("/apis/tailscale.com/v1alpha1/dnsconfigs?limit=500", ["Name", "NameserverIP", "Age"]),
        Get("/apis/rbac.authorization.k8s.io/v1/roles?limit=500", ["Name", "Age"]),
    ],
)
async def test_get_prints_a_table(api: Api, case: Get) -> None:
    api.store.create(SERVICE, service())
    status, table = await api.call("GET", case.path, Accept=TABLE)
    assert (status, table["kind"], table["apiVersion"]) == (200, "Table", "meta.k8s.io/v1")
    assert [column["name"] for column in table["columnDefinitions"]][: len(case.columns)] == case.columns


async def test_get_all_namespaces_reads_them_from_the_rows(api: Api) -> None:
    created = api.store.create(SERVICE, service())
    _, table = await api.call("GET", "/api/v1/services?limit=500", Accept=TABLE)
    assert table["rows"][0]["cells"][:5] == ["web", "ClusterIP", created["spec"]["clusterIP"], "<none>", "80/TCP"]
    assert table["rows"][0]["object"]["metadata"] == created["metadata"]
    _, sortable = await api.call("GET", "/api/v1/services?includeObject=Object", Accept=TABLE)
    assert sortable["rows"][0]["object"] == created


async def test_create_asks_whether_the_server_validates(api: Api) -> None:
    _, index = await api.call("GET", "/openapi/v3")
    for root, kind in (("api/v1", "Service"), ("apis/tailscale.com/v1alpha1", "DNSConfig")):
        _, schema = await api.call("GET", index["paths"][root]["serverRelativeURL"])
        patches = [path["patch"] for path in schema["paths"].values()]
        found = next(patch for patch in patches if patch["x-kubernetes-group-version-kind"]["kind"] == kind)
        assert "fieldValidation" in {parameter["name"] for parameter in found["parameters"]}


async def test_apply_creates_then_patches(api: Api) -> None:
    query = "fieldManager=kubectl-client-side-apply&fieldValidation=Strict"
    obj = service()
    obj["metadata"]["annotations"] = {APPLIED: "{}\n"}
    assert (await api.call("GET", f"{SERVICES}/web"))[0] == 404
    assert (await api.call("POST", f"{SERVICES}?{query}", obj))[0] == 201
    patch = {
        "metadata": {"annotations": {APPLIED: '{"a":1}\n'}},
        "spec": {"$setElementOrder/ports": [{"port": 443}], "ports": [{"port": 443}, {"$patch": "delete", "port": 80}]},
    }
    status, patched = await api.call("PATCH", f"{SERVICES}/web?{query}", patch, Content_Type=STRATEGIC)
    assert (status, [port["port"] for port in patched["spec"]["ports"]]) == (200, [443])


async def test_server_side_apply_is_refused_clearly(api: Api) -> None:
    path = f"{SERVICES}/web?fieldManager=kubectl&force=false"
    status, body = await api.call("PATCH", path, service(), Content_Type="application/apply-patch+yaml")
    assert (status, body["reason"]) == (415, "UnsupportedMediaType")
    assert "application/apply-patch+yaml" in body["message"]


async def post_protobuf(api: Api, path: str, body: bytes) -> tuple[int, Object]:
    headers = {"Content-Type": "application/vnd.kubernetes.protobuf"}
    async with api.session.post(path, data=body, headers=headers) as response:
        return response.status, await response.json()


async def test_create_namespace_speaks_protobuf(api: Api) -> None:
    body = bytes.fromhex(
        "6b3873000a0f0a02763112094e616d65737061636512190a110a017812001a0022002a003200380042001200"
        "1a020a001a002200"
    )  # fmt: skip
    status, created = await post_protobuf(api, "/api/v1/namespaces", body)
    assert (status, created["metadata"]["name"]) == (201, "x")


async def test_protobuf_of_other_kinds_is_refused_clearly(api: Api) -> None:
    status, body = await post_protobuf(api, SERVICES, b"k8s\x00\x0a\x0d\x0a\x02v1\x12\x07Service")
    assert (status, body["reason"]) == (415, "UnsupportedMediaType")
    assert "application/json" in body["message"]


async def test_annotate_merges(api: Api) -> None:
    api.store.create(SERVICE, service())
    patch: Object = {"metadata": {"annotations": {"tailscale.com/expose": "true"}}}
    status, patched = await api.call(
        "PATCH", f"{SERVICES}/web?fieldManager=kubectl-annotate", patch, Content_Type=MERGE
    )
    assert (status, patched["metadata"]["annotations"]) == (200, {"tailscale.com/expose": "true"})


async def test_delete_waits_with_a_watch(api: Api) -> None:
    uid = api.store.create(SERVICE, service())["metadata"]["uid"]
    status, success = await api.call("DELETE", f"{SERVICES}/web", {"propagationPolicy": "Background"})
    assert (status, success["details"]["uid"]) == (200, uid)
    selector = "fieldSelector=metadata.name%3Dweb"
    _, found = await api.call("GET", f"{SERVICES}?{selector}")
    assert found["items"] == []
    version = found["metadata"]["resourceVersion"]
    async with api.watch(f"{SERVICES}?{selector}&resourceVersion={version}&timeoutSeconds=1") as events:
        assert [event async for event in events] == []


async def test_describe_finds_the_events_of_an_object(api: Api) -> None:
    for name in ("web", "other"):
        involved = {"kind": "Service", "namespace": "default", "name": name, "uid": f"uid-{name}"}
        metadata = {"name": f"{name}.1", "namespace": "default"}
        api.store.create(EVENT, {"metadata": metadata, "involvedObject": involved, "reason": "Created"})
    fields = "involvedObject.name%3Dweb,involvedObject.namespace%3Ddefault,involvedObject.uid%3Duid-web"
    _, events = await api.call("GET", f"/api/v1/namespaces/default/events?fieldSelector={fields}&limit=500")
    assert [event["metadata"]["name"] for event in events["items"]] == ["web.1"]
