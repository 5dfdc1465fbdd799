"""Makes the plan for the API server proxy: the operator's own device serves it, in a Deployment."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tsoperator.api.objects import SECRET, STATEFULSET, Object, is_deleting
from tsoperator.proxy.certificate import ObservedCertificate
from tsoperator.proxy.devices import OWN_TAILNET, DevicePlan, TailnetView, plan_devices
from tsoperator.proxy.login import NO_KEYS, Keys, Login, login_notes
from tsoperator.proxy.proxy import Proxy
from tsoperator.proxy.replica import ReplicaSecrets
from tsoperator.proxy.secret import (
    Reissue,
    device_id_of,
    must_keep_auth_key,
    needs_auth_key,
    reissue_of,
    serve_state_of,
)
from tsoperator.proxy.tailscaled import ProxyConfig
from tsoperator.reconcilers.operatordevice.ask import Ask
from tsoperator.reconcilers.operatordevice.children import in_the_way, secret_steps, stranger_among
from tsoperator.reconcilers.operatordevice.deployment import device_pod, placement, proxy_deployment, serve_config
from tsoperator.reconcilers.operatordevice.notices import FAILED, Told, notices
from tsoperator.reconcilers.operatordevice.plan import LOOK_AGAIN, SLOW, Decided
from tsoperator.runtime.ownership import is_anothers
from tsoperator.runtime.plan import Child, Creation, Deletion, Note, Patch, Plan, Refusal, Report, Step, earliest
from tsoperator.settings import Settings

MANIFEST: Final = "charts/manifests/apiserver-proxy.yaml"
"""The file with the ServiceAccount of the API server proxy and its rights, for installations without Helm."""

_ENDING: Final = 5.0  # s until another look whether other Pods have ended, if no watch event tells


@dataclass(frozen=True, slots=True)
class ObservedProxy:
    """The facts on which the plan for the API server proxy depends, besides the settings.

    *deployment* is the Deployment of the proxy; it has this *age* in seconds, and belongs to the ServiceAccount
    *account*. *pods* are its Pods. *own* is the operator's own Deployment. *like* is the placement of the operator's
    own Pod, None if it isn't known. *secrets* are the slim Secrets of the device. The *statefulset* and *its_pods*
    register the device. *go* has the names of the Pods of a Go operator that still runs; empty if none runs, or if
    *deployment* exists.
    """

    deployment: Object | None = None
    age: float = 0.0
    account: Object | None = None
    own: Object | None = None
    like: Object | None = None
    secrets: ReplicaSecrets = field(default_factory=ReplicaSecrets)
    pods: Sequence[Object] = ()
    statefulset: Object | None = None
    its_pods: Sequence[Object] = ()
    go: str = ""
    tailnet: TailnetView = OWN_TAILNET
    certificate: ObservedCertificate | None = None

    @property
    def device(self) -> str:
        """The ID of the device; empty if there is none yet."""
        return device_id_of(self.secrets)


def can_serve(ask: Ask, observed: ObservedProxy, settings: Settings) -> bool:
    """Tell whether the operator can make the API server proxy now, or bring an existing one up to date."""
    return not (_registering(ask, observed) or _obstacle(ask, observed, settings))


def login(ask: Ask, observed: ObservedProxy, settings: Settings) -> Login:
    """Return the facts that decide whether the device needs an auth key to log in."""
    secrets = observed.secrets
    asks = reissue_of(secrets) is Reissue.ASKED
    in_need = asks or needs_auth_key(secrets) or must_keep_auth_key(secrets, _config(ask, settings))
    devices = {0: observed.device} if observed.device else {}
    return Login(ask.owner, "", [ask.replica], frozenset([0] if in_need else []), devices)


def plan(ask: Ask, observed: ObservedProxy, settings: Settings, keys: Keys | Refusal = NO_KEYS) -> Decided:
    """Return the plan for the API server proxy. *keys* has the auth key with which its device logs in."""
    made, problem, _ = _planned(ask, observed, settings, keys)
    told = [*made.notes, *([Note("Warning", FAILED, problem)] if problem else ())]
    if observed.own is None:  # the operator doesn't run in a Deployment
        return Decided(replace(made, notes=()), problem, [each.message for each in told])
    notes = [replace(each, once=True) for each in told]
    return Decided(replace(made, notes=(), reports=[Report(observed.own, notes=notes)]), problem)


def failed(observed: ObservedProxy, refusal: Refusal) -> Decided:
    """Return the plan that reports *refusal*: a server has refused a step of the proxy's plan."""
    match refusal.step:
        case Child(obj) | Creation(obj) if refusal.is_taken:
            problem = in_the_way(obj)
        case _:
            problem = refusal.message
    if observed.own is None:
        return Decided(Plan(), problem, [problem])
    note = Note("Warning", refusal.reason or FAILED, problem, once=True)
    return Decided(Plan(reports=[Report(observed.own, notes=[note])]), problem)


