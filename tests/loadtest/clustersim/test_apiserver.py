"""Tests of the simulated API server over HTTP."""

from typing import Any

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

JSON = "application/json"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
PROXYCLASSES = "/apis/tailscale.com/v1alpha1/proxyclasses"


@pytest.mark.parametrize(
    ("status", "method", "path", "body", "content_type"),
    [
        (404, "GET", "/apis/example.org/v1/things", None, JSON),
        (404, "GET", f"{CONFIGMAPS}/settings/status", None, JSON),
        (404, "GET", "/api/v1/configmaps/settings", None, JSON),
        (404, "GET", "/apis/tailscale.com/v1alpha1/namespaces/default/proxyclasses/a", None, JSON),
        (404, "POST", "/api/v1/namespaces/missing/configmaps", {"metadata": {"name": "a"}}, JSON),
        (405, "DELETE", CONFIGMAPS, {}, JSON),
        (400, "POST", CONFIGMAPS, [], JSON),
        (400, "POST", CONFIGMAPS, {"kind": "Secret", "metadata": {"name": "a"}}, JSON),
        (400, "POST", CONFIGMAPS, {"metadata": {"name": "a", "namespace": "other"}}, JSON),
        (400, "POST", SERVICES, {"metadata": {"name": "a"}, "spec": "b"}, JSON),
        (409, "POST", SERVICES, service(), JSON),
        (415, "PATCH", f"{SERVICES}/web", {}, "application/apply-patch+yaml"),
        (415, "PATCH", f"{PROXYCLASSES}/a", {}, "application/strategic-merge-patch+json"),
        (422, "GET", f"{SERVICES}?watch=1&sendInitialEvents=true", None, JSON),
        (400, "POST", f"{SERVICES}?dryRun=All", service("new"), JSON),
        (415, "POST", CONFIGMAPS, None, "application/vnd.kubernetes.protobuf"),
        (400, "PATCH", f"{SERVICES}/web", [], MERGE),
        (422, "PATCH", f"{SERVICES}/web", {"spec": {"clusterIP": "10.96.1.1"}}, MERGE),
        (422, "PUT", f"{PROXYCLASSES}/a", {"spec": {"b": 1}}, JSON),
        (400, "DELETE", f"{SERVICES}/web", {"propagationPolicy": "Sideways"}, JSON),
        (409, "DELETE", f"{SERVICES}/web", {"preconditions": {"uid": "another"}}, JSON),
        (409, "DELETE", f"{SERVICES}/web", {"preconditions": {"resourceVersion": "1"}}, JSON),
        (400, "GET", f"{SERVICES}?labelSelector=a+b", None, JSON),
        (400, "GET", f"{SERVICES}?continue=here", None, JSON),
        (404, "POST", f"{ACCOUNTS}/missing/token", {}, JSON),
        (404, "POST", f"{SERVICES}/operator/token", {}, JSON),
        (404, "GET", "/api/v1/namespaces/default/pods/missing/log", None, JSON),
        (422, "POST", f"{ACCOUNTS}/operator/token", {"spec": {"expirationSeconds": 599}}, JSON),
        (400, "POST", f"{ACCOUNTS}/operator/token", {"spec": {"audiences": "a"}}, JSON),
    ],
)
async def test_the_api_server_answers_a_refused_request_with_a_status_object_and_changes_nothing(
    api: Api, status: int, method: str, path: str, body: Any, content_type: str
) -> None:
    for name in ("web", "operator"):
        api.store.create(SERVICE, service(name))
    api.store.create(PROXYCLASS, {"metadata": {"name": "a"}})
    api.store.create(SERVICEACCOUNT, {"metadata": {"name": "operator", "namespace": "default"}})
    before = api.store.revision
    answered, refusal = await api.call(method, path, body, Content_Type=content_type)
    assert (answered, refusal["kind"], refusal["code"]) == (status, "Status", status)
    assert api.store.revision == before


