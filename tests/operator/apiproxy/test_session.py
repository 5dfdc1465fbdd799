"""One connection of a caller through the proxy, end to end: heads, bodies, upgrades and ends."""

from tests.support.apiproxy import TOKEN, Ground


async def test_a_request_reaches_the_api_server_as_its_caller(ground: Ground) -> None:
    async with ground.serving(), ground.connected() as caller:
        answer = await caller.ask("/version", "Authorization: Bearer mine", "Impersonate-User: root")
    assert (answer.status, answer.body.decode().split("\r\n")) == (
        200,
        [
            "GET /version HTTP/1.1",
            "Host: k8s.tail1234.ts.net",
            f"Authorization: Bearer {TOKEN}",
            "Impersonate-User: alice@example.org",
            "Impersonate-Group: system:masters",
            "",
            "",
        ],
    )
