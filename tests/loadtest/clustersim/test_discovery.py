"""What a client learns about what is served."""

from clustersim.objects import DNSCONFIG

from tests.loadtest.clustersim.serving import Api


async def test_groups_and_versions_are_listed(api: Api) -> None:
    assert (await api.call("GET", "/api"))[1]["versions"] == ["v1"]
    _, groups = await api.call("GET", "/apis")
    assert {"apps", "discovery.k8s.io", "networking.k8s.io", "tailscale.com"} <= {
        each["name"] for each in groups["groups"]
    }
    _, group = await api.call("GET", "/apis/apps")
    assert group["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}


async def test_a_resource_is_described(api: Api) -> None:
    _, listed = await api.call("GET", "/api/v1")
    resources = {each["name"]: each for each in listed["resources"]}
    assert listed["groupVersion"] == "v1"
    assert resources["services"] == {
        "name": "services",
        "singularName": "service",
        "shortNames": ["svc"],
        "categories": ["all"],
        "namespaced": True,
        "kind": "Service",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
    }
    assert resources["services/status"]["verbs"] == ["get", "patch", "update"]
    assert "configmaps/status" not in resources


async def test_a_group_without_kinds_is_not_found(api: Api) -> None:
    api.kinds.withdraw(DNSCONFIG)
    _, listed = await api.call("GET", "/apis/tailscale.com/v1alpha1")
    assert "dnsconfigs" not in {each["name"] for each in listed["resources"]}
    for path in ("/apis/example.org", "/apis/example.org/v1", "/openapi/v3/apis/example.org/v1"):
        assert (await api.call("GET", path))[0] == 404
