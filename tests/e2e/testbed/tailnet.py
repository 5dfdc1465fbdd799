"""The keeper: stores the auth keys, devices and Tailscale Services of a tailnet whose devices are real.

It stores them in a simulated control server of clustersim. The program `control` (`parts/control`) passes management
requests on to the keeper, and asks the keeper about every client that registers. `control` applies to the real control
server what the keeper stores for each device. Run the keeper with ``python -m``.
"""

import argparse
import asyncio
import json
import signal
from collections import Counter
from dataclasses import replace
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler
from clustersim.control_http import Api
from clustersim.tailnet import AuthKeyError, Device, NewKey, Tailnet
from clustersim.tailnetservices import NOT_APPROVED, Host

_EXIT = ("0.0.0.0/0", "::/0")  # the routes of an exit node: devices choose which one they use


class RealDevices:
    """Private HTTP routes beside the management API, for the program `control` and for tests.

    All of them accept a POST with JSON.
    """

    def __init__(self, tailnet: Tailnet) -> None:
        self._tailnet = tailnet
        self._grants: list[dict[str, Any]] = []
        self._calls: Counter[str] = Counter()

    @web.middleware
    async def count(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Count *request* if it is a request to the management API, and let *handler* answer it."""
        resource = request.match_info.route.resource
        if resource is not None and request.path.startswith("/api/"):
            self._calls[f"{request.method} {resource.canonical}"] += 1
        return await handler(request)

    def routes(self) -> list[web.RouteDef]:
        """Return the private routes: those for the program `control` and for tests."""
        return [
            web.post("/testbed/join", self._join),
            web.post("/testbed/report", self._report),
            web.post("/testbed/connected", self._set_connected),
            web.post("/testbed/hosted", self._report_services),
            web.post("/testbed/tailnet", self._show),
            web.post("/testbed/calls", self._show_calls),
            web.post("/testbed/client", self._replace_client),
            web.post("/testbed/tags", self._replace_tags),
            web.post("/testbed/approvers", self._replace_approvers),
            web.post("/testbed/approve", self._approve),
            web.post("/testbed/user-key", self._create_user_key),
            web.post("/testbed/grants", self._replace_grants),
            web.post("/testbed/https", self._set_https),
        ]

    async def _join(self, request: web.Request) -> web.Response:
        """Let a device join: ``{authKey, hostname, nodeId, addresses}``.

        Answer 403 with a reason if the key isn't valid.
        """
        asked = json.loads(await request.read())
        try:
            device = self._tailnet.register(asked["authKey"], asked["hostname"])
        except AuthKeyError as error:
            return web.Response(status=403, text=str(error))
        self._tailnet.delete_device(device)  # its ID and addresses come from the real control server
        device = replace(device, node_id=asked["nodeId"], addresses=tuple(asked["addresses"]))
        self._tailnet.update(device)
        return web.json_response(self._shown(device))

    async def _report(self, request: web.Request) -> web.Response:
        """Store the report of a device: ``{nodeId, hostname, routes}``.

        Its routes are approved at once, as by a policy with autoApprovers.
        """
        asked = json.loads(await request.read())
        node_id, routes = asked["nodeId"], tuple(asked["routes"] or ())
        self._tailnet.set_hostname(node_id, asked["hostname"])
        device = self._tailnet.advertise(node_id, routes, None)
        device = replace(device, enabled_routes=routes)
        self._tailnet.update(device)
        return web.json_response(self._shown(device))

    async def _set_connected(self, request: web.Request) -> web.Response:
        """Store whether a device is connected: ``{nodeId, connected}``."""
        asked = json.loads(await request.read())
        device = self._tailnet.devices.get(asked["nodeId"])
        if device and asked["connected"]:
            self._tailnet.update(replace(device, connected=True, last_seen=""))
        elif device:
            self._tailnet.disconnect(device.node_id, 0)
        return web.json_response({})

    async def _report_services(self, request: web.Request) -> web.Response:
        """Store the report of a device about the Tailscale Services that it hosts.

        The report is ``{nodeId, services}``, with ``{advertises, ports}`` by the name of a Service. *ports* is null if
        the device has no serve configuration for the Service.
        """
        asked = json.loads(await request.read())
        hosted = {name: _host(each["advertises"], each["ports"]) for name, each in asked["services"].items()}
        if asked["nodeId"] in self._tailnet.devices:
            self._tailnet.services.report(asked["nodeId"], hosted)
        return web.json_response({})

    async def _show(self, _request: web.Request) -> web.Response:
        """Answer with the devices, Tailscale Services and policy that the real control server should have."""
        routes = self._routes()
        devices = [_shown(device, routes[device.node_id]) for device in self._tailnet.devices.values()]
        services = [self._shown_service(name) for name in self._tailnet.services.present]
        policy = {"https": self._tailnet.https, "grants": [self._shown_grant(grant) for grant in self._grants]}
        return web.json_response({"devices": devices, "services": services, "policy": policy})

    async def _show_calls(self, _request: web.Request) -> web.Response:
        """Answer with the number of requests to the management API so far, by method and path.

        The key of a number is such as ``GET /api/v2/…/{id}``.
        """
        return web.json_response(self._calls)

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

    async def _replace_approvers(self, request: web.Request) -> web.Response:
        """Replace the policy's table of the devices that are approved as hosts; null approves every device."""
        self._tailnet.services.approvers = json.loads(await request.read())
        return web.json_response({})

    async def _approve(self, request: web.Request) -> web.Response:
        """Approve a device as a host of a Tailscale Service, as an admin does: ``{service, nodeId}``."""
        asked = json.loads(await request.read())
        self._tailnet.services.approve(asked["service"], asked["nodeId"])
        return web.json_response({})

    async def _create_user_key(self, request: web.Request) -> web.Response:
        """Answer with an auth key for one device of a user, whose login name is the body."""
        key = self._tailnet.create_key(NewKey((), user=json.loads(await request.read())))
        return web.json_response(key.key)

    async def _replace_grants(self, request: web.Request) -> web.Response:
        """Replace the policy's grants of application capabilities: a list of ``{src, dst, app}`` as in the policy."""
        self._grants = json.loads(await request.read())
        return web.json_response({})

    async def _set_https(self, request: web.Request) -> web.Response:
        """Turn certificates on or off for the whole tailnet."""
        self._tailnet.https = json.loads(await request.read())
        return web.json_response({})

    def _shown_grant(self, grant: dict[str, Any]) -> dict[str, Any]:
        """Return a grant with the present addresses of its devices instead of its tags and users."""
        return {
            "sources": self._addresses(grant["src"]),
            "destinations": [_route_to(address) for address in self._addresses(grant["dst"])],
            "capabilities": {
                capability: [self._with_recorders(rule) for rule in rules] for capability, rules in grant["app"].items()
            },
        }

    def _with_recorders(self, rule: Any) -> Any:
        """Return *rule* of a grant. If it names recorders by their tags, add the addresses of these recorders."""
        if not isinstance(rule, dict) or "recorder" not in rule:
            return rule
        addresses = [f"[{each}]:80" if ":" in each else f"{each}:80" for each in self._addresses(rule["recorder"])]
        return {"recorderAddrs": addresses, **rule}

    def _addresses(self, selectors: list[str]) -> list[str]:
        """Return the addresses of the devices that have a tag or a user among *selectors*: tags and login names.

        The selector ``*`` stands for all devices.
        """
        chosen = {*selectors}
        return [
            address
            for device in self._tailnet.devices.values()
            if chosen & {"*", device.user, *device.tags}
            for address in device.addresses
        ]

    def _shown_service(self, name: str) -> dict[str, Any]:
        services = self._tailnet.services
        hosts = [node_id for node_id in services.hosts(name) if services.approval(name, node_id) != NOT_APPROVED]
        service = services.present[name]
        dns_name = f"{service.label}.{self._tailnet.domain}"
        shown = {"name": name, "dnsName": dns_name, "addrs": list(service.addresses), "hosts": hosts}
        return {**shown, "primary": services.primary(name)}

    def _shown(self, device: Device) -> dict[str, Any]:
        return _shown(device, self._routes()[device.node_id])

    def _routes(self) -> dict[str, list[str]]:
        """Return the active routes of each device, by node ID.

        If several devices advertise a route, it is active only on the first of them. The routes of an exit node are
        always active.
        """
        devices = self._tailnet.devices.values()
        first = {route: each.node_id for each in reversed([*devices]) for route in each.enabled_routes}
        return {
            each.node_id: [route for route in each.enabled_routes if route in _EXIT or first[route] == each.node_id]
            for each in devices
        }


def _route_to(address: str) -> str:
    return f"{address}/{128 if ':' in address else 32}"


def _shown(device: Device, routes: list[str]) -> dict[str, Any]:
    shown = {"nodeId": device.node_id, "name": device.name, "user": device.user}
    return {**shown, "tags": list(device.tags), "routes": routes}


def _host(advertises: bool, ports: list[str] | None) -> Host:
    return Host(advertises, None if ports is None else frozenset(ports))


async def serve(tailnet: Tailnet, port: int) -> None:
    """Serve the keeper of *tailnet* on loopback until SIGTERM."""
    api, devices = Api(tailnet), RealDevices(tailnet)
    application = web.Application(middlewares=[devices.count, api.refusals])
    application.add_routes([*devices.routes(), *api.routes()])
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
    """Serve the keeper of the tailnet that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--domain", required=True, help="MagicDNS domain")
    parser.add_argument("--port", required=True, type=int, help="port on loopback")
    parser.add_argument("--client-id", required=True, help="the ID of its OAuth client")
    parser.add_argument("--client-secret", required=True, help="that client's secret")
    arguments = parser.parse_args()
    tailnet = Tailnet(arguments.domain)
    tailnet.client_id, tailnet.client_secret = arguments.client_id, arguments.client_secret
    tailnet.audience = arguments.domain  # the audience of the tokens with which a ServiceAccount proves its identity
    asyncio.run(serve(tailnet, arguments.port))


if __name__ == "__main__":
    main()
