"""A second tailnet beside the operator's own: its control server, the Tailnet that describes it, and its Secret."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer
from clustersim.control import Control
from tsoperator.api.objects import SECRET, Object

from tests.support.manifests import tailnet
from tests.support.operator import NAMESPACE, World

OTHER_DOMAIN = "tail5678.ts.net"
NAME = "lab"
SECRET_NAME = "lab-oauth"


@dataclass(frozen=True, slots=True)
class OtherTailnet:
    """The control server of another tailnet, which is at *url*."""

    control: Control
    url: str

    def secret(self, **data: str) -> Object:
        """Return the Secret with the credentials, or with *data* in place of them."""
        given = data or {"client_id": self.control.client_id, "client_secret": self.control.client_secret}
        metadata = {"namespace": NAMESPACE, "name": SECRET_NAME}
        return {"apiVersion": "v1", "kind": SECRET.kind, "metadata": metadata, "data": encoded(given)}

    def tailnet(self, url: str = "") -> Object:
        """Return the Tailnet that describes this tailnet, with another *url* of its control server if one is given."""
        return tailnet(NAME, url or self.url, SECRET_NAME)

    def device_names(self) -> list[str]:
        """Return the MagicDNS names of the devices in this other tailnet."""
        return sorted(device.name for device in self.control.devices.values())


def encoded(data: dict[str, str]) -> dict[str, str]:
    """Return the *data* of a Secret in base64."""
    return {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}


@asynccontextmanager
async def other_tailnet(
    world: World, domain: str = OTHER_DOMAIN, headscale: bool = False, first: int = 1
) -> AsyncIterator[OtherTailnet]:
    """Run another control server, which the proxies of *world* can reach. It counts its IDs from *first*."""
    control = Control(domain, headscale, first=first)
    control.client_id, control.client_secret = f"k{domain}", f"tskey-client-{domain}-secret"
    async with control.serve() as url:
        world.tailnets.others[url] = control
        yield OtherTailnet(control, url)


@asynccontextmanager
async def one_url(*urls: str) -> AsyncIterator[str]:
    """Serve the control servers at *urls* under one URL, as Tailscale does.

    The credentials decide which server answers.
    """
    tokens: dict[str, str] = {}

    async def forward(request: web.Request) -> web.Response:
        body, given = await request.read(), request.headers.get("Authorization", "")
        for url in [tokens[given]] if given in tokens else urls:
            headers = {
                name: request.headers[name] for name in ("Authorization", "Content-Type") if name in request.headers
            }
            async with session.request(request.method, url + request.path_qs, data=body, headers=headers) as answer:
                text, status = await answer.text(), answer.status
            if status == 200 and given not in tokens:
                tokens[f"Bearer {json.loads(text)['access_token']}"] = url
            if status != 401:
                break
        return web.Response(status=status, text=text, content_type=answer.content_type)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", forward)
    async with aiohttp.ClientSession() as session, TestServer(application) as server:
        yield str(server.make_url("")).removesuffix("/")
