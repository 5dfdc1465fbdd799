"""Carries requests to the control server: time-outs, repeated tries, and answers read into models or errors."""

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import aiohttp
from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import from_json

from tsoperator.tsclient.errors import (
    UNKNOWN_CALL,
    UNTOLD,
    BadRequest,
    Call,
    ControlError,
    Forbidden,
    Granted,
    NotFound,
    NotSupported,
    RateLimited,
    Refused,
    Unauthorized,
    Unavailable,
    UnexpectedAnswer,
)
from tsoperator.tsclient.models import Problem

USER_AGENT: Final = "tailscale-k8s-operator"
_CONNECT_SECONDS: Final = 10
_EXCERPT: Final = 120
_KEY_LIKE: Final = re.compile(r"\b(?:ts|hs)key-[\w-]+")

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how soon a request is sent again, and how long a try and a whole call may take, in seconds."""

    tries: int = 4
    first_pause: float = 0.5
    longest_pause: float = 15
    """Caps what a server may ask for in Retry-After too."""
    call: float = 60
    silence: float = 15
    """How long a try waits while the server sends nothing. The next try uses another connection."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = random.random

    def pause(self, tried: int, asked: float | None) -> float:
        """Return how long to wait after *tried* tries, where the server may have *asked* for a time."""
        wanted = self.first_pause * 2 ** (tried - 1) * (0.5 + self.jitter() / 2) if asked is None else asked
        return min(wanted, self.longest_pause)


@dataclass(frozen=True, slots=True)
class Request:
    """A request; *secret* is what it proves itself with, and is kept out of every message.

    *tags* and *granted* are told with a refusal: the tags asked for, and what the token allows.
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
    """An answer that is neither 429 nor 5xx; *where* is the method and URL that it is to."""

    where: str
    status: int
    body: bytes = field(repr=False)
    secret: SecretStr
    call: Call = UNKNOWN_CALL

    def read(self, model: type[Model]) -> Model:
        """Return the body as *model*. Raises ControlError."""
        self.check()
        try:
            return model.model_validate_json(self.body)
        except ValidationError as error:
            raise UnexpectedAnswer(f"{self.where}: not an answer of the API ({self._fault(error)})") from None

    def check(self) -> None:
        """Raise ControlError unless this is a success: 2xx, and JSON or nothing at all in its body."""
        if self.status >= 400:
            raise self.refusal()
        if self.status >= 300:
            raise UnexpectedAnswer(f"{self.where}: HTTP {self.status}, a redirect; give the control server's own URL")
        if self.body.strip() and not _is_json(self.body):
            raise UnexpectedAnswer(f"{self.where}: not an answer of the API but {self._excerpt()}")

    def refusal(self) -> Refused:
        """Return the error for an answer of 400 and more, of Tailscale or Headscale."""
        problem = _problem(self.body)
        detail = self._redact(problem.words) if problem else self._excerpt()
        said = f"{self.where}: HTTP {self.status}: {detail}"
        match self.status:
            case 401:
                hint = (
                    "check CLIENT_ID_FILE and CLIENT_SECRET_FILE, or CLIENT_ID, and that the OAuth client still exists"
                )
                return Unauthorized(f"{said}; {hint}", self.status, detail, self.call)
            case 403:
                hint = "check the scopes and tags of the OAuth client"
                return Forbidden(f"{said}; {hint}", self.status, detail, self.call)
            case 404 if problem is None:
                hint = "this control server does not have that call"
                return NotSupported(f"{said}; {hint}", self.status, detail, self.call)
            case 404:
                return NotFound(said, self.status, detail, self.call)
        return BadRequest(said, self.status, detail, self.call)

    def _fault(self, error: ValidationError) -> str:
        """Say what is wrong with the body without its values, which may be secrets."""
        if not _is_json(self.body):
            return self._excerpt()
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc'])) or 'the answer'}: {first['msg']}"

    def _excerpt(self) -> str:
        # Redacted before it is cut, since half a secret would not be recognised; broken JSON may hold one to come.
        text = self._redact(" ".join(self.body.decode(errors="replace").split()))
        return "broken JSON" if text.startswith("{") else repr(text[:_EXCERPT])

    def _redact(self, text: str) -> str:
        secret = self.secret.get_secret_value()
        return _KEY_LIKE.sub("<redacted>", text.replace(secret, "<redacted>") if secret else text)


@dataclass(frozen=True, slots=True)
class _Failure:
    """A try that may be repeated; *retry_after* is the pause in seconds that the server asked for."""

    error: ControlError
    retry_after: float | None = None


class Transport:
    """Sends requests to one control server.

    Whatever is asked of a control server here may be asked again when no answer came: reading, deleting and setting
    are idempotent, an access token too many ends by itself, and an auth key whose value was lost on the way can never
    be used by anyone: it is single-use, known to nobody, and expires.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        base_url: str,
        retry: Retry,
        observe: Callable[[str, str], None] = lambda method, code: None,
    ) -> None:
        """*observe* is told the method of each try and the status of its answer, ``none`` without one."""
        self._session = session
        self._base_url = base_url
        self._retry = retry
        self._observe = observe

    async def send(self, request: Request) -> Answer:
        """Return the answer to *request*, which is sent again after 429, 5xx, silence or a lost connection.

        The caller limits the time for all tries together. Raises Unavailable, RateLimited.
        """
        tried = 1
        while True:
            answer = await self._try(request)
            if isinstance(answer, Answer):
                return answer
            if tried >= self._retry.tries:
                raise answer.error
            await self._retry.sleep(self._retry.pause(tried, answer.retry_after))
            tried += 1

    async def _try(self, request: Request) -> Answer | _Failure:
        where = f"{request.method} {self._base_url}{request.path}"
        call = Call(self._base_url, request.path, request.tags, request.granted)
        code = "none"
        try:
            async with self._session.request(
                request.method,
                f"{self._base_url}{request.path}",
                json=request.json,
                data=request.form,
                headers={"User-Agent": USER_AGENT, "Accept": "application/json", **request.headers},
                # A redirect would take the credentials elsewhere.
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=None, connect=_CONNECT_SECONDS, sock_read=self._retry.silence),
            ) as response:
                answer = Answer(where, response.status, await response.read(), request.secret, call)
                code = str(response.status)
                retry_after = _seconds(response.headers.get("Retry-After", ""))
        except aiohttp.SocketTimeoutError:
            words = f"the control server did not answer within {self._retry.silence:g} s"
            return _Failure(Unavailable(f"{where}: {words}"))
        except aiohttp.ClientError as error:
            return _Failure(Unavailable(f"{where}: {str(error) or type(error).__name__}"))
        finally:
            self._observe(request.method, code)
        if answer.status == 429:
            return _Failure(RateLimited(str(answer.refusal())), retry_after)
        if answer.status >= 500:
            return _Failure(Unavailable(str(answer.refusal())), retry_after)
        return answer


def _seconds(header: str) -> float | None:
    """Read a Retry-After in seconds; the form with a date is left to the usual back-off."""
    return float(header) if header.isascii() and header.isdigit() else None


def _is_json(body: bytes) -> bool:
    try:
        from_json(body)
    except ValueError:
        return False
    return True


def _problem(body: bytes) -> Problem | None:
    try:
        return Problem.model_validate_json(body)
    except ValidationError:
        return None
