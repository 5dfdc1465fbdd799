"""The one act that comes before a plan: the auth key with which a new proxy logs in."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from tsoperator.api.names import SECRET_DEVICE_ID
from tsoperator.api.objects import SECRET, Key
from tsoperator.desired.proxy import Children, Proxy, secret_key, wants_auth_key
from tsoperator.desired.secret import auth_key_of
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import NotFound
from tsoperator.settings import Settings
from tsoperator.tsclient.client import TailnetClient

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Minted:
    """A key that no Secret is known to hold yet."""

    tags: tuple[str, ...]
    key: str = field(repr=False)


class AuthKeys:
    """Finds the auth key that a proxy has yet to use, or mints one."""

    def __init__(self, client: KubeClient, tailnet: TailnetClient) -> None:
        self._client = client
        self._tailnet = tailnet
        self._unstored: dict[Key, _Minted] = {}

    async def for_proxy(self, proxy: Proxy, children: Children, settings: Settings, ordinal: int = 0) -> str:
        """Return the key to plan a replica of *proxy* with, empty where it needs none. Raises as `obtain` does."""
        secret = secret_key(proxy, children, settings, ordinal)
        if wants_auth_key(proxy, children, ordinal):
            return await self.obtain(secret, proxy.tags)
        self._unstored.pop(secret, None)
        return ""

    async def obtain(self, secret: Key, tags: Sequence[str]) -> str:
        """Return the unused key in the live Secret named *secret*, a new one with *tags* if it has none.

        Empty if the proxy has logged in meanwhile. The Secret is read live, so that a cache that is behind costs no
        key; one that could not be stored is returned again.
        Raises KubeError, ControlError.
        """
        try:
            live = await self._client.get(SECRET, secret)
        except NotFound:
            live = None
        if live is not None:
            if key := auth_key_of(live):
                return key
            if (live.get("data") or {}).get(SECRET_DEVICE_ID):
                return ""
        minted = self._unstored.get(secret)
        if minted is None or minted.tags != tuple(tags):
            log.info("minting an auth key for %s with %s", secret, ", ".join(tags))
            key = (await self._tailnet.create_auth_key(tags)).key.get_secret_value()
            minted = self._unstored[secret] = _Minted(tuple(tags), key)
        return minted.key
