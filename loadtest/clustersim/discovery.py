"""The discovery documents of the API server, which tell clients the kinds that the server serves."""

from clustersim.kinds import Kinds
from clustersim.objects import DAEMONSET, DEPLOYMENT, POD, REPLICASET, SERVICE, STATEFULSET, Object, Resource
from clustersim.reviews import VERSION

_IN_ALL = (POD, SERVICE, DAEMONSET, DEPLOYMENT, REPLICASET, STATEFULSET)
"""The kinds that `kubectl get all` lists."""
_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]


def document(path: str, kinds: Kinds) -> Object | None:
    """Return the discovery document at the URL *path*, or None if there is none."""
    parts = path.strip("/").split("/")
    match parts:
        case ["version"]:
            return VERSION
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            groups = dict.fromkeys(resource.group for resource in kinds.all() if resource.group)
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name, kinds) for name in groups]}
        case ["api", "v1"]:
            return _resource_list("v1", kinds)
        case ["apis", group, version] if f"{group}/{version}" in kinds.group_versions():
            return _resource_list(f"{group}/{version}", kinds)
    return None


def _group(name: str, kinds: Kinds) -> Object:
    versions = [
        {"groupVersion": api_version, "version": api_version.partition("/")[2]}
        for api_version in kinds.group_versions()
        if api_version.partition("/")[0] == name
    ]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resource_list(api_version: str, kinds: Kinds) -> Object:
    resources = [_entry(resource) for resource in kinds.all() if resource.api_version == api_version]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": resources}


def _entry(resource: Resource) -> Object:
    return {
        "name": resource.plural,
        "singularName": resource.singular,
        "shortNames": list(resource.short_names),
        "categories": ["all"] if resource in _IN_ALL else [],
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": _VERBS,
    }
