"""A standalone proxy: headless Service, Secret, StatefulSet; what makes them right, and what takes them away."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tsoperator.api.names import DNS_FINALIZER
from tsoperator.api.objects import SECRET, SERVICE, STATEFULSET, Key, Object, is_deleting, key_of, resource_of
from tsoperator.api.rules import child_name
from tsoperator.api.v1alpha1.proxyclass import ProxyClassSpec
from tsoperator.desired.children import Owner, first
from tsoperator.desired.families import pods_have_ipv6
from tsoperator.desired.login import login_notes, login_problem
from tsoperator.desired.metrics import metrics_objects
from tsoperator.desired.overlay import has_endpoints, overlaid
from tsoperator.desired.plan import Creation, Deletion, Patch, Plan
from tsoperator.desired.secret import (
    Reissue,
    ReportedDevice,
    config_patch,
    device_of,
    must_keep_auth_key,
    needs_auth_key,
    proxy_secret,
    reissue_of,
)
from tsoperator.desired.service import headless_service
from tsoperator.desired.statefulset import Target, proxy_statefulset, replicas, selects
from tsoperator.desired.tailscaled import ProxyConfig
from tsoperator.settings import Settings

_ORDINAL = re.compile(r"-(\d+)$")  # of a replica, at the end of the name of its Pod and Secret
_STILL_THERE = 5.0  # s until a look at a deletion that should have ended by a watch event


@dataclass(frozen=True, slots=True)
class Children:
    """The children of one proxy that are there, Secrets slim; *metrics* are its metrics Service and ServiceMonitor,
    *grouped* Services of the same parent that are a ProxyGroup's.
    """

    services: Sequence[Object] = ()
    statefulsets: Sequence[Object] = ()
    secrets: Sequence[Object] = ()
    pods: Sequence[Object] = ()
    metrics: Sequence[Object] = ()
    grouped: Sequence[Object] = ()


NO_CHILDREN = Children([], [], [], [], [])


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy as it should be."""

    owner: Owner
    parent_uid: str
    target: Target
    config: ProxyConfig
    tags: Sequence[str]
    magic_dns_name: str = ""
    hostname_prefix: str = ""
    proxy_class: ProxyClassSpec | None = None

    def config_of(self, ordinal: int) -> ProxyConfig:
        """Return what the replica with that *ordinal* is told: with a prefix it has a hostname of its own."""
        if not self.hostname_prefix:
            return self.config
        return replace(self.config, hostname=f"{self.hostname_prefix}-{ordinal}")


def proxy_key(proxy: Proxy, children: Children, settings: Settings) -> Key:
    """Return the key of the headless Service and StatefulSet: the one that they have, or that of a new proxy."""
    if there := first(children.services) or first(children.statefulsets):
        return key_of(there)
    if secret := first(children.secrets):
        key = key_of(secret)
        return Key(key.namespace, _ORDINAL.sub("", key.name))
    return Key(settings.namespace, child_name(proxy.owner.key.name, proxy.parent_uid))


def secret_key(proxy: Proxy, children: Children, settings: Settings, ordinal: int = 0) -> Key:
    """Return the key of a replica's Secret, which is also its Pod's name."""
    key = proxy_key(proxy, children, settings)
    return Key(key.namespace, f"{key.name}-{ordinal}")


def wants_auth_key(proxy: Proxy, children: Children, ordinal: int = 0) -> bool:
    """Tell whether a replica's live Secret must be read, and a key minted if there is none in it, before planning."""
    secret = _secret_of(children, ordinal)
    asks = reissue_of(secret) is Reissue.ASKED
    return asks or needs_auth_key(secret) or must_keep_auth_key(secret, proxy.config_of(ordinal))


def proxy_problem(proxy: Proxy, children: Children, auth_keys: Mapping[int, str]) -> str:
    """Say why *proxy*, planned with *auth_keys*, can't log in any more, and what comes of it; empty if it can."""
    return login_problem(_asking(proxy, children), auth_keys)


