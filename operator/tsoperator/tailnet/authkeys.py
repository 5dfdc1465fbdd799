"""The auth keys with which the replicas of proxies log in to a tailnet, for the first time or again."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from tsoperator.api.names import SECRET_REISSUE
from tsoperator.api.objects import SECRET, Key, Object
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import NotFound
from tsoperator.proxy.login import SECONDS_A_KEY, Keys, Login
from tsoperator.proxy.replica import Replica, ReplicaSecrets
from tsoperator.proxy.secret import Reissue, auth_key_of, device_id_of, reissue_of, slim
from tsoperator.runtime.clock import loop_time
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import earliest
from tsoperator.runtime.result import Pending
from tsoperator.tailnet.calls import Calls
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.errors import Missing

log = logging.getLogger(__name__)

_CONNECTED = 30.0  # s for which a device may still be reported as connected after its proxy has disconnected


class TokenBucket:
    """A limit on the rate of requests: each request takes a token, and every *interval* seconds one token comes back.

    *now* is the time on a clock that never goes back. Each call of `wait` gives the *size*, which is the largest number
    of tokens that the bucket can have. If the size grows, the bucket gets the additional tokens one by one.
    """

    def __init__(self, interval: float, size: int, now: float) -> None:
        """Start with all tokens, of which there are *size*."""
        self._interval = interval
        self._tokens = float(size)
        self._counted = now

    def wait(self, size: int, now: float) -> float:
        """Return the seconds until the bucket has a token; 0 if it has one. *size* is the largest number of tokens."""
        self._tokens = min(size, self._tokens + (now - self._counted) / self._interval)
        self._counted = now
        return max(0.0, (1 - self._tokens) * self._interval)

    def take(self) -> None:
        """Take a token. Call `wait` first, to see that the bucket has one."""
        self._tokens -= 1


@dataclass(frozen=True, slots=True)
class _Minted:
    """An auth key that we have minted, and that we haven't seen in a Secret yet."""

    tags: tuple[str, ...]
    key: str = field(repr=False)


@dataclass(slots=True)
class _Parent:
    """The facts that we remember about the auth keys of one parent. *replicas* is the number of its replicas.

    The keys of each dictionary are the ordinals of replicas. *devices* has the device IDs that the Secrets named most
    recently.
    """

    owner: Owner
    uid: str
    replicas: int
    devices: dict[int, str] = field(default_factory=dict)
    unstored: dict[int, _Minted] = field(default_factory=dict)
    connected_since: dict[int, float] = field(default_factory=dict)
    bucket: TokenBucket | None = None
    requeue_after: float | None = None


@dataclass(frozen=True, slots=True)
class _Live:
    """The whole Secrets of a replica, as the API server has them now."""

    config: Object | None
    state: Object | None

    @property
    def auth_key(self) -> str:
        return auth_key_of(self.config) if self.config is not None else ""

    @property
    def slim(self) -> ReplicaSecrets:
        config, state = (slim(secret) if secret is not None else None for secret in (self.config, self.state))
        return ReplicaSecrets(config, state)


