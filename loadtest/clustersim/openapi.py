"""The OpenAPI documents of the API server, from which kubectl learns the meaning and the types of fields."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from clustersim.coreschemas import ANYTHING, REF, core_schemas, metadata_schema
from clustersim.encoding import encode
from clustersim.kinds import Kinds
from clustersim.objects import BUILTIN_RESOURCES, CRD, Object, Resource, name_of
from clustersim.store import Store

_INFO = {"title": "clustersim", "version": "v1"}
_KIND = "x-kubernetes-group-version-kind"
_REF_V2 = "#/definitions/"


def kind_schema(store: Store, resource: Resource) -> Object:
    """Return the schema of the objects of *resource*, with references into ``components``."""
    if resource in BUILTIN_RESOURCES:
        return core_schemas()[resource.kind]
    definition = store.find(CRD, "", f"{resource.plural}.{resource.group}")
    if definition is None:
        return ANYTHING
    version = next(each for each in definition["spec"]["versions"] if each["name"] == resource.version)
    schema: Object = (version.get("schema") or {}).get("openAPIV3Schema") or ANYTHING
    if "properties" not in schema:
        return schema
    metadata = {"allOf": [{"$ref": f"{REF}ObjectMeta"}], "description": "The name, the labels and so on."}
    return {**schema, "properties": {**schema["properties"], "metadata": metadata}}


def document(path: str, store: Store, kinds: Kinds) -> Object | None:
    """Return the OpenAPI document at the URL *path*, or None if there is none."""
    match path.strip("/").split("/"):
        case ["openapi", "v2"]:
            return _version_2(store, kinds.all())
        case ["openapi", "v3"]:
            return {"paths": {_root(each): _place(each, store, kinds) for each in kinds.group_versions()}}
        case ["openapi", "v3", *parts]:
            found = [each for each in kinds.group_versions() if _root(each) == "/".join(parts)]
            return _version_3(store, _of(kinds, found[0])) if found else None
    return None


def _root(api_version: str) -> str:
    return f"apis/{api_version}" if "/" in api_version else f"api/{api_version}"


def _of(kinds: Kinds, api_version: str) -> list[Resource]:
    return [each for each in kinds.all() if each.api_version == api_version]


def _place(api_version: str, store: Store, kinds: Kinds) -> Object:
    """Return the URL of the document for *api_version*. Clients keep a document until the hash in its URL changes."""
    names = sorted(f"{each.plural}.{each.group}" for each in _of(kinds, api_version))
    versions = [obj["metadata"]["resourceVersion"] for obj in store.list(CRD) if name_of(obj) in names]
    digest = hashlib.sha256(encode([names, versions])).hexdigest()[:32].upper()
    return {"serverRelativeURL": f"/openapi/v3/{_root(api_version)}?hash={digest}"}


def _version_3(store: Store, resources: Iterable[Resource]) -> Object:
    resources = [*resources]
    kinds = {_schema_name(each): _named(each, kind_schema(store, each)) for each in resources}
    needed = _needed(kinds.values())
    paths = {path: item for each in resources for path, item in _paths(each).items()}
    return {"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": {"schemas": {**needed, **kinds}}}


def _version_2(store: Store, resources: Iterable[Resource]) -> Object:
    """Return the document in version 2 of OpenAPI, which has all API versions at once."""
    resources = [*resources]
    kinds = {_schema_name(each): _named(each, kind_schema(store, each)) for each in resources}
    paths = {path: item for each in resources for path, item in _paths(each).items()}
    definitions = _moved({**_needed(kinds.values()), **kinds})
    return {"swagger": "2.0", "info": _INFO, "paths": paths, "definitions": definitions}


def _named(resource: Resource, schema: Object) -> Object:
    return {**schema, _KIND: [_group_version_kind(resource)]}


def _group_version_kind(resource: Resource) -> Object:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _schema_name(resource: Resource) -> str:
    """Return the name of the schema of a kind. For Kubernetes' own kinds, it is the name in `core_schemas`."""
    if resource in BUILTIN_RESOURCES:
        return resource.kind
    return ".".join((*reversed(resource.group.split(".")), resource.version, resource.kind))


def _needed(schemas: Iterable[Object]) -> Mapping[str, Object]:
    """Return the schemas of Kubernetes that *schemas* refer to, directly or not."""
    found: dict[str, Object] = {}
    left = [name for schema in schemas for name in _references(schema)] + ["ObjectMeta"]
    while left:
        name = left.pop()
        if name not in found:
            found[name] = core_schemas()[name]
            left += _references(found[name])
    return found


def _references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [name for each in value for name in _references(each)]
    if not isinstance(value, dict):
        return []
    reference = value.get("$ref")
    own = [reference.removeprefix(REF)] if isinstance(reference, str) else []
    return own + [name for each in value.values() for name in _references(each)]


def _moved(value: Any) -> Any:
    """Return a copy of *value* with its references in the form of OpenAPI version 2."""
    if isinstance(value, list):
        return [_moved(each) for each in value]
    if not isinstance(value, dict):
        return value
    moved = {name: _moved(each) for name, each in value.items()}
    if isinstance(moved.get("$ref"), str):
        moved["$ref"] = moved["$ref"].replace(REF, _REF_V2)
    return moved


def _paths(resource: Resource) -> dict[str, Object]:
    """Return a kind's OpenAPI paths, with only the parts that clients read: the kind, and the options of writes."""
    root = f"/{_root(resource.api_version)}"
    all_of_them = (
        f"{root}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else f"{root}/{resource.plural}"
    )
    kind = {_KIND: _group_version_kind(resource), "responses": {"200": {"description": "OK"}}}
    write = {**kind, "parameters": [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}]}
    return {
        all_of_them: {"get": kind, "post": write},
        f"{all_of_them}/{{name}}": {"get": kind, "put": write, "patch": write},
    }


def resolved(schema: Object) -> Object:
    """Return *schema*, or the schema of Kubernetes that it refers to."""
    for each in schema.get("allOf", ()):
        if "$ref" in each:
            return (
                metadata_schema()
                if each["$ref"] == f"{REF}ObjectMeta"
                else core_schemas()[each["$ref"].removeprefix(REF)]
            )
    return schema
