"""The plan for the children of any proxy, standalone or in a ProxyGroup, and the plan that removes these children."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from tsoperator.api.names import (
    ANNOTATION_LAST_CLUSTER_IP,
    DNS_FINALIZER,
    FINALIZER,
    LABEL_SECRET_TYPE,
    SECRET_TYPE_CONFIG,
    SECRET_TYPE_STATE,
)
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
from tsoperator.proxy.devices import (
    NO_DEVICES,
    DevicePlan,
    TailnetView,
    destination_findings,
    misses_destination,
    plan_devices,
    untried_message,
)
from tsoperator.proxy.login import NO_KEYS, Keys, Login, login_notes, login_problem
from tsoperator.proxy.metrics import metrics_objects
from tsoperator.proxy.overlay import with_class
from tsoperator.proxy.pod import is_of_statefulset
from tsoperator.proxy.proxy import NO_CHILDREN, Children, Proxy
from tsoperator.proxy.readiness import is_rolled_out
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
    reissue_of,
    reported_id_of,
    shown_device,
)
from tsoperator.proxy.service import headless_service
from tsoperator.proxy.statefulset import mounted_secrets, selects, standalone_statefulset
from tsoperator.proxy.stored import encoded
from tsoperator.proxy.tailscaled import ProxyConfig, config_files
from tsoperator.runtime.diff import metadata_patch
from tsoperator.runtime.ownership import Owner, first
from tsoperator.runtime.plan import (
    Child,
    Creation,
    DeleteDevice,
    Deletion,
    Note,
    Outline,
    Patch,
    Plan,
    Refusal,
    Step,
    earliest,
)
from tsoperator.settings import Settings

POD_NOT_WAITED_FOR = "PodNotWaitedFor"
"""The reason of the Event which says that a removal no longer waits for a Pod that hangs."""

LOAD_BALANCER = "LoadBalancer"
"""The type of a Service that has an address outside of the cluster."""

_ORDINAL = re.compile(r"-\d+$")  # the ordinal of a replica, at the end of the names of its Pod and Secret
_STILL_THERE = 5.0  # s until the operator looks whether a deletion has ended, if no watch event tells it before
_LOST = 60.0  # s after the end of a Pod's grace period; after that, no plan waits for that Pod


@dataclass(frozen=True, slots=True)
class Workload:
    """The children of a proxy that depend on the kind of its parent.

    The steps *first* make the children that don't depend on a Secret, such as Services and the ServiceAccount.
    *statefulset* is None until its contents are known. When the Pods and devices of surplus replicas are gone, the
    steps *surplus* remove other objects of these replicas, except their Secrets.
    """

    first: Sequence[Step]
    statefulset: Object | None
    surplus: Sequence[Step] = ()


def proxy_key(owner: Owner, parent_uid: str, children: Children, settings: Settings) -> Key:
    """Return the key of the headless Service and the StatefulSet of a proxy.

    If one of them exists, return its key. Otherwise return a key from the name of the proxy's Secret or, if there is
    none, of the parent.
    """
    if there := first(children.services) or first(children.statefulsets):
        return key_of(there)
    if secret := first(children.secrets):
        key = key_of(secret)
        return Key(key.namespace, _ORDINAL.sub("", key.name))
    return Key(settings.namespace, child_name(owner.key.name, parent_uid))


def proxy_login(proxy: Proxy, children: Children, *, is_held: bool = True) -> Login:
    """Return the facts about the logins of *proxy*'s replicas. *is_held* says whether its parent has our finalizer."""
    replicas = proxy.replicas
    secrets = {each.ordinal: children.secrets_of(each) for each in replicas}
    in_need = frozenset(
        each.ordinal
        for each in replicas
        if each.ordinal not in proxy.left_alone
        and _may_need_key(found := secrets[each.ordinal], config_for_now(proxy.config_of(each), found))
    )
    devices = {ordinal: device for ordinal, found in secrets.items() if (device := device_id_of(found))}
    is_new = not is_held and children == NO_CHILDREN
    return Login(proxy.owner, proxy.parent_uid, replicas, in_need, devices, is_new)


def _may_need_key(secrets: ReplicaSecrets, config: ProxyConfig) -> bool:
    asks = reissue_of(secrets) is Reissue.ASKED
    return asks or needs_auth_key(secrets) or must_keep_auth_key(secrets, config)


def proxy_problem(proxy: Proxy, children: Children, keys: Keys) -> str:
    """Say why replicas of *proxy* can't log in any more, and what happens next; empty if all replicas can log in.

    *keys* are the auth keys from which the plan of the proxy was made.
    """
    return login_problem(_asking(proxy, children), keys.by_ordinal)


