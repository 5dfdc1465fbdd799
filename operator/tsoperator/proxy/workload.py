"""A standalone proxy: its headless Service, Secrets and StatefulSet, and the plans that make or remove them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tsoperator.api.names import ANNOTATION_LAST_CLUSTER_IP, DNS_FINALIZER, FINALIZER
from tsoperator.api.objects import (
    SECRET,
    SERVICE,
    STATEFULSET,
    Key,
    Object,
    has_finalizer,
    is_deleting,
    key_of,
    resource_of,
    uid,
)
from tsoperator.api.rules import child_name
from tsoperator.api.v1alpha1.proxyclass import ProxyClassSpec
from tsoperator.proxy.devices import (
    NO_DEVICES,
    DevicePlan,
    ProxyDevices,
    TailnetView,
    destination_findings,
    misses_destination,
    plan_devices,
)
from tsoperator.proxy.families import pods_have_ipv6
from tsoperator.proxy.login import NO_KEYS, Keys, Login, login_notes, login_problem
from tsoperator.proxy.metrics import metrics_objects
from tsoperator.proxy.overlay import has_endpoints, overlaid
from tsoperator.proxy.proxypod import ProxyPod
from tsoperator.proxy.replica import Replica, ReplicaSecrets
from tsoperator.proxy.secret import (
    Reissue,
    ReportedDevice,
    config_for_now,
    config_patch,
    device_id_of,
    device_of,
    login_url_of,
    must_keep_auth_key,
    needs_auth_key,
    proxy_secret,
    reissue_of,
    shown_device,
)
from tsoperator.proxy.service import headless_service
from tsoperator.proxy.statefulset import proxy_pod_spec, proxy_statefulset, selects
from tsoperator.proxy.tailscaled import ProxyConfig
from tsoperator.runtime.ownership import Owner, first
from tsoperator.runtime.plan import Child, Creation, DeleteDevice, Deletion, Note, Outline, Plan, Step, earliest
from tsoperator.settings import Settings

POD_NOT_WAITED_FOR = "PodNotWaitedFor"
"""The reason of the Event about a Pod that hangs, and that the removal of its proxy doesn't wait for any longer."""

_ORDINAL = re.compile(r"-\d+$")  # the ordinal of a replica, at the end of the names of its Pod and Secret
_STILL_THERE = 5.0  # s until another look at a deletion that should have ended by a watch event
_LOST = 60.0  # s past the end of its grace period after which nothing waits for a Pod


@dataclass(frozen=True, slots=True)
class Children:
    """The children of one proxy that are there; its Secrets are slim.

    *metrics* are its metrics Service and ServiceMonitor. *overdue* says, by UID, how many seconds ago the grace periods
    of Pods ended that are still there.
    """

    services: Sequence[Object] = ()
    statefulsets: Sequence[Object] = ()
    secrets: Sequence[Object] = ()
    pods: Sequence[Object] = ()
    metrics: Sequence[Object] = ()
    overdue: Mapping[str, float] = field(default_factory=dict)

    def secret(self, key: Key) -> Object | None:
        """Return the Secret named *key*; None if it isn't there."""
        return next((secret for secret in self.secrets if key_of(secret) == key), None)

    def secrets_of(self, replica: Replica) -> ReplicaSecrets:
        """Return the Secrets of a replica."""
        return ReplicaSecrets(self.secret(replica.config_secret), self.secret(replica.state_secret))


NO_CHILDREN = Children([], [], [], [], [])


