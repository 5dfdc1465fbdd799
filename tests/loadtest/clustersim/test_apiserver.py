"""The API server over HTTP."""

from typing import Any, NamedTuple

import pytest
from clustersim.objects import CONFIGMAP, PROXYCLASS, SERVICE

from tests.loadtest.clustersim.serving import CONFIGMAPS, MERGE, SERVICES, STRATEGIC, Api, configmap, service

PROXYCLASSES = "/apis/tailscale.com/v1alpha1/proxyclasses"


async def test_an_object_is_created_read_replaced_and_deleted(api: Api) -> None:
    status, created = await api.call("POST", CONFIGMAPS, configmap())
    assert (status, created["data"]) == (201, {"a": "1"})
    status, replaced = await api.call("PUT", f"{CONFIGMAPS}/settings", {**created, "data": {"a": "2"}})
    assert (status, replaced["data"]) == (200, {"a": "2"})
    assert await api.call("GET", f"{CONFIGMAPS}/settings") == (200, replaced)
    status, success = await api.call("DELETE", f"{CONFIGMAPS}/settings")
    assert (status, success["status"], success["details"]["uid"]) == (200, "Success", created["metadata"]["uid"])
    assert (await api.call("GET", f"{CONFIGMAPS}/settings"))[0] == 404


async def test_the_url_names_what_the_body_leaves_out(api: Api) -> None:
    _, created = await api.call("POST", CONFIGMAPS, {"metadata": {"name": "a"}})
    assert created["metadata"]["namespace"] == "default"
    status, replaced = await api.call("PUT", f"{CONFIGMAPS}/a", {"data": {"b": "c"}})
    assert (status, replaced["metadata"]["name"]) == (200, "a")


async def test_a_refusal_is_a_status(api: Api) -> None:
    status, body = await api.call("GET", "/apis/apps/v1/namespaces/default/deployments/web")
    assert status == body["code"] == 404
    assert (body["kind"], body["apiVersion"], body["status"], body["reason"]) == ("Status", "v1", "Failure", "NotFound")
    assert body["message"] == 'deployments.apps "web" not found'
    assert body["details"] == {"name": "web", "group": "apps", "kind": "deployments"}


class Refusal(NamedTuple):
    status: int
    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"


REFUSALS = [
    Refusal(404, "GET", "/apis/example.org/v1/things"),
    Refusal(404, "GET", f"{SERVICES}/web/scale"),
    Refusal(404, "GET", f"{CONFIGMAPS}/settings/status"),
    Refusal(404, "GET", "/api/v1/configmaps/settings"),
    Refusal(404, "POST", "/api/v1/namespaces/missing/configmaps", {"metadata": {"name": "a"}}),
    Refusal(405, "PUT", CONFIGMAPS, {}),
    Refusal(400, "POST", CONFIGMAPS, []),
    Refusal(400, "POST", CONFIGMAPS, {"kind": "Secret", "metadata": {"name": "a"}}),
    Refusal(400, "POST", CONFIGMAPS, {"metadata": {"name": "a", "namespace": "other"}}),
    Refusal(400, "POST", SERVICES, {"metadata": {"name": "a"}, "spec": "b"}),
    Refusal(400, "POST", f"{CONFIGMAPS}?dryRun=Some", configmap()),
    Refusal(409, "POST", SERVICES, service()),
    Refusal(415, "PATCH", f"{SERVICES}/web", {}, "application/apply-patch+yaml"),
    Refusal(415, "PATCH", f"{PROXYCLASSES}/a", {}, STRATEGIC),
    Refusal(400, "PATCH", f"{SERVICES}/web", [], MERGE),
    Refusal(422, "PATCH", f"{SERVICES}/web", {"spec": {"clusterIP": "10.96.1.1"}}, MERGE),
    Refusal(422, "PUT", f"{PROXYCLASSES}/a", {"spec": {"b": 1}}),
    Refusal(400, "DELETE", f"{SERVICES}/web", {"propagationPolicy": "Sideways"}),
    Refusal(409, "DELETE", f"{SERVICES}/web", {"preconditions": {"uid": "another"}}),
    Refusal(409, "DELETE", f"{SERVICES}/web", {"preconditions": {"resourceVersion": "1"}}),
    Refusal(400, "GET", f"{SERVICES}?labelSelector=a+b"),
    Refusal(400, "GET", f"{SERVICES}?limit=many"),
    Refusal(400, "GET", f"{SERVICES}?continue=here"),
    Refusal(422, "GET", f"{SERVICES}?watch=1&sendInitialEvents=true"),
]


