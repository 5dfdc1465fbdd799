"""A client learns what is served."""

from tests.loadtest.clustersim.serving import Api


async def test_groups_and_versions_are_listed(api: Api) -> None:
    assert (await api.call("GET", "/api"))[1]["versions"] == ["v1"]
    _, listed = await api.call("GET", "/apis")
    groups = {each["name"]: each for each in listed["groups"]}
    assert {"apps", "discovery.k8s.io", "networking.k8s.io", "tailscale.com"} <= groups.keys()
    assert groups["apps"]["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}


async def test_a_resource_is_described(api: Api) -> None:
    _, listed = await api.call("GET", "/api/v1")
    (services,) = (each for each in listed["resources"] if each["name"] == "services")
    assert listed["groupVersion"] == "v1"
    assert (services["kind"], services["namespaced"], services["shortNames"]) == ("Service", True, ["svc"])
