"""A client of the keeper, by which the benchmark registers the devices that it simulates in the tailnet."""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

_PATIENCE = aiohttp.ClientTimeout(total=30)  # s for one answer


class Keeper:
    """Sends requests to the keeper, by paths that the control server's API doesn't have."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def join(self, auth_key: str, hostname: str, node_id: str, address: str) -> None:
        """Let a device with these properties join the tailnet with *auth_key*."""
        joining = {"authKey": auth_key, "hostname": hostname, "nodeId": node_id, "addresses": [address]}
        await self._post("join", joining)

    async def host(self, node_id: str, advertised: Iterable[str], ports: Mapping[str, list[str]]) -> None:
        """Report the Tailscale Services that a device has *advertised*, and the *ports* that it serves for each."""
        names = {*advertised}
        services = {name: {"advertises": name in names, "ports": ports.get(name)} for name in {*names, *ports}}
        await self._post("hosted", {"nodeId": node_id, "services": services})

    async def calls(self) -> Counter[str]:
        """Return the number of requests to the control server's API, by method and path."""
        return Counter(await self._post("calls", {}))

    async def _post(self, path: str, body: Any) -> Any:
        async with self._session.post(f"/testbed/{path}", json=body) as answer:
            answer.raise_for_status()
            return await answer.json()


@asynccontextmanager
async def keeper(url: str) -> AsyncIterator[Keeper]:
    """Yield the `Keeper` at *url*."""
    async with aiohttp.ClientSession(url, timeout=_PATIENCE) as session:
        yield Keeper(session)
