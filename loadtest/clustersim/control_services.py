"""The control server's API for Tailscale Services over HTTP. Headscale has none."""

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from clustersim.refusals import RefusalError, body_of
from clustersim.tailnet import Tailnet
from clustersim.tailnetservices import ServiceError, TailscaleService, check_name

_SERVICES = "/api/v2/tailnet/-/vip-services"
_SERVICE = f"{_SERVICES}/{{name}}"
_HOSTS = "/api/v2/tailnet/-/services/{name}/devices"
_LISTS = ("addrs", "ports", "tags")
_TEXTS = ("name", "displayName", "comment")

Work = Callable[[web.Request], Awaitable[web.Response]]
Needs = Callable[[str, Work], Work]


class ServicesApi:
    """Answers requests about the Tailscale Services of one tailnet.

    *needs* adds a check of the token's scope to a handler.
    """

    def __init__(self, tailnet: Tailnet, needs: Needs) -> None:
        self._tailnet = tailnet
        self._services = tailnet.services
        self._needs = needs

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of Tailscale Services."""
        services, devices = "services", "devices:core"
        return [
            web.get(_SERVICES, self._needs(services, self._list), allow_head=False),
            web.get(_SERVICE, self._needs(services, self._get), allow_head=False),
            web.put(_SERVICE, self._needs(services, self._put)),
            web.delete(_SERVICE, self._needs(services, self._delete)),
            web.get(_HOSTS, self._needs(services, self._needs(devices, self._list_hosts)), allow_head=False),
        ]

    async def _list(self, request: web.Request) -> web.Response:
        hidden = () if self._services.lists_annotations else ("annotations",)
        listed = [_json(service, hidden) for service in self._services.present.values()]
        return web.json_response({"vipServices": listed})

    async def _get(self, request: web.Request) -> web.Response:
        return web.json_response(_json(self._found(request)))

    async def _put(self, request: web.Request) -> web.Response:
        body, name = await body_of(request), _name(request)
        wanted = _service(body)
        if wanted.name != name:
            raise RefusalError(400, f"the body has the name {wanted.name!r} instead of {name!r}")
        if self._tailnet.named(f"{wanted.label}.{self._tailnet.domain}") is not None:
            raise RefusalError(400, f"the name {wanted.label!r} is already in use by a device")
        refused = [
            tag
            for permitted in (self._tailnet.policy_tags, self._tailnet.client_tags)
            for tag in self._tailnet.refused_tags(wanted.tags, permitted)
        ]
        if refused:
            raise RefusalError(400, f"requested tags [{' '.join(dict.fromkeys(refused))}] are invalid or not permitted")
        try:
            return web.json_response(_json(self._services.put(wanted)))
        except ServiceError as error:
            raise RefusalError(400, str(error)) from error

    async def _delete(self, request: web.Request) -> web.Response:
        self._services.delete(self._found(request).name)
        return web.json_response({})

    async def _list_hosts(self, request: web.Request) -> web.Response:
        service = self._found(request)
        hosts = [
            {
                "nodeId": node_id,
                "approvalLevel": self._services.approval(service.name, node_id),
                "configured": "ready" if host.serves(service) else "needs-configuration",
            }
            for node_id, host in self._services.hosts(service.name).items()
        ]
        return web.json_response({"hosts": hosts})

    def _found(self, request: web.Request) -> TailscaleService:
        service = self._services.present.get(_name(request))
        if service is None:
            raise RefusalError(404, "service not found")
        return service


def _name(request: web.Request) -> str:
    """Return the name of a Service in the path of *request*. Raises RefusalError."""
    name = request.match_info["name"]
    try:
        check_name(name)
    except ServiceError as error:
        raise RefusalError(400, str(error)) from error
    return name


def _service(body: dict[str, Any]) -> TailscaleService:
    """Return the Tailscale Service that *body* describes. Raises RefusalError if a field has the wrong type."""
    texts = {key: body.get(key) or "" for key in _TEXTS}
    lists = {key: body.get(key) or [] for key in _LISTS}
    annotations = body.get("annotations") or {}
    if not isinstance(annotations, dict) or not all(isinstance(each, list) for each in lists.values()):
        raise RefusalError(400, "annotations must be an object; addrs, ports and tags must be lists")
    strings = [*texts.values(), *annotations.values(), *(item for each in lists.values() for item in each)]
    if not all(isinstance(each, str) for each in strings):
        raise RefusalError(400, "every value of a Service must be a string")
    return TailscaleService(
        name=texts["name"],
        ports=tuple(lists["ports"]),
        tags=tuple(lists["tags"]),
        annotations=annotations,
        comment=texts["comment"],
        display_name=texts["displayName"],
        addresses=tuple(lists["addrs"]),
    )


def _json(service: TailscaleService, hidden: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return *service* as JSON of the API, without the *hidden* fields and those that are empty."""
    fields = {
        "name": service.name,
        "displayName": service.display_name,
        "addrs": list(service.addresses),
        "comment": service.comment,
        "annotations": dict(service.annotations),
        "ports": list(service.ports),
        "tags": list(service.tags),
    }
    return {key: value for key, value in fields.items() if value and key not in hidden}
