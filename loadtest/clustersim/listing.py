"""Lists of objects in pages: each page but the last has a token that says where the next page begins."""

import base64
import binascii
import json
from collections.abc import Sequence
from typing import NamedTuple

from clustersim.errors import ApiError, bad_request
from clustersim.kinds import Target
from clustersim.objects import Object, name_of, namespace_of
from clustersim.selection import Selector
from clustersim.store import Store


class Page(NamedTuple):
    """Some of the objects of a list, and the metadata of the list."""

    metadata: Object
    objects: Sequence[Object]


def page(store: Store, target: Target, selector: Selector, limit: int, token: str) -> Page:
    """Return a page of at most *limit* objects, or of all objects if *limit* is 0.

    *token* is the continue token of the previous page, or "" for the first page. Later pages have the version of the
    first page, but show the present objects. A client that watches from that version gets all changes since the first
    page. Raises ApiError 410 if the history no longer reaches back to the version in *token*.
    """
    revision, start = _decode(token) if token else (store.revision, None)
    if token:
        _check_remembered(store, target, revision)
    chosen = [obj for obj in store.list(target.resource, target.namespace) if selector.matches(obj)]
    rest = [obj for obj in chosen if start is None or (namespace_of(obj), name_of(obj)) > start]
    metadata: Object = {"resourceVersion": str(revision)}
    if not limit or len(rest) <= limit:
        return Page(metadata, rest)
    metadata["continue"] = _encode(revision, rest[limit - 1])
    return Page(metadata, rest[:limit])


def _check_remembered(store: Store, target: Target, revision: int) -> None:
    try:
        store.changes_since(target.resource, revision)
    except ApiError as error:
        message = "The provided continue parameter is too old to display a consistent list result."
        raise ApiError(410, "Expired", message) from error


def _encode(revision: int, last: Object) -> str:
    return base64.urlsafe_b64encode(json.dumps([revision, namespace_of(last), name_of(last)]).encode()).decode()


def _decode(token: str) -> tuple[int, tuple[str, str]]:
    try:
        revision, namespace, name = json.loads(base64.urlsafe_b64decode(token))
        return int(revision), (str(namespace), str(name))
    except (binascii.Error, ValueError, TypeError) as error:
        raise bad_request("continue key is not valid") from error
