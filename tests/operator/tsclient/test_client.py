import asyncio

import aiohttp
import pytest
from clustersim.control import Control
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.errors import (
    BadRequest,
    Call,
    Forbidden,
    Missing,
    NotSupported,
    Unauthorized,
    Unavailable,
    UnexpectedAnswer,
)
from tsoperator.tsclient.oauth import Credentials
from tsoperator.tsclient.transport import Retry

from tests.support.tailnets import join
from tests.support.virtual_time import Clock

KEYS = "/api/v2/tailnet/-/keys"
DEVICES = "/api/v2/tailnet/-/devices"
TOKEN = "/api/v2/oauth/token"


async def test_a_minted_auth_key_is_for_one_use_is_preauthorized_is_not_ephemeral_and_has_the_tags(
    client: TailnetClient, control: Control
) -> None:
    created = await client.create_auth_key(["tag:k8s", "tag:db"])
    key = control.keys[created.id]
    assert (key.reusable, key.preauthorized, key.ephemeral, key.tags) == (False, True, False, ("tag:k8s", "tag:db"))
    assert control.register(created.key.get_secret_value(), "db").tags == ("tag:k8s", "tag:db")


async def test_a_device_has_the_same_fields_in_the_list_of_devices_as_in_a_read_of_this_device(
    client: TailnetClient, control: Control, clock: Clock
) -> None:
    assert await client.devices() == {}
    registered, gone = join(control), join(control)
    control.disconnect(gone.node_id, seconds=60)
    both = {each.node_id: await client.device(each.node_id) for each in (registered, gone)}
    listed, again = await client.devices(), await client.devices()
    assert listed == both
    assert all(device is listed[node_id] for node_id, device in again.items())
    device = both[registered.node_id]
    assert (device.short_name, device.addresses, device.tags) == ("db", registered.addresses, ("tag:k8s",))
    assert device.authorized
    seen = [(each.connected, each.last_seen and each.last_seen.timestamp()) for each in both.values()]
    assert seen == ([(None, None)] * 2 if control.headscale else [(True, clock.now), (False, clock.now - 60)])


async def test_a_long_list_of_devices_which_comes_in_several_blocks_is_read_whole(
    client: TailnetClient, control: Control
) -> None:
    devices = {join(control).node_id for _ in range(1000)}
    assert {*await client.devices()} == devices


async def test_a_second_deletion_of_a_device_succeeds_without_effect(client: TailnetClient, control: Control) -> None:
    device = join(control).node_id
    for _ in range(2):
        await client.delete_device(device)
        assert not control.devices
    for call in (client.device(device), client.set_tags(device, ["tag:k8s"]), client.set_name(device, "db")):
        with pytest.raises(Missing, match="device not found"):
            await call


async def test_the_deletion_of_a_device_fails_if_the_answer_is_a_404_in_plain_text_or_a_web_page(
    client: TailnetClient, control: Control
) -> None:
    device = join(control).node_id
    control.answer("404 page not found", status=404, path="/device/", headers={"Content-Type": "text/plain"})
    with pytest.raises(NotSupported, match="does not have that call"):
        await client.delete_device(device)
    control.answer_nonsense(path="/device/")
    with pytest.raises(UnexpectedAnswer, match="Please log in"):
        await client.delete_device(device)


@pytest.mark.parametrize("device_id", ["", ".", "..", "a/b", "../tailnet/-/keys/1", "1?x=1", "1#", "1%2f", "1\n", "ä"])
async def test_no_request_is_sent_for_a_text_that_cannot_be_the_id_of_a_device(
    client: TailnetClient, control: Control, device_id: str
) -> None:
    await client.delete_device(device_id)
    with pytest.raises(Missing):
        await client.device(device_id)
    assert not control.requests


async def test_the_error_for_refused_tags_names_the_requested_tags(
    client: TailnetClient, control: Control, url: str
) -> None:
    control.policy_tags = {"tag:k8s"}
    with pytest.raises(BadRequest) as refused:
        await client.create_auth_key(["tag:k8s", "tag:other"])
    assert (refused.value.status, "tag:other" in refused.value.detail) == (400, True)
    assert refused.value.call == Call(url, KEYS, ("tag:k8s", "tag:other"), await client.granted())
    with pytest.raises(BadRequest) as refused:
        await client.set_tags(join(control).node_id, ["tag:other"])
    assert "requested tags [tag:other] are invalid or not permitted" in refused.value.detail


