"""The control server's API over HTTP, with the answers of either Tailscale's server or Headscale."""

import base64
import binascii
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from clustersim.control_services import ServicesApi
from clustersim.refusals import RefusalError, body_of
from clustersim.tailnet import AuthKey, Device, NewKey, Tailnet, timestamp
from clustersim.tokens import claims_of

_NOT_THERE = "404 page not found\n"
_KEYS = "/api/v2/tailnet/-/keys"
_DEVICE = "/api/v2/device/{id}"

Work = Callable[[web.Request], Awaitable[web.Response]]


class Api:
    """Answers requests about one tailnet."""

    def __init__(self, tailnet: Tailnet) -> None:
        self._tailnet = tailnet

    def routes(self) -> list[web.RouteDef]:
        """Return the routes that the server offers. All other paths get a 404 in plain text."""
        keys, devices = "auth_keys", "devices:core"
        tailnet = "/api/v2/tailnet/-"
        return [
            web.post("/api/v2/oauth/token", self._issue_token),
            web.post("/api/v2/oauth/token-exchange", self._exchange_token),
            web.post(_KEYS, self._needs(keys, self._create_key)),
            web.get(_KEYS, self._needs(keys, self._list_keys), allow_head=False),
            web.get(f"{tailnet}/devices", self._needs(devices, self._list_devices), allow_head=False),
            web.get(_DEVICE, self._needs(devices, self._get_device), allow_head=False),
            web.delete(_DEVICE, self._needs(devices, self._delete_device)),
            web.post(f"{_DEVICE}/name", self._needs(devices, self._set_name)),
            web.post(f"{_DEVICE}/tags", self._needs(devices, self._set_tags)),
            web.post(f"{tailnet}/acl", self._set_policy),
            *([] if self._tailnet.headscale else ServicesApi(self._tailnet, self._needs).routes()),
            web.route("*", "/{path:.*}", self._not_there),
        ]

    @web.middleware
    async def refusals(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Call *handler*, and turn a RefusalError into a response with an error body.

        The body has the format of Tailscale's server or of Headscale.
        """
        try:
            return await handler(request)
        except RefusalError as refusal:
            body: dict[str, Any] = {"message": refusal.message}
            if self._tailnet.headscale:
                body["status"] = refusal.status
                if refusal.details:
                    body["data"] = [{"errors": list(refusal.details)}]
            kind = "application/problem+json" if self._tailnet.headscale else "application/json"
            return web.json_response(body, status=refusal.status, content_type=kind)

    def _needs(self, scope: str, work: Work) -> Work:
        """Return a handler that runs *work* if the client's token has *scope*.

        For a GET, the read-only form of *scope* is enough.
        """

        async def checked(request: web.Request) -> web.Response:
            scheme, _, value = request.headers.get("Authorization", "").partition(" ")
            token = self._tailnet.token(value) if scheme == "Bearer" else None
            if token is None:
                raise RefusalError(401, "unauthorized" if self._tailnet.headscale else "API token invalid")
            enough = {scope, f"{scope}:read", "all:read"} if request.method == "GET" else {scope}
            if token.scopes.isdisjoint(enough | {"all"}):
                if self._tailnet.headscale:
                    raise RefusalError(403, f"token is missing the required scope {scope}")
                raise RefusalError(403, "calling actor does not have enough permissions to perform this function")
            return await work(request)

        return checked

    async def _not_there(self, request: web.Request) -> web.Response:
        return web.Response(status=404, text=_NOT_THERE)

    async def _issue_token(self, request: web.Request) -> web.Response:
        tailnet = self._tailnet
        if await _client(request) != (tailnet.client_id, tailnet.client_secret):
            if not tailnet.headscale:
                raise RefusalError(401, "API token invalid")
            error = {"error": "invalid_client", "error_description": "client authentication failed"}
            return web.json_response(error, status=401)
        told = {} if tailnet.headscale else {"tags": " ".join(tailnet.own_tags)}
        return web.json_response(
            {
                "access_token": tailnet.issue_token(),
                "token_type": "Bearer",
                "expires_in": int(tailnet.token_seconds),
                "scope": " ".join(sorted(tailnet.scopes)),
                **told,
            }
        )

    async def _exchange_token(self, request: web.Request) -> web.Response:
        tailnet = self._tailnet
        if tailnet.headscale:
            return await self._not_there(request)
        form = await request.post()
        jwt = str(form.get("jwt", ""))
        is_for_us = bool(tailnet.audience) and tailnet.audience in claims_of(jwt).get("aud", ())
        if form.get("client_id") != tailnet.client_id or not (is_for_us or jwt == tailnet.jwt):
            raise RefusalError(401, "API token invalid")
        seconds = int(tailnet.token_seconds)
        return web.json_response({"access_token": tailnet.issue_token(), "token_type": "Bearer", "expires_in": seconds})

    async def _create_key(self, request: web.Request) -> web.Response:
        body = await body_of(request)
        wanted = self._wanted_key(body)
        self._check_key_tags(wanted.tags)
        key = self._tailnet.create_key(wanted)
        return web.json_response({**self._key(key), "key": key.key})

    def _wanted_key(self, body: dict[str, Any]) -> NewKey:
        try:
            create = body["capabilities"]["devices"]["create"]
            fields = dict(create)
        except (KeyError, TypeError, ValueError):
            raise RefusalError(400, "capabilities.devices.create is required") from None
        required = ("ephemeral", "reusable", "preauthorized", "tags")
        missing = [name for name in required if name not in fields]
        if missing and self._tailnet.headscale:
            where = "body.capabilities.devices.create"
            details = tuple(f"expected required property {name} to be present ({where})" for name in missing)
            raise RefusalError(422, "validation failed", details)
        return NewKey(
            tags=tuple(fields.get("tags") or ()),
            reusable=bool(fields.get("reusable")),
            ephemeral=bool(fields.get("ephemeral")),
            preauthorized=bool(fields.get("preauthorized")),
            description=str(body.get("description", "")),
            seconds=float(body.get("expirySeconds", 0)),
        )

    def _check_key_tags(self, tags: tuple[str, ...]) -> None:
        tailnet = self._tailnet
        undefined = tailnet.refused_tags(tags, tailnet.policy_tags)
        denied = tailnet.refused_tags(tags, tailnet.client_tags)
        if tailnet.headscale:
            if not tags:
                raise RefusalError(403, "an OAuth client must create tagged keys")
            if undefined:
                raise RefusalError(400, f"tag {undefined[0]} is not defined in policy")
            if denied:
                raise RefusalError(403, f"tag {denied[0]} is not allowed for this client")
        elif not tags:
            raise RefusalError(400, "tailnet-owned auth key must have tags set")
        elif undefined or denied:
            raise RefusalError(400, f"requested tags [{' '.join(undefined or denied)}] are invalid or not permitted")

    async def _list_keys(self, request: web.Request) -> web.Response:
        return web.json_response({"keys": [self._key(key) for key in self._tailnet.keys.values()]})

    def _key(self, key: AuthKey) -> dict[str, Any]:
        create = {
            "reusable": key.reusable,
            "ephemeral": key.ephemeral,
            "preauthorized": key.preauthorized,
            "tags": list(key.tags),
        }
        return {
            "id": key.id,
            "description": key.description,
            "created": timestamp(key.created),
            "expires": timestamp(key.expires),
            "expirySeconds": int(key.expires - key.created),
            "invalid": not self._tailnet.is_valid(key),
            "capabilities": {"devices": {"create": create}},
        }

    async def _list_devices(self, request: web.Request) -> web.Response:
        with_routes = request.query.get("fields") == "all" and not self._tailnet.headscale
        devices = self._tailnet.devices.values()
        return web.json_response(
            {"devices": [self._device(device) | (_routes(device) if with_routes else {}) for device in devices]}
        )

    async def _get_device(self, request: web.Request) -> web.Response:
        return web.json_response(self._device(self._found(request)))

    async def _delete_device(self, request: web.Request) -> web.Response:
        self._tailnet.delete_device(self._found(request))
        return web.json_response({})

    def _found(self, request: web.Request) -> Device:
        device = self._tailnet.device(request.match_info["id"])
        if device is None:
            raise RefusalError(404, "device not found")
        return device

    def _device(self, device: Device) -> dict[str, Any]:
        body = {
            "id": device.id,
            "nodeId": device.node_id,
            "name": device.name,
            "hostname": device.hostname,
            "addresses": list(device.addresses),
            "tags": list(device.tags),
            "authorized": device.authorized,
            "created": device.created,
            "user": device.user or "tagged-devices",
            "os": "linux",
            "clientVersion": "1.103.0",
        }
        if self._tailnet.headscale:
            return {**body, "name": device.name.removesuffix(f".{self._tailnet.domain}")}
        return {**body, "lastSeen": device.last_seen or device.created, "connectedToControl": device.connected}

    async def _set_name(self, request: web.Request) -> web.Response:
        device = self._found(request)
        wanted = str((await body_of(request)).get("name", ""))
        label = wanted.removesuffix(f".{self._tailnet.domain}")
        if "." in label:
            raise RefusalError(400, f"invalid name {wanted!r}")
        if label and not self._tailnet.is_free(f"{label.lower()}.{self._tailnet.domain}", device.node_id):
            raise RefusalError(400, f"name {label!r} is already in use")
        self._tailnet.rename_device(device, label)
        return web.json_response({})

    async def _set_tags(self, request: web.Request) -> web.Response:
        device = self._found(request)
        tags = tuple((await body_of(request)).get("tags") or ())
        tailnet = self._tailnet
        refused = tailnet.refused_tags(tags, tailnet.policy_tags) or tailnet.refused_tags(tags, tailnet.client_tags)
        if refused:
            words = f"requested tags [{' '.join(refused)}] are invalid or not permitted"
            raise RefusalError(400, "validation failed" if tailnet.headscale else words, (words,))
        tailnet.update(replace(device, tags=tags))
        return web.json_response({})

    async def _set_policy(self, request: web.Request) -> web.Response:
        """Apply the policy in the body. This path stands for the admin console, so it needs no token."""
        policy = await body_of(request)
        owners = policy.get("tagOwners")
        if not isinstance(owners, dict) or not all(isinstance(each, list) for each in owners.values()):
            raise RefusalError(400, "the simulated policy needs tagOwners, with a list of owners for each tag")
        self._tailnet.set_policy(owners)
        return web.json_response(policy)


def _routes(device: Device) -> dict[str, Any]:
    """Return the fields that ``fields=all`` adds to a device in Tailscale's API."""
    return {"advertisedRoutes": list(device.advertised_routes), "enabledRoutes": list(device.enabled_routes)}


async def _client(request: web.Request) -> tuple[str, str]:
    """Return the ID and secret of an OAuth client, from HTTP Basic or from the form (RFC 6749, section 2.3.1)."""
    form = await request.post()
    scheme, _, value = request.headers.get("Authorization", "").partition(" ")
    if scheme != "Basic":
        return str(form.get("client_id", "")), str(form.get("client_secret", ""))
    if form.get("grant_type") != "client_credentials":
        raise RefusalError(400, "grant_type must be client_credentials")
    try:
        client_id, _, secret = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return client_id, secret
