"""Decides which Pods have to read a changed Secret or ConfigMap again, and what makes their kubelets mount it."""

from collections.abc import Sequence
from datetime import datetime

from tsoperator.api.names import ANNOTATION_CONFIG_CHANGED, CONFIG_SUFFIX
from tsoperator.api.objects import CONFIGMAP, POD, Key, Object, key_of, uid
from tsoperator.group.egress import config_name, group_owner
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


def readers(changed: Object, owner: Owner, pods: Sequence[Object]) -> Sequence[Object]:
    """Return those of the *pods* of *owner* that read its *changed* Secret or ConfigMap.

    All proxies of a ProxyGroup read its egress ConfigMap. A Pod mounts the Secrets of all replicas, but reads its own.
    The nameserver has the records by the API, and so reads no ConfigMap that it mounts.
    """
    namespace, name = key_of(changed)
    if changed["kind"] == CONFIGMAP.kind:
        shared = name == config_name(owner.key.name) and owner == group_owner(owner.key.name)
        return [pod for pod in pods if shared and key_of(pod).namespace == namespace]
    own = {Key(namespace, name), Key(namespace, name.removesuffix(CONFIG_SUFFIX))}
    return [pod for pod in pods if key_of(pod) in own]


def touch(pod: Object, now: datetime) -> Patch:
    """Return the step that says on *pod* that its configuration has changed *now*.

    When the annotations of a Pod change, the kubelet syncs the Pod at once, and mounts the Secrets and ConfigMaps that
    have changed. No container restarts. Without a touch, the kubelet does so every 60 to 90 seconds.
    """
    metadata = {"uid": uid(pod), "annotations": {ANNOTATION_CONFIG_CHANGED: now.isoformat()}}
    return Patch(POD, key_of(pod), {"metadata": metadata})


def _content(configmap: Object) -> Object:
    return {name: value for name, value in configmap.items() if name != "metadata"}
