"""Reads the parts of a request to the API server: an object, a patch, or options in the query."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from clustersim.encoding import PARTIAL
from clustersim.errors import ApiError, bad_request
from clustersim.kinds import Target
from clustersim.objects import Object, Resource
from clustersim.selection import Selector

_AS = re.compile(rf"as=({PARTIAL}\w*)")
_AS_TABLE = re.compile(r"^[^,]*;as=Table;[^,]*v=v1\b")
"""The Accept header of a client that prefers tables to all other formats."""


async def object_body(request: web.Request) -> Object:
    """Return the object in the body.

    Raises ApiError: 400 if the body isn't an object, 415 if its Content-Type isn't JSON.
    """
    try:
        body = json.loads(await request.read())
    except ValueError as error:
        if not request.content_type.endswith("json"):
            raise unsupported(request.content_type, "application/json") from error
        raise bad_request(f"the object provided is unrecognized: {error}") from error
    if not isinstance(body, dict):
        raise bad_request("the object provided is unrecognized: it is no JSON object")
    return body


def addressed(obj: Object, target: Target) -> Object:
    """Return *obj* with the namespace and the name of *target*, which the URL names.

    Raises ApiError 400 if *obj* has another namespace, name or kind.
    """
    resource = target.resource
    if (obj.get("apiVersion", resource.api_version), obj.get("kind", resource.kind)) != (
        resource.api_version,
        resource.kind,
    ):
        raise bad_request(f"the object is a {obj.get('kind')} in {obj.get('apiVersion')}, not a {resource.kind}")
    metadata = dict(obj.get("metadata") or {})
    for field, wanted in (("namespace", target.namespace), ("name", target.name)):
        if wanted and metadata.setdefault(field, wanted) != wanted:
            raise bad_request(f"the {field} of the object ({metadata[field]}) does not match the URL ({wanted})")
    return {**obj, "metadata": metadata}


@contextmanager
def decoding(resource: Resource) -> Iterator[None]:
    """Turn an exception in the block into ApiError 400, if a field of the wrong type can cause such an exception."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        message = f"{resource.kind} in version {resource.version} cannot be handled as a {resource.kind}: {error!r}"
        raise bad_request(message) from error


def selector(request: web.Request) -> Selector:
    """Return the selector in the query of *request*; raises ApiError 400 if it is invalid."""
    return Selector.parse(request.query.get("labelSelector", ""), request.query.get("fieldSelector", ""))


def wants_table(request: web.Request) -> bool:
    """Tell whether the client asks for the answer as a table."""
    return _AS_TABLE.search(request.headers.get("Accept", "")) is not None


def wants_metadata(request: web.Request, verb: str) -> bool:
    """Tell whether the client asks only for metadata.

    Raises ApiError 406 if the client asks for a list in the format of one object, or for one object in the format of a
    list.
    """
    wanted = PARTIAL + ("List" if verb == "list" else "")
    match = _AS.search(request.headers.get("Accept", ""))
    if match and match[1] != wanted:
        raise ApiError(406, "NotAcceptable", f"only the following media types are accepted: as={wanted}")
    return match is not None


def flag(request: web.Request, name: str) -> bool:
    """Tell whether the query of *request* sets the option *name* to true."""
    return request.query.get(name, "").lower() in ("true", "1")


def number(request: web.Request, name: str) -> int:
    """Return the number in the option *name* of the query, or 0 if the query lacks it.

    Raises ApiError 400 if the option isn't a number.
    """
    text = request.query.get(name) or "0"
    if not text.isdecimal():
        raise bad_request(f"{name}: {text} is not a number")
    return int(text)


def unsupported(content_type: str, accepted: str) -> ApiError:
    """Return the error for a body with *content_type* where only the Content-Type *accepted* is allowed."""
    message = f"the body of the request was in an unknown format ({content_type})"
    return ApiError(415, "UnsupportedMediaType", f"{message} - accepted media types include: {accepted}")