def awaits_keys(keys: Keys, children: Children) -> bool:
    """Tell whether a proxy has no StatefulSet yet and waits for auth keys, so that there is nothing to report."""
    return keys.pending is not None and not children.statefulsets


def proxy_devices(proxy: Proxy, children: Children, view: TailnetView, settings: Settings) -> DevicePlan:
    """Return the plan for the devices of *proxy* in the tailnet of *view*."""
    states = {each.ordinal: children.secrets_of(each).state for each in proxy.replicas}
    reported = {ordinal: reported_id_of(state) for ordinal, state in states.items() if state is not None}
    made = plan_devices(proxy, reported, view, take_over_names=settings.take_over_names)
    first_device = proxy_device(children)
    missed = first_device is not None and misses_destination(children.pods, first_device.id, first_device.fqdn, view)
    told = destination_findings(view.destination, proxy.tags, is_missed=missed)
    return replace(made, findings=[*made.findings, *told])


def plan_proxy(
    proxy: Proxy, children: Children, settings: Settings, keys: Keys = NO_KEYS, devices: DevicePlan = NO_DEVICES
) -> Plan:
    """Return the plan that brings the *children* of a standalone *proxy*, and its devices, up to date.

    *keys* are the auth keys that `proxy_login` asks for, and *devices* is the result of `proxy_devices`.
    """
    service, live = children.service(proxy.key), children.statefulset(proxy.key)
    if live is not None and not selects(live, proxy.parent_uid):
        return plan_renewal(live)  # the parent was recreated
    leaving = [Deletion(SERVICE, service, release=DNS_FINALIZER)] if service and is_deleting(service) else []
    made = with_class(standalone_statefulset(proxy, settings, live), proxy, children.pods, live, service)
    cluster_ip = proxy.pod.annotations.get(ANNOTATION_LAST_CLUSTER_IP, "")
    headless = headless_service(proxy.key, proxy.owner, proxy.parent_uid, proxy.magic_dns_name, cluster_ip)
    return plan_workload(proxy, Workload([Child(headless), *leaving], made), children, keys, devices)


def plan_renewal(statefulset: Object) -> Plan:
    """Return the plan that deletes a *statefulset*, so that it is created again with another selector.

    Kubernetes doesn't let anybody change the selector of a StatefulSet.
    """
    steps = [] if is_deleting(statefulset) else [Deletion(STATEFULSET, statefulset, "Foreground")]
    return Plan(hold=FINALIZER, steps=steps, requeue_after=_STILL_THERE)


def plan_workload(proxy: Proxy, workload: Workload, children: Children, keys: Keys, devices: DevicePlan) -> Plan:
    """Return the plan that brings the *children* of any *proxy*, and its devices, up to date.

    The steps are in the order of their dependencies: a Pod needs its Secret, and a Secret needs an auth key. Steps that
    need the control server come after the steps that don't depend on them, because the control server can fail.
    *devices* is the plan for the devices.
    """
    gone, look_again = _leftovers(proxy, children)
    measured = metrics_objects(proxy, children.metrics)
    running = workload.statefulset if _all_secrets_come(proxy, children, keys) else None
    mounted = mounted_secrets(workload.statefulset or children.statefulset(proxy.key))
    return Plan(
        hold=FINALIZER,
        steps=[
            *workload.first,
            *map(Child, measured),
            *unwanted(children.metrics, measured),
            *devices.before,
            *secret_steps(proxy, children, keys),
            *([Child(running)] if running else ()),
            *devices.after,
            *_device_deletions(proxy.owner, gone, proxy.tailnet),
            *(workload.surplus if look_again is None else ()),
            *(Deletion(SECRET, each, unchanged=True) for each in gone if key_of(each).name not in mounted),
        ],
        notes=[*login_notes(_asking(proxy, children), keys.by_ordinal), *proxy.notes],
        requeue_after=earliest(look_again, keys.requeue_after),
        error=keys.pending,
        way_out=_way_out(gone),
        outline=_outline(proxy, children),
    )


def _outline(proxy: Proxy, children: Children) -> Outline:
    """Return the facts about *proxy* that the log shows."""
    devices = map(shown_device, children.secrets)
    several = f"..{proxy.replica_count - 1}" if proxy.replica_count > 1 else ""
    hostname = f"{proxy.hostname_prefix}-0{several}" if proxy.hostname_prefix else proxy.config.hostname
    return Outline(
        hostname if proxy.replica_count else "",
        ", ".join(proxy.config.routes or ()),
        tuple(sorted(device for device in devices if device)),
    )


