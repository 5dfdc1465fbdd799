"""Tries the credentials of a tailnet: lists its devices, auth keys and Tailscale Services with them."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace

from tsoperator.reconcilers.tailnet.plan import Probe
from tsoperator.runtime.plan import Refusal
from tsoperator.tailnet.refusals import explain
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.errors import ControlError, NotSupported, RateLimited, Unavailable, UnexpectedAnswer


async def probe(client: TailnetClient) -> Probe:
    """Try the calls that the operator needs with *client*, and return the result. No call changes anything."""
    try:
        await client.granted()
    except ControlError as error:
        return Probe([_refusal("", error)])
    devices: dict[str, str] = {}

    async def list_devices() -> None:
        for device in (await client.devices()).values():
            devices[device.node_id] = "" if device.external else device.name

    async def list_services() -> None:
        try:
            await client.list_services()
        except NotSupported:
            return  # Headscale has no Tailscale Services: no fault of the credentials

    calls = {
        "devices": list_devices(),
        "auth keys": client.list_auth_keys(),
        "tailscale services": list_services(),
    }
    found = await asyncio.gather(*(_tried(what, call) for what, call in calls.items()))
    return Probe([each for each in found if each is not None], devices)


async def _tried(what: str, call: Awaitable[None]) -> Refusal | None:
    try:
        await call
    except ControlError as error:
        return _refusal(f"failed to list {what}: ", error)
    return None


def _refusal(prefix: str, error: ControlError) -> Refusal:
    found = explain(error)
    is_passing = isinstance(error, Unavailable | RateLimited | UnexpectedAnswer)
    return replace(found, message=f"{prefix}{found.message}", is_passing=is_passing)
