"""The error for a request that the control server refuses, and the reading of request bodies, which can raise it."""

import json
from typing import Any

from aiohttp import web


class RefusalError(Exception):
    """The control server refuses a request with an HTTP code and a message; Headscale adds *details*."""

    def __init__(self, status: int, message: str, details: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.details = details


async def body_of(request: web.Request) -> dict[str, Any]:
    """Return the JSON object in the body of *request*. Raises RefusalError."""
    try:
        body = json.loads(await request.read())
    except ValueError:
        raise RefusalError(400, "invalid JSON in the request body") from None
    if not isinstance(body, dict):
        raise RefusalError(400, "the request body must be a JSON object")
    return body
