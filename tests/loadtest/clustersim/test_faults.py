"""Faults of the API server."""

import asyncio

import aiohttp
import pytest
from clustersim.faults import Ban, Failure, Faults
from clustersim.objects import CONFIGMAP
from clustersim.store import ApiError, Store

from tests.loadtest.clustersim.serving import CONFIGMAPS, MERGE, SERVICES, Api, configmap, service


async def test_the_next_writes_of_a_kind_fail(api: Api) -> None:
    api.faults.fail(Failure(status=503, times=2, verb="create", plural="configmaps"))
    assert (await api.call("POST", SERVICES, service()))[0] == 201
    statuses = [(await api.call("POST", CONFIGMAPS, configmap()))[0] for _ in range(3)]
    assert statuses == [503, 503, 201]


@pytest.mark.parametrize("status", [409, 429, 500, 503])
async def test_a_failure_is_a_status_and_writes_nothing(api: Api, status: int) -> None:
    await api.call("POST", "/_sim/faults", {"fail": {"status": status}})
    answered, body = await api.call("POST", CONFIGMAPS, configmap())
    assert (answered, body["kind"], body["code"]) == (status, "Status", status)
    assert api.store.list(CONFIGMAP) == []


async def test_reads_do_not_fail(api: Api) -> None:
    api.faults.fail(Failure(times=9))
    assert (await api.call("GET", CONFIGMAPS))[0] == 200


async def outcomes(seed: int) -> list[bool]:
    faults = Faults(Store(), seed)
    faults.fail(Failure(times=1000, probability=0.5))
    failed = []
    for _ in range(50):
        try:
            await faults.strike("create", "secrets")
            failed.append(False)
        except ApiError:
            failed.append(True)
    return failed


async def test_random_failures_repeat_with_their_seed() -> None:
    assert await outcomes(1) == await outcomes(1) != await outcomes(2)
    assert 10 < sum(await outcomes(1)) < 40


async def test_a_server_that_is_away_closes_connections(api: Api) -> None:
    api.store.create(CONFIGMAP, configmap())
    await api.call("POST", "/_sim/faults", {"away": True})
    with pytest.raises(aiohttp.ClientConnectionError):
        await api.call("PATCH", f"{CONFIGMAPS}/settings", {"data": {"a": "2"}}, Content_Type=MERGE)
    await api.call("POST", "/_sim/faults", {"clear": True})
    assert (await api.call("GET", f"{CONFIGMAPS}/settings"))[1]["data"] == {"a": "1"}


async def test_a_server_that_leaves_ends_its_watches(api: Api) -> None:
    async with api.watch(CONFIGMAPS) as events:
        api.faults.leave()
        async with asyncio.timeout(30):
            assert [event async for event in events] == []
    with pytest.raises(aiohttp.ClientConnectionError):
        await api.call("GET", CONFIGMAPS)


async def test_nonsense_is_html_with_status_200(api: Api) -> None:
    api.faults.nonsense = True
    async with api.session.get(CONFIGMAPS) as response:
        assert (response.status, response.content_type) == (200, "text/html")


async def test_a_missing_server_answers_404_to_everything(api: Api) -> None:
    await api.call("POST", "/_sim/faults", {"missing": True})
    assert [(await api.call("GET", path))[0] for path in (CONFIGMAPS, "/apis", "/version")] == [404, 404, 404]


async def test_latency_delays_an_answer(api: Api) -> None:
    api.faults.latency = 30
    with pytest.raises(TimeoutError):
        async with api.session.get(CONFIGMAPS, timeout=aiohttp.ClientTimeout(total=0.05)):
            pass


async def test_what_is_forbidden_in_one_namespace_is_allowed_elsewhere(api: Api) -> None:
    await api.call("POST", "/_sim/faults", {"forbid": {"plural": "configmaps", "namespace": "default"}})
    status, body = await api.call("GET", CONFIGMAPS)
    assert (status, body["reason"]) == (403, "Forbidden")
    assert body["message"] == (
        'configmaps is forbidden: User "clustersim" cannot list resource "configmaps" in API group "" in the namespace '
        '"default"'
    )
    assert (await api.call("POST", CONFIGMAPS, configmap()))[0] == 403
    others = ("/api/v1/configmaps", "/api/v1/namespaces/tailscale/configmaps", SERVICES)
    assert [(await api.call("GET", path))[0] for path in others] == [200, 200, 200]
    await api.call("POST", "/_sim/faults", {"clear": True})
    assert (await api.call("GET", CONFIGMAPS))[0] == 200


async def test_what_is_forbidden_for_all_namespaces_at_once_is_allowed_in_each(api: Api) -> None:
    api.faults.forbid(Ban("configmaps", verb="watch"))
    status, body = await api.call("GET", "/api/v1/configmaps?watch=true")
    assert body["message"].endswith('cannot watch resource "configmaps" in API group "" at the cluster scope')
    allowed = [(await api.call("GET", path))[0] for path in ("/api/v1/configmaps", CONFIGMAPS)]
    assert (status, allowed) == (403, [200, 200])


async def test_the_state_can_be_read(api: Api) -> None:
    ban = {"plural": "secrets", "namespace": "default", "verb": "list"}
    wanted = {"latency": 0.001, "fail": [{"status": 500, "times": 3, "plural": "secrets"}], "forbid": [ban]}
    await api.call("POST", "/_sim/faults", wanted)
    _, state = await api.call("GET", "/_sim/faults")
    failure = {"status": 500, "times": 3, "verb": "", "plural": "secrets"}
    assert state == {
        "latency": 0.001,
        "away": False,
        "nonsense": False,
        "missing": False,
        "fail": [failure],
        "forbid": [ban],
    }


@pytest.mark.parametrize(
    "wanted", [{"latencyy": 1}, {"latency": "slow"}, {"fail": {"code": 500}}, {"forbid": {"status": 403}}]
)
async def test_an_unknown_fault_is_refused(api: Api, wanted: dict[str, object]) -> None:
    assert (await api.call("POST", "/_sim/faults", wanted))[0] == 400
