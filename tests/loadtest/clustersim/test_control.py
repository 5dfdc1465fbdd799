import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import aiohttp
import pytest
from clustersim.control import Control

from tests.loadtest.clustersim.running import new_key

TOKEN, EXCHANGE = "/api/v2/oauth/token", "/api/v2/oauth/token-exchange"
KEYS, DEVICES, SERVICES = (f"/api/v2/tailnet/-/{what}" for what in ("keys", "devices", "vip-services"))


class Reply(NamedTuple):
    status: int
    content_type: str
    text: str
    json: Any


class Caller:
    """A client that knows only HTTP, with the headers that it was given."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session
        self.headers: dict[str, str] = {}

    async def __call__(self, method: str, path: str, **options: Any) -> Reply:
        async with self.session.request(method, path, headers=self.headers, **options) as response:
            text = await response.text()
            json = await response.json(content_type=None) if "json" in response.content_type else None
            return Reply(response.status, response.content_type, text, json)


@pytest.fixture(params=["tailscale", "headscale"])
def control(request: pytest.FixtureRequest) -> Control:
    return Control(headscale=request.param == "headscale")


@pytest.fixture
async def call(control: Control) -> AsyncIterator[Caller]:
    """A client that has logged in."""
    form = {"client_id": control.client_id, "client_secret": control.client_secret}
    async with control.serve() as url, aiohttp.ClientSession(url) as session, asyncio.timeout(30):
        caller = Caller(session)
        reply = await caller("POST", TOKEN, data=form)
        caller.headers = {"Authorization": f"Bearer {reply.json['access_token']}"}
        yield caller


async def test_tailscale_lists_the_routes_of_devices_for_those_who_ask(control: Control, call: Caller) -> None:
    control.register(new_key(control), "web")
    replies = [await call("GET", DEVICES, params=params) for params in ({}, {"fields": "all"})]
    listed = ["advertisedRoutes" in reply.json["devices"][0] for reply in replies]
    assert listed == [False, not control.headscale]


async def test_a_token_is_issued_for_basic_credentials_too(control: Control, call: Caller) -> None:
    basic = b64encode(f"{control.client_id}:{control.client_secret}".encode()).decode()
    old, call.headers = call.headers, {"Authorization": f"Basic {basic}"}
    reply = (await call("POST", TOKEN, data={"grant_type": "client_credentials"})).json
    assert (reply["token_type"], reply["expires_in"]) == ("Bearer", 3600)
    assert old != {"Authorization": f"Bearer {reply['access_token']}"}


async def test_only_headscale_wants_every_field_of_a_key(control: Control, call: Caller) -> None:
    reply = await call("POST", KEYS, json={"capabilities": {"devices": {"create": {"tags": ["tag:k8s"]}}}})
    refused = (422, "validation failed")
    assert (reply.status, reply.json.get("message")) == (refused if control.headscale else (200, None))
    if control.headscale:
        assert "expected required property ephemeral to be present" in reply.json["data"][0]["errors"][0]


@pytest.mark.parametrize(
    ("tags", "tailscale", "headscale"),
    [
        ([], (400, "must have tags"), (403, "must create tagged keys")),
        (["tag:other"], (400, "not permitted"), (400, "tag tag:other is not defined in policy")),
        (["tag:admin"], (400, "not permitted"), (403, "not allowed for this client")),
    ],
)
async def test_tags_that_a_key_may_not_carry(
    control: Control, call: Caller, tags: list[str], tailscale: tuple[int, str], headscale: tuple[int, str]
) -> None:
    control.policy_tags, control.client_tags = {"tag:k8s", "tag:admin"}, {"tag:k8s"}
    status, words = headscale if control.headscale else tailscale
    create = {"reusable": False, "ephemeral": False, "preauthorized": True, "tags": tags}
    body = {"capabilities": {"devices": {"create": create}}, "expirySeconds": 0, "description": ""}
    reply = await call("POST", KEYS, json=body)
    assert (reply.status, words in reply.json["message"]) == (status, True)


@pytest.mark.parametrize(
    ("name", "status", "after"), [("db", 400, "web"), ("a.b", 400, "web"), ("shop", 200, "shop"), ("", 200, "web")]
)
async def test_a_device_can_be_renamed_but_not_to_a_name_in_use(
    control: Control, call: Caller, name: str, status: int, after: str
) -> None:
    control.register(new_key(control), "db")
    device = control.register(new_key(control), "web")
    reply = await call("POST", f"/api/v2/device/{device.node_id}/name", json={"name": name})
    assert (reply.status, control.devices[device.node_id].name) == (status, f"{after}.tail1234.ts.net")
    assert control.devices[device.node_id].hostname == "web"


@pytest.mark.parametrize("control", ["headscale"], indirect=True)
@pytest.mark.parametrize(("method", "path"), [("GET", SERVICES), ("POST", EXCHANGE), ("GET", "/")])
async def test_a_path_that_headscale_lacks_is_a_plain_404(call: Caller, method: str, path: str) -> None:
    reply = await call(method, path)
    assert (reply.status, reply.content_type, reply.text) == (404, "text/plain", "404 page not found\n")
