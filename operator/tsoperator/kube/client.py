"""The requests that the operator makes to the API server. Objects are plain JSON.

kubernetes.aio loads configuration and credentials, and makes the TLS context. An aiohttp session carries the requests.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import quote, urlencode

import aiohttp
from kubernetes.aio.client import Configuration
from pydantic_core import from_json, to_json

from tsoperator.api.names import FIELD_MANAGER
from tsoperator.api.objects import POD, SERVICEACCOUNT, Key, Object, Resource, key_of
from tsoperator.kube.config import pod_of_token, tls_context
from tsoperator.kube.errors import KubeError, NotFound, StatusError, Unreachable, error_of

log = logging.getLogger(__name__)

USER_AGENT = FIELD_MANAGER
_JSON = "application/json"
_MERGE_PATCH = "application/merge-patch+json"
_METADATA = f"{_JSON};as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
_METADATA_LIST = f"{_JSON};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
_PAGE = 500
_WATCH = "WATCH"  # the method that observers see for a watch, which is a GET
_LONGEST_EVENT = 16 << 20  # bytes, well above the 1.5 MiB that an object in etcd can have
_QUIET_LIMIT = 60.0  # s: a watch that is silent for this much longer than its duration has a dead connection
_NO_ANSWER = (aiohttp.ClientError, TimeoutError, OSError)
_READ_AT_ONCE = 1 << 21  # bytes of a watch

Rest = Callable[[], Awaitable[None]]
"""An async function that returns when a watch has paused for long enough."""


@dataclass(frozen=True, slots=True)
class WatchTimes:
    """The *duration* of a watch in seconds, and the function that makes it *rest* after each read; None for no rest.

    Events that arrive during a rest wait in the socket. The next read gets them together.
    """

    duration: int
    rest: Rest | None = None


class _Content(NamedTuple):
    """The body of a request, its media type, and the media type of the answer."""

    body: Object | None = None
    type: str = _JSON
    accept: str = _JSON


class ObjectList(NamedTuple):
    """All objects of a list, and the resourceVersion from which a watch can go on."""

    items: list[Object]
    resource_version: str


class KubeClient:
    """Talks to one API server. Use it as an async context manager, or close() it.

    Every method raises a KubeError: Unreachable when there is no answer within *request_timeout* seconds, a StatusError
    when the API server refuses the request, and a plain KubeError when the answer does not come from an API server.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        reload: Callable[[], Awaitable[Configuration]] | None = None,
        request_timeout: float = 30.0,
        observe: Callable[[str, str], None] = lambda method, code: None,
    ) -> None:
        """*reload* reads the configuration again when the API server refuses the credentials.

        That happens when certificates have been rotated, or when the token of an exec plugin has expired.

        *observe* is called for each request with its method (WATCH for a watch) and the status of the answer, ``none``
        if there was no answer. If a request is sent again with fresh credentials, *observe* is called twice.
        """
        self._configuration = configuration
        self._reload = reload
        self._session = _session(configuration)
        self._retired: aiohttp.ClientSession | None = None  # has the previous credentials, and can still get answers
        self._timeout = request_timeout
        self._observe = observe
        self._renewing = asyncio.Lock()
        self._is_away = False  # the most recent request had no answer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()
        if self._retired is not None:
            await self._retired.close()

    async def get(self, resource: Resource, key: Key) -> Object:
        """Return the object of *resource* named *key*, as the API server has it."""
        return await self._call("GET", resource.path(key.namespace, key.name))

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        slim: Callable[[Object], Object] = lambda obj: obj,
    ) -> ObjectList:
        """Return all objects that match the selectors, read in pages.

        Each object gets its apiVersion and kind, which the API server leaves out of lists. *slim* returns the part of
        an object to keep. It is called page by page, so that at most one page is in memory as a whole.
        """
        items: list[Object] = []
        query = {"limit": str(_PAGE), "labelSelector": label_selector, "fieldSelector": field_selector}
        while True:
            page = await self._page(resource, namespace, query)
            kind = {"apiVersion": resource.api_version, "kind": resource.kind}
            items += [slim(item | kind) for item in page.get("items") or ()]
            metadata = page["metadata"]
            del page  # it is large: never hold two pages at a time
            if not metadata.get("continue"):
                return ObjectList(items, metadata["resourceVersion"])
            query["continue"] = metadata["continue"]

    async def current_version(self, resource: Resource, namespace: str = "", field_selector: str = "") -> str:
        """Return the resourceVersion that a list of the selected objects would have now."""
        page = await self._page(resource, namespace, {"limit": "1", "fieldSelector": field_selector})
        version: str = page["metadata"]["resourceVersion"]
        return version

    async def serves(self, resource: Resource) -> bool:
        """Tell by discovery whether the API server serves *resource*, which must not be of the core API group.

        Raises a KubeError if the answer does not come from an API server: a gateway can answer 404 to everything.
        """
        try:
            kinds = await self._discover(f"/apis/{resource.api_version}", "resources")
        except NotFound:
            groups = await self._discover("/apis", "groups")
            return any(each["groupVersion"] == resource.api_version for group in groups for each in group["versions"])
        return any(each["name"] == resource.plural for each in kinds)

    @asynccontextmanager
    async def watch(
        self,
        resource: Resource,
        namespace: str,
        label_selector: str,
        resource_version: str,
        times: WatchTimes,
        field_selector: str = "",
    ) -> AsyncIterator[AsyncIterator[Object]]:
        """Open a watch, and yield the events after *resource_version*, as one iterator.

        An event has a ``type`` and an ``object``. Bookmarks are events, too.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "resourceVersion": resource_version,
            "timeoutSeconds": str(times.duration),
        }
        limits = aiohttp.ClientTimeout(total=None, connect=self._timeout, sock_read=times.duration + _QUIET_LIMIT)
        path = resource.path(namespace)
        where = f"watch {path}"
        content = _Content(accept=_METADATA if resource.metadata_only else _JSON)
        response = await self._send(_WATCH, _with_query(path, query), content, limits)
        try:
            if response.status != 200:
                with _reaching(where):
                    raise await _refusal(response, where)
            yield _events(response, where, times.rest)
        finally:
            if response.connection is not None and (transport := response.connection.transport) is not None:
                transport.abort()  # a graceful close of TLS would wait for the server
            response.close()

    async def create(self, resource: Resource, obj: Object) -> Object:
        """Create *obj*, and return it as the API server has stored it."""
        return await self._call("POST", resource.path(obj["metadata"].get("namespace", "")), body=obj)

    async def replace(self, resource: Resource, obj: Object) -> Object:
        """Replace an object by *obj*. Raises Conflict if *obj* has a resourceVersion that isn't current."""
        key = key_of(obj)
        return await self._call("PUT", resource.path(key.namespace, key.name), body=obj)

    async def replace_status(self, resource: Resource, obj: Object) -> Object:
        """Write only the status of *obj*. Raises Conflict if *obj* has a resourceVersion that isn't current."""
        key = key_of(obj)
        return await self._call("PUT", resource.path(key.namespace, key.name, "status"), body=obj)

    async def patch(self, resource: Resource, key: Key, patch: Object, subresource: str = "") -> Object:
        """Apply *patch*, a JSON merge patch (RFC 7386), and return the object as the API server has stored it."""
        path = resource.path(key.namespace, key.name, subresource)
        return await self._call("PATCH", path, body=patch, content_type=_MERGE_PATCH)

    async def delete(
        self,
        resource: Resource,
        key: Key,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "",
        grace: int | None = None,
    ) -> None:
        """Delete the object *key*; with *uid* or *resource_version*, only if it still has them (else Conflict).

        A Pod has *grace* seconds to end. If *grace* is None, the Pod has the time that its spec gives.
        """
        options: Object = {"kind": "DeleteOptions", "apiVersion": "v1"}
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        if any(preconditions.values()):
            options["preconditions"] = {name: value for name, value in preconditions.items() if value}
        if propagation:
            options["propagationPolicy"] = propagation
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        await self._call("DELETE", resource.path(key.namespace, key.name), body=options)

    async def ask_pod(self, pod: Key, port: int, path: str) -> tuple[int, str]:
        """GET *path* from *port* of *pod* through the API server, and return the status and the text of the answer."""
        where = POD.path(pod.namespace, f"{pod.name}:{port}", "proxy") + path
        limits = aiohttp.ClientTimeout(total=self._timeout)
        with _reaching(f"GET {where}"):
            response = await self._send("GET", where, _Content(accept="*/*"), limits)
            async with response:
                if response.status >= 300 and response.content_type == _JSON:
                    raise await _refusal(response, f"GET {where}")
                return response.status, (await response.read()).decode(errors="replace")

    async def request_token(self, account: Key, audience: str) -> Object:
        """Return a new token of the ServiceAccount *account* for *audience*, as the status of a TokenRequest."""
        asked = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "metadata": {},
            "spec": {"audiences": [audience]},
        }
        path = SERVICEACCOUNT.path(account.namespace, account.name, "token")
        status = (await self._call("POST", path, body=asked)).get("status")
        if not isinstance(status, dict):
            raise KubeError(f"POST {path}: not an API server's answer (no status)")
        return status

    async def pod_of_token(self) -> str:
        """Return the UID of the Pod to which our token is bound; empty if it is bound to none, or we use no token."""
        return await pod_of_token(self._configuration)

    async def _page(self, resource: Resource, namespace: str, query: Mapping[str, str]) -> Object:
        accept = _METADATA_LIST if resource.metadata_only else _JSON
        page = await self._call("GET", resource.path(namespace), query, accept=accept)
        # Refuse the answer of another server: if it were taken for an empty list, the cache would drop all its objects.
        if not (page.get("metadata") or {}).get("resourceVersion"):
            raise KubeError(f"list of {resource}: not an API server's answer (no resourceVersion)")
        return page

    async def _discover(self, path: str, field: str) -> Sequence[Object]:
        found = (await self._call("GET", path)).get(field)
        if not isinstance(found, list):
            raise KubeError(f"GET {path}: not an API server's answer (no {field})")
        return found

    async def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        body: Object | None = None,
        content_type: str = _JSON,
        accept: str = _JSON,
    ) -> Object:
        limits = aiohttp.ClientTimeout(total=self._timeout)
        where = f"{method} {path}"
        target = _with_query(path, query or {})
        with _reaching(where):
            response = await self._send(method, target, _Content(body, content_type, accept), limits)
            return await self._answer(response, where)

    async def _send(
        self, method: str, target: str, content: _Content, limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        """Send a request. If the API server refuses its credentials, send it again with fresh credentials."""
        used = self._session
        response = await self._send_once(method, target, content, limits)
        if response.status != 401 or self._reload is None:
            return response
        response.close()
        await self._renew(used, self._reload)
        return await self._send_once(method, target, content, limits)

    async def _send_once(
        self, method: str, target: str, content: _Content, limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        configuration = self._configuration
        headers = {"Accept": content.accept, "Content-Type": content.type, "User-Agent": USER_AGENT}
        if token := await configuration.get_api_key_with_prefix("BearerToken", "authorization"):
            headers["Authorization"] = token
        verb, path = "GET" if method == _WATCH else method, target.partition("?")[0]
        code, began = "none", time.perf_counter()
        try:
            async with asyncio.timeout(self._timeout if limits.total is None else None):  # aiohttp applies the total
                response = await self._session.request(
                    verb,
                    configuration.host + target,
                    data=None if content.body is None else to_json(content.body),
                    headers=headers,
                    timeout=limits,
                    proxy=configuration.proxy,
                    proxy_headers=configuration.proxy_headers,
                    server_hostname=configuration.tls_server_name,
                )
            code = str(response.status)
        except _NO_ANSWER as error:
            unreachable = Unreachable(f"{verb} {path}: {_words(error)}")
            self._note_away(unreachable)
            raise unreachable from error
        finally:
            self._observe(method, code)
            if log.isEnabledFor(logging.DEBUG):
                log.debug("%s %s: %s in %.1f ms", method, path, code, 1000 * (time.perf_counter() - began))
        if self._is_away:
            log.info("the API server answers again")
            self._is_away = False
        return response

    def _note_away(self, error: Unreachable) -> None:
        """Log that the API server does not answer, but only once, although each watch notices it."""
        if not self._is_away:
            log.warning("the API server does not answer, so nothing changes until it does: %s", error)
        self._is_away = True

    async def _renew(self, refused: aiohttp.ClientSession, reload: Callable[[], Awaitable[Configuration]]) -> None:
        """Load fresh credentials by *reload*, once for all requests whose credentials the API server refused.

        *refused* is the session with the old credentials. Other requests in this session go on, because the API server
        can have accepted them before the credentials expired.
        """
        async with self._renewing:
            if self._session is not refused:
                return
            try:
                async with asyncio.timeout(self._timeout):
                    configuration = await reload()
            except TimeoutError as error:
                raise Unreachable(f"no fresh credentials within {self._timeout:g} s") from error
            fresh = _session(configuration)
            retired, self._retired = self._retired, refused
            self._configuration, self._session = configuration, fresh
            if retired is not None:
                await retired.close()

    async def _answer(self, response: aiohttp.ClientResponse, where: str) -> Object:
        async with response:
            if response.status >= 300:
                raise await _refusal(response, where)
            return _decoded(await response.read(), where)


async def _events(
    response: aiohttp.ClientResponse, where: str, rest: Callable[[], Awaitable[None]] | None
) -> AsyncIterator[Object]:
    begun = b""
    with _reaching(where):
        while chunk := await response.content.readany():
            *lines, begun = (begun + chunk).split(b"\n")
            if len(begun) > _LONGEST_EVENT:
                raise Unreachable(f"{where}: an event of more than {_LONGEST_EVENT} bytes")
            for line in filter(None, lines):
                yield _decoded(line, where)
            if rest is not None:
                await _pause(response, rest)
    if begun:
        yield _decoded(begun, where)


async def _pause(response: aiohttp.ClientResponse, rest: Rest) -> None:
    """Read nothing from the connection of *response* until *rest* has returned."""
    transport = response.connection.transport if response.connection is not None else None
    if transport is None:  # the watch has ended
        return
    transport.pause_reading()
    await rest()
    transport.resume_reading()


@contextmanager
def _reaching(where: str) -> Iterator[None]:
    """Turn an error of the connection to the API server into Unreachable. *where* names the request in its text."""
    try:
        yield
    except _NO_ANSWER as error:
        raise Unreachable(f"{where}: {_words(error)}") from error


def _session(configuration: Configuration) -> aiohttp.ClientSession:
    """Return a session that opens as many connections to the API server as watches and requests need at a time."""
    connector = aiohttp.TCPConnector(limit=0, ssl=tls_context(configuration))
    return aiohttp.ClientSession(connector=connector, read_bufsize=_READ_AT_ONCE)


def _with_query(path: str, query: Mapping[str, str]) -> str:
    given = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(given, quote_via=quote)}" if given else path


def _decoded(raw: bytes, where: str) -> Object:
    try:
        obj: Any = from_json(raw)  # twice as fast as json.loads, and stores equal strings once
    except ValueError as error:
        raise KubeError(f"{where}: not an API server's answer (no JSON): {raw[:80]!r}") from error
    if not isinstance(obj, dict):
        raise KubeError(f"{where}: not an API server's answer (no object): {raw[:80]!r}")
    return obj


async def _refusal(response: aiohttp.ClientResponse, where: str) -> StatusError:
    raw = await response.read()
    try:
        body = from_json(raw)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        body = {"message": f"HTTP {response.status} {response.reason}: {raw[:120]!r}"}
    return error_of(response.status, body, where, response.headers.get("Retry-After", ""))


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__  # a TimeoutError has no text
