"""The calls that the operator makes to the API of a control server."""

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import aiohttp

from tsoperator.api.device import Device
from tsoperator.api.tailscaleservice import ServiceHost, TailscaleService
from tsoperator.tsclient.devicelist import DeviceListReader
from tsoperator.tsclient.errors import BadRequest, Forbidden, Granted, Missing, NotSupported, Unavailable
from tsoperator.tsclient.models import AuthKey, HostList, ServiceBody, ServiceList
from tsoperator.tsclient.oauth import ClientCredentials, TokenSource
from tsoperator.tsclient.transport import Answer, Request, Retry, Transport

_SERVICES: Final = "/api/v2/tailnet/-/vip-services"
_HOSTED: Final = "/api/v2/tailnet/-/services"
_SERVICE_NAME: Final = re.compile(r"svc:[A-Za-z0-9-]+")
_DEVICE_ID: Final = re.compile(r"[A-Za-z0-9_-]+")


class TailnetClient:
    """A client for one tailnet, with the rights of an OAuth client.

    Every call takes at most ``retry.call`` seconds, including all tries and the request for a token. It raises
    ControlError if it fails. *base_url* has no slash at its end. *clock* counts seconds and never goes back. *observe*
    is called for each try with the method and the status of the answer; the status is ``none`` if there was no answer.
    *secret* names, in errors, the Secret with the credentials; it is empty for the operator's own credentials.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        base_url: str,
        credentials: ClientCredentials,
        *,
        clock: Callable[[], float] = time.monotonic,
        retry: Retry | None = None,
        observe: Callable[[str, str], None] = lambda method, code: None,
        secret: str = "",
    ) -> None:
        self.url = base_url
        self._retry = retry or Retry()
        self._transport = Transport(session, base_url, self._retry, observe, secret)
        self._tokens = TokenSource(self._transport, credentials, clock)
        self._device_lists = DeviceListReader()

    def listen(self, listener: Callable[[str], None]) -> None:
        """Call *listener* with the status of the answer to each try of a request; ``none`` if there was no answer."""
        self._transport.observers.append(lambda _, status: listener(status))

    def use(self, credentials: ClientCredentials) -> None:
        """Use other *credentials* from now on. They must be for the same tailnet."""
        self._tokens.use(credentials)

    async def create_auth_key(self, tags: Sequence[str]) -> AuthKey:
        """Create an auth key for one device with *tags*: single-use, preauthorized, not ephemeral."""
        # Headscale needs every field of "create". Tailscale takes an expiry of 0 as its default.
        create = {"reusable": False, "ephemeral": False, "tags": list(tags), "preauthorized": True}
        body = {"capabilities": {"devices": {"create": create}}, "expirySeconds": 0, "description": ""}
        return (await self._call("POST", "/api/v2/tailnet/-/keys", body, tags)).read(AuthKey)

    async def device(self, device_id: str) -> Device:
        """Return the device with that node ID. Raises Missing."""
        return (await self._call("GET", _device_path(device_id))).read(Device)

    async def devices(self) -> dict[str, Device]:
        """Return all devices of the tailnet by node ID.

        For a device that hasn't changed, the result has the same Python object as the result of the previous call.
        """
        return await self._device_lists.read(await self._call("GET", "/api/v2/tailnet/-/devices"))

    async def list_auth_keys(self) -> None:
        """Read the list of auth keys, to check the right of the OAuth client to do so."""
        (await self._call("GET", "/api/v2/tailnet/-/keys")).check()

    async def list_services(self) -> None:
        """Read the list of Tailscale Services, to check the right of the OAuth client to do so. Raises NotSupported."""
        (await self._call("GET", _SERVICES)).check()

    async def services(self) -> list[TailscaleService]:
        """Return all Tailscale Services of the tailnet.

        The control server is allowed to leave their annotations out of its list.
        """
        return [each.to_service() for each in (await self._call("GET", _SERVICES)).read(ServiceList).services]

    async def service(self, name: str) -> TailscaleService | None:
        """Return the Tailscale Service with that name; None if the tailnet has none. Its annotations are never None."""
        try:
            found = (await self._call("GET", _service_path(name))).read(ServiceBody).to_service()
        except Missing:
            return None
        return replace(found, name=found.name or name, annotations=found.annotations or {})

    async def put_service(self, service: TailscaleService) -> TailscaleService:
        """Create *service*, or replace the one with its name, and return it as the tailnet has it now.

        All fields are replaced. A *service* without addresses is a new one. A control server needn't return the Service
        in its answer; if it doesn't, this method reads the Service.
        """
        body = ServiceBody.of(service).to_json()
        answer = await self._call("PUT", _service_path(service.name), body, service.tags)
        answer.check()
        found = answer.read(ServiceBody).to_service() if answer.body.strip() else None
        if found is not None and found.name and found.addresses:
            return replace(found, annotations=found.annotations or service.annotations)
        return await self.service(service.name) or service

    async def delete_service(self, name: str) -> bool:
        """Delete the Tailscale Service with that name; return False if the tailnet has none."""
        try:
            (await self._call("DELETE", _service_path(name))).check()
        except Missing:
            return False
        return True

    async def service_hosts(self, name: str) -> list[ServiceHost]:
        """Return the devices that host the Tailscale Service with that name; no devices if there is no such Service."""
        path = _service_path(name).replace(_SERVICES, _HOSTED)
        try:
            return (await self._call("GET", f"{path}/devices")).read(HostList).to_hosts()
        except Missing:
            return []

    async def delete_device(self, device_id: str) -> bool:
        """Delete the device with that node ID; return False if the tailnet has no such device."""
        try:
            (await self._call("DELETE", _device_path(device_id))).check()
        except Missing:
            return False
        return True

    async def set_tags(self, device_id: str, tags: Sequence[str]) -> None:
        """Replace the tags of the device with that node ID by *tags*. Raises Missing."""
        (await self._call("POST", f"{_device_path(device_id)}/tags", {"tags": list(tags)}, tags)).check()

    async def set_name(self, device_id: str, name: str) -> None:
        """Give the device with that node ID the *name*. Raises Missing.

        The device keeps this name when its hostname changes. With an empty *name* it is named after its hostname again.
        """
        (await self._call("POST", f"{_device_path(device_id)}/name", {"name": name})).check()

    async def granted(self, *, anew: bool = False) -> Granted:
        """Return the rights of the OAuth client, as the server said when it issued the access token.

        With *anew*, request another token first, because the rights of the present token are possibly outdated.
        """
        try:
            async with asyncio.timeout(self._retry.call):
                await self._tokens.token(anew=anew)
        except TimeoutError:
            raise Unavailable(f"the control server {self.url} gave no token within {self._retry.call:g} s") from None
        return self._tokens.granted

    async def has_services(self) -> bool:
        """Tell whether the control server supports Tailscale Services.

        This works even if the OAuth client isn't allowed to list them.
        """
        try:
            await self.list_services()
        except NotSupported:
            return False
        except Forbidden:
            return True
        return True

    async def _call(self, method: str, path: str, body: Any = None, tags: Sequence[str] = ()) -> Answer:
        """Return the answer to a request. If the server refuses it, the error names the *tags* in *body*."""
        try:
            async with asyncio.timeout(self._retry.call):
                answer = await self._send(method, path, body, tags)
                # The token may have been revoked, or the server forgot it: try once with another token.
                return await self._send(method, path, body, tags) if answer.status == 401 else answer
        except TimeoutError:  # other objects report this error, too, so it names no call
            words = f"the control server {self.url} did not answer within {self._retry.call:g} s"
            raise Unavailable(f"{words}; the operator tries again by itself") from None

    async def _send(self, method: str, path: str, body: Any, tags: Sequence[str]) -> Answer:
        token = await self._tokens.token()
        headers = {"Authorization": f"Bearer {token.get_secret_value()}"}
        granted = self._tokens.granted
        answer = await self._transport.send(
            Request(method, path, secret=token, json=body, headers=headers, tags=tuple(tags), granted=granted)
        )
        if answer.status in (401, 403):
            # A token keeps the scopes that it was issued with. The next call gets one with the present scopes.
            self._tokens.drop(token)
        return answer


def _device_path(device_id: str) -> str:
    """Return the URL path of a device.

    Raises Missing if *device_id* can't be an ID, because the path with it could be that of another call.
    """
    if not _DEVICE_ID.fullmatch(device_id):
        raise Missing(f"no device has the ID {device_id!r}", 404, "not a device ID")
    return f"/api/v2/device/{device_id}"


def _service_path(name: str) -> str:
    """Return the URL path of a Tailscale Service.

    Raises BadRequest if no Service can have that *name*, because the path with it could be that of another call.
    """
    if not _SERVICE_NAME.fullmatch(name):
        raise BadRequest(f"no Tailscale Service can have the name {name!r}", 400, "not a name of a Service")
    return f"{_SERVICES}/{name}"
