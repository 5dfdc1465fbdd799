"""The API server over HTTP: what a request asks of the store, and the answer as Kubernetes gives it."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from clustersim import discovery, listing, reading, watching
from clustersim.encoding import Encoder, Plain, Tabular, View, encode
from clustersim.errors import ApiError, bad_request, conflict, invalid
from clustersim.faults import Faults
from clustersim.kinds import Kinds, Target
from clustersim.merge import json_patch, merge_patch
from clustersim.objects import BUILTIN_RESOURCES, CRD, LEASE, Object, Resource, name_of, namespace_of
from clustersim.store import Store
from clustersim.strategic import strategic_merge
from clustersim.traffic import Traffic, to_json

_JSON_PATCH = "application/json-patch+json"
_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_PATCHES: Mapping[str, Callable[[Any, Any], Any]] = {
    _JSON_PATCH: json_patch,
    _MERGE_PATCH: merge_patch,
    _STRATEGIC_PATCH: strategic_merge,
}
_OBJECT_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COLLECTION_VERBS = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
_PROPAGATIONS = ("", "Background", "Foreground", "Orphan")
_HEALTH = ("/healthz", "/livez", "/readyz")
_MAX_BODY = 16 * 1024 * 1024
_WATCH_SECONDS = 1800.0


class ApiServer:
    """Serves a store; *bookmark_interval* in seconds."""

    def __init__(
        self, store: Store, kinds: Kinds, faults: Faults, traffic: Traffic, bookmark_interval: float = 30.0
    ) -> None:
        self._store = store
        self._kinds = kinds
        self._faults = faults
        self._traffic = traffic
        self._bookmark_interval = bookmark_interval
        self._encoder = Encoder()

    @asynccontextmanager
    async def serve(self, host: str, port: int) -> AsyncIterator[str]:
        """Listen while the context lasts and return the URL; port 0 takes a free one."""
        application = web.Application(client_max_size=_MAX_BODY)
        application.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
            address, bound = runner.addresses[0][:2]
            yield f"http://[{address}]:{bound}" if ":" in address else f"http://{address}:{bound}"
        finally:
            self._faults.drop_watches()
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            if request.path.startswith("/_sim/"):
                return await self._answer_simulation(request)
            return await self._answer_api(request)
        except ApiError as error:
            seconds = error.details.get("retryAfterSeconds")
            headers = {"Retry-After": str(seconds)} if seconds else None
            return web.json_response(error.to_status(), status=error.status, headers=headers)

    async def _answer_simulation(self, request: web.Request) -> web.Response:
        match request.method, request.path:
            case "GET", "/_sim/writes":
                return web.json_response(to_json(self._traffic.writes))
            case "GET", "/_sim/requests":
                return web.json_response(to_json(self._traffic.requests))
            case "GET", "/_sim/faults":
                return web.json_response(self._faults.to_json())
            case "POST", "/_sim/faults":
                self._faults.apply(await reading.object_body(request))
                return web.json_response(self._faults.to_json())
        raise _no_such_path()

    async def _answer_api(self, request: web.Request) -> web.StreamResponse:
        target = self._kinds.locate(request.path)
        verb = _verb(request, target)
        plural = target.resource.plural if target else ""
        if target:
            self._traffic.count(request.headers.get("User-Agent", ""), verb, plural)
        if self._faults.away:
            return _hang_up(request)
        if self._faults.nonsense:
            return web.Response(text="<html><body>Welcome</body></html>", content_type="text/html")
        if self._faults.missing:
            raise _no_such_path()
        is_lost = await self._faults.strike(verb, plural)
        if target is None:
            return self._answer_document(request)
        self._faults.authorize(target, verb)
        if target.subresource and (target.subresource != "status" or not target.resource.status):
            raise _no_such_path()
        answer = await self._answer_target(request, target, verb)
        return _hang_up(request) if is_lost else answer

    def _answer_document(self, request: web.Request) -> web.Response:
        if request.path in _HEALTH:
            return web.Response(text="ok")
        found = discovery.document(request.path, self._kinds)
        if found is None:
            raise _no_such_path()
        return web.json_response(found)

    async def _answer_target(self, request: web.Request, target: Target, verb: str) -> web.StreamResponse:
        match verb:
            case "get":
                obj = self._store.get(target.resource, target.namespace, target.name)
                return _respond(self._view(request, target.resource).one(obj))
            case "list":
                return self._list(request, target)
            case "watch":
                return await self._watch(request, target)
            case "create":
                return await self._create(request, target)
            case "update":
                return await self._replace(request, target)
            case "patch":
                return await self._patch(request, target)
            case "delete":
                return await self._delete(request, target)
            case "deletecollection":
                return await self._delete_collection(request, target)
        raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")

    def _list(self, request: web.Request, target: Target) -> web.Response:
        query = request.query
        page = listing.page(
            self._store, target, reading.selector(request), reading.number(request, "limit"), query.get("continue", "")
        )
        return _respond(self._view(request, target.resource).many(page.metadata, page.objects))

    async def _watch(self, request: web.Request, target: Target) -> web.StreamResponse:
        if reading.flag(request, "sendInitialEvents"):
            cause = "Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
            raise invalid(target.resource, "", "sendInitialEvents", cause)
        watch = watching.Watch(
            target,
            reading.selector(request),
            revision=reading.number(request, "resourceVersion"),
            timeout=reading.number(request, "timeoutSeconds") or _WATCH_SECONDS,
            bookmark_interval=self._bookmark_interval if reading.flag(request, "allowWatchBookmarks") else 0,
            view=self._view(request, target.resource),
        )
        return await watching.stream(request, watch, self._store, self._faults.watches)

    async def _create(self, request: web.Request, target: Target) -> web.Response:
        dry_run = reading.is_dry_run(request, {})
        obj = reading.addressed(await reading.object_body(request), target)
        with reading.decoding(target.resource):
            created = self._store.create(target.resource, obj, dry_run=dry_run)
        return self._written(request, target, created, dry_run, status=201)

    async def _replace(self, request: web.Request, target: Target) -> web.Response:
        dry_run = reading.is_dry_run(request, {})
        obj = reading.addressed(await reading.object_body(request), target)
        _check_conditional(target, obj)
        with reading.decoding(target.resource):
            replaced = self._store.replace(target.resource, obj, target.subresource, dry_run=dry_run)
        return self._written(request, target, replaced, dry_run)

    async def _patch(self, request: web.Request, target: Target) -> web.Response:
        dry_run = reading.is_dry_run(request, {})
        apply = _PATCHES.get(request.content_type)
        if apply is None or (apply is strategic_merge and target.resource not in BUILTIN_RESOURCES):
            raise _unsupported_patch(request.content_type, target.resource)
        patch = await reading.json_body(request)
        if not isinstance(patch, list if apply is json_patch else dict):
            raise bad_request("the patch is not of the form that its content type says")
        with reading.decoding(target.resource):
            patched = self._store.update(
                target.resource,
                target.namespace,
                target.name,
                lambda old: apply(old, patch),
                target.subresource,
                dry_run=dry_run,
            )
        return self._written(request, target, patched, dry_run)

    async def _delete(self, request: web.Request, target: Target) -> web.Response:
        options = await reading.object_body(request) if await request.read() else {}
        old = self._store.get(target.resource, target.namespace, target.name)
        return _respond(encode(self._delete_one(request, target.resource, old, options)))

    async def _delete_collection(self, request: web.Request, target: Target) -> web.Response:
        options = await reading.object_body(request) if await request.read() else {}
        selector = reading.selector(request)
        chosen = [obj for obj in self._store.list(target.resource, target.namespace) if selector.matches(obj)]
        for obj in chosen:
            self._delete_one(request, target.resource, obj, options)
        return _respond(
            Plain(self._encoder, target.resource).many({"resourceVersion": str(self._store.revision)}, chosen)
        )

    def _delete_one(self, request: web.Request, resource: Resource, old: Object, options: Object) -> Object:
        """Delete *old* as *options*, a DeleteOptions, say; return it if it lingers, else the success."""
        propagation = options.get("propagationPolicy") or request.query.get("propagationPolicy", "")
        if propagation not in _PROPAGATIONS:
            raise bad_request(f"propagationPolicy: {propagation} is not one of {_PROPAGATIONS[1:]}")
        namespace, name = namespace_of(old), name_of(old)
        preconditions = options.get("preconditions") or {}
        version = old["metadata"]["resourceVersion"]
        if preconditions.get("resourceVersion", version) != version:
            wanted = preconditions["resourceVersion"]
            cause = f"ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {version}"
            raise conflict(resource, name, f"Precondition failed: {cause}")
        if reading.is_dry_run(request, options):
            return old
        last = self._store.delete(resource, namespace, name, propagation, preconditions.get("uid") or "")
        if self._store.find(resource, namespace, name) is not None:
            return last
        details = {"name": name, "kind": resource.plural, "uid": old["metadata"]["uid"]}
        details |= {"group": resource.group} if resource.group else {}
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}

    def _view(self, request: web.Request, resource: Resource) -> View:
        if "as=Table" in request.headers.get("Accept", ""):
            return Tabular(resource, request.query.get("includeObject", "Metadata"))
        return Plain(self._encoder, resource)

    def _written(
        self, request: web.Request, target: Target, obj: Object, dry_run: bool, status: int = 200
    ) -> web.Response:
        view = self._view(request, target.resource)
        return _respond(view.unstored(obj) if dry_run else view.one(obj), status)


def _verb(request: web.Request, target: Target | None) -> str:
    if target is None:
        return "get"
    verb = (_OBJECT_VERBS if target.name else _COLLECTION_VERBS).get(request.method, request.method.lower())
    return "watch" if verb == "list" and reading.flag(request, "watch") else verb


def _hang_up(request: web.Request) -> web.Response:
    """Close the connection: the response never gets there."""
    if request.transport:
        request.transport.abort()
    return web.Response(status=503)


def _respond(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")


def _check_conditional(target: Target, obj: Object) -> None:
    """Refuse a blind replace of the kinds for which a real API server does."""
    blind = not obj["metadata"].get("resourceVersion")
    if blind and (target.resource in (LEASE, CRD) or target.resource not in BUILTIN_RESOURCES):
        cause = "Invalid value: 0x0: must be specified for an update"
        raise invalid(target.resource, target.name, "metadata.resourceVersion", cause)


def _unsupported_patch(content_type: str, resource: Resource) -> ApiError:
    accepted = [_JSON_PATCH, _MERGE_PATCH, *([_STRATEGIC_PATCH] if resource in BUILTIN_RESOURCES else [])]
    return reading.unsupported(content_type, ", ".join(accepted))


def _no_such_path() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource")
