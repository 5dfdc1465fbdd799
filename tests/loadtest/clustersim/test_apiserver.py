"""The API server over HTTP."""

import time
from typing import Any, NamedTuple

import pytest
from clustersim.objects import CONFIGMAP, POD, PROXYCLASS, SERVICE, SERVICEACCOUNT
from clustersim.tailnet import timestamp
from clustersim.tokens import claims_of

from tests.loadtest.clustersim.serving import (
    CONFIGMAPS,
    MERGE,
    METADATA,
    METADATA_LIST,
    SERVICES,
    Api,
    configmap,
    service,
)

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
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
    Refusal(404, "GET", f"{CONFIGMAPS}/settings/status"),
    Refusal(404, "GET", "/api/v1/configmaps/settings"),
    Refusal(404, "POST", "/api/v1/namespaces/missing/configmaps", {"metadata": {"name": "a"}}),
    Refusal(405, "DELETE", CONFIGMAPS, {}),
    Refusal(400, "POST", CONFIGMAPS, []),
    Refusal(400, "POST", CONFIGMAPS, {"kind": "Secret", "metadata": {"name": "a"}}),
    Refusal(400, "POST", CONFIGMAPS, {"metadata": {"name": "a", "namespace": "other"}}),
    Refusal(400, "POST", SERVICES, {"metadata": {"name": "a"}, "spec": "b"}),
    Refusal(409, "POST", SERVICES, service()),
    Refusal(415, "PATCH", f"{SERVICES}/web", {}, "application/apply-patch+yaml"),
    Refusal(415, "PATCH", f"{SERVICES}/web", {}, "application/strategic-merge-patch+json"),
    Refusal(415, "POST", CONFIGMAPS, None, "application/vnd.kubernetes.protobuf"),
    Refusal(400, "PATCH", f"{SERVICES}/web", [], MERGE),
    Refusal(422, "PATCH", f"{SERVICES}/web", {"spec": {"clusterIP": "10.96.1.1"}}, MERGE),
    Refusal(422, "PUT", f"{PROXYCLASSES}/a", {"spec": {"b": 1}}),
    Refusal(400, "DELETE", f"{SERVICES}/web", {"propagationPolicy": "Sideways"}),
    Refusal(409, "DELETE", f"{SERVICES}/web", {"preconditions": {"uid": "another"}}),
    Refusal(409, "DELETE", f"{SERVICES}/web", {"preconditions": {"resourceVersion": "1"}}),
    Refusal(400, "GET", f"{SERVICES}?labelSelector=a+b"),
    Refusal(400, "GET", f"{SERVICES}?continue=here"),
    Refusal(404, "POST", f"{ACCOUNTS}/missing/token", {}),
    Refusal(404, "POST", f"{SERVICES}/operator/token", {}),
    Refusal(422, "POST", f"{ACCOUNTS}/operator/token", {"spec": {"expirationSeconds": 599}}),
    Refusal(400, "POST", f"{ACCOUNTS}/operator/token", {"spec": {"audiences": "a"}}),
]


@pytest.mark.parametrize("case", REFUSALS)
async def test_a_senseless_request_is_refused(api: Api, case: Refusal) -> None:
    for name in ("web", "operator"):
        api.store.create(SERVICE, service(name))
    api.store.create(PROXYCLASS, {"metadata": {"name": "a"}})
    api.store.create(SERVICEACCOUNT, {"metadata": {"name": "operator", "namespace": "default"}})
    before = api.store.revision
    status, body = await api.call(case.method, case.path, case.body, Content_Type=case.content_type)
    assert (status, body["kind"], body["code"]) == (case.status, "Status", case.status)
    assert api.store.revision == before


async def test_a_status_has_its_own_path(api: Api) -> None:
    api.store.create(PROXYCLASS, {"metadata": {"name": "a"}, "spec": {"b": 1}})
    _, seen = await api.call("GET", f"{PROXYCLASSES}/a/status")
    status, reported = await api.call("PUT", f"{PROXYCLASSES}/a/status", {**seen, "spec": {}, "status": {"c": 2}})
    assert (status, reported["spec"], reported["status"]) == (200, {"b": 1}, {"c": 2})


async def test_a_deletion_says_how_in_its_body(api: Api) -> None:
    uid = api.store.create(CONFIGMAP, configmap())["metadata"]["uid"]
    options = {"propagationPolicy": "Foreground", "preconditions": {"uid": uid}}
    status, lingering = await api.call("DELETE", f"{CONFIGMAPS}/settings", options)
    assert (status, lingering["metadata"]["finalizers"]) == (200, ["foregroundDeletion"])


