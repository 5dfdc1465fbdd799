import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import aiohttp
import pytest
from clustersim.control import Control
from clustersim.tailnet import NewKey

KEYS = "/api/v2/tailnet/-/keys"
CREATE = {"reusable": False, "ephemeral": False, "preauthorized": True, "tags": ["tag:k8s"]}


class Reply(NamedTuple):
    status: int
    content_type: str
    text: str
    json: Any


class Caller:
    """A client that knows only HTTP, with a token if it was given one."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = url
        self.token = ""

    async def __call__(self, method: str, path: str, **options: Any) -> Reply:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        async with self.session.request(method, self.url + path, headers=headers, **options) as response:
            text = await response.text()
            json = await response.json(content_type=None) if "json" in response.content_type else None
            return Reply(response.status, response.content_type, text, json)

    async def log_in(self, control: Control) -> "Caller":
        form = {"client_id": control.client_id, "client_secret": control.client_secret}
        self.token = (await self("POST", "/api/v2/oauth/token", data=form)).json["access_token"]
        return self


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["tailscale", "headscale"])
def control(request: pytest.FixtureRequest, clock: Clock) -> Control:
    return Control(headscale=request.param == "headscale", clock=clock)


@pytest.fixture
def tailscale(clock: Clock) -> Control:
    return Control(clock=clock)


@pytest.fixture
def headscale(clock: Clock) -> Control:
    return Control("tail.example.org", headscale=True, clock=clock)


@pytest.fixture
async def connect() -> AsyncIterator[Any]:
    async with aiohttp.ClientSession() as session, asyncio.timeout(30):
        yield lambda url: Caller(session, url)


def new_key(control: Control, **changes: Any) -> str:
    return control.create_key(NewKey(("tag:k8s",), **changes)).key


def key_body(**changes: Any) -> dict[str, Any]:
    return {"capabilities": {"devices": {"create": {**CREATE, **changes}}}, "expirySeconds": 0, "description": ""}


async def test_a_token_is_issued_for_a_form_or_basic_credentials(control: Control, connect: Any) -> None:
    async with control.serve() as url:
        call = connect(url)
        form = {"client_id": control.client_id, "client_secret": control.client_secret}
        basic = "Basic " + b64encode(f"{control.client_id}:{control.client_secret}".encode()).decode()
        by_form = await call("POST", "/api/v2/oauth/token", data=form)
        session = call.session.post(
            f"{url}/api/v2/oauth/token", data={"grant_type": "client_credentials"}, headers={"Authorization": basic}
        )
        async with session as response:
            by_basic = await response.json()
    assert by_form.json["access_token"] != by_basic["access_token"]
    assert (by_basic["token_type"], by_basic["expires_in"]) == ("Bearer", 3600)


async def test_a_wrong_secret_is_401_in_each_servers_shape(
    tailscale: Control, headscale: Control, connect: Any
) -> None:
    form = {"client_id": "kClientCNTRL", "client_secret": "wrong"}
    async with tailscale.serve() as url, headscale.serve() as other:
        ours = await connect(url)("POST", "/api/v2/oauth/token", data=form)
        theirs = await connect(other)("POST", "/api/v2/oauth/token", data=form)
    assert (ours.status, list(ours.json)) == (401, ["message"])
    assert (theirs.status, theirs.json["error"]) == (401, "invalid_client")


async def test_a_token_is_exchanged_for_the_clusters_own(tailscale: Control, connect: Any) -> None:
    form = {"client_id": tailscale.client_id, "jwt": tailscale.jwt}
    async with tailscale.serve() as url:
        call = connect(url)
        reply = await call("POST", "/api/v2/oauth/token-exchange", data=form)
        call.token = reply.json["access_token"]
        assert (await call("GET", KEYS)).status == 200
    assert reply.json == {"access_token": call.token, "token_type": "Bearer", "expires_in": 3600}


@pytest.mark.parametrize("wrong", [{"client_id": "another"}, {"jwt": "e30.e30.bm8"}])
async def test_another_cluster_or_client_gets_no_token(tailscale: Control, connect: Any, wrong: dict[str, str]) -> None:
    form = {"client_id": tailscale.client_id, "jwt": tailscale.jwt, **wrong}
    async with tailscale.serve() as url:
        assert (await connect(url)("POST", "/api/v2/oauth/token-exchange", data=form)).status == 401


async def test_headscale_exchanges_no_tokens(headscale: Control, connect: Any) -> None:
    form = {"client_id": headscale.client_id, "jwt": headscale.jwt}
    async with headscale.serve() as url:
        reply = await connect(url)("POST", "/api/v2/oauth/token-exchange", data=form)
    assert (reply.status, reply.content_type, reply.text) == (404, "text/plain", "404 page not found\n")


async def test_an_expired_token_is_401(control: Control, connect: Any, clock: Clock) -> None:
    async with control.serve() as url:
        call = await connect(url).log_in(control)
        assert (await call("GET", KEYS)).status == 200
        clock.now += control.token_seconds
        reply = await call("GET", KEYS)
    assert reply.status == 401
    kind = "application/problem+json" if control.headscale else "application/json"
    assert reply.content_type == kind


async def test_headscale_words_a_401_as_it_does(headscale: Control, connect: Any) -> None:
    async with headscale.serve() as url:
        reply = await connect(url)("GET", KEYS)
    assert reply.json == {"message": "unauthorized", "status": 401}


async def test_a_created_key_lets_a_device_join_and_is_shown_without_its_secret(control: Control, connect: Any) -> None:
    async with control.serve() as url:
        call = await connect(url).log_in(control)
        created = (await call("POST", KEYS, json=key_body())).json
        shown = (await call("GET", f"{KEYS}/{created['id']}")).json
        listed = (await call("GET", KEYS)).json["keys"]
    assert control.register(created["key"], "db").tags == ("tag:k8s",)
    assert shown["capabilities"]["devices"]["create"] == CREATE
    assert listed == [shown]
    assert "key" not in shown


async def test_a_deleted_key_is_gone(control: Control, connect: Any) -> None:
    async with control.serve() as url:
        call = await connect(url).log_in(control)
        created = (await call("POST", KEYS, json=key_body())).json
        statuses = [(await call("DELETE", f"{KEYS}/{created['id']}")).status for _ in range(2)]
    assert statuses == [200, 404]
    assert not control.keys


async def test_headscale_wants_every_field_of_a_key(headscale: Control, connect: Any) -> None:
    body: dict[str, Any] = {"capabilities": {"devices": {"create": {"tags": ["tag:k8s"]}}}}
    async with headscale.serve() as url:
        reply = await (await connect(url).log_in(headscale))("POST", KEYS, json=body)
    assert (reply.status, reply.json["message"], reply.json["status"]) == (422, "validation failed", 422)
    assert "expected required property ephemeral to be present" in reply.json["data"][0]["errors"][0]


async def test_tailscale_takes_a_key_with_tags_alone(tailscale: Control, connect: Any) -> None:
    body: dict[str, Any] = {"capabilities": {"devices": {"create": {"tags": ["tag:k8s"]}}}}
    async with tailscale.serve() as url:
        assert (await (await connect(url).log_in(tailscale))("POST", KEYS, json=body)).status == 200


class TagCase(NamedTuple):
    tags: list[str]
    tailscale: tuple[int, str]
    headscale: tuple[int, str]


@pytest.mark.parametrize(
    "case",
    [
        TagCase([], (400, "must have tags"), (403, "must create tagged keys")),
        TagCase(["tag:other"], (400, "not permitted"), (400, "tag tag:other is not defined in policy")),
        TagCase(["tag:admin"], (400, "not permitted"), (403, "not allowed for this client")),
    ],
)
async def test_tags_that_a_key_may_not_carry(control: Control, connect: Any, case: TagCase) -> None:
    control.policy_tags, control.client_tags = {"tag:k8s", "tag:admin"}, {"tag:k8s"}
    async with control.serve() as url:
        reply = await (await connect(url).log_in(control))("POST", KEYS, json=key_body(tags=case.tags))
    status, words = case.headscale if control.headscale else case.tailscale
    assert reply.status == status
    assert words in reply.json["message"]


async def test_a_device_is_shown_as_each_server_shows_it(control: Control, connect: Any) -> None:
    device = control.register(new_key(control), "db")
    async with control.serve() as url:
        call = await connect(url).log_in(control)
        shown = (await call("GET", f"/api/v2/device/{device.node_id}")).json
        listed = (await call("GET", "/api/v2/tailnet/-/devices?fields=all")).json
    assert listed == {"devices": [shown]}
    assert (shown["id"], shown["nodeId"], shown["addresses"]) == (device.id, device.node_id, list(device.addresses))
    assert shown["name"] == ("db" if control.headscale else "db.tail1234.ts.net")
    assert ("lastSeen" in shown) is not control.headscale


async def test_only_tailscale_tells_whether_a_device_is_online(control: Control, connect: Any) -> None:
    device = control.register(new_key(control), "db")
    control.disconnect(device.node_id, seconds=60)
    async with control.serve() as url:
        shown = (await (await connect(url).log_in(control))("GET", f"/api/v2/device/{device.node_id}")).json
    seen = control.devices[device.node_id].last_seen
    told = {name: shown[name] for name in ("connectedToControl", "lastSeen") if name in shown}
    assert told == ({} if control.headscale else {"connectedToControl": False, "lastSeen": seen})


async def test_an_empty_name_is_that_of_the_hostname(control: Control, connect: Any) -> None:
    device = control.register(new_key(control), "db")
    control.rename_device(device, "orders")
    async with control.serve() as url:
        call = await connect(url).log_in(control)
        reply = await call("POST", f"/api/v2/device/{device.node_id}/name", json={"name": ""})
    assert (reply.status, control.devices[device.node_id].name) == (200, "db.tail1234.ts.net")


async def test_a_device_is_deleted_by_either_id_and_then_unknown(tailscale: Control, connect: Any) -> None:
    first, second = (tailscale.register(new_key(tailscale), "db") for _ in range(2))
    async with tailscale.serve() as url:
        call = await connect(url).log_in(tailscale)
        paths = [f"/api/v2/device/{identifier}" for identifier in (first.id, second.node_id, first.id)]
        replies = [await call("DELETE", path) for path in paths]
    assert [reply.status for reply in replies] == [200, 200, 404]
    assert replies[2].json == {"message": "device not found"}
    assert not tailscale.devices


async def test_a_device_can_be_renamed_but_not_to_a_name_in_use(control: Control, connect: Any) -> None:
    control.register(new_key(control), "db")
    device = control.register(new_key(control), "web")
    async with control.serve() as url:
        call = await connect(url).log_in(control)
        path = f"/api/v2/device/{device.node_id}/name"
        replies = [await call("POST", path, json={"name": name}) for name in ("db", "shop")]
    assert [reply.status for reply in replies] == [400, 200]
    assert control.devices[device.node_id].name == "shop.tail1234.ts.net"
    assert control.devices[device.node_id].hostname == "web"


async def test_tags_authorization_key_expiry_and_routes_can_be_set(control: Control, connect: Any) -> None:
    node_id = control.register(new_key(control), "db").node_id
    control.advertise(node_id, ("192.0.2.0/24", "198.51.100.0/24"), None)
    async with control.serve() as url:
        call = await connect(url).log_in(control)
        path = f"/api/v2/device/{node_id}"
        await call("POST", f"{path}/tags", json={"tags": ["tag:db"]})
        await call("POST", f"{path}/authorized", json={"authorized": False})
        await call("POST", f"{path}/key", json={"keyExpiryDisabled": False})
        await call("POST", f"{path}/routes", json={"routes": ["192.0.2.0/24"]})
        routes = (await call("GET", f"{path}/routes")).json
    device = control.devices[node_id]
    assert (device.tags, device.authorized, device.key_expiry_disabled) == (("tag:db",), False, False)
    assert routes == {"advertisedRoutes": ["192.0.2.0/24", "198.51.100.0/24"], "enabledRoutes": ["192.0.2.0/24"]}


async def test_headscale_gives_the_reason_for_refused_device_tags_in_its_data(headscale: Control, connect: Any) -> None:
    headscale.policy_tags = {"tag:k8s"}
    node_id = headscale.register(new_key(headscale), "db").node_id
    async with headscale.serve() as url:
        call = await connect(url).log_in(headscale)
        reply = await call("POST", f"/api/v2/device/{node_id}/tags", json={"tags": ["tag:other"]})
    assert (reply.status, reply.json["data"][0]["errors"]) == (
        400,
        ["requested tags [tag:other] are invalid or not permitted"],
    )


async def test_a_missing_scope_is_403(control: Control, connect: Any) -> None:
    async with control.serve() as url:
        reply = await (await connect(url).log_in(control))("GET", "/api/v2/tailnet/-/acl")
        control.scopes.add("policy_file:read")
        after = await (await connect(url).log_in(control))("GET", "/api/v2/tailnet/-/acl")
    words = "token is missing the required scope policy_file" if control.headscale else "enough permissions"
    assert reply.status == 403
    assert words in reply.json["message"]
    assert after.status == 200


async def test_settings_tell_whether_there_is_https(control: Control, connect: Any) -> None:
    control.scopes.add("feature_settings")
    async with control.serve() as url:
        reply = await (await connect(url).log_in(control))("GET", "/api/v2/tailnet/-/settings")
    assert reply.json["httpsEnabled"] is control.https


@pytest.mark.parametrize("path", ["/api/v2/tailnet/-/vip-services", "/api/v2/oauth/token-exchange", "/"])
async def test_what_headscale_lacks_is_a_plain_404(headscale: Control, connect: Any, path: str) -> None:
    async with headscale.serve() as url:
        reply = await (await connect(url).log_in(headscale))("GET", path)
    assert (reply.status, reply.content_type, reply.text) == (404, "text/plain", "404 page not found\n")


async def test_a_token_tells_scopes_and_at_tailscale_the_clients_tags(control: Control, connect: Any) -> None:
    form = {"client_id": control.client_id, "client_secret": control.client_secret}
    control.scopes, control.own_tags = {"devices:core", "auth_keys"}, ["tag:ops", "tag:k8s"]
    async with control.serve() as url:
        reply = await connect(url)("POST", "/api/v2/oauth/token", data=form)
    assert reply.json["scope"] == "auth_keys devices:core"
    assert reply.json.get("tags") == (None if control.headscale else "tag:ops tag:k8s")


async def test_tailscale_has_services_for_who_may_see_them(tailscale: Control, connect: Any) -> None:
    path = "/api/v2/tailnet/-/vip-services"
    async with tailscale.serve() as url:
        reply = await (await connect(url).log_in(tailscale))("GET", path)
        tailscale.scopes.remove("services")
        refused = await (await connect(url).log_in(tailscale))("GET", path)
    assert (reply.status, reply.json, refused.status) == (200, {"vipServices": []}, 403)


async def test_another_tailnet_is_not_found(headscale: Control, connect: Any) -> None:
    async with headscale.serve() as url:
        reply = await (await connect(url).log_in(headscale))("GET", "/api/v2/tailnet/example.org/devices")
    assert reply.json == {"message": "tailnet not found", "status": 404}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"capabilities": null}'])
async def test_a_broken_request_is_400(control: Control, connect: Any, text: str) -> None:
    async with control.serve() as url:
        assert (await (await connect(url).log_in(control))("POST", KEYS, data=text)).status == 400


async def test_requests_are_counted_by_path_template(control: Control, connect: Any) -> None:
    async with control.serve() as url:
        call = connect(url)
        for path in ("/api/v2/device/1", "/api/v2/device/2", "/other"):
            await call("DELETE", path)
    assert control.requests == {("DELETE", "/api/v2/device/{id}"): 2, ("DELETE", "/other"): 1}


async def test_a_failure_lasts_for_as_many_requests_as_asked_for(control: Control, connect: Any) -> None:
    async with control.serve() as url:
        call = await connect(url).log_in(control)
        control.fail(503, count=2)
        statuses = [(await call("GET", KEYS)).status for _ in range(3)]
    assert statuses == [503, 503, 200]


async def test_a_failure_of_one_path_leaves_the_others(control: Control, connect: Any) -> None:
    async with control.serve() as url:
        control.fail(500, path="/keys")
        call = await connect(url).log_in(control)
        statuses = [(await call("GET", path)).status for path in ("/api/v2/tailnet/-/devices", KEYS)]
    assert statuses == [200, 500]


async def test_nonsense_is_a_web_page_with_200(control: Control, connect: Any) -> None:
    async with control.serve() as url:
        control.answer_nonsense()
        reply = await connect(url)("GET", KEYS)
    assert (reply.status, reply.content_type) == (200, "text/html")


async def test_a_refused_request_has_no_effect_and_a_lost_answer_has(control: Control, connect: Any) -> None:
    async with control.serve() as url:
        call = await connect(url).log_in(control)
        control.refuse()
        with pytest.raises(aiohttp.ClientError):
            await call("POST", KEYS, json=key_body())
        assert not control.keys
        control.lose_answers()
        with pytest.raises(aiohttp.ClientError):
            await call("POST", KEYS, json=key_body())
        assert len(control.keys) == 1


async def test_healing_ends_faults_and_latency(control: Control, connect: Any) -> None:
    control.latency = 3600
    control.fail(count=1000)
    control.heal()
    async with control.serve() as url:
        assert (await (await connect(url).log_in(control))("GET", KEYS)).status == 200


async def test_latency_delays_answers(control: Control, connect: Any) -> None:
    control.latency = 3600
    async with control.serve() as url:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await connect(url)("GET", KEYS)
    assert control.requests.total() == 1
