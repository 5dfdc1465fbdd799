import asyncio

import aiohttp
import pytest
from clustersim.control import Control
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.errors import (
    BadRequest,
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
TOKEN = "/api/v2/oauth/token"


async def test_an_auth_key_is_single_use_preauthorized_lasting_and_tagged(
    client: TailnetClient, control: Control
) -> None:
    created = await client.create_auth_key(["tag:k8s", "tag:db"])
    key = control.keys[created.id]
    assert (key.reusable, key.preauthorized, key.ephemeral, key.tags) == (False, True, False, ("tag:k8s", "tag:db"))
    assert control.register(created.key.get_secret_value(), "db").tags == ("tag:k8s", "tag:db")


async def test_a_device_reads_the_same_from_either_server(client: TailnetClient, control: Control) -> None:
    registered = join(control)
    device = await client.device(registered.node_id)
    assert (device.node_id, device.short_name) == (registered.node_id, "db")
    assert (device.addresses, device.tags, device.authorized) == (registered.addresses, ("tag:k8s",), True)
    assert device.connected is (None if control.headscale else True)


async def test_every_device_is_listed(client: TailnetClient, control: Control) -> None:
    assert await client.devices() == {}
    registered = [join(control) for _ in range(2)]
    listed = await client.devices()
    assert listed == {device.node_id: await client.device(device.node_id) for device in registered}


async def test_a_deleted_device_is_gone(client: TailnetClient, control: Control) -> None:
    device = join(control)
    await client.delete_device(device.node_id)
    assert not control.devices
    with pytest.raises(Missing, match="device not found"):
        await client.device(device.node_id)


async def test_a_device_that_is_gone_counts_as_deleted(client: TailnetClient, control: Control) -> None:
    device = join(control)
    control.delete_device(device)
    await client.delete_device(device.node_id)


async def test_a_404_in_plain_text_does_not_count_as_deleted(client: TailnetClient, control: Control) -> None:
    control.answer("404 page not found", status=404, path="/device/", headers={"Content-Type": "text/plain"})
    with pytest.raises(NotSupported, match="does not have that call"):
        await client.delete_device(join(control).node_id)


async def test_a_web_page_does_not_count_as_deleted(client: TailnetClient, control: Control) -> None:
    control.answer_nonsense(path="/device/")
    with pytest.raises(UnexpectedAnswer, match="Please log in"):
        await client.delete_device(join(control).node_id)


@pytest.mark.parametrize("device_id", ["", ".", "..", "a/b", "../tailnet/-/keys/1", "1?x=1", "1#", "1%2f", "1\n", "ä"])
async def test_text_that_cannot_be_an_id_is_no_device_and_no_path(
    client: TailnetClient, control: Control, device_id: str
) -> None:
    await client.delete_device(device_id)
    with pytest.raises(Missing):
        await client.device(device_id)
    assert not control.requests


async def test_a_refused_tag_is_a_bad_request_with_the_reason(client: TailnetClient, control: Control) -> None:
    control.policy_tags = {"tag:k8s"}
    with pytest.raises(BadRequest, match=r"tag:other.*") as key_error:
        await client.create_auth_key(["tag:other"])
    assert "tag:other" in key_error.value.detail
    assert key_error.value.status == 400


async def test_a_missing_scope_is_forbidden_in_the_servers_words(client: TailnetClient, control: Control) -> None:
    control.scopes.remove("auth_keys")
    with pytest.raises(Forbidden) as error:
        await client.create_auth_key(["tag:k8s"])
    words = "required scope auth_keys" if control.headscale else "does not have enough permissions"
    assert words in error.value.detail
    assert "scopes and tags of the OAuth client" in str(error.value)


async def test_a_scope_that_was_added_is_there_at_the_next_call(client: TailnetClient, control: Control) -> None:
    control.scopes.remove("auth_keys")
    with pytest.raises(Forbidden):
        await client.create_auth_key(["tag:k8s"])
    control.scopes.add("auth_keys")
    assert (await client.create_auth_key(["tag:k8s"])).id in control.keys


async def test_a_revoked_token_is_replaced_once(client: TailnetClient, control: Control) -> None:
    await client.devices()
    control.revoke_tokens()
    await client.devices()
    assert control.requests["POST", TOKEN] == 2


async def test_a_token_that_is_never_accepted_is_unauthorized(client: TailnetClient, control: Control) -> None:
    control.fail(401, count=10, path="/devices")
    with pytest.raises(Unauthorized, match="CLIENT_ID_FILE and CLIENT_SECRET_FILE"):
        await client.devices()
    assert control.requests["GET", "/api/v2/tailnet/-/devices"] == 2


@pytest.mark.parametrize("body", ["{}", '{"id": "k1", "key": ""}', '{"id": "k1"}', "null", "[]"])
async def test_an_answer_without_a_key_is_unexpected(client: TailnetClient, control: Control, body: str) -> None:
    control.answer(body, path=KEYS)
    with pytest.raises(UnexpectedAnswer, match=KEYS):
        await client.create_auth_key(["tag:k8s"])


async def test_a_call_ends_in_time_whatever_the_server_does(
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


async def test_the_clock_of_the_client_decides_when_a_token_is_renewed(
    client: TailnetClient, control: Control, clock: Clock
) -> None:
    await client.devices()
    clock.now += control.token_seconds
    await client.devices()
    assert control.requests["POST", TOKEN] == 2
    assert control.requests["GET", "/api/v2/tailnet/-/devices"] == 2


async def test_an_oauth_client_may_do_what_its_token_says(client: TailnetClient, control: Control) -> None:
    control.scopes, control.own_tags = {"auth_keys", "devices:core"}, ["tag:ops", "tag:k8s"]
    granted = await client.granted()
    assert granted.scopes == ("auth_keys", "devices:core")
    assert granted.tags == (None if control.headscale else ("tag:ops", "tag:k8s"))


async def test_only_tailscale_has_services_whether_or_not_they_may_be_seen(
    client: TailnetClient, control: Control
) -> None:
    assert await client.has_services() is not control.headscale
    control.scopes.discard("services")
    control.revoke_tokens()
    assert await client.has_services() is not control.headscale


async def test_a_refusal_tells_what_was_asked_for(client: TailnetClient, control: Control, url: str) -> None:
    control.policy_tags = set()
    with pytest.raises(BadRequest) as refused:
        await client.create_auth_key(["tag:k8s", "tag:db"])
    call = refused.value.call
    assert (call.server, call.path, call.tags) == (url, "/api/v2/tailnet/-/keys", ("tag:k8s", "tag:db"))
    assert call.granted == await client.granted()


async def test_tags_take_the_place_of_those_that_a_device_has(client: TailnetClient, control: Control) -> None:
    device = join(control)
    await client.set_tags(device.node_id, ["tag:db", "tag:prod"])
    assert control.devices[device.node_id].tags == ("tag:db", "tag:prod")


async def test_tags_that_are_refused_for_a_device_are_a_bad_request(client: TailnetClient, control: Control) -> None:
    control.policy_tags = {"tag:k8s"}
    with pytest.raises(BadRequest) as error:
        await client.set_tags(join(control).node_id, ["tag:other"])
    assert "requested tags [tag:other] are invalid or not permitted" in error.value.detail


@pytest.mark.parametrize(("name", "label"), [("orders", "orders"), ("", "db")])
async def test_a_device_is_renamed_or_named_after_its_hostname(
    client: TailnetClient, control: Control, name: str, label: str
) -> None:
    device = join(control)
    control.rename_device(device, "old")
    await client.set_name(device.node_id, name)
    assert (await client.device(device.node_id)).short_name == label


async def test_a_device_that_is_gone_can_be_given_nothing(client: TailnetClient) -> None:
    with pytest.raises(Missing):
        await client.set_tags("n000009CNTRL", ["tag:k8s"])
    with pytest.raises(Missing):
        await client.set_name("n000009CNTRL", "db")


async def test_a_device_tells_whether_it_is_there(client: TailnetClient, control: Control, clock: Clock) -> None:
    device = join(control)
    control.disconnect(device.node_id, seconds=60)
    found = await client.device(device.node_id)
    if control.headscale:
        assert (found.connected, found.last_seen) == (None, None)
    else:
        assert found.last_seen is not None
        assert (found.connected, found.last_seen.timestamp()) == (False, clock.now - 60)
