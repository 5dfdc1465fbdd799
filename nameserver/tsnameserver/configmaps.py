"""Lists and watches the ConfigMaps with records, by HTTP requests to the API server."""

import asyncio
import logging
import random
import re
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from tsnameserver.errors import ApiError, DeniedError, ExpiredError
from tsnameserver.httpget import HttpGet, Response
from tsnameserver.records import CONFIGMAP_NAME, LABEL_SELECTOR, RECORDS_KEY
from tsnameserver.reloads import Watched

log = logging.getLogger(__name__)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_RECORDS_NAME = re.compile(rf"{CONFIGMAP_NAME}(-[0-9]+)?")
_PAGE_ITEMS = "4"
"""The number of ConfigMaps in a page of the list. It is small, because a ConfigMap can be as large as a mebibyte."""
_CONNECT_SECONDS = 10
_LIST_SECONDS = 20


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds to wait after failures: *first*, and twice as long after each further failure, up to *most*.

    After a denial by RBAC, the wait is *denied* seconds.
    """

    first: float = 0.25
    most: float = 5.0
    denied: float = 30.0

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after *failures* failures in a row.

        The value is partly random, so that replicas don't try again at the same time.
        """
        return min(self.first * 2.0 ** min(failures - 1, 16), self.most) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """The settings for the requests to the API server, such as its URL and the namespace of the ConfigMaps."""

    server: str
    namespace: str
    service_account: Path = SERVICE_ACCOUNT
    """The directory of `token` and `ca.crt`; both are optional. The token is rotated, so each request reads it anew."""
    backoff: Backoff = field(default_factory=Backoff)
    watch_seconds: int = 20
    """The seconds for which the API server should keep a watch open. The API server doesn't send a bookmark in every
    watch, so only a new watch shows that it still answers."""
    grace_seconds: float = 5.0
    """If a watch lasts so many seconds longer than `watch_seconds`, its connection counts as dead."""


class _Metadata(BaseModel):
    name: str = ""
    resource_version: str = Field(alias="resourceVersion")
    more: str | None = Field(default=None, alias="continue")
    """The token for the next page of a list; None on the last page."""


class _ConfigMap(BaseModel):
    metadata: _Metadata
    data: dict[str, str] | None = None


class _ConfigMapList(BaseModel):
    metadata: _Metadata
    items: list[_ConfigMap] | None = None


class _Status(BaseModel):
    code: int = 500
    message: str = "no message"


class _Event(BaseModel):
    type: str
    object: dict[str, Any]


