"""Faults of the API server."""

from clustersim.faults import Ban

from tests.loadtest.clustersim.serving import CONFIGMAPS, SERVICES, Api, configmap


async def test_a_ban_in_one_namespace_allows_the_others(api: Api) -> None:
    api.faults.forbid(Ban("configmaps", "default"))
    status, body = await api.call("GET", CONFIGMAPS)
    assert (status, body["reason"]) == (403, "Forbidden")
    assert body["message"] == (
        'configmaps is forbidden: User "clustersim" cannot list resource "configmaps" in API group "" in the namespace '
        '"default"'
    )
    assert (await api.call("POST", CONFIGMAPS, configmap()))[0] == 403
    others = ("/api/v1/configmaps", "/api/v1/namespaces/tailscale/configmaps", SERVICES)
    assert [(await api.call("GET", path))[0] for path in others] == [200, 200, 200]
    api.faults.clear()
    assert (await api.call("GET", CONFIGMAPS))[0] == 200


async def test_a_ban_for_all_namespaces_at_once_allows_each(api: Api) -> None:
    api.faults.forbid(Ban("configmaps", verb="watch"))
    status, body = await api.call("GET", "/api/v1/configmaps?watch=true")
    assert body["message"].endswith('cannot watch resource "configmaps" in API group "" at the cluster scope')
    allowed = [(await api.call("GET", path))[0] for path in ("/api/v1/configmaps", CONFIGMAPS)]
    assert (status, allowed) == (403, [200, 200])