@dataclass(frozen=True, slots=True)
class Leftovers:
    """The Secrets of replicas that a proxy should not have any more.

    Those that are *gone* can go with their devices, because no Pod mounts them any more. *requeue_after* is in seconds,
    if there are others.
    """

    gone: Sequence[Object]
    requeue_after: float | None = None


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy as it should be; *key* names its headless Service and StatefulSet.

    Each of its replicas has a device with the *tags* in the Tailnet called *tailnet*; with a *hostname_prefix* each has
    a hostname of its own. *notes* are Events that say which of the parent's wishes are left out. With a *config_suffix*
    each replica has two Secrets, and the name of the one with its config ends so. Otherwise one Secret holds both.
    With *static_endpoints*, by ordinal, each proxy listens at *port*.
    """

    owner: Owner
    parent_uid: str
    key: Key
    pod: ProxyPod
    config: ProxyConfig
    tags: Sequence[str]
    tailnet: str = ""
    replica_count: int = 1
    magic_dns_name: str = ""
    hostname_prefix: str = ""
    proxy_class: ProxyClassSpec | None = None
    notes: Sequence[Note] = ()
    config_suffix: str = ""
    port: int = 0
    static_endpoints: Sequence[tuple[str, ...]] = ()

    def config_of(self, replica: Replica) -> ProxyConfig:
        """Return the configuration of the replica."""
        endpoints = self.static_endpoints[replica.ordinal] if self.static_endpoints else ()
        return replace(self.config, hostname=replica.hostname, static_endpoints=endpoints)

    @property
    def replicas(self) -> list[Replica]:
        """The replicas, by ordinal."""
        names = [f"{self.key.name}-{ordinal}" for ordinal in range(self.replica_count)]
        return [
            Replica(
                ordinal,
                Key(self.key.namespace, name + self.config_suffix),
                Key(self.key.namespace, name),
                self._hostname(ordinal),
                self.tags,
                self.tailnet,
            )
            for ordinal, name in enumerate(names)
        ]

    def ordinal_of(self, secret: Object) -> int | None:
        """Return the ordinal of the replica whose *secret* this is by its name; None if it is no replica's."""
        stem, _, ordinal = key_of(secret).name.removesuffix(self.config_suffix).rpartition("-")
        return int(ordinal) if stem == self.key.name and ordinal.isdecimal() else None

    def _hostname(self, ordinal: int) -> str:
        return f"{self.hostname_prefix}-{ordinal}" if self.hostname_prefix else self.config.hostname


def proxy_key(owner: Owner, parent_uid: str, children: Children, settings: Settings) -> Key:
    """Return the key of the headless Service and StatefulSet: the one that they have, or that of a new proxy."""
    if there := first(children.services) or first(children.statefulsets):
        return key_of(there)
    if secret := first(children.secrets):
        key = key_of(secret)
        return Key(key.namespace, _ORDINAL.sub("", key.name))
    return Key(settings.namespace, child_name(owner.key.name, parent_uid))


def proxy_login(proxy: Proxy, children: Children, *, is_held: bool = True) -> Login:
    """Return which replicas of *proxy* may need an auth key; *is_held* says whether its parent has our finalizer."""
    replicas = proxy.replicas
    secrets = {each.ordinal: children.secrets_of(each) for each in replicas}
    in_need = frozenset(
        each.ordinal
        for each in replicas
        if _may_need_key(found := secrets[each.ordinal], config_for_now(proxy.config_of(each), found))
    )
    devices = {ordinal: device for ordinal, found in secrets.items() if (device := device_id_of(found))}
    is_new = not is_held and children == NO_CHILDREN
    return Login(proxy.owner, proxy.parent_uid, replicas, in_need, devices, is_new)


def _may_need_key(secrets: ReplicaSecrets, config: ProxyConfig) -> bool:
    asks = reissue_of(secrets) is Reissue.ASKED
    return asks or needs_auth_key(secrets) or must_keep_auth_key(secrets, config)


def proxy_problem(proxy: Proxy, children: Children, keys: Keys) -> str:
    """Say why *proxy*, planned with *keys*, can't log in any more, and what happens next; empty if it can."""
    return login_problem(_asking(proxy, children), keys.by_ordinal)


def awaits_keys(keys: Keys, children: Children) -> bool:
    """Tell whether a proxy that isn't there yet waits for auth keys, so that there is nothing to report of it."""
    return keys.pending is not None and not children.statefulsets


def proxy_notes(proxy: Proxy, children: Children, keys: Keys) -> Sequence[Note]:
    """Return the Events for the replicas that ask for an auth key, as they are planned with *keys*."""
    return login_notes(_asking(proxy, children), keys.by_ordinal)


