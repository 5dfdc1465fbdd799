"""Decides which Pods have to read a changed Secret or ConfigMap again, and how their kubelets are made to mount it."""

from collections.abc import Sequence
from datetime import datetime

from tsoperator.api.names import ANNOTATION_CONFIG_CHANGED, AUTH_INFIX, CONFIG_SUFFIX, PARENT_RECORDER
from tsoperator.api.objects import CONFIGMAP, POD, SECRET, Key, Object, Resource, key_of, resource_of, uid
from tsoperator.group.proxygroup import config_name, group_owner
from tsoperator.proxy.secret import has_other_config
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import Patch


def is_news(old: Object | None, new: Object) -> bool:
    """Tell whether *new*, a slim Secret or ConfigMap, has something for proxies to read that *old* didn't have."""
    if old is None:  # somebody had deleted it
        return True
    if new["kind"] == CONFIGMAP.kind:
        return _content(old) != _content(new)
    return has_other_config(old, new)


def read_by(pod: Object, owner: Owner) -> Sequence[tuple[Resource, Key]]:
    """Return the Secrets and ConfigMaps that a Pod of *owner* reads, of which some need not be there.

    All proxies of a ProxyGroup read its egress ConfigMap. A Pod mounts the Secrets of all replicas, but reads its own.
    The nameserver has the records by the API, and so reads no ConfigMap that it mounts.
    """
    namespace, name = key_of(pod)
    found = [(SECRET, Key(namespace, name)), (SECRET, Key(namespace, name + CONFIG_SUFFIX))]
    if owner.type == PARENT_RECORDER:
        stem, _, ordinal = name.rpartition("-")
        found.append((SECRET, Key(namespace, f"{stem}{AUTH_INFIX}-{ordinal}")))
    if owner == group_owner(owner.key.name):
        found.append((CONFIGMAP, Key(namespace, config_name(owner.key.name))))
    return found


def readers(changed: Object, owner: Owner, pods: Sequence[Object]) -> Sequence[Object]:
    """Return those of the *pods* of *owner* that read its *changed* Secret or ConfigMap."""
    return [pod for pod in pods if (resource_of(changed), key_of(changed)) in read_by(pod, owner)]


def touch(pod: Object, now: datetime) -> Patch:
    """Return the step that sets an annotation on *pod* to the time *now*, when its configuration has changed.

    When the annotations of a Pod change, the kubelet syncs the Pod at once, and mounts the Secrets and ConfigMaps that
    have changed. No container restarts. Without a touch, the kubelet does so every 60 to 90 seconds.
    """
    metadata = {"uid": uid(pod), "annotations": {ANNOTATION_CONFIG_CHANGED: now.isoformat()}}
    return Patch(POD, key_of(pod), {"metadata": metadata})


def _content(configmap: Object) -> Object:
    return {name: value for name, value in configmap.items() if name != "metadata"}
