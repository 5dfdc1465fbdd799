"""The one act that comes before a plan: the auth key with which a proxy logs in, for the first time or anew."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tsoperator.api.names import SECRET_REISSUE
from tsoperator.api.objects import SECRET, Key, Object
from tsoperator.desired.login import SECONDS_A_KEY
from tsoperator.desired.proxy import Children, Proxy, device_ids, secret_key, wants_auth_key
from tsoperator.desired.secret import Reissue, auth_key_of, device_of, reissue_of, slim
from tsoperator.desired.statefulset import replicas
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import NotFound as NoSecret
from tsoperator.runtime.tokenbucket import TokenBucket
from tsoperator.settings import Settings
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.errors import NotFound as NoDevice

log = logging.getLogger(__name__)

_CONNECTED = 30.0  # s for which a device may still count as connected after its proxy has let go


@dataclass(frozen=True, slots=True)
class _Minted:
    """A key that no Secret is known to hold yet."""

    tags: tuple[str, ...]
    key: str = field(repr=False)


@dataclass(slots=True)
class _Parent:
    """What is remembered of the proxy of one parent; *devices* are those last seen, by ordinal."""

    devices: dict[int, str] = field(default_factory=dict)
    unstored: dict[int, _Minted] = field(default_factory=dict)
    connected_since: dict[int, float] = field(default_factory=dict)
    bucket: TokenBucket | None = None
    due: float | None = None

    def look_again(self, seconds: float) -> None:
        """Let the parent be looked at again in so many *seconds*, or sooner if something else asks for that."""
        self.due = seconds if self.due is None else min(seconds, self.due)


@dataclass(frozen=True, slots=True)
class _Replica:
    """A replica of a proxy: its Secret's name, the device tags that it should have, the number of its like."""

    ordinal: int
    secret: Key
    tags: Sequence[str]
    count: int


class AuthKeys:
    """Finds the auth keys that proxies have yet to use, or mints them.

    A key is minted for a proxy that is new, or asks for another: the one that it had was refused, or its device was
    deleted or has expired. Before that the device it had is deleted, so that the new one gets its name. The Secret is
    read live, so that a cache that is behind costs no key; a key that could not be stored is returned again.
    """

    def __init__(self, client: KubeClient, tailnet: TailnetClient, clock: Callable[[], float] = time.monotonic) -> None:
        """*clock* counts seconds and never goes back."""
        self._client = client
        self._tailnet = tailnet
        self._clock = clock
        self._parents: dict[str, _Parent] = {}

    async def for_proxy(self, proxy: Proxy, children: Children, settings: Settings) -> Mapping[int, str]:
        """Return the keys to plan *proxy* with, by ordinal, where one is needed.

        An empty one is due later: its parent has had too many. Raises KubeError, ControlError.
        """
        parent = self._parents.setdefault(proxy.parent_uid, _Parent())
        parent.due = None
        count = replicas(proxy.target)
        found: dict[int, str] = {}
        for ordinal in range(count):
            if not wants_auth_key(proxy, children, ordinal):
                parent.unstored.pop(ordinal, None)
                parent.connected_since.pop(ordinal, None)
            else:
                replica = _Replica(ordinal, secret_key(proxy, children, settings, ordinal), proxy.tags, count)
                if (key := await self._obtain(parent, replica)) is not None:
                    found[ordinal] = key
        # A Secret that is missing, or tells of no device any more, is remembered by the one that it had.
        seen = parent.devices | device_ids(proxy, children)
        parent.devices = {ordinal: device for ordinal, device in seen.items() if ordinal < count}
        return found

    def pop_due(self, parent_uid: str) -> float | None:
        """Return, once, the seconds until the last look at a parent's proxy is to be repeated; None if it needn't."""
        parent = self._parents.get(parent_uid)
        if parent is None:
            return None
        due, parent.due = parent.due, None
        return due

    def forget(self, parent_uid: str) -> None:
        """Forget a parent, which goes."""
        self._parents.pop(parent_uid, None)

    async def _obtain(self, parent: _Parent, replica: _Replica) -> str | None:
        """Return the key that the replica is to log in with, empty if it is due later, None if it needs none."""
        try:
            live = await self._client.get(SECRET, replica.secret)
        except NoSecret:
            return await self._new_key(parent, replica, parent.devices.get(replica.ordinal, ""))
        found, key = slim(live), auth_key_of(live)
        device = device_of(found, None).id
        if (minted := parent.unstored.get(replica.ordinal)) and minted.key == key:
            del parent.unstored[replica.ordinal]
        if reissue_of(found) is Reissue.ASKED:
            return await self._reissued(parent, replica, live, device)
        if key or device:
            return key or None
        return await self._new_key(parent, replica, parent.devices.get(replica.ordinal, ""))

    async def _reissued(self, parent: _Parent, replica: _Replica, live: Object, device: str) -> str | None:
        """Return another key than that in the *live* Secret; None if it needs none after all."""
        if minted := _unstored(parent, replica):
            return minted.key
        now = self._clock()
        if device and await self._is_connected(device):
            await self._doubt(parent, replica, live, now)
            return None
        parent.connected_since.pop(replica.ordinal, None)
        parent.bucket = parent.bucket or TokenBucket(SECONDS_A_KEY, replica.count, now)
        if wait := parent.bucket.wait(replica.count, now):
            log.info("%s asks for another auth key, which it gets in %.0f s", replica.secret, wait)
            parent.look_again(wait)
            return ""
        key = await self._new_key(parent, replica, device)
        parent.bucket.take()
        return key

    async def _doubt(self, parent: _Parent, replica: _Replica, live: Object, now: float) -> None:
        """Look again at a request of a proxy that is connected to its control server, then take it back.

        The image lets go of the control server before it asks. A request that nobody answered in time stays in the
        Secret, even if the proxy could log in after its next start: to answer it then would cost a working proxy its
        device.
        """
        since = parent.connected_since.setdefault(replica.ordinal, now)
        if now - since < _CONNECTED:
            parent.look_again(_CONNECTED - (now - since))
            return
        log.info("%s asks for another auth key, and is logged in: taking back its request", replica.secret)
        metadata = {"resourceVersion": live["metadata"]["resourceVersion"]}
        await self._client.patch(SECRET, replica.secret, {"metadata": metadata, "data": {SECRET_REISSUE: None}})
        del parent.connected_since[replica.ordinal]

    async def _is_connected(self, device: str) -> bool:
        """Tell whether the control server says that *device* is connected to it now; Headscale doesn't say."""
        try:
            return (await self._tailnet.device(device)).connected is True
        except NoDevice:
            return False

    async def _new_key(self, parent: _Parent, replica: _Replica, device: str) -> str:
        """Return a key for a replica that has lost *device*, if it had one: one that could not be stored, or a new
        one.
        """
        if minted := _unstored(parent, replica):
            return minted.key
        if device:
            log.info("deleting device %s, which %s has lost", device, replica.secret)
            await self._tailnet.delete_device(device)
        log.info("minting an auth key for %s with %s", replica.secret, ", ".join(replica.tags))
        key = (await self._tailnet.create_auth_key(replica.tags)).key.get_secret_value()
        parent.unstored[replica.ordinal] = _Minted(tuple(replica.tags), key)
        return key


def _unstored(parent: _Parent, replica: _Replica) -> _Minted | None:
    """Return the key that was minted for a replica and could not be stored, if its tags are still the right ones."""
    minted = parent.unstored.get(replica.ordinal)
    return minted if minted and minted.tags == tuple(replica.tags) else None