def proxy_devices(proxy: Proxy, children: Children, view: TailnetView, settings: Settings) -> DevicePlan:
    """Return what the devices of *proxy* need, in the tailnet of *view*."""
    states = {each.ordinal: children.secrets_of(each).state for each in proxy.replicas}
    devices = ProxyDevices(
        proxy.owner,
        proxy.replicas,
        reported={ordinal: device_of(state, None).id for ordinal, state in states.items() if state is not None},
        shares_hostname=proxy.replica_count > 1 and not proxy.hostname_prefix,
    )
    made = plan_devices(devices, view, take_over_names=settings.take_over_names)
    first_device = proxy_device(children)
    missed = first_device is not None and misses_destination(children.pods, first_device.id, first_device.fqdn, view)
    told = destination_findings(view.destination, proxy.tags, is_missed=missed)
    return replace(made, findings=[*made.findings, *told])


def plan_proxy(
    proxy: Proxy,
    children: Children,
    settings: Settings,
    keys: Keys = NO_KEYS,
    devices: DevicePlan = NO_DEVICES,
) -> Plan:
    """Return what brings the *children* of *proxy* up to date, and its devices.

    *keys* are the auth keys that `proxy_login` asks for, and *devices* is what `proxy_devices` returned. Steps that the
    control server may hold up come after those that don't need it.
    """
    service = next((obj for obj in children.services if key_of(obj) == proxy.key), None)
    statefulset = next((obj for obj in children.statefulsets if key_of(obj) == proxy.key), None)
    if statefulset is not None and not selects(statefulset, proxy.parent_uid):
        # The parent was recreated. The selector can't be changed, so the StatefulSet is deleted and made again.
        return Plan(hold=FINALIZER, steps=_in_foreground(statefulset), requeue_after=_STILL_THERE)
    metrics = proxy.proxy_class.metrics if proxy.proxy_class else None
    measured = metrics_objects(proxy.key, proxy.owner, proxy.pod, metrics, children.metrics)
    leaving = [Deletion(SERVICE, service, release=DNS_FINALIZER)] if service and is_deleting(service) else []
    left = leftovers(proxy, children, statefulset)
    is_complete = all_secrets_come(proxy, children, keys)
    return Plan(
        hold=FINALIZER,
        steps=[
            Child(_headless_service(proxy)),
            *leaving,
            *map(Child, measured),
            *unwanted(children.metrics, measured),
            *devices.before,
            *_secret_steps(proxy, children, keys),
            *(_statefulset_steps(proxy, children, settings, statefulset, service) if is_complete else ()),
            *devices.after,
            *device_deletions(proxy.owner, left.gone, proxy.tailnet),
            *(Deletion(SECRET, secret, unchanged=True) for secret in left.gone),
        ],
        notes=[*proxy_notes(proxy, children, keys), *proxy.notes],
        requeue_after=earliest(left.requeue_after, keys.requeue_after),
        error=keys.pending,
        way_out=way_out(left.gone),
        outline=proxy_outline(proxy, children),
    )


def proxy_outline(proxy: Proxy, children: Children) -> Outline:
    """Return what the log tells of *proxy*."""
    devices = map(shown_device, children.secrets)
    several = f"..{proxy.replica_count - 1}" if proxy.replica_count > 1 else ""
    hostname = f"{proxy.hostname_prefix}-0{several}" if proxy.hostname_prefix else proxy.config.hostname
    return Outline(
        hostname if proxy.replica_count else "",
        ", ".join(proxy.config.routes or ()),
        tuple(sorted(device for device in devices if device)),
    )


