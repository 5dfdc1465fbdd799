"""Decides which Pods should get a changed Secret or ConfigMap at once, and makes their kubelets mount it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tsoperator.api.names import ANNOTATION_CONFIG_CHANGED, AUTH_INFIX, CONFIG_SUFFIX, PARENT_OPERATOR, PARENT_RECORDER
from tsoperator.api.objects import CONFIGMAP, POD, SECRET, Key, Object, Resource, is_deleting, key_of, resource_of, uid
from tsoperator.group.grouptype import TYPES
from tsoperator.group.proxygroup import group_owner
from tsoperator.proxy.secret import has_other_config, is_mounted
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import Patch, Plan

INTERVAL: Final = 2.0
"""The shortest time between two touches of a Pod, in seconds."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The present time by two clocks, and when the Pod was last touched.

    *at* is by the clock of the event loop, and *now* by the wall clock. *touched* is by the clock of the loop, or
    None if the Pod wasn't touched.
    """

    touched: float | None
    at: float
    now: datetime


def plan(pod: Object, observed: Observed) -> Plan:
    """Return the plan that touches *pod*, or that waits if it was touched a moment ago."""
    if not pod or is_deleting(pod):
        return Plan()
    last = -math.inf if observed.touched is None else observed.touched
    left = round(last + INTERVAL - observed.at, 3)  # rounded, because a timer can end a nanosecond early
    return Plan(requeue_after=left) if left > 0 else Plan(steps=[_touch(pod, observed.now)])


def is_news(old: Object | None, new: Object) -> bool:
    """Tell whether *old* and *new*, slim forms of one Secret or ConfigMap, differ in something that proxies read.

    If *old* is None, a ConfigMap counts as different, and so does a Secret that a proxy mounts.
    """
    if new["kind"] == SECRET.kind and not is_mounted(new):
        return False
    if old is None:  # the object comes back after somebody has deleted it
        return True
    if new["kind"] == CONFIGMAP.kind:
        return _content(old) != _content(new)
    return has_other_config(old, new)


def read_by(pod: Object, owner: Owner) -> Sequence[tuple[Resource, Key]]:
    """Return the Secrets and ConfigMaps that a Pod of *owner* reads, whether they exist or not.

    All proxies of a ProxyGroup read its ConfigMap. A Pod mounts the Secrets of all replicas, but reads only its own.
    The nameserver gets the records from the API server, so it mounts no ConfigMap to read them.
    """
    namespace, name = key_of(pod)
    found = [(SECRET, Key(namespace, name)), (SECRET, Key(namespace, name + CONFIG_SUFFIX))]
    if owner.type == PARENT_RECORDER:
        stem, _, ordinal = name.rpartition("-")
        found.append((SECRET, Key(namespace, f"{stem}{AUTH_INFIX}-{ordinal}")))
    if owner.type == PARENT_OPERATOR:
        found.append((SECRET, Key(namespace, owner.key.name + CONFIG_SUFFIX)))
    if owner == group_owner(owner.key.name):
        found += [(CONFIGMAP, Key(namespace, each.config_name(owner.key.name))) for each in TYPES.values()]
    return found


def readers(changed: Object, owner: Owner, pods: Sequence[Object]) -> Sequence[Object]:
    """Return those of the *pods* of *owner* that read *changed*, which is a Secret or ConfigMap of the same owner."""
    return [pod for pod in pods if (resource_of(changed), key_of(changed)) in read_by(pod, owner)]


def _touch(pod: Object, now: datetime) -> Patch:
    """Return the step that sets an annotation on *pod* to the time *now*, when its configuration has changed.

    When the annotations of a Pod change, the kubelet syncs the Pod at once, and mounts the Secrets and ConfigMaps that
    have changed. No container restarts. Without a touch, the kubelet does so every 60 to 90 seconds.
    """
    metadata = {"uid": uid(pod), "annotations": {ANNOTATION_CONFIG_CHANGED: now.isoformat()}}
    return Patch(POD, key_of(pod), {"metadata": metadata})


def _content(configmap: Object) -> Object:
    return {name: value for name, value in configmap.items() if name != "metadata"}