@pytest.mark.parametrize("case", REFUSALS)
async def test_what_makes_no_sense_is_refused(api: Api, case: Refusal) -> None:
    api.store.create(SERVICE, service())
    api.store.create(PROXYCLASS, {"metadata": {"name": "a"}})
    before = api.store.revision
    status, body = await api.call(case.method, case.path, case.body, Content_Type=case.content_type)
    assert (status, body["kind"], body["code"]) == (case.status, "Status", case.status)
    assert api.store.revision == before


async def test_a_conflict_is_worded_as_kubernetes_does(api: Api) -> None:
    _, seen = await api.call("POST", CONFIGMAPS, configmap())
    await api.call("PUT", f"{CONFIGMAPS}/settings", {**seen, "data": {}})
    status, body = await api.call("PUT", f"{CONFIGMAPS}/settings", seen)
    assert (status, body["reason"]) == (409, "Conflict")
    assert body["message"] == (
        'Operation cannot be fulfilled on configmaps "settings": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )


async def test_each_kind_of_patch_applies(api: Api) -> None:
    api.store.create(SERVICE, service())
    path = f"{SERVICES}/web"
    await api.call("PATCH", path, {"spec": {"selector": {"a": "b"}}}, Content_Type=MERGE)
    operations = [{"op": "add", "path": "/metadata/labels", "value": {"c": "d"}}]
    await api.call("PATCH", path, operations, Content_Type="application/json-patch+json")
    ports = [{"port": 443, "name": "https"}]
    _, patched = await api.call("PATCH", path, {"spec": {"ports": ports}}, Content_Type=STRATEGIC)
    assert (patched["spec"]["selector"], patched["metadata"]["labels"]) == ({"a": "b"}, {"c": "d"})
    assert [port["port"] for port in patched["spec"]["ports"]] == [80, 443]


async def test_a_status_has_its_own_path(api: Api) -> None:
    api.store.create(PROXYCLASS, {"metadata": {"name": "a"}, "spec": {"b": 1}})
    _, seen = await api.call("GET", f"{PROXYCLASSES}/a/status")
    status, reported = await api.call("PUT", f"{PROXYCLASSES}/a/status", {**seen, "spec": {}, "status": {"c": 2}})
    assert (status, reported["spec"], reported["status"]) == (200, {"b": 1}, {"c": 2})


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_dry_run_writes_nothing(api: Api, method: str) -> None:
    api.store.create(CONFIGMAP, configmap())
    before = api.store.revision
    name = "new" if method == "POST" else "settings"
    path = CONFIGMAPS if method == "POST" else f"{CONFIGMAPS}/settings"
    changed = {"metadata": {"name": name}, "data": {"a": "2"}}
    content_type = MERGE if method == "PATCH" else "application/json"
    body = {} if method == "DELETE" else changed
    status, answer = await api.call(method, f"{path}?dryRun=All", body, Content_Type=content_type)
    assert (status < 300, api.store.revision) == (True, before)
    assert answer["data"] == ({"a": "1"} if method == "DELETE" else {"a": "2"})


async def test_a_deletion_says_how_in_its_body(api: Api) -> None:
    uid = api.store.create(CONFIGMAP, configmap())["metadata"]["uid"]
    options = {"propagationPolicy": "Foreground", "preconditions": {"uid": uid}}
    status, lingering = await api.call("DELETE", f"{CONFIGMAPS}/settings", options)
    assert (status, lingering["metadata"]["finalizers"]) == (200, ["foregroundDeletion"])


async def test_a_collection_is_deleted_by_selector(api: Api) -> None:
    for name, color in (("a", "red"), ("b", "blue"), ("c", "red")):
        api.store.create(CONFIGMAP, configmap(name, labels={"color": color}))
    status, _ = await api.call("DELETE", f"{CONFIGMAPS}?labelSelector=color%3Dred")
    assert status == 200
    assert [obj["metadata"]["name"] for obj in api.store.list(CONFIGMAP)] == ["b"]


async def test_items_of_builtin_lists_leave_their_kind_out(api: Api) -> None:
    api.store.create(SERVICE, service())
    api.store.create(PROXYCLASS, {"metadata": {"name": "a"}})
    _, services = await api.call("GET", "/api/v1/services")
    _, classes = await api.call("GET", PROXYCLASSES)
    assert (services["kind"], services["apiVersion"]) == ("ServiceList", "v1")
    assert "kind" not in services["items"][0]
    assert services["items"][0]["spec"]["type"] == "ClusterIP"
    assert classes["items"][0]["kind"] == "ProxyClass"


async def test_an_empty_list_has_items(api: Api) -> None:
    _, services = await api.call("GET", SERVICES)
    assert services["items"] == []
    assert services["metadata"] == {"resourceVersion": str(api.store.revision)}


async def test_a_list_comes_in_pages_of_one_version(api: Api) -> None:
    for name in "abcde":
        api.store.create(CONFIGMAP, configmap(name))
    _, first = await api.call("GET", f"{CONFIGMAPS}?limit=2")
    api.store.delete(CONFIGMAP, "default", "a")
    _, second = await api.call("GET", f"{CONFIGMAPS}?limit=2&continue={first['metadata']['continue']}")
    _, third = await api.call("GET", f"{CONFIGMAPS}?limit=2&continue={second['metadata']['continue']}")
    assert [[obj["metadata"]["name"] for obj in page["items"]] for page in (first, second, third)] == [
        ["a", "b"],
        ["c", "d"],
        ["e"],
    ]
    assert first["metadata"]["resourceVersion"] == third["metadata"]["resourceVersion"]
    assert (first["metadata"]["remainingItemCount"], "continue" in third["metadata"]) == (3, False)


async def test_a_page_too_late_is_expired(api: Api) -> None:
    for name in "ab":
        api.store.create(CONFIGMAP, configmap(name))
    _, first = await api.call("GET", f"{CONFIGMAPS}?limit=1")
    api.store.expire_history()
    status, body = await api.call("GET", f"{CONFIGMAPS}?limit=1&continue={first['metadata']['continue']}")
    assert (status, body["reason"]) == (410, "Expired")


async def test_a_list_is_chosen_by_fields(api: Api) -> None:
    for name in "ab":
        api.store.create(CONFIGMAP, configmap(name))
    _, found = await api.call("GET", "/api/v1/configmaps?fieldSelector=metadata.name%3Db,metadata.namespace%3Ddefault")
    assert [obj["metadata"]["name"] for obj in found["items"]] == ["b"]


async def test_requests_are_counted_by_who_verb_and_kind(api: Api) -> None:
    await api.call("POST", CONFIGMAPS, configmap())
    before = api.traffic.writes.copy()
    await api.call("GET", f"{CONFIGMAPS}/settings")
    await api.call("PATCH", f"{CONFIGMAPS}/settings", {}, Content_Type=MERGE)
    assert api.traffic.writes_since(before) == {("test", "patch", "configmaps"): 1}
    assert api.traffic.requests["test", "get", "configmaps"] == 1
    _, listed = await api.call("GET", "/_sim/writes")
    assert {"userAgent": "test", "verb": "patch", "plural": "configmaps", "count": 1} in listed


async def test_a_big_object_passes(api: Api) -> None:
    status, _ = await api.call("POST", CONFIGMAPS, {**configmap(), "data": {"a": "x" * 1024 * 1024}})
    assert status == 201


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_it_is_healthy(api: Api, path: str) -> None:
    async with api.session.get(path) as response:
        assert (response.status, await response.text()) == (200, "ok")