def plan_removal(owner: Owner, children: Children, tailnet: str | None = "") -> Plan:
    """Return the next step of removing the proxy of *owner*, which names the Tailnet called *tailnet*.

    Its Pods go first, then all that needs nothing of the control server, then its devices, and last its Secrets and our
    finalizer on the parent. *tailnet* is None if the parent is gone, so that nobody names one.

    The plan waits for the Pods here, because deleting a StatefulSet in the foreground costs the garbage collector
    several more requests, of which it makes twenty a second. The plan doesn't wait for a Pod that has lost its
    StatefulSet (kubectl delete --cascade=orphan). It waits for a minute at most for a Pod that has outlived its grace
    period: the node of such a Pod is dead.
    """
    if children.statefulsets or awaited_pods(children):
        going = [Deletion(STATEFULSET, obj) for obj in children.statefulsets if not is_deleting(obj)]
        return Plan(steps=going, requeue_after=_STILL_THERE)
    return Plan(
        steps=[
            *(Deletion(SERVICE, obj, release=DNS_FINALIZER) for obj in children.services),
            *unwanted(children.metrics),
            *device_deletions(owner, children.secrets, tailnet),
            *(Deletion(SECRET, obj, unchanged=True) for obj in children.secrets),
        ],
        notes=tuple(
            Note("Warning", POD_NOT_WAITED_FOR, _left_behind(pod)) for pod in children.pods if _is_managed(pod)
        ),
        release=FINALIZER,
        way_out=way_out(children.secrets),
    )


def awaited_pods(children: Children) -> list[Object]:
    """Return the Pods that must end before the rest of a proxy is removed."""
    return [pod for pod in children.pods if _is_managed(pod) and children.overdue.get(uid(pod), 0.0) < _LOST]


def is_removed(children: Children) -> bool:
    """Tell whether nothing is left of a proxy but Pods that nothing waits for."""
    others = (children.services, children.statefulsets, children.secrets, children.metrics)
    return not any(others) and not awaited_pods(children)


def holds_nothing(parent: Object, children: Children) -> bool:
    """Tell whether *parent* has neither our finalizer nor any of the *children* of a proxy.

    A parent can have children without the finalizer: another writer may take the finalizer off, such as ``kubectl
    replace``.
    """
    return not has_finalizer(parent, FINALIZER) and is_removed(children)


def removal_message(pods: Sequence[Object]) -> str:
    """Say that the removal of a proxy waits for *pods* to end."""
    names = " and ".join(str(key_of(pod)) for pod in pods)
    return f"it is being removed: waiting for Pod {names} to end" if names else "it is being removed"


def _left_behind(pod: Object) -> str:
    return (
        f"Pod {key_of(pod)} should have ended more than a minute ago, so its node is probably dead: the operator "
        "removed the rest of the proxy without waiting for it. The Pod goes when its node comes back, or when you "
        "delete the Node"
    )


def way_out(secrets: Iterable[Object]) -> str:
    """Return what the user can do while the devices of these Secrets can't be deleted."""
    names = " and ".join(str(key_of(secret)) for secret in secrets if device_of(secret, None).id)
    if not names:
        return ""
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
    states = (children.secrets_of(each).state for each in proxy.replicas)
    devices = [device_of(state, None) for state in states if state]
    return [device for device in devices if device.id]


def _headless_service(proxy: Proxy) -> Object:
    cluster_ip = proxy.pod.annotations.get(ANNOTATION_LAST_CLUSTER_IP, "")
    return headless_service(proxy.key, proxy.owner, proxy.parent_uid, proxy.magic_dns_name, cluster_ip)


def _secret_steps(proxy: Proxy, children: Children, keys: Keys) -> Iterable[Step]:
    """Yield the steps that make the Secret of each replica, or bring its config up to date."""
    for replica in proxy.replicas:
        if replica.ordinal in keys.awaited:
            continue
        secrets = children.secrets_of(replica)
        config = config_for_now(proxy.config_of(replica), secrets)
        auth_key = keys.by_ordinal.get(replica.ordinal, "")
        if secrets.config is None:
            yield Creation(proxy_secret(replica.config_secret, proxy.owner, config, auth_key))
        elif patch := config_patch(secrets, config, auth_key):
            yield patch


