"""A standalone proxy: headless Service, Secret, StatefulSet; what makes them right, and what takes them away."""

from collections.abc import Sequence
from dataclasses import dataclass

from tsoperator.api.names import DNS_FINALIZER
from tsoperator.api.objects import SECRET, SERVICE, STATEFULSET, Key, Object, is_deleting, key_of, resource_of
from tsoperator.api.rules import child_name
from tsoperator.api.v1alpha1.proxyclass import ProxyClassSpec
from tsoperator.desired.children import Owner, first
from tsoperator.desired.metrics import metrics_objects
from tsoperator.desired.overlay import overlaid
from tsoperator.desired.plan import Deletion, Patch, Plan
from tsoperator.desired.secret import (
    Device,
    config_patch,
    device_of,
    must_keep_auth_key,
    needs_auth_key,
    proxy_secret,
)
from tsoperator.desired.service import headless_service
from tsoperator.desired.statefulset import Target, proxy_statefulset, selects
from tsoperator.desired.tailscaled import ProxyConfig
from tsoperator.settings import Settings

_ORDINAL = "-0"  # of the one Pod
_STILL_THERE = 5.0  # s until a look at a deletion that should have ended by a watch event


@dataclass(frozen=True, slots=True)
class Children:
    """The children of one proxy that are there, Secrets slim; *metrics* are its metrics Service and ServiceMonitor."""

    services: Sequence[Object] = ()
    statefulsets: Sequence[Object] = ()
    secrets: Sequence[Object] = ()
    pods: Sequence[Object] = ()
    metrics: Sequence[Object] = ()


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy as it should be."""

    owner: Owner
    parent_uid: str
    target: Target
    config: ProxyConfig
    tags: Sequence[str]
    magic_dns_name: str = ""
    proxy_class: ProxyClassSpec | None = None


def proxy_key(proxy: Proxy, children: Children, settings: Settings) -> Key:
    """Return the key of the headless Service and StatefulSet: the one that they have, or that of a new proxy."""
    if there := first(children.services) or first(children.statefulsets):
        return key_of(there)
    if secret := first(children.secrets):
        key = key_of(secret)
        return Key(key.namespace, key.name.removesuffix(_ORDINAL))
    return Key(settings.namespace, child_name(proxy.owner.key.name, proxy.parent_uid))


def secret_key(proxy: Proxy, children: Children, settings: Settings) -> Key:
    """Return the key of the proxy's Secret, which is also its Pod's name."""
    key = proxy_key(proxy, children, settings)
    return Key(key.namespace, f"{key.name}{_ORDINAL}")


def wants_auth_key(proxy: Proxy, children: Children) -> bool:
    """Tell whether the live Secret must be read, and a key minted if there is none in it, before planning."""
    secret = first(children.secrets)
    return needs_auth_key(secret) or must_keep_auth_key(secret, proxy.config)


def plan_proxy(proxy: Proxy, children: Children, settings: Settings, auth_key: str = "") -> Plan:
    """Return what brings the children of *proxy* up to date; *auth_key* is given where `wants_auth_key` says so."""
    key = proxy_key(proxy, children, settings)
    service = next((obj for obj in children.services if key_of(obj) == key), None)
    statefulset = next((obj for obj in children.statefulsets if key_of(obj) == key), None)
    secret = first(children.secrets)
    if statefulset is not None and not selects(statefulset, proxy.parent_uid):
        # The parent was made anew: the selector can't be changed, so the StatefulSet goes first and comes back.
        return Plan(hold=True, delete=_in_foreground(statefulset), requeue_after=_STILL_THERE)
    desired: list[Object | Patch] = [headless_service(key, proxy.owner, proxy.parent_uid, proxy.magic_dns_name)]
    if secret is None:
        desired.append(proxy_secret(secret_key(proxy, children, settings), proxy.owner, proxy.config, auth_key))
    elif patch := config_patch(secret, proxy.config, auth_key):
        desired.append(patch)
    wanted = proxy_statefulset(key, proxy.owner, proxy.parent_uid, proxy.target, settings, live=statefulset)
    desired.append(overlaid(wanted, proxy.proxy_class, proxy.target) if proxy.proxy_class else wanted)
    metrics = proxy.proxy_class.metrics if proxy.proxy_class else None
    measured = metrics_objects(key, proxy.owner, proxy.target, metrics, children.metrics)
    leaving = [Deletion(SERVICE, service, release=DNS_FINALIZER)] if service and is_deleting(service) else []
    return Plan(hold=True, apply=[*desired, *measured], delete=[*leaving, *_unwanted(children.metrics, measured)])


def plan_removal(children: Children) -> Plan:
    """Return the next step of taking a proxy away: Pods first, then device, then the rest and our finalizer on the
    parent.
    """
    if children.statefulsets:
        going = [step for obj in children.statefulsets for step in _in_foreground(obj)]
        return Plan(delete=going, requeue_after=_STILL_THERE)
    devices = [device_of(secret, None).id for secret in children.secrets]
    release = [Deletion(SERVICE, obj, release=DNS_FINALIZER) for obj in children.services]
    secrets = [Deletion(SECRET, obj, unchanged=True) for obj in children.secrets]
    return Plan(
        devices=[device for device in devices if device],
        delete=[*release, *secrets, *_unwanted(children.metrics)],
        release=True,
    )


def proxy_device(children: Children) -> Device | None:
    """Return the device that the proxy has reported."""
    secret = first(children.secrets)
    if secret is None:
        return None
    pod = next((obj for obj in children.pods if key_of(obj) == key_of(secret)), None)
    return device_of(secret, pod)


def _unwanted(there: Sequence[Object], wanted: Sequence[Object] = ()) -> list[Deletion]:
    kept = {(obj["kind"], key_of(obj)) for obj in wanted}
    return [Deletion(resource_of(obj), obj) for obj in there if (obj["kind"], key_of(obj)) not in kept]


def _in_foreground(statefulset: Object) -> list[Deletion]:
    return [] if is_deleting(statefulset) else [Deletion(STATEFULSET, statefulset, "Foreground")]