def plan_proxy(proxy: Proxy, children: Children, settings: Settings, auth_keys: Mapping[int, str]) -> Plan:
    """Return what brings the children of *proxy* up to date; *auth_keys* has those that `wants_auth_key` says, by
    ordinal, an empty one for a replica that has lost its device and gets another key later.
    """
    key = proxy_key(proxy, children, settings)
    service = next((obj for obj in children.services if key_of(obj) == key), None)
    statefulset = next((obj for obj in children.statefulsets if key_of(obj) == key), None)
    if statefulset is not None and not selects(statefulset, proxy.parent_uid):
        # The parent was made anew: the selector can't be changed, so the StatefulSet goes first and comes back.
        return Plan(hold=True, delete=_in_foreground(statefulset), requeue_after=_STILL_THERE)
    desired: list[Object | Creation | Patch] = [
        headless_service(key, proxy.owner, proxy.parent_uid, proxy.magic_dns_name)
    ]
    for ordinal in range(replicas(proxy.target)):
        secret, config, auth_key = _secret_of(children, ordinal), proxy.config_of(ordinal), auth_keys.get(ordinal, "")
        if secret is None:
            own_key = secret_key(proxy, children, settings, ordinal)
            desired.append(Creation(proxy_secret(own_key, proxy.owner, config, auth_key)))
        elif patch := config_patch(secret, config, auth_key):
            desired.append(patch)
    wanted = proxy_statefulset(key, proxy.owner, proxy.parent_uid, proxy.target, settings, live=statefulset)
    desired += _as_its_class_says(proxy, wanted, pods_have_ipv6(children.pods, statefulset, service))
    metrics = proxy.proxy_class.metrics if proxy.proxy_class else None
    measured = metrics_objects(key, proxy.owner, proxy.target, metrics, children.metrics)
    leaving = [Deletion(SERVICE, service, release=DNS_FINALIZER)] if service and is_deleting(service) else []
    surplus = [secret for secret in children.secrets if _is_surplus(secret, key, replicas(proxy.target))]
    gone = [secret for secret in surplus if _is_released(secret, statefulset, proxy, children)]
    return Plan(
        hold=True,
        devices=_device_ids(gone),
        apply=[*desired, *measured],
        delete=[
            *leaving,
            *_unwanted(children.metrics, measured),
            *(Deletion(SECRET, secret, unchanged=True) for secret in gone),
        ],
        notes=login_notes(_asking(proxy, children), auth_keys),
        requeue_after=None if len(gone) == len(surplus) else _STILL_THERE,
    )


def plan_removal(children: Children) -> Plan:
    """Return the next step of taking a proxy away: Pods first, then device, then the rest and our finalizer on the
    parent.

    Pods are waited for here: in the foreground a StatefulSet takes the garbage collector several more requests, of
    which it makes twenty a second. One that has lost its StatefulSet (kubectl delete --cascade=orphan) isn't.
    """
    if children.statefulsets or any(map(_is_managed, children.pods)):
        going = [Deletion(STATEFULSET, obj) for obj in children.statefulsets if not is_deleting(obj)]
        return Plan(delete=going, requeue_after=_STILL_THERE)
    release = [Deletion(SERVICE, obj, release=DNS_FINALIZER) for obj in children.services]
    secrets = [Deletion(SECRET, obj, unchanged=True) for obj in children.secrets]
    return Plan(
        devices=_device_ids(children.secrets), delete=[*release, *secrets, *_unwanted(children.metrics)], release=True
    )


def way_out(plan: Plan) -> str:
    """Return what the user can do while the devices that *plan* takes away can't be deleted."""
    names = " and ".join(str(key_of(step.obj)) for step in plan.delete if step.resource == SECRET)
    return (
        f"if the control server is gone for good, delete Secret {names} by hand: the device is then left as it is, and "
        "everything else goes"
    )


