"""Tests of the rights that roles give to the user of the kubeconfig."""

import pytest
from clustersim.objects import CONFIGMAP, SERVICE, Object
from clustersim.rbac import USER

from tests.loadtest.clustersim.serving import CONFIGMAPS, MERGE, SERVICES, Api, configmap, service

ELSEWHERE = SERVICES.replace("default", "tailscale")
NAMED = "fieldSelector=metadata.name%3Dsettings"


def rule(verbs: str, resource: str, *names: str) -> Object:
    named = {"resourceNames": [*names]} if names else {}
    return {"apiGroups": [""], "resources": [resource], "verbs": verbs.split(), **named}


EVERYWHERE: Object = {
    "metadata": {"name": "everywhere"},
    "rules": [rule("get list", "services"), rule("list patch", "configmaps", "settings")],
}
HERE: Object = {
    "metadata": {"name": "here", "namespace": "default"},
    "rules": [rule("create", "services"), rule("update", "services/status"), rule("patch", "configmaps", "other")],
}


@pytest.mark.parametrize(
    ("status", "method", "path", "body"),
    [
        (200, "GET", "/api/v1/services", None),
        (200, "GET", f"{SERVICES}/web", None),
        (403, "GET", f"{SERVICES}?watch=true", None),
        (403, "PUT", f"{SERVICES}/web", service()),
        (200, "PUT", f"{SERVICES}/web/status", service()),
        (201, "POST", SERVICES, service("new")),
        (403, "POST", ELSEWHERE, {**service("new"), "metadata": {"name": "new"}}),
        (200, "PATCH", f"{CONFIGMAPS}/settings", {}),
        (403, "PATCH", f"{CONFIGMAPS}/third", {}),
        (403, "GET", f"{CONFIGMAPS}/settings", None),
        (200, "GET", f"{CONFIGMAPS}?{NAMED}", None),
        (403, "GET", CONFIGMAPS, None),
        (403, "GET", "/apis/apps/v1/deployments", None),
        (200, "GET", "/api/v1", None),
    ],
)
async def test_the_simulated_api_server_allows_a_user_with_roles_only_what_a_rule_allows(
    api: Api, status: int, method: str, path: str, body: Object | None
) -> None:
    api.store.create(SERVICE, service())
    api.store.create(CONFIGMAP, configmap())
    api.rights.give(EVERYWHERE, HERE)
    headers = {"Authorization": f"Bearer {USER}", "Content_Type": MERGE if method == "PATCH" else "application/json"}
    answered, answer = await api.call(method, path, body, **headers)
    assert answered == status
    assert api.rights.denied == ([answer["message"]] if status == 403 else [])


async def test_the_simulated_api_server_allows_other_users_and_a_user_without_roles_everything(api: Api) -> None:
    assert (await api.call("GET", CONFIGMAPS, Authorization=f"Bearer {USER}"))[0] == 200
    api.rights.give(EVERYWHERE)
    assert (await api.call("GET", CONFIGMAPS, Authorization="Bearer other"))[0] == 200
