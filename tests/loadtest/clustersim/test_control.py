from collections.abc import AsyncIterator

import pytest
from clustersim.control import Control

from tests.loadtest.clustersim.running import new_key
from tests.loadtest.clustersim.serving import Call, calling

EXCHANGE = "/api/v2/oauth/token-exchange"
KEYS, DEVICES, SERVICES = (f"/api/v2/tailnet/-/{what}" for what in ("keys", "devices", "vip-services"))
HOSTS = "/api/v2/tailnet/-/services/svc:web/devices"


@pytest.fixture(params=["tailscale", "headscale"])
def control(request: pytest.FixtureRequest) -> Control:
    return Control(headscale=request.param == "headscale")


@pytest.fixture
async def call(control: Control) -> AsyncIterator[Call]:
    async with calling(control) as call:
        yield call


async def test_the_api_of_tailscale_lists_the_routes_of_devices_if_the_client_asks_for_them(
    control: Control, call: Call
) -> None:
    control.register(new_key(control), "web")
    answers = [await call("GET", DEVICES, params=params) for params in ({}, {"fields": "all"})]
    listed = ["advertisedRoutes" in answer["devices"][0] for _, answer in answers]
    assert listed == [False, not control.headscale]


async def test_only_headscale_requires_every_field_in_a_request_for_an_auth_key(control: Control, call: Call) -> None:
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
async def test_the_control_server_refuses_auth_keys_without_tags_or_with_tags_that_the_oauth_client_does_not_own(
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
async def test_the_control_server_renames_a_device_but_not_to_an_invalid_name_or_a_name_in_use(
    control: Control, call: Call, name: str, status: int, after: str
) -> None:
    control.register(new_key(control), "db")
    device = control.register(new_key(control), "web")
    answered, _ = await call("POST", f"/api/v2/device/{device.node_id}/name", json={"name": name})
    assert (answered, control.devices[device.node_id].name) == (status, f"{after}.tail1234.ts.net")
    assert control.devices[device.node_id].hostname == "web"


@pytest.mark.parametrize("control", ["headscale"], indirect=True)
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", SERVICES), ("PUT", f"{SERVICES}/svc:web"), ("GET", HOSTS), ("POST", EXCHANGE), ("GET", "/")],
)
async def test_headscale_answers_an_unknown_path_with_404_in_plain_text(call: Call, method: str, path: str) -> None:
    assert await call(method, path) == (404, "404 page not found\n")


@pytest.mark.parametrize(
    ("owners", "status"),
    [({"tag:k8s-operator": [], "tag:k8s": ["tag:k8s-operator"]}, 200), ({"tag:k8s": []}, 400), ({}, 400)],
)
async def test_the_policy_of_a_tailnet_decides_which_tags_the_oauth_client_is_allowed_to_give(
    owners: dict[str, list[str]], status: int
) -> None:
    async with calling(Control()) as call:
        assert (await call("POST", "/api/v2/tailnet/-/acl", json={"tagOwners": owners}))[0] == 200
        create = {"reusable": False, "ephemeral": False, "preauthorized": True, "tags": ["tag:k8s"]}
        body = {"capabilities": {"devices": {"create": create}}}
        assert (await call("POST", "/api/v2/tailnet/-/keys", json=body))[0] == status


async def test_the_control_server_refuses_a_policy_without_tagowners() -> None:
    async with calling(Control()) as call:
        assert (await call("POST", "/api/v2/tailnet/-/acl", json={"acls": []}))[0] == 400