def proxy_device(children: Children) -> ReportedDevice | None:
    """Return the device that the proxy has reported."""
    secret = first(children.secrets)
    if secret is None:
        return None
    pod = next((obj for obj in children.pods if key_of(obj) == key_of(secret)), None)
    return device_of(secret, pod)


def replica_devices(proxy: Proxy, children: Children) -> list[ReportedDevice]:
    """Return the devices that the replicas of *proxy* have reported, by ordinal."""
    secrets = (_secret_of(children, ordinal) for ordinal in range(replicas(proxy.target)))
    devices = [device_of(secret, None) for secret in secrets if secret]
    return [device for device in devices if device.id]


def device_ids(proxy: Proxy, children: Children) -> dict[int, str]:
    """Return the IDs of the devices that replicas of *proxy* have, by ordinal."""
    secrets = {ordinal: _secret_of(children, ordinal) for ordinal in range(replicas(proxy.target))}
    return {ordinal: device for ordinal, secret in secrets.items() if secret and (device := device_of(secret, None).id)}


def _as_its_class_says(proxy: Proxy, statefulset: Object, ipv6: bool | None) -> list[Object]:
    """Return *statefulset* as the proxy's class wants it; none until it is known where its Pods are to listen."""
    if proxy.proxy_class is None:
        return [statefulset]
    if ipv6 is None and has_endpoints(proxy.proxy_class, proxy.target):
        return []  # the headless Service, which has just been asked for, will say it
    return [overlaid(statefulset, proxy.proxy_class, proxy.target, ipv6=bool(ipv6))]


def reported_device(children: Children, ordinal: int) -> ReportedDevice | None:
    """Return the device that a replica has reported; None where it is new and has no Secret yet."""
    secret = _secret_of(children, ordinal)
    return device_of(secret, None) if secret is not None else None


def _secret_of(children: Children, ordinal: int) -> Object | None:
    return first(secret for secret in children.secrets if _ordinal(secret) == ordinal)


def _asking(proxy: Proxy, children: Children) -> dict[int, Reissue]:
    return {ordinal: reissue_of(_secret_of(children, ordinal)) for ordinal in range(replicas(proxy.target))}


def _ordinal(secret: Object) -> int | None:
    match = _ORDINAL.search(key_of(secret).name)
    return int(match[1]) if match else None


def _is_surplus(secret: Object, key: Key, count: int) -> bool:
    """Tell whether *secret* is of a replica that is not among the first *count* of the StatefulSet named *key*."""
    stem, _, ordinal = key_of(secret).name.rpartition("-")
    return stem == key.name and ordinal.isdecimal() and int(ordinal) >= count


def _is_released(secret: Object, statefulset: Object | None, proxy: Proxy, children: Children) -> bool:
    """Tell whether no Pod has *secret* any more: its own is gone, and the others, which mounted it too, are new."""
    if statefulset is None or any(key_of(pod) == key_of(secret) for pod in children.pods):
        return False
    status = statefulset.get("status") or {}
    seen = status.get("observedGeneration") == statefulset["metadata"].get("generation")
    counts = {statefulset["spec"].get("replicas"), status.get("replicas") or 0, status.get("updatedReplicas") or 0}
    return seen and counts == {replicas(proxy.target)}


def _device_ids(secrets: Sequence[Object]) -> list[str]:
    return [device for secret in secrets if (device := device_of(secret, None).id)]


def _unwanted(there: Sequence[Object], wanted: Sequence[Object] = ()) -> list[Deletion]:
    kept = {(obj["kind"], key_of(obj)) for obj in wanted}
    return [Deletion(resource_of(obj), obj) for obj in there if (obj["kind"], key_of(obj)) not in kept]


def _is_managed(pod: Object) -> bool:
    return any(owner["kind"] == STATEFULSET.kind for owner in pod["metadata"].get("ownerReferences") or ())


def _in_foreground(statefulset: Object) -> list[Deletion]:
    return [] if is_deleting(statefulset) else [Deletion(STATEFULSET, statefulset, "Foreground")]