async def test_a_delete_request_can_carry_its_options_in_the_body(api: Api) -> None:
    hooked = {"containers": [{"name": "c", "lifecycle": {"preStop": {"sleep": {"seconds": 5}}}}], "nodeName": "node1"}
    uid = api.store.create(POD, {"metadata": {"name": "a", "namespace": "default"}, "spec": hooked})["metadata"]["uid"]
    options = [{}, {"propagationPolicy": "Foreground", "preconditions": {"uid": uid}}, {"gracePeriodSeconds": 0}]
    path = "/api/v1/namespaces/default/pods/a"
    left = [(await api.call("DELETE", path, each))[1]["metadata"].get("finalizers") for each in options]
    assert left == [None, ["foregroundDeletion"], ["foregroundDeletion"]]
    assert api.store.get(POD, "default", "a")["metadata"]["deletionGracePeriodSeconds"] == 0


async def test_a_list_goes_on_with_its_next_page_until_its_resource_version_has_expired(api: Api) -> None:
    for name in "abc":
        api.store.create(CONFIGMAP, configmap(name))
    _, first = await api.call("GET", f"{CONFIGMAPS}?limit=2")
    api.store.delete(CONFIGMAP, "default", "a")
    path = f"{CONFIGMAPS}?limit=2&continue={first['metadata']['continue']}"
    _, second = await api.call("GET", path)
    assert [obj["metadata"]["name"] for page in (first, second) for obj in page["items"]] == ["a", "b", "c"]
    assert second["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}
    api.store.expire_history()
    assert (await api.call("GET", path))[1]["reason"] == "Expired"


async def test_a_token_has_the_requested_audience_and_lifetime(api: Api) -> None:
    api.store.create(SERVICEACCOUNT, {"metadata": {"name": "operator", "namespace": "default"}})
    claims = []
    for spec in ({"audiences": ["api.example.org/client"], "expirationSeconds": 600}, {}):
        _, answer = await api.call("POST", f"{ACCOUNTS}/operator/token", {"spec": spec})
        claims.append(claims_of(answer["status"]["token"]))
        assert answer["status"]["expirationTimestamp"] == timestamp(claims[-1]["exp"])
    assert [each["aud"] for each in claims] == [
        ["api.example.org/client"], ["https://kubernetes.default.svc.cluster.local"],
    ]  # fmt: skip
    assert [each["exp"] - each["iat"] for each in claims] == [600, 3600]


async def test_items_in_a_list_of_a_builtin_kind_have_no_kind_field(api: Api) -> None:
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


async def test_a_client_can_ask_for_only_the_metadata_of_objects(api: Api) -> None:
    created = api.store.create(CONFIGMAP, configmap())
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": created["metadata"]}
    assert await api.call("GET", f"{CONFIGMAPS}/settings", Accept=METADATA) == (200, partial)
    _, found = await api.call("GET", CONFIGMAPS, Accept=METADATA_LIST)
    assert (found["kind"], found["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert (found["items"], "resourceVersion" in found["metadata"]) == ([partial], True)
    assert (await api.call("GET", f"{CONFIGMAPS}/settings"))[1] == created
    assert (await api.call("GET", CONFIGMAPS, Accept=METADATA))[0] == 406
    assert (await api.call("GET", f"{CONFIGMAPS}/settings", Accept=METADATA_LIST))[0] == 406


async def test_after_a_restore_the_api_server_shows_a_new_object_with_a_reused_resource_version(api: Api) -> None:
    revision = api.store.revision
    for value in "12":
        api.store.restore(revision)
        api.store.create(CONFIGMAP, {**configmap(), "data": {"a": value}})
        assert (await api.call("GET", f"{CONFIGMAPS}/settings"))[1]["data"] == {"a": value}


@pytest.mark.parametrize("kind", ["SubjectAccessReview", "SelfSubjectAccessReview"])
async def test_the_simulated_api_server_answers_that_everybody_has_every_right(api: Api, kind: str) -> None:
    asked = {"kind": kind, "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    status, answer = await api.call("POST", f"/apis/authorization.k8s.io/v1/{kind.lower()}s", asked)
    assert (status, answer["spec"], answer["status"]["allowed"]) == (201, asked["spec"], True)


async def test_clients_discover_the_version_of_the_api_server_and_the_kinds_of_kubectl_get_all(api: Api) -> None:
    assert (await api.call("GET", "/version"))[1]["major"] == "1"
    _, core = await api.call("GET", "/api/v1")
    assert {each["name"] for each in core["resources"] if each["categories"] == ["all"]} == {"pods", "services"}
