"""Access tokens of an OAuth client or of workload identity.

A token is requested when it is needed, and kept until it nearly expires.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import SecretStr

from tsoperator.api.rules import unreadable
from tsoperator.tsclient.errors import (
    UNTOLD,
    BadRequest,
    ControlError,
    CredentialsUnreadable,
    Granted,
    IdentityUnreadable,
    Unauthorized,
)
from tsoperator.tsclient.models import AccessToken
from tsoperator.tsclient.transport import Request, Transport

TOKEN_EXCHANGE: Final = "/api/v2/oauth/token-exchange"  # noqa: S105 - a path


class Credentials(NamedTuple):
    """An OAuth client's ID and secret."""

    client_id: str
    client_secret: SecretStr

    def request(self) -> Request:
        """Return the request for an access token by the client-credentials grant (RFC 6749, section 4.4)."""
        secret = self.client_secret.get_secret_value()
        form = {"grant_type": "client_credentials", "client_id": self.client_id, "client_secret": secret}
        return Request("POST", "/api/v2/oauth/token", secret=self.client_secret, form=form)


class Identity(NamedTuple):
    """A workload identity: the ID of a client that trusts this cluster, and a token of our ServiceAccount.

    The cluster signed the token.
    """

    client_id: str
    jwt: SecretStr

    def request(self) -> Request:
        """Return the request that exchanges the `jwt` for an access token (docs/development/control-servers.md)."""
        form = {"client_id": self.client_id, "jwt": self.jwt.get_secret_value()}
        return Request("POST", TOKEN_EXCHANGE, secret=self.jwt, form=form)


ClientCredentials = Callable[[], Credentials | Identity | Awaitable[Credentials | Identity]]
"""A function that returns the credentials of an OAuth client or a workload identity, or an awaitable of them.

It raises CredentialsUnreadable. We call it before every use of a token, so that new credentials take effect at once.
"""


class Jwt(NamedTuple):
    """A token of our ServiceAccount, and the wall clock's time in seconds at which it expires."""

    value: SecretStr
    expires: float


@dataclass(frozen=True, slots=True)
class CredentialFiles:
    """The credentials of an OAuth client in two mounted files, without the white space around them."""

    client_id: Path
    client_secret: Path

    def __call__(self) -> Credentials:
        """Read the files. Raises CredentialsUnreadable."""
        return Credentials(
            _read(self.client_id, "CLIENT_ID_FILE"), SecretStr(_read(self.client_secret, "CLIENT_SECRET_FILE"))
        )


@dataclass(frozen=True, slots=True)
class IdentityFile:
    """Workload identity: a ServiceAccount token in a mounted file, which the kubelet renews before it expires."""

    client_id: str
    jwt: Path

    def __call__(self) -> Identity:
        """Read the file. Raises IdentityUnreadable."""
        try:
            return Identity(self.client_id, SecretStr(_read(self.jwt, "CLIENT_ID")))
        except CredentialsUnreadable as error:
            raise IdentityUnreadable(str(error)) from error


class MintedIdentity:
    """Workload identity: a ServiceAccount token that we request from the API server, and replace before it expires."""

    def __init__(
        self, client_id: str, mint: Callable[[], Awaitable[Jwt]], clock: Callable[[], float] = time.time
    ) -> None:
        """*mint* returns a new token, or raises NoToken. *clock* is the wall clock, in seconds."""
        self._client_id = client_id
        self._mint = mint
        self._clock = clock
        self._jwt: Jwt | None = None
        self._renew_at = 0.0

    async def __call__(self) -> Identity:
        """Return the identity. Request a new token if there is none, or if it nearly expires. Raises NoToken."""
        now = self._clock()
        if self._jwt is None or now >= self._renew_at:
            self._jwt = await self._mint()
            self._renew_at = self._jwt.expires - _margin(self._jwt.expires - now)
        return Identity(self._client_id, self._jwt.value)

    def drop(self) -> None:
        """Forget the token, which the control server has refused: perhaps the cluster has a new key to sign tokens."""
        self._jwt = None


@dataclass(frozen=True, slots=True)
class _Token:
    """An access token, the credentials with which we requested it, and the rights that it has.

    We request another token some time before this token expires.
    """

    value: SecretStr
    credentials: Credentials | Identity
    renew_at: float
    granted: Granted


class TokenSource:
    """Returns access tokens for the present credentials. Callers that wait at the same time share one request."""

    def __init__(self, transport: Transport, credentials: ClientCredentials, clock: Callable[[], float]) -> None:
        self._transport = transport
        self._credentials = credentials
        self._clock = clock
        self._token: _Token | None = None
        self._renewal = asyncio.Lock()
        self._failures = 0
        self._failure: ControlError | None = None  # the error of the most recent request for a token, if it failed

    @property
    def granted(self) -> Granted:
        """The rights of the present token; `UNTOLD` if there is no token."""
        return self._token.granted if self._token else UNTOLD

    async def token(self, *, anew: bool = False) -> SecretStr:
        """Return a token that does not expire soon. With *anew*, always request a new one.

        Raises ControlError. If a request for a token fails, all callers that waited for the token get that error, so
        that they don't repeat the request one after the other.
        """
        failures = self._failures
        async with self._renewal:
            if self._failure is not None and self._failures > failures:
                raise self._failure.with_traceback(None)
            found = self._credentials()
            credentials = await found if isinstance(found, Awaitable) else found
            token = self._token
            if anew or token is None or token.credentials != credentials or self._clock() >= token.renew_at:
                token = self._token = await self._renewed(credentials)
            return token.value

    def use(self, credentials: ClientCredentials) -> None:
        """Use other *credentials* for tokens from now on."""
        self._credentials = credentials

    def drop(self, value: SecretStr) -> None:
        """Forget the token *value*, which the server did not accept, unless there is another token already."""
        if self._token is not None and self._token.value == value:
            self._token = None

    async def _renewed(self, credentials: Credentials | Identity) -> _Token:
        try:
            token = await self._request(credentials)
        except ControlError as error:
            if isinstance(error, Unauthorized) and isinstance(self._credentials, MintedIdentity):
                self._credentials.drop()
            self._failures += 1
            self._failure = error
            raise
        self._failure = None
        return token

    async def _request(self, credentials: Credentials | Identity) -> _Token:
        asked_at = self._clock()
        answer = await self._transport.send(credentials.request())
        try:
            granted = answer.read(AccessToken)
        except BadRequest as error:
            # RFC 6749, section 5.2: a server may refuse a client with 400.
            raise Unauthorized(str(error), error.status, error.detail, error.call) from None
        lifetime = granted.expires_in
        renew_at = asked_at + lifetime - _margin(lifetime)
        return _Token(granted.access_token, credentials, renew_at, Granted(granted.scopes, granted.tags))


def _margin(lifetime: float) -> float:
    """Return the number of seconds before its expiry at which a token with this *lifetime* is replaced."""
    return min(60, lifetime / 5)


def _read(path: Path, variable: str) -> str:
    try:
        value = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialsUnreadable(f"{variable}: {unreadable(path, error)}") from error
    if not value:
        raise CredentialsUnreadable(f"{variable}: {path} is empty")
    return value