class ConfigMaps:
    """Offers the texts of all records ConfigMaps, by name, whenever some have changed."""

    def __init__(
        self,
        settings: ApiSettings,
        offer: Callable[[Mapping[str, str | None]], Awaitable[None]],
        lose: Callable[[], Awaitable[None]],
    ) -> None:
        """Take the functions *offer*, for all texts after each change, and *lose*, for each failure to list or watch.

        If only the version to watch from is too old, *lose* isn't called.
        """
        self._settings = settings
        self._offer = offer
        self._lose = lose
        self._texts: dict[str, str | None] = {}
        self._changed = asyncio.Event()
        self._failures = 0
        self._complaint = ""
        self.watched = Watched()

    async def follow(self) -> None:
        """List and watch, and offer the texts.

        Only an unforeseen exception ends this method. After that, the method can be called again.
        """
        self._failures, self._complaint = 0, ""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._offer_changes())
                group.create_task(self._keep_watching())
        except Exception:
            await self._stop_following()
            raise

    async def _offer_changes(self) -> None:
        """Offer the texts after each change; all changes during one offer are in the next offer. This never ends."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._offer(dict(self._texts))

    async def _keep_watching(self) -> None:
        """List and watch. After a failure, wait and list again. This never ends."""
        backoff = self._settings.backoff
        while True:
            try:
                await self._list_and_watch()
            except ExpiredError:
                self._failures += 1
                delay = backoff.delay(self._failures)
            except DeniedError as error:
                self._complain(
                    f"{error}; grant list and watch on configmaps in namespace {self._settings.namespace} "
                    "to the ServiceAccount nameserver; until then the last records, or those of the file, are served"
                )
                delay = backoff.denied
                await self._stop_following()
            except (ApiError, OSError, ValueError) as error:
                self._failures += 1
                reason = str(error) or "no answer in time"
                self._complain(f"the API server can't be followed: {type(error).__name__}: {reason}")
                delay = backoff.delay(self._failures)
                await self._stop_following()
            await asyncio.sleep(delay)

    async def _stop_following(self) -> None:
        self.watched.followed = False
        await self._lose()

    def _complain(self, complaint: str) -> None:
        """Log *complaint* as a warning, unless it was the previous complaint and no watch has worked in between."""
        if complaint != self._complaint:
            log.warning("%s", complaint)
            self._complaint = complaint

    async def _list_and_watch(self) -> None:
        """List once, and watch from the version of the list. Only an exception ends this method."""
        loop = asyncio.get_running_loop()
        with closing(HttpGet(self._settings.server, self._tls(), connect_seconds=_CONNECT_SECONDS)) as client:
            version = await self._list(client)
            while True:
                started = loop.time()
                version = await self._watch(client, version)
                self._note_that_watches_work()
                if loop.time() - started < 1:  # a server that ends each watch at once must not be flooded
                    await asyncio.sleep(self._settings.backoff.first)

    async def _list(self, client: HttpGet) -> str:
        """Read all ConfigMaps, in small pages, and return the version to watch from."""
        texts: dict[str, str | None] = {}
        parameters = {"limit": _PAGE_ITEMS}
        async with asyncio.timeout(_LIST_SECONDS):
            while True:
                async with self._get(client, **parameters) as response:
                    page = _ConfigMapList.model_validate_json(await response.read())
                texts.update((each.metadata.name, _text(each)) for each in page.items or () if _has_records(each))
                if not page.metadata.more:
                    break
                parameters["continue"] = page.metadata.more
        self.watched.followed, self.watched.heard = True, time.time()
        self._texts = texts
        self._changed.set()
        return page.metadata.resource_version

    async def _watch(self, client: HttpGet, version: str) -> str:
        """Follow the changes after *version* until the server ends the watch; return the version for the next watch."""
        parameters = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(self._settings.watch_seconds),
        }
        most = self._settings.watch_seconds + self._settings.grace_seconds
        async with asyncio.timeout(most), self._get(client, **parameters) as response:
            self.watched.heard = time.time()
            async for line in _lines(response):
                event = _Event.model_validate_json(line)
                if event.type == "ERROR":
                    status = _Status.model_validate(event.object)
                    raise _error(status.code, status.message)
                configmap = _ConfigMap.model_validate(event.object)
                version = configmap.metadata.resource_version
                self._note_that_watches_work()
                if event.type != "BOOKMARK" and _has_records(configmap):
                    self._note(event.type, configmap)
        return version

    def _note_that_watches_work(self) -> None:
        """Reset the backoff. A successful list doesn't, because an API server can answer lists and refuse watches."""
        self._failures, self._complaint = 0, ""
        self.watched.heard = time.time()

    def _note(self, kind: str, configmap: _ConfigMap) -> None:
        if kind == "DELETED":
            self._texts.pop(configmap.metadata.name, None)
        else:
            self._texts[configmap.metadata.name] = _text(configmap)
        self._changed.set()

    @asynccontextmanager
    async def _get(self, client: HttpGet, **parameters: str) -> AsyncIterator[Response]:
        path = f"/api/v1/namespaces/{self._settings.namespace}/configmaps"
        selected = {"labelSelector": LABEL_SELECTOR, **parameters}
        async with client.get(path, selected, self._credentials()) as response:
            if response.status != 200:
                said = (await response.read())[:200].decode(errors="replace").strip()
                raise _error(response.status, f"HTTP status {response.status}: {said}")
            yield response

    def _credentials(self) -> Mapping[str, str]:
        token = self._settings.service_account / "token"
        return {"Authorization": f"Bearer {token.read_text().strip()}"} if token.exists() else {}

    def _tls(self) -> ssl.SSLContext | None:
        """Return the TLS settings for the API server; None if its URL isn't https.

        If the directory of the service account has a CA, only servers with a certificate from this CA are trusted.
        """
        if not self._settings.server.startswith("https"):
            return None
        authority = self._settings.service_account / "ca.crt"
        return ssl.create_default_context(cafile=authority if authority.exists() else None)


def _error(status: int, message: str) -> ApiError:
    match status:
        case 410:
            return ExpiredError(message)
        case 401 | 403:
            return DeniedError(f"the API server doesn't let the ConfigMaps with records be read ({message})")
        case _:
            return ApiError(message)


def _has_records(configmap: _ConfigMap) -> bool:
    return _RECORDS_NAME.fullmatch(configmap.metadata.name) is not None


def _text(configmap: _ConfigMap) -> str | None:
    return (configmap.data or {}).get(RECORDS_KEY)


async def _lines(response: Response) -> AsyncIterator[bytes]:
    """Yield each complete line of *response* that isn't empty, whatever its length."""
    partial = bytearray()
    async for part in response.parts():
        first, *rest = part.split(b"\n")
        partial += first
        for following in rest:
            if partial:
                yield bytes(partial)
            partial = bytearray(following)
