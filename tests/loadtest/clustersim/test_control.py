import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from clustersim.control import Control

from tests.loadtest.clustersim.running import new_key

Call = Callable[..., Awaitable[tuple[int, Any]]]
TOKEN, EXCHANGE = "/api/v2/oauth/token", "/api/v2/oauth/token-exchange"
KEYS, DEVICES, SERVICES = (f"/api/v2/tailnet/-/{what}" for what in ("keys", "devices", "vip-services"))


@pytest.fixture(params=["tailscale", "headscale"])
def control(request: pytest.FixtureRequest) -> Control:
    return Control(headscale=request.param == "headscale")


@pytest.fixture
async def call(control: Control) -> AsyncIterator[Call]:
    """Yield a client that has logged in. It returns the status of an answer, and its JSON or its text."""
    async with control.serve() as url, aiohttp.ClientSession(url) as session, asyncio.timeout(30):

        async def call(method: str, path: str, **options: Any) -> tuple[int, Any]:
            async with session.request(method, path, **options) as response:
                is_json = "json" in response.content_type
                return response.status, await response.json(content_type=None) if is_json else await response.text()

        basic = {"Authorization": aiohttp.encode_basic_auth(control.client_id, control.client_secret)}
        _, token = await call("POST", TOKEN, headers=basic, data={"grant_type": "client_credentials"})
        session.headers["Authorization"] = f"Bearer {token['access_token']}"
        yield call


async def test_tailscale_lists_the_routes_of_devices_if_the_client_asks_for_them(control: Control, call: Call) -> None:
    control.register(new_key(control), "web")
    answers = [await call("GET", DEVICES, params=params) for params in ({}, {"fields": "all"})]
    listed = ["advertisedRoutes" in answer["devices"][0] for _, answer in answers]
    assert listed == [False, not control.headscale]


async def test_only_headscale_requires_every_field_of_a_key(control: Control, call: Call) -> None:
    status, answer = await call("POST", KEYS, json={"capabilities": {"devices": {"create": {"tags": ["tag:k8s"]}}}})
    refused = (422, "validation failed")
    assert (status, answer.get("message")) == (refused if control.headscale else (200, None))
    if control.headscale:
        assert "expected required property ephemeral to be present" in answer["data"][0]["errors"][0]


@pytest.mark.parametrize(
    ("tags", "tailscale", "headscale"),
    [
        ([], (400, "must have tags"), (403, "must create tagged keys")),
        (["tag:other"], (400, "not permitted"), (400, "tag tag:other is not defined in policy")),
        (["tag:admin"], (400, "not permitted"), (403, "not allowed for this client")),
    ],
)
async def test_a_key_with_tags_that_its_client_does_not_own_is_refused(
    control: Control, call: Call, tags: list[str], tailscale: tuple[int, str], headscale: tuple[int, str]
) -> None:
    control.policy_tags, control.client_tags = {"tag:k8s", "tag:admin"}, {"tag:k8s"}
    status, words = headscale if control.headscale else tailscale
    create = {"reusable": False, "ephemeral": False, "preauthorized": True, "tags": tags}
    body = {"capabilities": {"devices": {"create": create}}, "expirySeconds": 0, "description": ""}
    answered, answer = await call("POST", KEYS, json=body)
    assert (answered, words in answer["message"]) == (status, True)


@pytest.mark.parametrize(
    ("name", "status", "after"), [("db", 400, "web"), ("a.b", 400, "web"), ("shop", 200, "shop"), ("", 200, "web")]
)
async def test_a_device_can_be_renamed_but_not_to_a_name_in_use(
    control: Control, call: Call, name: str, status: int, after: str
) -> None:
    control.register(new_key(control), "db")
    device = control.register(new_key(control), "web")
    answered, _ = await call("POST", f"/api/v2/device/{device.node_id}/name", json={"name": name})
    assert (answered, control.devices[device.node_id].name) == (status, f"{after}.tail1234.ts.net")
    assert control.devices[device.node_id].hostname == "web"


@pytest.mark.parametrize("control", ["headscale"], indirect=True)
@pytest.mark.parametrize(("method", "path"), [("GET", SERVICES), ("POST", EXCHANGE), ("GET", "/")])
async def test_headscale_answers_an_unknown_path_with_404_in_plain_text(call: Call, method: str, path: str) -> None:
    assert await call(method, path) == (404, "404 page not found\n")
