"""The Secrets and ConfigMaps that a Pod mounts, as the kubelet puts them into its volumes.

A change of an object does not reach the Pod at once: the kubelet mounts the new version when it next syncs the Pod.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from clustersim.login import decoded
from clustersim.objects import CONFIGMAP, SECRET, Object, Resource
from clustersim.store import Store

SYNC = 60.0
"""Seconds after which the kubelet syncs a Pod even if nothing has changed: the default of ``syncFrequency``."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted key of a Secret, or of an object of another *kind*. An empty *key* stands for the whole object."""

    source: str
    key: str = ""
    kind: Resource = SECRET


def mount_of(pod: Object, container: Object, path: str) -> Mount | None:
    """Return the Secret or ConfigMap that *container* mounts at *path*; None if it mounts neither there.

    *path* is the path of a mounted folder, or of a file in a mounted folder. For a file, the Mount has the file's key.
    """
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", ())}
    for mount in container.get("volumeMounts", ()):
        volume = volumes.get(mount["name"], {})
        source = volume.get("secret") or volume.get("configMap")
        if source is None:
            continue
        kind, name = (SECRET, source["secretName"]) if "secret" in volume else (CONFIGMAP, source["name"])
        if mount["mountPath"] == path:
            return Mount(name, kind=kind)
        if mount["mountPath"] == str(PurePosixPath(path).parent):
            file = PurePosixPath(path).name
            keys = {item["path"]: item["key"] for item in source.get("items", ())}
            return Mount(name, keys.get(file, file), kind)
    return None


def mounted(pod: Object) -> list[tuple[Resource, str]]:
    """Return the kind and name of each Secret and ConfigMap that must exist for the containers of *pod* to start."""
    volumes = pod["spec"].get("volumes", ())
    found = [(SECRET, volume["secret"]["secretName"]) for volume in volumes if "secret" in volume]
    return found + [(CONFIGMAP, volume["configMap"]["name"]) for volume in volumes if "configMap" in volume]


class Volumes:
    """The volumes of one Pod, with each mounted object as it was when the kubelet last synced the Pod."""

    def __init__(self, store: Store, namespace: str, sources: Iterable[tuple[Resource, str]]) -> None:
        self._store = store
        self._namespace = namespace
        self.sources = list(sources)
        self._held: dict[tuple[Resource, str], Object] = {}

    def sync(self) -> None:
        """Mount the present version of each object. If an object is gone, the Pod keeps the object's old files."""
        for resource, name in self.sources:
            if (found := self._store.find(resource, self._namespace, name)) is not None:
                self._held[resource, name] = found

    def find(self, resource: Resource, name: str) -> Object | None:
        """Return the mounted version of an object; None if the Pod has not mounted the object yet."""
        return self._held.get((resource, name))

    def text(self, mount: Mount) -> str | None:
        """Return the content of the file that *mount* names, or None if there is no such file."""
        return files(mount.kind, self.find(mount.kind, mount.source)).get(mount.key)


def files(kind: Resource, obj: Object | None) -> dict[str, str]:
    """Return the texts of the files that the kubelet makes of a Secret or ConfigMap, by name."""
    data, binary = ((obj or {}).get(section) or {} for section in ("data", "binaryData"))
    if kind == SECRET:
        return decoded(data)
    return decoded(binary) | data
