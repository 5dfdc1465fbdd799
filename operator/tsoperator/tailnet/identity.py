"""The operator's own device: reads its node ID from the Secret that OPERATOR_SECRET names.

The cache has only the metadata of that Secret, because the Secret holds the private keys of the device. When the
metadata change, the operator reads the whole Secret, and keeps only the ID and the slim form.
"""

import asyncio
import logging
from typing import Final

from tsoperator.api.objects import IDENTITY, SECRET, SECRET_METADATA, Key, Object, key_of
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import KubeError, NotFound
from tsoperator.proxy.replica import ReplicaSecrets
from tsoperator.proxy.secret import Reissue, reissue_of, slim
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.feeds import Announcer
from tsoperator.tailnet.operatorid import OperatorIdentity, UnreadableProfile, node_id_in

log = logging.getLogger(__name__)

_PAUSE: Final = 5.0  # s after a failed read until the next one

_UNSET: Final = (
    "OPERATOR_SECRET is not set, so the operator has no device of its own in the tailnet, and can't own Tailscale "
    "Services: set it to the name of a Secret in the operator's namespace (the chart sets it)"
)


class KnownIdentity:
    """The operator's identity, as far as it is known. A change of it is announced as a watch event of `IDENTITY`."""

    def __init__(self, client: KubeClient, cache: Cache, namespace: str, secret: str, pause: float = _PAUSE) -> None:
        """*secret* is the name of the Secret, or empty. A failed read is repeated after *pause* seconds."""
        self._client = client
        self._cache = cache
        self._key = Key(namespace, secret)
        self._pause = pause
        self._read = OperatorIdentity() if secret else OperatorIdentity(is_known=True, problem=_UNSET)
        self._state: Object | None = None
        self._obstacle = ""
        self._is_wanted = False
        self._stale = asyncio.Event()
        self.feed = Announcer(IDENTITY)
        """The announcer of changes of the identity, and of the device's request for another auth key."""
        for resource in (SECRET_METADATA, SECRET):  # SECRET if somebody gave the Secret the label of our objects
            cache.listen(resource, self._look)

    def current(self) -> OperatorIdentity:
        """Return the identity that is known now. The first call requests a read of the Secret, and doesn't wait."""
        self._want()
        return self._known()

    def stored(self) -> OperatorIdentity:
        """Return the identity that the Secret shows.

        It leaves out the problem, if any, that keeps the operator from registering a device.
        """
        self._want()
        return self._read

    def state(self) -> Object | None:
        """Return the slim form of the Secret at its most recent read; None before that, or if there was no Secret."""
        return self._state

    def hindered(self, obstacle: str, *, is_told: bool = False) -> None:
        """Remember the *obstacle* that keeps the operator from registering a device; empty if there is none.

        If *is_told* is true, an Event or the log has reported the obstacle to the user already, so this method doesn't
        log it again.
        """
        if obstacle and obstacle != self._obstacle and not is_told:
            log.warning("the operator's own device can't be registered: %s", obstacle)
        self._take(self._read, self._state, obstacle)

    async def run(self) -> None:
        """Wait until somebody calls `current` or `stored`. Read the Secret at that time, and at each change after it.

        This method ends only when it is cancelled.
        """
        while True:
            await self._stale.wait()
            self._stale.clear()
            try:
                self._understand(await self._secret())
            except KubeError as error:
                why = f"Secret {self._key} with the operator's own device can't be read: {error}"
                self._take(OperatorIdentity(self._read.node_id, self._read.is_known, why), self._state, self._obstacle)
                await asyncio.sleep(self._pause)
                self._stale.set()

    def _want(self) -> None:
        """Request the first read of the Secret."""
        if not self._is_wanted and self._key.name:
            self._is_wanted = True
            self._stale.set()

    def _known(self) -> OperatorIdentity:
        read = self._read
        return read if read.problem or read.node_id else OperatorIdentity("", read.is_known, self._obstacle)

    def _look(self, old: Object | None, new: Object | None) -> None:
        if self._is_wanted and any(each is not None and key_of(each) == self._key for each in (old, new)):
            self._stale.set()

    async def _secret(self) -> Object | None:
        """Return the whole Secret, as the API server has it now; None if there is none. Raises KubeError."""
        if not any(self._cache.get(resource, self._key) for resource in (SECRET_METADATA, SECRET)):
            return None
        try:
            return await self._client.get(SECRET, self._key)
        except NotFound:
            return None

    def _understand(self, secret: Object | None) -> None:
        try:
            read = OperatorIdentity(node_id_in(secret) if secret else "", is_known=True)
        except UnreadableProfile as error:
            problem = (
                f"Secret {self._key} (OPERATOR_SECRET) doesn't say which device is the operator's: {error}. Restore "
                "the Secret, or delete it: then the operator registers a new device, and no longer owns the "
                "Tailscale Services of the old one"
            )
            read = OperatorIdentity(is_known=True, problem=problem)
        self._take(read, _slim(secret) if secret else None, self._obstacle)

    def _take(self, read: OperatorIdentity, state: Object | None, obstacle: str) -> None:
        """Remember the identity, the state and the obstacle as they are now.

        Announce a change of the identity that `current` returns, and the beginning or the end of a request for another
        auth key.
        """
        before, asked = self._known(), self._state
        if read.node_id != self._read.node_id:
            log.info("the operator's own device in the tailnet is %s", read.node_id or "none")
        self._read, self._state, self._obstacle = read, state, obstacle
        if self._known() != before or _asks(state) != _asks(asked):
            self.feed.announce()


def _slim(secret: Object) -> Object:
    """Return the slim form of the Secret without annotations, which possibly have a copy of its data."""
    return slim({**secret, "metadata": {"namespace": key_of(secret).namespace, "name": key_of(secret).name}})


def _asks(state: Object | None) -> bool:
    """Tell whether the device with this slim Secret asks for another auth key."""
    return reissue_of(ReplicaSecrets(state=state)) is Reissue.ASKED
