"""Sends requests to the control server, with time limits and retries, and reads answers as models or errors."""

import asyncio
import logging
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from pydantic import SecretStr, TypeAdapter, ValidationError
from pydantic_core import from_json

from tsoperator.tsclient.errors import (
    UNKNOWN_CALL,
    UNTOLD,
    BadRequest,
    Call,
    ControlError,
    Forbidden,
    Granted,
    Missing,
    NotSupported,
    RateLimited,
    Refused,
    Unauthorized,
    Unavailable,
    UnexpectedAnswer,
)
from tsoperator.tsclient.models import ErrorBody

log = logging.getLogger(__name__)

USER_AGENT: Final = "tailscale-k8s-operator"
_CONNECT_SECONDS: Final = 10
_EXCERPT: Final = 120
_PAGE_EXCERPT: Final = 60
_AGAIN: Final = "the operator tries again by itself"
_KEY_LIKE: Final = re.compile(r"\b(?:ts|hs)key-[\w-]+")

_BLOCK: Final = 1 << 17  # bytes
_UNREAD: Final = 1 << 29
"""The largest number of bytes of an answer that can wait to be read; no answer is as large as that.

With its own limit, 64 KiB, aiohttp pauses reading from the connection while a large answer arrives. If the server
closes the connection during a pause, uvloop loses the end of the answer. Each repetition of the call would fail in the
same way.
"""

Model = TypeVar("Model")


@dataclass(frozen=True, slots=True)
class Retry:
    """The number of tries of a request to the control server, and the pauses and time limits in seconds.

    There is one limit for each try, and another one for a call with all its tries.
    """

    tries: int = 4
    first_pause: float = 0.5
    longest_pause: float = 15
    """The longest pause before the next try.

    If Retry-After asks for a longer pause, the call fails, and no other call is made until the pause is over.
    """
    longest_rest: float = 300
    """The longest time for which the operator makes no calls because the server has asked for a pause."""
    call: float = 60
    silence: float = 15
    """The time for which a try of a request waits while the server sends nothing.

    The next try uses another connection.
    """
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = random.random

    def pause(self, tried: int, asked: float | None) -> float:
        """Return the seconds to wait after *tried* tries of a request.

        *asked* are the seconds for which the server asked; None if it didn't.
        """
        wanted = self.first_pause * 2 ** (tried - 1) * (0.5 + self.jitter() / 2) if asked is None else asked
        return min(wanted, self.longest_pause)


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the control server.

    *secret* authenticates the request, and is kept out of every message. *tags* are the tags for which it asks, and
    *granted* are the rights of its token. The error for a refusal contains both.
    """

    method: str
    path: str
    secret: SecretStr
    json: Any = None
    form: Mapping[str, str] | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    tags: tuple[str, ...] = ()
    granted: Granted = UNTOLD


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that is neither 429 nor 5xx. *where* is the method and URL of the request.

    The body is in *blocks*, because to join tens of megabytes would block the event loop for too long.
    """

    where: str
    status: int
    blocks: Sequence[bytes] = field(repr=False)
    secret: SecretStr
    call: Call = UNKNOWN_CALL

    @property
    def body(self) -> bytes:
        """The whole body of the answer."""
        return b"".join(self.blocks)

    def read(self, model: type[Model]) -> Model:
        """Return the body of the answer as *model*. Raises ControlError."""
        self.check_status()
        body = self.body
        try:
            found: Model = _adapter(model).validate_json(body)  # type: ignore[arg-type]  # a class is hashable
        except ValidationError as error:
            if not _is_json(body):
                raise self._not_json() from None
            # The message leaves out the values, which may be secrets.
            fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
            raise self.unexpected(fault["loc"], fault["msg"]) from None
        return found

    def check(self) -> None:
        """Raise ControlError unless the answer is a success: the status is 2xx, and the body is JSON or empty."""
        self.check_status()
        if (body := self.body).strip() and not _is_json(body):
            raise self._not_json()

    def check_status(self) -> None:
        """Raise ControlError unless the status of the answer is 2xx."""
        if self.status >= 400:
            raise self.refusal()
        if self.status >= 300:
            raise UnexpectedAnswer(
                f"{self.where}: HTTP {self.status}, a redirect; give the control server's own URL, or see whether a "
                f"captive portal answers in its place; {_AGAIN}"
            )

    def unexpected(self, path: Sequence[str | int], message: str) -> UnexpectedAnswer:
        """Return the error for JSON of an unexpected shape. *message* says what is wrong with the field at *path*."""
        place = ".".join(map(str, path)) or "the answer"
        return UnexpectedAnswer(f"{self.where}: not an answer of the API ({place}: {message})")

    def refusal(self) -> Refused:
        """Return the error for an answer from Tailscale or Headscale whose status is 400 or more."""
        problem = _problem(self.body)
        detail = self._redact(problem.words) if problem else self._excerpt()
        said = f"{self.where}: HTTP {self.status}: {detail}"
        match self.status:
            case 401:
                place = self.call.secret or "CLIENT_ID_FILE and CLIENT_SECRET_FILE, or CLIENT_ID"
                hint = f"check {place}, and that the OAuth client still exists"
                return Unauthorized(f"{said}; {hint}", self.status, detail, self.call)
            case 403:
                hint = "check the scopes and tags of the OAuth client"
                return Forbidden(f"{said}; {hint}", self.status, detail, self.call)
            case 404 if problem is None:
                hint = "this control server does not have that call"
                return NotSupported(f"{said}; {hint}", self.status, detail, self.call)
            case 404:
                return Missing(said, self.status, detail, self.call)
        return BadRequest(said, self.status, detail, self.call)

    def _not_json(self) -> UnexpectedAnswer:
        is_page = self.body.lstrip().startswith(b"<")
        cure = "see whether a web proxy or a captive portal answers in its place" if is_page else "check its URL"
        found = self._excerpt(_PAGE_EXCERPT if is_page else _EXCERPT)
        return UnexpectedAnswer(f"{self.where}: not an answer of the API but {found}: {cure}; {_AGAIN}")

    def _excerpt(self, length: int = _EXCERPT) -> str:
        if self.body.lstrip().startswith(b"{"):
            return "broken JSON"  # which may hold secrets that we don't know yet
        # The text is redacted before it is cut, because half a secret would not be recognised.
        return repr(self._redact(" ".join(self.body.decode(errors="replace").split()))[:length])

    def _redact(self, text: str) -> str:
        secret = self.secret.get_secret_value()
        return _KEY_LIKE.sub("<redacted>", text.replace(secret, "<redacted>") if secret else text)