async def test_a_deletion_may_leave_a_pod_no_time(api: Api) -> None:
    hooked = {"name": "c", "lifecycle": {"preStop": {"sleep": {"seconds": 5}}}}
    metadata = {"name": "a", "namespace": "default"}
    api.store.create(POD, {"metadata": metadata, "spec": {"containers": [hooked], "nodeName": "node1"}})
    path = "/api/v1/namespaces/default/pods/a"
    answers = [await api.call("DELETE", path, body) for body in ({}, {"gracePeriodSeconds": 0})]
    assert [(status, body["kind"]) for status, body in answers] == [(200, "Pod"), (200, "Status")]


async def test_lists_of_builtin_kinds_leave_the_kind_of_their_items_out(api: Api) -> None:
    api.store.create(SERVICE, service())
    api.store.create(PROXYCLASS, {"metadata": {"name": "a"}})
    _, services = await api.call("GET", "/api/v1/services")
    _, classes = await api.call("GET", PROXYCLASSES)
    assert (services["kind"], services["apiVersion"]) == ("ServiceList", "v1")
    assert "kind" not in services["items"][0]
    assert services["items"][0]["spec"]["type"] == "ClusterIP"
    assert classes["items"][0]["kind"] == "ProxyClass"
    _, secrets = await api.call("GET", "/api/v1/secrets")
    assert (secrets["items"], secrets["metadata"]) == ([], {"resourceVersion": str(api.store.revision)})


async def test_metadata_comes_alone_for_who_asks_for_it(api: Api) -> None:
    created = api.store.create(CONFIGMAP, configmap())
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": created["metadata"]}
    assert await api.call("GET", f"{CONFIGMAPS}/settings", Accept=METADATA) == (200, partial)
    _, found = await api.call("GET", CONFIGMAPS, Accept=METADATA_LIST)
    assert (found["kind"], found["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert (found["items"], "resourceVersion" in found["metadata"]) == ([partial], True)
    assert (await api.call("GET", f"{CONFIGMAPS}/settings"))[1] == created
    assert (await api.call("GET", CONFIGMAPS, Accept=METADATA))[0] == 406
    assert (await api.call("GET", f"{CONFIGMAPS}/settings", Accept=METADATA_LIST))[0] == 406


async def test_a_service_account_gets_a_token_for_an_audience(api: Api) -> None:
    api.store.create(SERVICEACCOUNT, {"metadata": {"name": "operator", "namespace": "default"}})
    before = time.time()
    request = {"spec": {"audiences": ["api.example.org/client"], "expirationSeconds": 600}}
    status, answer = await api.call("POST", f"{ACCOUNTS}/operator/token", request)
    claims = claims_of(answer["status"]["token"])
    assert (status, answer["kind"], claims["aud"]) == (201, "TokenRequest", ["api.example.org/client"])
    assert before + 599 < claims["exp"] <= time.time() + 600
    assert answer["status"]["expirationTimestamp"] == timestamp(claims["exp"])
    _, answer = await api.call("POST", f"{ACCOUNTS}/operator/token", {})
    claims = claims_of(answer["status"]["token"])
    assert (claims["aud"], claims["exp"] - claims["iat"]) == (["https://kubernetes.default.svc.cluster.local"], 3600)


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
    assert "continue" not in third["metadata"]


async def test_a_page_too_late_is_expired(api: Api) -> None:
    for name in "ab":
        api.store.create(CONFIGMAP, configmap(name))
    _, first = await api.call("GET", f"{CONFIGMAPS}?limit=1")
    api.store.expire_history()
    status, body = await api.call("GET", f"{CONFIGMAPS}?limit=1&continue={first['metadata']['continue']}")
    assert (status, body["reason"]) == (410, "Expired")


async def test_a_version_that_is_used_again_after_a_restore_shows_the_new_object(api: Api) -> None:
    revision = api.store.revision
    for value in "12":
        api.store.restore(revision)
        api.store.create(CONFIGMAP, {**configmap(), "data": {"a": value}})
        assert (await api.call("GET", f"{CONFIGMAPS}/settings"))[1]["data"] == {"a": value}


async def test_requests_are_counted_by_who_verb_and_kind(api: Api) -> None:
    await api.call("POST", CONFIGMAPS, configmap())
    before = api.traffic.writes.copy()
    await api.call("GET", f"{CONFIGMAPS}/settings")
    await api.call("PATCH", f"{CONFIGMAPS}/settings", {}, Content_Type=MERGE)
    assert api.traffic.writes_since(before) == {("test", "patch", "configmaps"): 1}
    assert api.traffic.requests["test", "get", "configmaps"] == 1
