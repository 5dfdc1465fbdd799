"""The documents that tell a client what is served: discovery, version, and enough OpenAPI for kubectl to write."""

from typing import Any

from clustersim.kinds import Kinds
from clustersim.objects import DEPLOYMENT, POD, REPLICASET, SERVICE, STATEFULSET, Object, Resource

VERSION: Object = {
    "major": "1",
    "minor": "32",
    "gitVersion": "v1.32.0+clustersim",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "linux/amd64",
}
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_STATUS_VERBS = ["get", "patch", "update"]
_IN_ALL = {POD, SERVICE, DEPLOYMENT, REPLICASET, STATEFULSET}


def document(path: str, kinds: Kinds) -> Object | None:
    """Return the document at the URL *path*, None if there is none."""
    parts = path.strip("/").split("/")
    match parts:
        case ["version"]:
            return VERSION
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            return {
                "kind": "APIGroupList",
                "apiVersion": "v1",
                "groups": [_group(name, kinds) for name in _groups(kinds)],
            }
        case ["apis", group] if group in _groups(kinds):
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, kinds)}
        case ["api", "v1"]:
            return _resource_list("v1", kinds)
        case ["apis", group, version] if f"{group}/{version}" in kinds.group_versions():
            return _resource_list(f"{group}/{version}", kinds)
        case ["openapi", "v3"]:
            return {
                "paths": {at: {"serverRelativeURL": f"/openapi/v3/{at}"} for at in map(_root, kinds.group_versions())}
            }
        case ["openapi", "v3", *rest]:
            return _openapi("/".join(rest), kinds)
    return None


def _groups(kinds: Kinds) -> list[str]:
    return list(dict.fromkeys(resource.group for resource in kinds.all() if resource.group))


def _group(name: str, kinds: Kinds) -> Object:
    versions = [
        {"groupVersion": api_version, "version": api_version.partition("/")[2]}
        for api_version in kinds.group_versions()
        if api_version.partition("/")[0] == name
    ]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resource_list(api_version: str, kinds: Kinds) -> Object:
    resources = [entry for resource in _served(api_version, kinds) for entry in _entries(resource)]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": resources}


def _served(api_version: str, kinds: Kinds) -> list[Resource]:
    return [resource for resource in kinds.all() if resource.api_version == api_version]


def _entries(resource: Resource) -> list[Object]:
    shared = {"namespaced": resource.namespaced, "kind": resource.kind}
    entry: Object = {"name": resource.plural, "singularName": resource.singular, **shared, "verbs": _VERBS}
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource in _IN_ALL:
        entry["categories"] = ["all"]
    if not resource.status:
        return [entry]
    return [entry, {"name": f"{resource.plural}/status", "singularName": "", **shared, "verbs": _STATUS_VERBS}]


def _root(api_version: str) -> str:
    return f"apis/{api_version}" if "/" in api_version else f"api/{api_version}"


def _openapi(root: str, kinds: Kinds) -> Object | None:
    """Return schemas that accept anything; that a patch has ``fieldValidation`` spares kubectl its own validation."""
    api_version = root.partition("/")[2]
    resources = _served(api_version, kinds)
    if not resources:
        return None
    return {
        "openapi": "3.0.0",
        "info": {"title": "clustersim", "version": VERSION["gitVersion"]},
        "paths": {_object_path(root, resource): {"patch": _patch(resource)} for resource in resources},
        "components": {"schemas": {_schema_name(resource): _schema(resource) for resource in resources}},
    }


def _object_path(root: str, resource: Resource) -> str:
    return f"/{root}/{'namespaces/{namespace}/' if resource.namespaced else ''}{resource.plural}/{{name}}"


def _patch(resource: Resource) -> Object:
    parameters = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in ("dryRun", "fieldValidation")]
    return {
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": _identity(resource),
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
    }


def _schema(resource: Resource) -> Object:
    return {
        "type": "object",
        "x-kubernetes-group-version-kind": [_identity(resource)],
        "x-kubernetes-preserve-unknown-fields": True,
    }


def _schema_name(resource: Resource) -> str:
    return f"sim.{resource.group or 'core'}.{resource.version}.{resource.kind}"


def _identity(resource: Resource) -> dict[str, Any]:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}