class AuthKeys:
    """Finds the auth keys with which replicas should log in, or mints them.

    A new replica gets an auth key. A replica also gets one if it asks for another auth key because the control server
    has refused its own, or because its device was deleted or has expired. Before that, its old device is deleted, so
    that the new device gets the name.

    This class reads the Secrets from the API server. With a cache that lags behind, it would mint auth keys that nobody
    needs. A new parent has no Secrets yet, so the class reads nothing for it. If an auth key could not be stored, the
    next call of `obtain` returns the same auth key.
    """

    def __init__(
        self,
        client: KubeClient,
        tailnet: TailnetClient,
        calls: Calls,
        clock: Callable[[], float] = loop_time,
    ) -> None:
        """*clock* counts seconds and never goes back."""
        self._client = client
        self._tailnet = tailnet
        self._calls = calls
        self._clock = clock
        self._parents: dict[Owner, _Parent] = {}

    async def obtain(self, login: Login) -> Keys:
        """Return the auth keys for those replicas of *login* that need one. Raises KubeError, ControlError.

        If the control server takes long to answer for one replica, the following replicas have to wait for their auth
        keys, too.
        """
        count = len(login.replicas)
        parent = self._parents.get(login.owner)
        if parent is None or parent.uid != login.parent_uid:
            parent = self._parents[login.owner] = _Parent(login.owner, login.parent_uid, count)
        parent.requeue_after, parent.replicas = None, count
        found: dict[int, str] = {}
        awaited, waiting = set[int](), None
        for replica in login.replicas:
            if replica.ordinal not in login.in_need:
                parent.unstored.pop(replica.ordinal, None)
                parent.connected_since.pop(replica.ordinal, None)
            elif waiting is not None:
                awaited.add(replica.ordinal)
            else:
                try:
                    key = await self._obtain(parent, replica, is_new=login.is_new)
                except Pending as pending:
                    waiting = pending
                    awaited.add(replica.ordinal)
                    continue
                if key is not None:
                    found[replica.ordinal] = key
        # If a Secret is missing or names no device any more, we still remember the device that it named before.
        seen = {**parent.devices, **login.devices}
        parent.devices = {ordinal: device for ordinal, device in seen.items() if ordinal < count}
        return Keys(found, parent.requeue_after, frozenset(awaited), waiting)

    def forget(self, owner: Owner) -> None:
        """Forget a parent that has no proxies any more."""
        self._parents.pop(owner, None)

    async def _obtain(self, parent: _Parent, replica: Replica, *, is_new: bool) -> str | None:
        """Return the auth key with which the replica should log in.

        The result is empty if the replica has to wait for its auth key, and None if the replica needs none. If *is_new*
        is true, *parent* is new and has no Secrets, so this method reads none.
        """
        live = _Live(None, None) if is_new else await self._live(replica)
        found, key = live.slim, live.auth_key
        device = device_id_of(found)
        if (minted := parent.unstored.get(replica.ordinal)) and minted.key == key:
            del parent.unstored[replica.ordinal]
        if reissue_of(found) is Reissue.ASKED:
            return await self._reissued_key(parent, replica, live, device)
        if key or device:
            return key or None
        return await self._new_key(parent, replica, parent.devices.get(replica.ordinal, ""))

    async def _live(self, replica: Replica) -> _Live:
        config = await self._secret(replica.config_secret)
        shared = replica.state_secret == replica.config_secret
        return _Live(config, config if shared else await self._secret(replica.state_secret))

    async def _secret(self, key: Key) -> Object | None:
        try:
            return await self._client.get(SECRET, key)
        except NotFound:
            return None

    async def _reissued_key(self, parent: _Parent, replica: Replica, live: _Live, device: str) -> str | None:
        """Return another auth key for a proxy that asks for one, because the auth key in *live* is of no use.

        The result is empty if the proxy has to wait for the new auth key. It is None if the device of the proxy is
        still connected, because such a proxy needs no other auth key.
        """
        if minted := _unstored_key(parent, replica):
            return minted.key
        now = self._clock()
        if device and await self._is_connected(parent, replica, device):
            await self._doubt(parent, replica, live, now)
            return None
        parent.connected_since.pop(replica.ordinal, None)
        parent.bucket = parent.bucket or TokenBucket(SECONDS_A_KEY, parent.replicas, now)
        if wait := parent.bucket.wait(parent.replicas, now):
            log.debug("%s asks for another auth key, which it gets in %.0f s", replica.state_secret, wait)
            parent.requeue_after = earliest(parent.requeue_after, wait)
            return ""
        key = await self._new_key(parent, replica, device)
        parent.bucket.take()
        return key

    async def _doubt(self, parent: _Parent, replica: Replica, live: _Live, now: float) -> None:
        """Withdraw a proxy's request for another auth key if the proxy is still connected after `_CONNECTED` seconds.

        Before that time, requeue the parent. The proxy's program disconnects from the control server before it asks for
        an auth key. But a request that nobody answered in time stays in the Secret, even if the proxy can log in after
        its next start. If we answered such a request, a working proxy would lose its device.
        """
        since = parent.connected_since.setdefault(replica.ordinal, now)
        if now - since < _CONNECTED:
            parent.requeue_after = earliest(parent.requeue_after, _CONNECTED - (now - since))
            return
        log.info("%s asks for another auth key, and is logged in: taking back its request", replica.state_secret)
        assert live.state is not None  # noqa: S101 (the request is in the state Secret)
        metadata = {"resourceVersion": live.state["metadata"]["resourceVersion"]}
        await self._client.patch(SECRET, replica.state_secret, {"metadata": metadata, "data": {SECRET_REISSUE: None}})
        del parent.connected_since[replica.ordinal]

    async def _is_connected(self, parent: _Parent, replica: Replica, device: str) -> bool:
        """Tell whether the control server says that *device* is connected to it. Headscale never says so."""

        async def ask() -> bool:
            try:
                return (await self._tailnet.device(device)).connected is True
            except Missing:
                return False

        return await self._calls.result(parent.owner, ("connected", replica.ordinal), device, ask)

    async def _new_key(self, parent: _Parent, replica: Replica, device: str) -> str:
        """Return an auth key for a replica: one that could not be stored before, or a new one.

        *device* is the device that the replica has lost, or empty. It is deleted before a new auth key is minted.
        """
        if minted := _unstored_key(parent, replica):
            return minted.key

        async def mint() -> str:
            if device:
                log.info("deleting device %s, which %s has lost", device, replica.state_secret)
                await self._tailnet.delete_device(device)
            log.debug("minting an auth key for %s with %s", replica.state_secret, ", ".join(replica.tags))
            return (await self._tailnet.create_auth_key(replica.tags)).key.get_secret_value()

        wanted = (device, tuple(replica.tags))
        key = await self._calls.result(parent.owner, ("key", replica.ordinal), wanted, mint)
        parent.unstored[replica.ordinal] = _Minted(tuple(replica.tags), key)
        return key


def _unstored_key(parent: _Parent, replica: Replica) -> _Minted | None:
    """Return the auth key that we minted for *replica* but could not store; None if there is none.

    An auth key with other tags than *replica* has now doesn't count.
    """
    minted = parent.unstored.get(replica.ordinal)
    return minted if minted and minted.tags == tuple(replica.tags) else None
