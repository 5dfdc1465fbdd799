"""The API server over HTTP: it passes requests to the store, and answers them in the format of Kubernetes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from aiohttp import web

from clustersim import discovery, listing, openapi, reading, reviews, tokens, watching
from clustersim.coreschemas import core_schemas
from clustersim.encoding import Encoder, MetadataEncoder, encode
from clustersim.errors import ApiError, bad_request, conflict, invalid
from clustersim.faults import Faults
from clustersim.fields import check_fields
from clustersim.kinds import Kinds, Target
from clustersim.merge import merge_patch
from clustersim.objects import BUILTIN_RESOURCES, CRD, LEASE, SERVICEACCOUNT, Object
from clustersim.programs import Programs
from clustersim.rbac import USER, Rights
from clustersim.store import Store
from clustersim.strategic import strategic_merge
from clustersim.tables import table_encoder
from clustersim.traffic import Traffic

_MERGE_PATCH = "application/merge-patch+json"
_PATCHES = {_MERGE_PATCH: merge_patch, "application/strategic-merge-patch+json": strategic_merge}
"""The functions that apply patches, by the Content-Type of the patch. Custom kinds have no strategic merge patch."""
_OBJECT_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COLLECTION_VERBS = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
_PROPAGATIONS = ("", "Background", "Foreground")
_MAX_BODY = 16 * 1024 * 1024
_WATCH_SECONDS = 1800.0
_BACKLOG = 1024
"""More connections than an operator opens at once for its watches: the kernel delays those beyond this by a second."""


class ApiServer:
    """Serves the objects of a store over HTTP.

    A watch that asked for bookmarks gets one after each *bookmark_interval* seconds without an event. The *rights*
    limit the requests of the user `rbac.USER`. All other users are allowed to do everything.
    """

    def __init__(
        self,
        store: Store,
        kinds: Kinds,
        faults: Faults,
        traffic: Traffic,
        rights: Rights,
        programs: Programs | None = None,
    ) -> None:
        self._store = store
        self._programs = programs or Programs(store)
        self._kinds = kinds
        self._faults = faults
        self._traffic = traffic
        self._rights = rights
        self.bookmark_interval = 30.0
        self._encoder = Encoder()
        self._metadata_encoder = MetadataEncoder()

    @asynccontextmanager
    async def serve(self, host: str, port: int) -> AsyncIterator[str]:
        """Serve the API during the block, on a free port if *port* is 0; yield the URL."""
        application = web.Application(client_max_size=_MAX_BODY)
        application.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port, backlog=_BACKLOG).start()
            address, bound = runner.addresses[0][:2]
            yield f"http://[{address}]:{bound}" if ":" in address else f"http://{address}:{bound}"
        finally:
            self._faults.drop_watches()
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._answer_request(request)
        except ApiError as error:
            seconds = error.details.get("retryAfterSeconds")
            headers = {"Retry-After": str(seconds)} if seconds else None
            return web.json_response(error.to_status(), status=error.status, headers=headers)

    async def _answer_request(self, request: web.Request) -> web.StreamResponse:
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
        if request.query.get("dryRun"):
            raise bad_request("the simulated cluster can't do a dry run")
        if (answer_of_pod := await self._programs.answer(request)) is not None:
            return answer_of_pod
        if target is None:
            return await self._answer_document(request)
        self._faults.authorize(target, verb)
        if request.headers.get("Authorization") == f"Bearer {USER}":
            self._rights.authorize(_named(request, target), verb)
        if target.subresource and not _serves(target):
            raise _no_such_path()
        answer = await self._answer_target(request, target, verb)
        return _hang_up(request) if is_lost else answer

    async def _answer_document(self, request: web.Request) -> web.Response:
        if request.method == "POST" and reviews.is_review(request.path):
            return web.json_response(reviews.review(await reading.object_body(request)), status=201)
        found = discovery.document(request.path, self._kinds)
        if found is None and request.path.startswith("/openapi/"):
            await asyncio.to_thread(core_schemas)  # this takes seconds, and the event loop has to serve other clients
            found = openapi.document(request.path, self._store, self._kinds)
        if found is None:
            raise _no_such_path()
        return web.json_response(found)

    async def _answer_target(self, request: web.Request, target: Target, verb: str) -> web.StreamResponse:
        if _is_strict(request):
            await asyncio.to_thread(core_schemas)
        if target.subresource == tokens.SUBRESOURCE:
            return _respond(encode(tokens.issue(self._store, target, await reading.object_body(request))), status=201)
        match verb:
            case "get":
                encoder = self._encoder_for(request, target, verb)
                return _respond(encoder(self._store.get(target.resource, target.namespace, target.name)))
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
        raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")

    def _list(self, request: web.Request, target: Target) -> web.Response:
        query = request.query
        page = listing.page(
            self._store, target, reading.selector(request), reading.number(request, "limit"), query.get("continue", "")
        )
        return _respond(self._encoder_for(request, target, "list").many(target.resource, page.metadata, page.objects))

    async def _watch(self, request: web.Request, target: Target) -> web.StreamResponse:
        if request.query.get("sendInitialEvents"):  # after the error, the client lists the objects
            raise invalid(target.resource, "", "sendInitialEvents", "Forbidden: it is forbidden for watch")
        watch = watching.Watch(
            target,
            reading.selector(request),
            revision=reading.number(request, "resourceVersion"),
            timeout=reading.number(request, "timeoutSeconds") or _WATCH_SECONDS,
            bookmark_interval=self.bookmark_interval if reading.flag(request, "allowWatchBookmarks") else 0,
            encoder=self._encoder_for(request, target, "watch"),
        )
        return await watching.stream(request, watch, self._store, self._faults)

    def _encoder_for(self, request: web.Request, target: Target, verb: str) -> Encoder:
        if reading.wants_table(request):
            return table_encoder(
                self._store, target.resource, request.query.get("includeObject", ""), watches=verb == "watch"
            )
        return self._metadata_encoder if reading.wants_metadata(request, verb) else self._encoder

    def _check_fields(self, request: web.Request, target: Target, obj: Object) -> None:
        """Check the fields of *obj* if the client asks for field validation. Raises ApiError.

        kubectl asks for field validation, but the clients of the loop tests don't.
        """
        if _is_strict(request):
            check_fields(target.resource, openapi.kind_schema(self._store, target.resource), obj)

    async def _create(self, request: web.Request, target: Target) -> web.Response:
        obj = reading.addressed(await reading.object_body(request), target)
        self._check_fields(request, target, obj)
        with reading.decoding(target.resource):
            created = self._store.create(target.resource, obj)
        return _respond(self._encoder(created), status=201)

    async def _replace(self, request: web.Request, target: Target) -> web.Response:
        obj = reading.addressed(await reading.object_body(request), target)
        _check_conditional(target, obj)
        self._check_fields(request, target, obj)
        with reading.decoding(target.resource):
            replaced = self._store.replace(target.resource, obj, target.subresource)
        return _respond(self._encoder(replaced))

    async def _patch(self, request: web.Request, target: Target) -> web.Response:
        accepted = _PATCHES if target.resource in BUILTIN_RESOURCES else {_MERGE_PATCH: merge_patch}
        apply = accepted.get(request.content_type)
        if apply is None:
            raise reading.unsupported(request.content_type, ", ".join(accepted))
        patch = await reading.object_body(request)

        def changed(old: Object) -> Object:
            new: Object = apply(old, patch)
            self._check_fields(request, target, new)
            return new

        place = (target.resource, target.namespace, target.name)
        with reading.decoding(target.resource):
            patched = self._store.update(*place, changed, target.subresource)
        return _respond(self._encoder(patched))

    async def _delete(self, request: web.Request, target: Target) -> web.Response:
        """Delete an object according to the DeleteOptions in the body.

        Answer with the object if finalizers or a grace period keep it for now, otherwise with a Status of success.
        """
        options = await reading.object_body(request) if await request.read() else {}
        resource, namespace, name = target.resource, target.namespace, target.name
        propagation = options.get("propagationPolicy", "")
        if propagation not in _PROPAGATIONS:
            raise bad_request(f"propagationPolicy: {propagation} is not one of {_PROPAGATIONS[1:]}")
        old = self._store.get(resource, namespace, name)
        preconditions = options.get("preconditions") or {}
        version = old["metadata"]["resourceVersion"]
        if preconditions.get("resourceVersion", version) != version:
            wanted = preconditions["resourceVersion"]
            cause = f"ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {version}"
            raise conflict(resource, name, f"Precondition failed: {cause}")
        uid, grace = preconditions.get("uid") or "", options.get("gracePeriodSeconds")
        last = self._store.delete(resource, namespace, name, propagation, uid, grace=grace)
        if self._store.find(resource, namespace, name) is not None:
            return _respond(encode(last))
        details = {"name": name, "kind": resource.plural, "uid": old["metadata"]["uid"]}
        details |= {"group": resource.group} if resource.group else {}
        success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return _respond(encode(success))


def _is_strict(request: web.Request) -> bool:
    """Tell whether the client asks for field validation."""
    return request.query.get("fieldValidation") == "Strict"


def _verb(request: web.Request, target: Target | None) -> str:
    if target is None:
        return "get"
    if target.subresource == tokens.SUBRESOURCE and request.method == "POST":
        return "create"
    verb = (_OBJECT_VERBS if target.name else _COLLECTION_VERBS).get(request.method, request.method.lower())
    return "watch" if verb == "list" and reading.flag(request, "watch") else verb


def _named(request: web.Request, target: Target) -> Target:
    """Return *target*. If a field selector permits a single object of a list or watch, put its name into *target*."""
    return target if target.name else replace(target, name=reading.selector(request).name)


def _serves(target: Target) -> bool:
    """Tell whether the subresource in *target* exists for the kind in *target*."""
    if target.subresource == tokens.SUBRESOURCE:
        return target.resource == SERVICEACCOUNT
    return target.subresource == "status" and target.resource.status


def _hang_up(request: web.Request) -> web.Response:
    """Cut the connection of *request*, and return a response that aiohttp needs but the client never gets."""
    if request.transport:
        request.transport.abort()
    return web.Response(status=503)


def _respond(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")


def _check_conditional(target: Target, obj: Object) -> None:
    """Raise ApiError 422 if *obj*, which is to replace an object, lacks a ``resourceVersion`` that its kind requires.

    A real API server requires it for some kinds.
    """
    blind = not obj["metadata"].get("resourceVersion")
    if blind and (target.resource in (LEASE, CRD) or target.resource not in BUILTIN_RESOURCES):
        cause = "Invalid value: 0x0: must be specified for an update"
        raise invalid(target.resource, target.name, "metadata.resourceVersion", cause)


def _no_such_path() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource")
