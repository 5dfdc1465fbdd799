"""The kinds that the API server serves, and their paths."""

from collections.abc import Iterable
from dataclasses import dataclass

from clustersim.objects import Resource


@dataclass(frozen=True, slots=True)
class Target:
    """The object that a URL path names.

    If *name* is empty, the target is all objects of a kind, in one namespace or in all.
    """

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class Kinds:
    """The kinds that the API server serves now. Custom kinds can be added and removed later."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._resources = {_path(resource): resource for resource in resources}

    def serve(self, resource: Resource) -> None:
        """Serve *resource* from now on."""
        self._resources[_path(resource)] = resource

    def withdraw(self, resource: Resource) -> None:
        """Serve *resource* no longer."""
        self._resources.pop(_path(resource), None)

    def all(self) -> list[Resource]:
        """Return all kinds that are served."""
        return list(self._resources.values())

    def group_versions(self) -> list[str]:
        """Return the API versions that are served, ``v1`` first."""
        return list(dict.fromkeys(resource.api_version for resource in self._resources.values()))

    def locate(self, path: str) -> Target | None:
        """Return the target that the URL *path* names, or None if the server has no such path."""
        root, *parts = path.strip("/").split("/")
        if root == "apis" and len(parts) >= 3:
            group, version, *rest = parts
        elif root == "api" and len(parts) >= 2:
            group, (version, *rest) = "", parts
        else:
            return None
        namespace = ""
        if rest[0] == "namespaces" and len(rest) >= 3 and (group, version, rest[2]) in self._resources:
            _, namespace, *rest = rest
        resource = self._resources.get((group, version, rest[0]))
        if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
            return None
        if len(rest) > 1 and resource.namespaced and not namespace:
            return None
        return Target(resource, namespace, *rest[1:])


def _path(resource: Resource) -> tuple[str, str, str]:
    return resource.group, resource.version, resource.plural
