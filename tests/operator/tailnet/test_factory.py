"""The tokens of our ServiceAccount, with which the operator logs in to the tailnet that a Tailnet describes."""

import pytest
from aiohttp import web
from clustersim.tokens import claims_of
from tsoperator.api.objects import Object
from tsoperator.kube.client import KubeClient
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.events import EventRecorder
from tsoperator.tailnet.factory import TailnetFactory
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.errors import NoToken

from tests.support.cluster import kube_client, serving
from tests.support.objects import settings


def factory(client: KubeClient, account: str = "operator") -> TailnetFactory:
    def connect(*_: object) -> TailnetClient:
        pytest.fail("no control server is asked")

    return TailnetFactory(connect, client, Cache([]), EventRecorder(client), settings(service_account=account))


async def test_an_identity_token_is_a_token_of_our_serviceaccount_for_the_audience_of_the_tailnet(
    client: KubeClient,
) -> None:
    source = factory(client).identity("kLab", "lab.example.org")
    first, second = await source(), await source()
    claims = claims_of(first.jwt.get_secret_value())
    assert (first.client_id, claims["aud"]) == ("kLab", ["lab.example.org"])
    assert claims["sub"] == "system:serviceaccount:tailscale:operator"
    assert first == second


async def test_without_our_serviceaccount_there_is_no_identity_token(client: KubeClient) -> None:
    with pytest.raises(NoToken, match=r"ServiceAccount tailscale/gone.*OPERATOR_SERVICE_ACCOUNT_NAME"):
        await factory(client, "gone").identity("kLab", "lab.example.org")()


@pytest.mark.parametrize(
    "answer", [{}, *({"status": each} for each in ({}, {"token": "t"}, {"token": "t", "expirationTimestamp": "soon"}))]
)
async def test_an_answer_without_a_token_or_its_expiry_is_an_error(answer: Object) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.json_response(answer)

    async with serving(handler) as url, kube_client(url) as opened:
        with pytest.raises(NoToken):
            await factory(opened).identity("kLab", "lab.example.org")()