def plan_removal(owner: Owner, children: Children, tailnet: str | None = "") -> Plan:
    """Return the plan with the next steps of the removal of *owner*'s proxy. The owner names the Tailnet *tailnet*.

    The operator deletes the proxy's Pods first; after them, the children that need no request to the control server;
    after them, the devices; and last the Secrets and our finalizer on the parent. *tailnet* is None if the parent is
    gone, because then nothing names a Tailnet. A load balancer stays until the devices are deleted: as long as they
    advertise its address, nobody else should get that address.

    The operator itself waits for the Pods, and doesn't delete the StatefulSet in the foreground, which would cost the
    garbage collector of Kubernetes several more of its twenty requests a second. The operator doesn't wait for a Pod
    that has lost its StatefulSet (kubectl delete --cascade=orphan). It waits for at most a minute after the end of a
    Pod's grace period: if the Pod still exists then, its node is probably dead.
    """
    if children.statefulsets or awaited_pods(children):
        going = [Deletion(STATEFULSET, obj) for obj in children.statefulsets if not is_deleting(obj)]
        return Plan(steps=going, requeue_after=_STILL_THERE)
    balancers = [each for each in children.services if each["spec"].get("type") == LOAD_BALANCER]
    others = [each for each in children.services if each not in balancers]
    return Plan(
        steps=[
            *(Deletion(SERVICE, obj, release=DNS_FINALIZER) for obj in others),
            *unwanted(children.metrics),
            *_device_deletions(owner, children.secrets, tailnet),
            *unwanted(balancers),
            *(Deletion(SECRET, obj, unchanged=True) for obj in children.secrets),
        ],
        notes=tuple(
            Note("Warning", POD_NOT_WAITED_FOR, _left_behind(pod)) for pod in children.pods if is_of_statefulset(pod)
        ),
        release=FINALIZER,
        way_out=_way_out(children.secrets),
    )


def plan_reported_removal(
    owner: Owner, children: Children, view: TailnetView, report: Callable[[Refusal], Plan], reasons: tuple[str, str]
) -> Plan:
    """Return the plan with the next step of the removal of a proxy. If it has to wait, the parent reports why.

    *report* returns the plan that reports a refusal on the parent. *reasons* are the reasons of two refusals: that the
    devices can't be deleted yet, and that Pods have yet to end.
    """
    step = plan_removal(owner, children, view.name)
    if untried := untried_message(step, view):
        told = report(Refusal(untried, reasons[0]))
        return replace(step, status=told.status, notes=[*step.notes, *told.notes])
    if step.release:
        return step
    return replace(step, status=report(Refusal(removal_message(awaited_pods(children)), reasons[1])).status)


def awaited_pods(children: Children) -> list[Object]:
    """Return the Pods that must end before the rest of a proxy is removed."""
    return [pod for pod in children.pods if is_of_statefulset(pod) and children.overdue.get(uid(pod), 0.0) < _LOST]


def is_removed(children: Children) -> bool:
    """Tell whether a proxy has no children left, except for Pods that its removal doesn't wait for."""
    others = (children.services, children.statefulsets, children.secrets, children.metrics)
    return not any(others) and not awaited_pods(children)


def holds_nothing(parent: Object, children: Children) -> bool:
    """Tell whether *parent* has neither our finalizer nor *children* of a proxy.

    A parent can have children but no finalizer, because somebody can take the finalizer off, for example by ``kubectl
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


def _way_out(secrets: Iterable[Object]) -> str:
    """Return what the user can do while the devices that *secrets* report can't be deleted."""
    names = " and ".join(str(key_of(secret)) for secret in secrets if reported_id_of(secret))
    if not names:
        return ""
    return (
        f"if the control server is gone for good, delete Secret {names} by hand: the device is then left as it is, and "
        "everything else goes"
    )


def proxy_device(children: Children) -> ReportedDevice | None:
    """Return the device that a proxy with one replica has reported; None if the proxy has no Secret yet."""
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


