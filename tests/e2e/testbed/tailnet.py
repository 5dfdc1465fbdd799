"""Stores the auth keys and devices of a tailnet, in clustersim's control server; the devices are real tailscaleds.

It runs behind the `control` program (`parts/control`). That program passes management requests on to it, asks it about
every client that registers, and applies to the real control server what it stores for each device. Run it with ``python
-m``.
"""

import argparse
import asyncio
import json
import signal
from dataclasses import replace
from typing import Any

from aiohttp import web
from clustersim.control_http import Api
from clustersim.tailnet import AuthKeyError, Device, Tailnet

_EXIT = ("0.0.0.0/0", "::/0")  # the routes of an exit node: devices choose which one they use


class RealDevices:
    """Private HTTP routes beside the API, for the program `control` and for tests. All are POST with JSON."""

    def __init__(self, tailnet: Tailnet) -> None:
        self._tailnet = tailnet

    def routes(self) -> list[web.RouteDef]:
        """Return the private routes: those for the program `control` and for tests."""
        return [
            web.post("/testbed/join", self._join),
            web.post("/testbed/report", self._report),
            web.post("/testbed/devices", self._list),
            web.post("/testbed/client", self._replace_client),
            web.post("/testbed/tags", self._replace_tags),
        ]

    async def _join(self, request: web.Request) -> web.Response:
        """Admit a device: ``{authKey, hostname, nodeId, addresses}``.

        Answer 403 with a reason if the key isn't valid.
        """
        asked = json.loads(await request.read())
        try:
            device = self._tailnet.register(asked["authKey"], asked["hostname"])
        except AuthKeyError as error:
            return web.Response(status=403, text=str(error))
        self._tailnet.delete_device(device)  # it is known by what tailscaled is told, not by what was made up here
        device = replace(device, node_id=asked["nodeId"], addresses=tuple(asked["addresses"]))
        self._tailnet.update(device)
        return web.json_response(self._shown(device))

    async def _report(self, request: web.Request) -> web.Response:
        """Store the report of a device: ``{nodeId, hostname, routes}``.

        Its routes are approved, as by a policy with autoApprovers.
        """
        asked = json.loads(await request.read())
        node_id, routes = asked["nodeId"], tuple(asked["routes"] or ())
        self._tailnet.set_hostname(node_id, asked["hostname"])
        device = self._tailnet.advertise(node_id, routes, None)
        device = replace(device, enabled_routes=routes)
        self._tailnet.update(device)
        return web.json_response(self._shown(device))

    async def _list(self, _request: web.Request) -> web.Response:
        return web.json_response([self._shown(device) for device in self._tailnet.devices.values()])

    async def _replace_client(self, request: web.Request) -> web.Response:
        """Replace the OAuth client by ``{id, secret}``. The old one and its access tokens become invalid."""
        asked = json.loads(await request.read())
        self._tailnet.client_id, self._tailnet.client_secret = asked["id"], asked["secret"]
        self._tailnet.revoke_tokens()
        return web.json_response({})

    async def _replace_tags(self, request: web.Request) -> web.Response:
        """Replace the tags of the OAuth client by a list. They apply to access tokens that are issued from now on."""
        self._tailnet.own_tags = json.loads(await request.read())
        return web.json_response({})

    def _shown(self, device: Device) -> dict[str, Any]:
        """Return a device with its active routes. If several devices have a route, only the first one's is active."""
        first: dict[str, str] = {}
        for each in self._tailnet.devices.values():
            for route in each.enabled_routes:
                first.setdefault(route, each.node_id)
        routes = [route for route in device.enabled_routes if route in _EXIT or first[route] == device.node_id]
        return {"nodeId": device.node_id, "name": device.name, "tags": list(device.tags), "routes": routes}


async def serve(tailnet: Tailnet, port: int) -> None:
    """Serve on loopback until SIGTERM."""
    api = Api(tailnet)
    application = web.Application(middlewares=[api.refusals])
    application.add_routes([*RealDevices(tailnet).routes(), *api.routes()])
    runner = web.AppRunner(application, shutdown_timeout=1)
    await runner.setup()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        await stop.wait()
    finally:
        await runner.cleanup()


def main() -> None:
    """Serve the tailnet that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--domain", required=True, help="MagicDNS domain")
    parser.add_argument("--port", required=True, type=int, help="port on loopback")
    parser.add_argument("--client-id", required=True, help="the ID of its OAuth client")
    parser.add_argument("--client-secret", required=True, help="that client's secret")
    arguments = parser.parse_args()
    tailnet = Tailnet(arguments.domain)
    tailnet.client_id, tailnet.client_secret = arguments.client_id, arguments.client_secret
    tailnet.audience = arguments.domain  # of the tokens by which a cluster's ServiceAccount proves who it is
    asyncio.run(serve(tailnet, arguments.port))


if __name__ == "__main__":
    main()