def _planned(ask: Ask, observed: ObservedProxy, settings: Settings, keys: Keys | Refusal) -> Decided:
    """Return the plan for the proxy, and the problem that keeps the operator from getting a device.

    The caller adds the Event about that problem to the notes of the plan.
    """
    devices = _devices(ask, observed, settings)
    told = notices(observed.secrets.state, observed.pods, devices.findings, observed.certificate, settings)
    if problem := _obstacle(ask, observed, settings):
        return Decided(_waiting(told, _ENDING if observed.go else None), problem)
    if registering := _registering(ask, observed):
        going = [each for each in registering if each["kind"] == STATEFULSET.kind and not is_deleting(each)]
        return Decided(replace(_waiting(told, _ENDING), steps=[Deletion(STATEFULSET, each) for each in going]))
    if isinstance(keys, Refusal):
        return Decided(replace(_waiting(told, keys.requeue_after), error=keys.error), keys.message)
    asking = {0: reissue_of(observed.secrets)}
    has_config = observed.secrets.config is not None
    problem = _slowness(ask, observed)
    made = Plan(
        steps=[*_steps(ask, observed, settings, keys, devices)] if has_config or not keys.pending else [],
        notes=[*login_notes(asking, keys.by_ordinal), *told.notes],
        requeue_after=earliest(
            told.requeue_after, keys.requeue_after, LOOK_AGAIN if not observed.device and not problem else None
        ),
        error=keys.pending,
    )
    return Decided(made, problem)


def _registering(ask: Ask, observed: ObservedProxy) -> Sequence[Object]:
    """Return the StatefulSet that registers the device, and its Pods.

    While they exist, the proxy has to wait, because only one Pod at a time is allowed to run the device.
    """
    found = observed.statefulset
    return [*([found] if found and not is_anothers(found, ask.owner) else ()), *observed.its_pods]


def _waiting(told: Told, requeue_after: float | None) -> Plan:
    """Return the plan that leaves the proxy as it is. Its notes are the Events in *told*."""
    return Plan(notes=told.notes, requeue_after=earliest(told.requeue_after, requeue_after))


def _steps(ask: Ask, observed: ObservedProxy, settings: Settings, keys: Keys, devices: DevicePlan) -> Iterator[Step]:
    """Yield the steps that make the proxy or bring it up to date.

    If the auth key is still awaited, the Secrets stay as they are.
    """
    assert observed.account is not None  # noqa: S101 (without it, there is an obstacle)
    proxy = _proxy(ask, settings, ask.tags)
    yield from devices.before
    if not keys.pending:
        key, has_state = keys.by_ordinal.get(0, ""), observed.secrets.state is not None
        yield from secret_steps(ask, proxy, observed.secrets, key, has_state=has_state, account=observed.account)
    yield Child(proxy_deployment(proxy, ask.replica, observed.account, _like(observed), settings))
    # tailscaled reads these keys, its last serve config, only at its start. If they stayed there, a Go operator that
    # gets the device later could not serve the API server.
    if served := serve_state_of(observed.secrets.state):
        yield Patch(SECRET, ask.key, {"data": dict.fromkeys(served)})
    yield from devices.after


def _like(observed: ObservedProxy) -> Object:
    """Return the placement for the proxy's Pod: that of the operator's own Pod.

    If that placement isn't known, return the present one of the proxy.
    """
    live = observed.deployment
    return observed.like or (placement(live["spec"]["template"]) if live else {})


def _obstacle(ask: Ask, observed: ObservedProxy, settings: Settings) -> str:
    """Return why the operator can't make or update the proxy, and what the user can do; empty if it can."""
    if not settings.operator_image:
        return (
            "OPERATOR_IMAGE is not set, and the API server proxy runs from that image: set it to the image of the "
            "operator (a newer chart does)"
        )
    if stranger := stranger_among(ask, observed.deployment, observed.secrets.config):
        return in_the_way(stranger)
    if observed.account is None or is_deleting(observed.account):
        return (
            f"the API server proxy needs ServiceAccount {ask.deployment}, and there is none: install the chart with "
            f"apiServerProxyConfig.mode, or apply the manifest {MANIFEST}"
        )
    if observed.go and observed.deployment is None:
        return (
            f"another operator may still run ({observed.go}), whose device is to be taken over: the API server proxy "
            "is made once that operator has ended"
        )
    return ""


def _slowness(ask: Ask, observed: ObservedProxy) -> str:
    """Return a message if the device takes long to join the tailnet; empty if it doesn't."""
    if observed.device or observed.deployment is None or observed.age < SLOW:
        return ""
    since = observed.deployment["metadata"]["creationTimestamp"]
    return (
        f"the operator's own device hasn't joined the tailnet since Deployment {ask.deployment} was made at {since}: "
        "look at the Events of the Deployment and of its Pod, and at the log of the Pod's container tailscale"
    )


def _devices(ask: Ask, observed: ObservedProxy, settings: Settings) -> DevicePlan:
    """Return the plan for the device.

    The device keeps its tags: OPERATOR_INITIAL_TAGS are those of a new device, which the user can change later.
    """
    device = observed.tailnet.devices.get(observed.device)
    proxy = _proxy(ask, settings, device.tags if device else ask.tags)
    is_new = observed.secrets.config is None and not observed.device
    reported = {} if is_new else {0: observed.device}
    return plan_devices(proxy, reported, observed.tailnet, take_over_names=settings.take_over_names)


def _config(ask: Ask, settings: Settings) -> ProxyConfig:
    served = serve_config(http=settings.apiserver_proxy_http)
    return ProxyConfig(ask.hostname, settings.control_url, serve_config=served)


def _proxy(ask: Ask, settings: Settings, tags: Iterable[str]) -> Proxy:
    pod = device_pod(ask.key.name, settings)
    return Proxy(ask.owner, "", ask.deployment, pod, _config(ask, settings), (*tags,))