def secret_steps(proxy: Proxy, children: Children, keys: Keys) -> Iterable[Step]:
    """Yield the steps that make the Secrets of each replica, or bring them up to date.

    *keys* are the auth keys. The Secrets of a replica that awaits its auth key are neither made nor changed. Those of a
    replica in `proxy.left_alone` stay as they are, too.
    """
    for replica in proxy.replicas:
        if replica.ordinal in keys.awaited | proxy.left_alone:
            continue
        found = children.secrets_of(replica)
        config = config_for_now(proxy.config_of(replica), found)
        auth_key = keys.by_ordinal.get(replica.ordinal, "")
        whole = _secret(proxy, replica, replica.config_secret, SECRET_TYPE_CONFIG)
        patch = config_patch(found, config, auth_key)
        if found.config is None:
            yield Creation({**whole, "data": encoded(config_files(config, auth_key))})
        elif proxy.config_suffix:
            yield from _corrected(found.config, whole, patch)
        elif patch:
            yield patch  # the labels need no check: we found the replica's only Secret by them
        if replica.state_secret != replica.config_secret:
            state = _secret(proxy, replica, replica.state_secret, SECRET_TYPE_STATE)
            yield from [Creation(state)] if found.state is None else _corrected(found.state, state)


def _secret(proxy: Proxy, replica: Replica, key: Key, type_: str) -> Object:
    """Return a Secret of *replica* without its data.

    If the replica has two Secrets, the label with the value *type_* says whether this is the config Secret or the state
    Secret.
    """
    labels = {LABEL_SECRET_TYPE: type_} if proxy.config_suffix else {}
    labels |= {proxy.replica_label: str(replica.ordinal)} if proxy.replica_label else {}
    return proxy.child(SECRET, key.name, {"type": "Opaque"}, **labels)


def _corrected(live: Object, wanted: Object, patch: Patch | None = None) -> Iterable[Patch]:
    """Yield one patch for *live*: *patch* and the metadata in *wanted* that *live* lacks.

    Yield nothing if there is nothing to patch, or if *live* is being deleted.
    """
    if is_deleting(live):
        return
    metadata = metadata_patch(live, wanted)
    body = ({"metadata": metadata} if metadata else {}) | (patch.body if patch else {})
    if body:
        yield Patch(SECRET, key_of(live), body)


def _all_secrets_come(proxy: Proxy, children: Children, keys: Keys) -> bool:
    """Tell whether the config Secrets of all replicas will exist after the plan has been carried out.

    They won't if a missing Secret has to wait for an auth key.
    """
    awaited = (each for each in proxy.replicas if each.ordinal in keys.awaited)
    return all(children.secrets_of(each).config is not None for each in awaited)


def _asking(proxy: Proxy, children: Children) -> dict[int, Reissue]:
    return {each.ordinal: reissue_of(children.secrets_of(each)) for each in proxy.replicas}


def _leftovers(proxy: Proxy, children: Children) -> tuple[list[Object], float | None]:
    """Return the Secrets of surplus replicas that can be deleted, because no Pod mounts them any more.

    If Pods still mount the Secrets of other surplus replicas, also return the seconds until the next reconcile, and
    otherwise None.
    """
    numbered = [(proxy.ordinal_of(secret), secret) for secret in children.secrets]
    surplus = [
        (ordinal, secret) for ordinal, secret in numbered if ordinal is not None and ordinal >= proxy.replica_count
    ]
    gone = [secret for ordinal, secret in surplus if _is_released(ordinal, proxy, children)]
    return gone, None if len(gone) == len(surplus) else _STILL_THERE


def _is_released(ordinal: int, proxy: Proxy, children: Children) -> bool:
    """Tell whether no Pod mounts the Secrets of a surplus replica any more.

    That is so if the Pod of the surplus replica is gone, and if the other Pods, which also mounted its Secrets, have
    been replaced.
    """
    own = Key(proxy.key.namespace, f"{proxy.key.name}-{ordinal}")
    statefulset = children.statefulset(proxy.key)
    if statefulset is None or any(key_of(pod) == own for pod in children.pods):
        return False
    return is_rolled_out(statefulset, proxy.replica_count)


def _device_deletions(owner: Owner, secrets: Sequence[Object], tailnet: str | None) -> list[Step]:
    """Return the steps that delete the devices that these *secrets* report. *owner* is the parent of their proxy."""
    url = login_url(secrets)
    reported = (device_of(secret, None) for secret in secrets)
    return [DeleteDevice(tailnet, owner, device.id, device.fqdn, url) for device in reported if device.id]


def login_url(secrets: Iterable[Object]) -> str:
    """Return the URL at which the proxy with these *secrets* logs in; empty if they don't name one."""
    return next(filter(None, map(login_url_of, secrets)), "")


def unwanted(there: Sequence[Object], wanted: Sequence[Object] = ()) -> list[Deletion]:
    """Return the deletions of those objects in *there* that aren't in *wanted*."""
    kept = {(obj["kind"], key_of(obj)) for obj in wanted}
    return [Deletion(resource_of(obj), obj) for obj in there if (obj["kind"], key_of(obj)) not in kept]
