"""Objects of the cluster's DNS for tests: made up or recorded in clusters, before and after a write."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from clustersim.merge import merge_patch
from tsoperator.api.objects import CONFIGMAP, Object, key_of
from tsoperator.dns.cluster.platforms import Platform, find_platform
from tsoperator.dns.cluster.results import Change, DNSObjects
from tsoperator.runtime.plan import Creation, Deletion, Patch

OWNER = "tailscale"
"""The namespace of the operator."""
SAMPLES = Path(__file__).parent / "samples"
CONF, FOLDERS = "/etc/coredns/Corefile", ("/etc/coredns/", "/etc/coredns/custom")
OPENSHIFT: Object = {"kind": "DNS", "metadata": {"name": "default"}, "spec": {}}


def configmap(name: str, **data: str) -> Object:
    return {"kind": "ConfigMap", "metadata": {"namespace": "kube-system", "name": name}, "data": data}


def workload(*mounted: str, kind: str = "Deployment", arguments: Sequence[str] = ("-conf", CONF)) -> Object:
    """Return the workload of CoreDNS, which mounts *mounted*, at most two ConfigMaps, at the folders in `FOLDERS`."""
    volumes = [{"name": f"v{number}", "configMap": {"name": name}} for number, name in enumerate(mounted)]
    mounts = [{"name": f"v{number}", "mountPath": path} for number, path in enumerate(FOLDERS[: len(mounted)])]
    container = {"name": "coredns", "args": [*arguments], "volumeMounts": [{"name": "t", "mountPath": "/t"}, *mounts]}
    spec = {"containers": [{"name": "other"}, container], "volumes": [{"name": "t", "emptyDir": {}}, *volumes]}
    metadata = {"namespace": "kube-system", "name": "coredns"}
    template = {"metadata": {"labels": {"k8s-app": "kube-dns"}}, "spec": spec}
    whole = {"replicas": 0, "selector": {"matchLabels": {"k8s-app": "kube-dns"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": whole}


def platform_of(objects: DNSObjects, wanted: str | None = None, zones: Sequence[str] = ()) -> Platform:
    """Return the platform *wanted* by a DNSConfig, or else the one that *objects* show. Fail the test if there is none.

    *zones* are those of the stub domain.
    """
    platform = find_platform(objects, wanted, zones)
    assert isinstance(platform, Platform), platform
    return platform


def sample(name: str) -> DNSObjects:
    """Return a cluster's objects from `samples/NAME`, where each folder is a ConfigMap, and each file in it a key."""
    maps = []
    for folder in sorted(path for path in (SAMPLES / name).iterdir() if path.is_dir()):
        files = [file for file in sorted(folder.iterdir()) if not file.name.startswith(".")]
        maps.append(configmap(folder.name, **{file.name: file.read_bytes().decode() for file in files}))
    openshift = SAMPLES / name / "dns.json"
    return DNSObjects(maps, json.loads(openshift.read_text()) if openshift.exists() else None)


def applied(objects: DNSObjects, changes: Iterable[object]) -> DNSObjects:
    """Return *objects* as they are after the *changes*."""
    for change in changes:
        assert isinstance(change, Change)
        match change.step:
            case Creation(wanted):
                objects = DNSObjects([*objects.configmaps, wanted], objects.openshift)
            case Deletion(obj=gone):
                objects = DNSObjects([each for each in objects.configmaps if each is not gone], objects.openshift)
            case Patch(resource, key, body):
                if resource is CONFIGMAP:
                    maps = [merge_patch(each, body) if key_of(each) == key else each for each in objects.configmaps]
                    objects = DNSObjects(maps, objects.openshift)
                else:
                    objects = DNSObjects(objects.configmaps, merge_patch(objects.openshift, body))
    return objects


def stored(objects: DNSObjects) -> object:
    """Return *objects* as the API server stores them, without empty fields."""
    return [_stored(each) for each in (*objects.configmaps, objects.openshift or {})]


def _stored(obj: Object) -> Object:
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if value}
    return {name: value for name, value in {**obj, "metadata": metadata}.items() if value}