@dataclass(frozen=True, slots=True)
class _Failure:
    """A failed try that can be repeated. If the server asked for a pause, *retry_after* is its length in seconds."""

    error: ControlError
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class _Rest:
    """A pause during which the operator sends no requests to the control server.

    Until the time *until* on the event loop's clock, each call fails with *error*.
    """

    until: float
    error: ControlError


class Transport:
    """Sends requests to one control server.

    If no answer came, it sends a request again, whatever the request is. It does no harm to repeat a read, a deletion
    or a change. A repeated request can create one access token or auth key too many. Nobody gets to know the extra one,
    so nobody can use it, and it expires.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        base_url: str,
        retry: Retry,
        observe: Callable[[str, str], None] = lambda method, code: None,
        secret: str = "",
    ) -> None:
        """*observe* is called for each try with the method and the status, or with ``none`` if there was no answer.

        *secret* names the Secret with the credentials; it is empty for the operator's own credentials.
        """
        self._session = session
        self._base_url = base_url
        self._proxy = environment_proxy(base_url)
        self._retry = retry
        self.observers = [observe]
        self._secret = secret
        self._rest: _Rest | None = None

    async def send(self, request: Request) -> Answer:
        """Return the answer to *request*, which is sent again after 429, 5xx, silence or a lost connection.

        The caller limits the time for all tries together. Raises Unavailable, RateLimited. While the server wants no
        requests, this method sends nothing, and raises the server's most recent refusal again.
        """
        tried = 1
        loop = asyncio.get_running_loop()
        while True:
            if self._rest is not None and loop.time() < self._rest.until:
                raise self._rest.error.with_traceback(None)
            answer = await self._try(request)
            if isinstance(answer, Answer):
                return answer
            if answer.retry_after is not None and answer.retry_after > self._retry.longest_pause:
                seconds = min(answer.retry_after, self._retry.longest_rest)
                error = type(answer.error)(f"{answer.error}; the operator asks the server again in {seconds:g} s")
                self._rest = _Rest(loop.time() + seconds, error)
                raise error
            if tried >= self._retry.tries:
                raise answer.error
            await self._retry.sleep(self._retry.pause(tried, answer.retry_after))
            tried += 1

    async def _try(self, request: Request) -> Answer | _Failure:
        where = f"{request.method} {self._base_url}{request.path}"
        call = Call(self._base_url, request.path, request.tags, request.granted, self._secret)
        code, began = "none", time.perf_counter()
        try:
            async with self._session.request(
                request.method,
                f"{self._base_url}{request.path}",
                json=request.json,
                data=request.form,
                headers={"User-Agent": USER_AGENT, "Accept": "application/json", **request.headers},
                # A redirect would send the credentials elsewhere.
                allow_redirects=False,
                proxy=self._proxy,
                timeout=aiohttp.ClientTimeout(total=None, connect=_CONNECT_SECONDS, sock_read=self._retry.silence),
                read_bufsize=_UNREAD,
            ) as response:
                answer = Answer(where, response.status, await _blocks(response.content), request.secret, call)
                code = str(response.status)
                retry_after = _seconds(response.headers.get("Retry-After", ""))
        except aiohttp.SocketTimeoutError:
            return _Failure(self._away(f"did not answer within {self._retry.silence:g} s"))
        except aiohttp.ClientError as error:
            return _Failure(self._away(f"can't be reached: {str(error) or type(error).__name__}"))
        finally:
            for observe in self.observers:
                observe(request.method, code)
            log.debug("%s: %s in %.1f ms", where, code, 1000 * (time.perf_counter() - began))
        if answer.status != HTTPStatus.TOO_MANY_REQUESTS and answer.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return answer
        rests = retry_after is not None and retry_after > self._retry.longest_pause  # then `send` adds for how long
        said = f"{answer.refusal()}{'' if rests else f'; {_AGAIN}'}"
        is_limit = answer.status == HTTPStatus.TOO_MANY_REQUESTS
        return _Failure(RateLimited(said) if is_limit else Unavailable(said), retry_after)

    def _away(self, words: str) -> Unavailable:
        """Return the error for a call that got no answer. *words* say what happened.

        The error doesn't name the call, because objects that wanted other calls report the same error.
        """
        return Unavailable(f"the control server {self._base_url} {words}; {_AGAIN}")


def environment_proxy(url: str) -> str | None:
    """Return the HTTP proxy that the environment (HTTPS_PROXY, NO_PROXY) sets for requests to *url*; None for no proxy.

    We don't use aiohttp's own `trust_env`: it looks the proxy up in a thread before each request. It also takes
    credentials from ~/.netrc, and refuses requests with other credentials if that file has some.
    """
    parts = urlsplit(url)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


async def _blocks(content: aiohttp.StreamReader) -> tuple[bytes, ...]:
    """Read a body into blocks of at least `_BLOCK` bytes; only the final block can be smaller."""
    blocks: list[bytes] = []
    block: list[bytes] = []
    async for data in content.iter_any():
        block.append(data)
        if sum(map(len, block)) >= _BLOCK:
            blocks.append(b"".join(block))
            block.clear()
    return (*blocks, b"".join(block))


@cache
def _adapter(model: Any) -> TypeAdapter[Any]:
    return TypeAdapter(model)


def _seconds(header: str) -> float | None:
    """Return the seconds in a header Retry-After; None if it has a date instead, so that the usual back-off applies."""
    return float(header) if header.isascii() and header.isdigit() else None


def _is_json(body: bytes) -> bool:
    try:
        from_json(body)
    except ValueError:
        return False
    return True


def _problem(body: bytes) -> ErrorBody | None:
    try:
        return ErrorBody.model_validate_json(body)
    except ValidationError:
        return None
