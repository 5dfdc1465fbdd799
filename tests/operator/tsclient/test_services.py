"""The calls about Tailscale Services, which Tailscale's control server has and Headscale lacks."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from clustersim.control import Control
from clustersim.tailnetservices import Host
from clustersim.tailnetservices import TailscaleService as Present
from tsoperator.api.tailscaleservice import ServiceHost, TailscaleService
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.errors import BadRequest, Forbidden, NotSupported, UnexpectedAnswer
from tsoperator.tsclient.models import NOTE, ServiceBody

from tests.support.tailnets import join

SERVICE = "/api/v2/tailnet/-/vip-services/{name}"
OWNED = {"tailscale.com/owner-references": '{"ownerRefs":[{"operatorID":"nA"}]}'}
WANTED = TailscaleService("svc:web", (), ("tcp:443", "tcp:80"), ("tag:k8s",), OWNED)

CALLS: dict[str, Callable[[TailnetClient], Awaitable[object]]] = {
    "list": lambda client: client.services(),
    "read": lambda client: client.service("svc:web"),
    "write": lambda client: client.put_service(WANTED),
    "delete": lambda client: client.delete_service("svc:web"),
    "hosts": lambda client: client.service_hosts("svc:web"),
}

tailscale = pytest.mark.parametrize("control", ["tailscale"], indirect=True)
headscale = pytest.mark.parametrize("control", ["headscale"], indirect=True)


@tailscale
async def test_a_tailscale_service_is_created_read_and_deleted(client: TailnetClient, control: Control) -> None:
    assert await client.service("svc:web") is None
    created = await client.put_service(WANTED)
    present = control.services.present["svc:web"]
    assert created == replace(WANTED, addresses=present.addresses, other={"comment": NOTE})
    assert await client.service("svc:web") == created
    assert await client.services() == [created]
    assert [await client.delete_service("svc:web") for _ in range(2)] == [True, False]
    assert not control.services.present


@tailscale
async def test_a_write_of_a_tailscale_service_keeps_its_addresses_and_the_fields_that_the_client_does_not_know(
    client: TailnetClient, control: Control
) -> None:
    control.services.put(Present("svc:web", ("tcp:80",), annotations={"a": "b"}, display_name="Web", comment="mine"))
    before = control.services.present["svc:web"]
    read = await client.service("svc:web")
    assert read is not None
    await client.put_service(replace(read, ports=("tcp:443",)))
    assert control.services.present["svc:web"] == replace(before, ports=("tcp:443",))


@tailscale
@pytest.mark.parametrize("answer", ["", "{}", '{"name": "svc:web"}'])
async def test_a_tailscale_service_is_read_if_the_answer_to_its_write_does_not_contain_the_service(
    client: TailnetClient, control: Control, answer: str
) -> None:
    control.services.put(Present("svc:web", ("tcp:80",)))
    control.answer(answer, path=SERVICE)
    found = await client.put_service(WANTED)
    assert found.ports == ("tcp:80",)
    assert (control.requests["PUT", SERVICE], control.requests["GET", SERVICE]) == (1, 1)


@tailscale
async def test_a_list_without_annotations_does_not_mean_that_tailscale_services_have_no_annotations(
    client: TailnetClient, control: Control
) -> None:
    control.services.put(Present("svc:web", annotations=OWNED))
    control.services.put(Present("svc:bare"))
    control.services.lists_annotations = False
    assert {each.name: each.annotations for each in await client.services()} == {"svc:web": None, "svc:bare": None}
    alone = [await client.service(name) for name in ("svc:web", "svc:bare")]
    assert [each and each.annotations for each in alone] == [OWNED, {}]


@tailscale
async def test_the_hosts_of_a_tailscale_service_come_with_their_approval(
    client: TailnetClient, control: Control
) -> None:
    control.services.put(Present("svc:web"))
    first, second = join(control), join(control)
    control.services.approvers = {}
    for device in (first, second):
        control.services.report(device.node_id, {"svc:web": Host()})
    control.services.approve("svc:web", second.node_id)
    found = await client.service_hosts("svc:web")
    assert found == [ServiceHost(first.node_id, "not-approved"), ServiceHost(second.node_id, "approved:manual")]
    assert [each.is_approved for each in found] == [False, True]
    assert await client.service_hosts("svc:other") == []


@headscale
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_headscale_supports_no_call_about_tailscale_services(
    client: TailnetClient, control: Control, call: Callable[[TailnetClient], Awaitable[object]]
) -> None:
    with pytest.raises(NotSupported):
        await call(client)


@tailscale
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_each_call_about_tailscale_services_fails_without_the_scope_or_with_an_unexpected_answer(
    client: TailnetClient, control: Control, call: Callable[[TailnetClient], Awaitable[object]]
) -> None:
    control.answer_nonsense(path="services")
    with pytest.raises(UnexpectedAnswer):
        await call(client)
    control.scopes.discard("services")
    control.revoke_tokens()
    with pytest.raises(Forbidden):
        await call(client)


@tailscale
@pytest.mark.parametrize("name", ["", "web", "svc:", "svc:a/b", "svc:..", "svc:a?b", "svc:a#", "svc:a%2f", "svc:a\n"])
async def test_the_client_sends_no_request_for_text_that_cannot_be_the_name_of_a_tailscale_service(
    client: TailnetClient, control: Control, name: str
) -> None:
    for call in (client.service, client.delete_service, client.service_hosts):
        with pytest.raises(BadRequest):
            await call(name)
    with pytest.raises(BadRequest):
        await client.put_service(TailscaleService(name))
    assert not control.requests


def test_a_written_tailscale_service_has_its_nonempty_fields_and_the_unknown_fields_that_were_read() -> None:
    created = ServiceBody.of(TailscaleService("svc:web", (), ("tcp:443",), (), OWNED)).to_json()
    assert created == {"name": "svc:web", "comment": NOTE, "ports": ["tcp:443"], "annotations": OWNED}
    read = TailscaleService("svc:web", ("100.64.0.1",), (), (), {}, {"autoApprove": False})
    assert ServiceBody.of(read).to_json() == {"name": "svc:web", "addrs": ["100.64.0.1"], "autoApprove": False}
