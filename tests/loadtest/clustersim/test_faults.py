"""Faults of the API server."""

import asyncio

import aiohttp
import pytest
from clustersim.faults import Ban, Failure
from clustersim.objects import CONFIGMAP

from tests.loadtest.clustersim.serving import CONFIGMAPS, MERGE, SERVICES, Api, configmap, service


async def test_the_next_writes_of_a_kind_fail(api: Api) -> None:
    api.faults.fail(Failure(status=503, times=2, verb="create", plural="configmaps"))
    assert (await api.call("GET", CONFIGMAPS))[0] == 200
    assert (await api.call("POST", SERVICES, service()))[0] == 201
    statuses = [(await api.call("POST", CONFIGMAPS, configmap()))[0] for _ in range(3)]
    assert statuses == [503, 503, 201]


@pytest.mark.parametrize("status", [409, 503])
async def test_a_failure_is_a_status_and_writes_nothing(api: Api, status: int) -> None:
    api.faults.fail(Failure(status))
    answered, body = await api.call("POST", CONFIGMAPS, configmap())
    assert (answered, body["kind"], body["code"]) == (status, "Status", status)
    assert api.store.list(CONFIGMAP) == []


async def test_a_server_that_is_away_closes_connections_and_watches(api: Api) -> None:
    api.store.create(CONFIGMAP, configmap())
    async with api.watch(f"{CONFIGMAPS}?resourceVersion={api.store.revision}") as events:
        api.faults.leave()
        async with asyncio.timeout(30):
            assert [event async for event in events] == []
    with pytest.raises(aiohttp.ClientConnectionError):
        await api.call("PATCH", f"{CONFIGMAPS}/settings", {"data": {"a": "2"}}, Content_Type=MERGE)
    api.faults.clear()
    assert (await api.call("GET", f"{CONFIGMAPS}/settings"))[1]["data"] == {"a": "1"}


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
