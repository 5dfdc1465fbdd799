"""Tables, which the API server makes for kubectl: the cells of each object, and its metadata."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from clustersim.columns import Column, columns
from clustersim.encoding import Encoder, encode
from clustersim.objects import CRD, Object, Resource
from clustersim.store import Store

TABLE = "Table"
_HEAD: Object = {"kind": TABLE, "apiVersion": "meta.k8s.io/v1"}
_PARTIAL: Object = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}


class TableEncoder(Encoder):
    """Encodes objects as tables with *shown* columns, for a client that asked for tables.

    *included* is the part of an object that its row contains besides the cells: ``Metadata``, the whole ``Object``, or
    the text ``None`` for no part. If the client *watches*, only the first table has the definitions of the columns.
    """

    def __init__(
        self, shown: Sequence[Column], now: Callable[[], datetime], included: str = "Metadata", watches: bool = False
    ) -> None:
        super().__init__(remembered=0)
        self._columns = shown
        self._now = now
        self._included = included or "Metadata"
        self._watches = watches
        self._has_told_columns = False

    def __call__(self, obj: Object) -> bytes:
        """Return the JSON of a table with one row, for *obj*."""
        return self.render(obj)

    def render(self, obj: Object) -> bytes:
        """Return a table with one row, for *obj*."""
        return self._table({"resourceVersion": obj["metadata"]["resourceVersion"]}, [obj])

    def bookmark(self, resource: Resource, revision: int) -> bytes:
        """Return the JSON of the object that a bookmark of a watch contains: a table without rows."""
        return self._table({"resourceVersion": str(revision)}, [])

    def many(self, resource: Resource, metadata: Object, objects: Sequence[Object]) -> bytes:
        """Return the JSON of a table with a row for each of *objects*."""
        return self._table(metadata, objects)

    def _table(self, metadata: Object, objects: Sequence[Object]) -> bytes:
        told = [] if self._has_told_columns else [_definition(each) for each in self._columns]
        self._has_told_columns = self._watches
        return encode({**_HEAD, "metadata": metadata, "columnDefinitions": told, "rows": [*map(self._row, objects)]})

    def _row(self, obj: Object) -> Object:
        cells: list[Any] = [column.cell(obj, self._now()) for column in self._columns]
        row: Object = {"cells": cells}
        if self._included == "Object":
            row["object"] = obj
        elif self._included == "Metadata":
            row["object"] = {**_PARTIAL, "metadata": obj["metadata"]}
        return row


def table_encoder(store: Store, resource: Resource, included: str, watches: bool) -> TableEncoder:
    """Return a TableEncoder for objects of *resource*, with the columns that kubectl shows for this kind."""
    definition = store.find(CRD, "", f"{resource.plural}.{resource.group}")
    return TableEncoder(columns(resource, definition), store.now, included, watches)


def _definition(column: Column) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": "name" if column.name == "Name" else "",
        "description": column.description,
        "priority": int(column.wide),
    }
