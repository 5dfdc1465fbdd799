"""Tests of the control server's API of Tailscale Services."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from clustersim.control import Control
from clustersim.tailnetservices import Host

from tests.loadtest.clustersim.running import new_key
from tests.loadtest.clustersim.serving import Call, calling

LIST = "/api/v2/tailnet/-/vip-services"
WEB = f"{LIST}/svc:web"
HOSTS = "/api/v2/tailnet/-/services/svc:web/devices"
OWNED = {"tailscale.com/owner-references": "{}"}
BODY = {"name": "svc:web", "comment": "a", "annotations": OWNED, "ports": ["tcp:443"], "tags": ["tag:k8s"]}
ADDRESSES = ["100.80.0.1", "fd7a:115c:a1e0::5000:1"]
STORED = {**BODY, "addrs": ADDRESSES}


@pytest.fixture
def control() -> Control:
    return Control()


@pytest.fixture
async def call(control: Control) -> AsyncIterator[Call]:
    async with calling(control) as call:
        yield call


async def test_a_tailscale_service_gets_two_addresses_and_keeps_them_until_it_is_deleted(call: Call) -> None:
    assert await call("PUT", WEB, json=BODY) == (200, STORED)
    other = {"name": "svc:web", "displayName": "Web", "addrs": ADDRESSES, "ports": ["do-not-validate"]}
    assert await call("PUT", WEB, json=other) == (200, other)
    assert await call("GET", WEB) == (200, other)
    assert (await call("DELETE", WEB))[0] == 200
    for method in ("GET", "DELETE"):
        assert await call(method, WEB) == (404, {"message": "service not found"})
    assert (await call("PUT", WEB, json=BODY))[1]["addrs"] == ["100.80.0.2", "fd7a:115c:a1e0::5000:2"]


@pytest.mark.parametrize(("annotated", "listed"), [(True, STORED), (False, STORED | {"annotations": None})])
async def test_a_list_of_tailscale_services_lacks_annotations_if_the_server_is_set_to_omit_annotations(
    control: Control, call: Call, annotated: bool, listed: Any
) -> None:
    control.services.lists_annotations = annotated
    await call("PUT", WEB, json=BODY)
    wanted = {key: value for key, value in listed.items() if value}
    assert await call("GET", LIST) == (200, {"vipServices": [wanted]})
    assert await call("GET", WEB) == (200, STORED)


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("web", {"name": "web"}, "invalid service name"),
        ("svc:we_b", {"name": "svc:we_b"}, "invalid service name"),
        ("svc:-web", {"name": "svc:-web"}, "invalid service name"),
        (f"svc:{64 * 'a'}", {"name": f"svc:{64 * 'a'}"}, "invalid service name"),
        ("svc:db", {"name": "svc:db"}, "already in use by a device"),
        ("svc:DB", {"name": "svc:DB"}, "already in use by a device"),
        ("svc:web", {"name": "svc:app"}, "the body has the name 'svc:app'"),
        ("svc:web", {}, "the body has the name ''"),
        ("svc:web", BODY | {"tags": ["tag:other"]}, "[tag:other] are invalid or not permitted"),
        ("svc:web", BODY | {"tags": ["tag:admin"]}, "[tag:admin] are invalid or not permitted"),
        ("svc:web", BODY | {"tags": ["tag:old"]}, "[tag:old] are invalid or not permitted"),
        ("svc:web", BODY | {"ports": ["443"]}, "invalid port '443'"),
        ("svc:web", BODY | {"ports": ["tcp:65536"]}, "invalid port 'tcp:65536'"),
        ("svc:web", STORED, "the server chooses the addresses"),
        ("svc:web", BODY | {"ports": "tcp:443"}, "must be lists"),
        ("svc:web", BODY | {"annotations": ["a"]}, "must be an object"),
        ("svc:web", BODY | {"annotations": {"a": 1}}, "must be a string"),
        ("svc:web", [], "must be a JSON object"),
    ],
)
async def test_the_control_server_refuses_to_store_a_tailscale_service_with_a_bad_name_or_field(
    control: Control, call: Call, name: str, body: Any, words: str
) -> None:
    control.register(new_key(control), "db")
    control.policy_tags, control.client_tags = {"tag:k8s", "tag:admin"}, {"tag:k8s", "tag:old"}
    status, answer = await call("PUT", f"{LIST}/{name}", json=body)
    assert (status, dict(control.services.present)) == (400, {})
    assert words in answer["message"]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_the_control_server_refuses_to_read_or_delete_a_tailscale_service_with_a_bad_name(
    call: Call, method: str
) -> None:
    assert (await call(method, f"{LIST}/web"))[0] == 400


@pytest.mark.parametrize(
    ("scopes", "reads", "writes", "lists_hosts"),
    [
        ({"services", "devices:core"}, 200, 200, 200),
        ({"services"}, 200, 200, 403),
        ({"services:read", "devices:core:read"}, 200, 403, 200),
        ({"devices:core"}, 403, 403, 403),
    ],
)
async def test_the_scopes_of_an_oauth_client_decide_which_of_its_requests_about_services_are_allowed(
    control: Control, scopes: set[str], reads: int, writes: int, lists_hosts: int
) -> None:
    control.scopes = {"services"}
    async with calling(control) as call:
        await call("PUT", WEB, json=BODY)
    control.scopes = scopes
    async with calling(control) as call:
        answers = [await call(*request) for request in (("GET", LIST), ("GET", WEB), ("GET", HOSTS))]
        answers += [await call("PUT", WEB, json=BODY), await call("DELETE", WEB)]
    assert [status for status, _ in answers] == [reads, reads, lists_hosts, writes, writes]


async def test_the_hosts_of_a_tailscale_service_are_listed_with_their_approval(control: Control, call: Call) -> None:
    assert (await call("GET", HOSTS))[0] == 404
    await call("PUT", WEB, json=BODY)
    assert await call("GET", HOSTS) == (200, {"hosts": []})
    control.services.approvers = {}
    ids = [control.register(new_key(control), "host").node_id for _ in range(2)]
    for node_id, host in zip(ids, (Host(), Host(ports=frozenset({"tcp:443"}))), strict=True):
        control.services.report(node_id, {"svc:web": host})
    control.services.approve("svc:web", ids[1])
    waits = {"nodeId": ids[0], "approvalLevel": "not-approved", "configured": "needs-configuration"}
    ready = {"nodeId": ids[1], "approvalLevel": "approved:manual", "configured": "ready"}
    assert await call("GET", HOSTS) == (200, {"hosts": [waits, ready]})