async def test_a_call_without_its_scope_fails_with_the_servers_words_until_the_scope_is_added(
    client: TailnetClient, control: Control
) -> None:
    control.scopes.remove("auth_keys")
    with pytest.raises(Forbidden) as error:
        await client.create_auth_key(["tag:k8s"])
    words = "required scope auth_keys" if control.headscale else "does not have enough permissions"
    assert words in error.value.detail
    assert "scopes and tags of the OAuth client" in str(error.value)
    control.scopes.add("auth_keys")
    assert (await client.create_auth_key(["tag:k8s"])).id in control.keys


async def test_the_client_replaces_a_revoked_or_expired_token_by_a_single_token_request(
    client: TailnetClient, control: Control, clock: Clock
) -> None:
    await client.devices()
    control.revoke_tokens()
    await client.devices()
    assert (control.requests["POST", TOKEN], control.requests["GET", DEVICES]) == (2, 3)
    clock.now += control.token_seconds
    await client.devices()
    assert (control.requests["POST", TOKEN], control.requests["GET", DEVICES]) == (3, 4)


async def test_a_token_that_the_control_server_refuses_twice_is_an_error_about_the_credentials(
    client: TailnetClient, control: Control
) -> None:
    control.fail(401, count=10, path="/devices")
    with pytest.raises(Unauthorized, match="CLIENT_ID_FILE and CLIENT_SECRET_FILE"):
        await client.devices()
    assert control.requests["GET", DEVICES] == 2


@pytest.mark.parametrize("body", ["{}", '{"id": "k1", "key": ""}', '{"id": "k1"}', "null", "[]"])
async def test_an_answer_without_an_auth_key_is_an_error(client: TailnetClient, control: Control, body: str) -> None:
    control.answer(body, path=KEYS)
    with pytest.raises(UnexpectedAnswer, match=KEYS):
        await client.create_auth_key(["tag:k8s"])


async def test_a_call_ends_within_its_time_limit_whatever_the_control_server_does(
    session: aiohttp.ClientSession, url: str, control: Control, credentials: Credentials
) -> None:
    control.latency = 3600
    client = TailnetClient(session, url, lambda: credentials, retry=Retry(call=0.05))
    with pytest.raises(
        Unavailable, match=rf"^the control server {url} did not answer within 0\.05 s; the operator tries"
    ):
        await client.devices()


async def test_a_call_that_is_cancelled_leaves_the_client_usable(client: TailnetClient, control: Control) -> None:
    control.latency = 3600
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await client.devices()
    control.heal()
    assert await client.devices() == {}


async def test_the_rights_of_an_oauth_client_are_those_in_its_token(client: TailnetClient, control: Control) -> None:
    control.scopes, control.own_tags = {"auth_keys", "devices:core"}, ["tag:ops", "tag:k8s"]
    granted = await client.granted()
    assert granted.scopes == ("auth_keys", "devices:core")
    assert granted.tags == (None if control.headscale else ("tag:ops", "tag:k8s"))


async def test_only_tailscale_has_tailscale_services_whatever_the_scopes_of_the_client(
    client: TailnetClient, control: Control
) -> None:
    assert await client.has_services() is not control.headscale
    control.scopes.discard("services")
    control.revoke_tokens()
    assert await client.has_services() is not control.headscale


@pytest.mark.parametrize(("name", "label"), [("orders", "orders"), ("", "db")])
async def test_the_tags_and_the_name_of_a_device_can_be_changed(
    client: TailnetClient, control: Control, name: str, label: str
) -> None:
    device = join(control)
    control.rename_device(device, "old")
    await client.set_name(device.node_id, name)
    await client.set_tags(device.node_id, ["tag:db", "tag:prod"])
    found = await client.device(device.node_id)
    assert (found.short_name, found.tags) == (label, ("tag:db", "tag:prod"))