def _statefulset_steps(
    proxy: Proxy, children: Children, settings: Settings, live: Object | None, service: Object | None
) -> list[Step]:
    """Return what makes the StatefulSet as the proxy's class wants it.

    Return nothing until the address family is known at which its Pods should listen.
    """
    spec = proxy_pod_spec(proxy.pod, proxy.replicas, settings, live)
    statefulset = proxy_statefulset(
        proxy.key, proxy.owner, proxy.parent_uid, spec, proxy.replica_count, proxy.pod.annotations
    )
    if proxy.proxy_class is None:
        return [Child(statefulset)]
    ipv6 = pods_have_ipv6(children.pods, live, service)
    if ipv6 is None and has_endpoints(proxy.proxy_class, proxy.pod):
        return []  # the headless Service, which this plan makes, will tell
    return [Child(overlaid(statefulset, proxy.proxy_class, proxy.pod, ipv6=bool(ipv6)))]


def all_secrets_come(proxy: Proxy, children: Children, keys: Keys) -> bool:
    """Tell whether the Pods of all replicas find their Secrets: none that is missing waits for an auth key."""
    awaited = (each for each in proxy.replicas if each.ordinal in keys.awaited)
    return all(children.secrets_of(each).config is not None for each in awaited)


def _asking(proxy: Proxy, children: Children) -> dict[int, Reissue]:
    return {each.ordinal: reissue_of(children.secrets_of(each)) for each in proxy.replicas}


def leftovers(proxy: Proxy, children: Children, statefulset: Object | None) -> Leftovers:
    """Return the Secrets of the replicas that *proxy*, run by *statefulset*, should not have any more."""
    numbered = [(proxy.ordinal_of(secret), secret) for secret in children.secrets]
    surplus = [
        (ordinal, secret) for ordinal, secret in numbered if ordinal is not None and ordinal >= proxy.replica_count
    ]
    gone = [secret for ordinal, secret in surplus if _is_released(ordinal, statefulset, proxy, children)]
    return Leftovers(gone, None if len(gone) == len(surplus) else _STILL_THERE)


def _is_released(ordinal: int, statefulset: Object | None, proxy: Proxy, children: Children) -> bool:
    """Tell whether no Pod mounts the Secrets of a surplus replica any more.

    Its own Pod is gone, and the others, which mounted them, too, are new.
    """
    own = Key(proxy.key.namespace, f"{proxy.key.name}-{ordinal}")
    if statefulset is None or any(key_of(pod) == own for pod in children.pods):
        return False
    status = statefulset.get("status") or {}
    seen = status.get("observedGeneration") == statefulset["metadata"].get("generation")
    counts = {statefulset["spec"].get("replicas"), status.get("replicas") or 0, status.get("updatedReplicas") or 0}
    return seen and counts == {proxy.replica_count}


def device_deletions(owner: Owner, secrets: Sequence[Object], tailnet: str | None) -> list[Step]:
    """Return the deletions of the devices that these *secrets* of the proxy of *owner* report."""
    url = login_url(secrets)
    reported = (device_of(secret, None) for secret in secrets)
    return [DeleteDevice(tailnet, owner, device.id, device.fqdn, url) for device in reported if device.id]


def login_url(secrets: Iterable[Object]) -> str:
    """Return where the proxy with these *secrets* logs in; empty if they don't say."""
    return next(filter(None, map(login_url_of, secrets)), "")


def unwanted(there: Sequence[Object], wanted: Sequence[Object] = ()) -> list[Deletion]:
    """Return the deletions of the objects that are *there* and aren't *wanted*."""
    kept = {(obj["kind"], key_of(obj)) for obj in wanted}
    return [Deletion(resource_of(obj), obj) for obj in there if (obj["kind"], key_of(obj)) not in kept]


def _is_managed(pod: Object) -> bool:
    return any(owner["kind"] == STATEFULSET.kind for owner in pod["metadata"].get("ownerReferences") or ())


def _in_foreground(statefulset: Object) -> list[Deletion]:
    return [] if is_deleting(statefulset) else [Deletion(STATEFULSET, statefulset, "Foreground")]
