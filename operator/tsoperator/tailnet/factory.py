"""Makes the `KnownTailnet` for a Tailnet object, and clients that try the credentials of the Tailnet."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pydantic import SecretStr

from tsoperator.api.objects import TAILNET, Key, Object
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import KubeError
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.events import EventRecorder
from tsoperator.settings import Settings
from tsoperator.tailnet.known import KnownTailnet
from tsoperator.tailnet.preflight import Preflight
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.errors import NoToken
from tsoperator.tsclient.oauth import ClientCredentials, Jwt, MintedIdentity

Connect = Callable[[str, ClientCredentials, str], TailnetClient]
"""A function that returns a client.

Its arguments are a control server's URL, credentials, and words that describe the Secret with the credentials.
"""


@dataclass(frozen=True, slots=True)
class TailnetFactory:
    """Makes a client for each Tailnet, and the `KnownTailnet` that the Tailnet describes.

    *kube* reads Secrets of proxies from the API server, and *cache* finds such Secrets by device.
    """

    connect: Connect
    kube: KubeClient
    cache: Cache
    events: EventRecorder
    settings: Settings

    def tailnet(self, name: str, client: TailnetClient) -> KnownTailnet:
        """Return the tailnet that the Tailnet called *name* describes. *client* makes the calls to its server."""

        async def subject() -> Object | None:
            return self.cache.get(TAILNET, Key("", name))

        return KnownTailnet(client, self.kube, self.cache, Preflight(client, self.events, subject, name), name)

    def identity(self, client_id: str, audience: str) -> MintedIdentity:
        """Return the workload identity of the client with this ID, with tokens of our ServiceAccount for *audience*."""

        async def mint() -> Jwt:
            return await self._token(audience)

        return MintedIdentity(client_id, mint)

    async def _token(self, audience: str) -> Jwt:
        """Return a token of our ServiceAccount for *audience*. Raises NoToken."""
        account = Key(self.settings.namespace, self.settings.service_account)
        try:
            status = await self.kube.request_token(account, audience)
            return Jwt(SecretStr(status["token"]), datetime.fromisoformat(status["expirationTimestamp"]).timestamp())
        except (KubeError, KeyError, ValueError, TypeError) as error:
            words = (
                f"the API server gives no token of ServiceAccount {account} for the audience {audience} ({error!r}): "
                "see that the operator's Role lets it create serviceaccounts/token, and that "
                "OPERATOR_SERVICE_ACCOUNT_NAME is the name of its ServiceAccount"
            )
            raise NoToken(words) from error
