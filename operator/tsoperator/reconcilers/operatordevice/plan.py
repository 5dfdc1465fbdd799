"""Makes the plan for the operator's own device while there is no API server proxy.

The operator makes a StatefulSet that registers the device, and deletes it once the device has an ID.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tsoperator.api.names import PROXIES_SERVICE_ACCOUNT
from tsoperator.api.objects import Object, is_deleting, resource_of
from tsoperator.proxy.login import NO_KEYS, Keys, Login
from tsoperator.proxy.proxy import Proxy
from tsoperator.proxy.proxypod import registered_device
from tsoperator.proxy.replica import ReplicaSecrets
from tsoperator.proxy.secret import Reissue, must_keep_auth_key, needs_auth_key, reissue_of
from tsoperator.proxy.statefulset import configs, proxy_pod_spec, statefulset
from tsoperator.proxy.tailscaled import ProxyConfig
from tsoperator.reconcilers.operatordevice.ask import Ask
from tsoperator.reconcilers.operatordevice.children import in_the_way, secret_steps, stranger_among
from tsoperator.runtime.ownership import is_anothers
from tsoperator.runtime.plan import Child, Deletion, Plan, Refusal, Step
from tsoperator.settings import Settings
from tsoperator.tailnet.operatorid import OperatorIdentity

LOOK_AGAIN: Final = 30.0
"""The seconds until the operator looks again at a registration that hasn't ended, or that has to wait."""

SLOW: Final = 60.0
"""The seconds after which a registration that hasn't ended is a problem."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The facts on which the plan for the device depends, besides the settings.

    *stored* is the identity as the Secret has it. The identity is *needed* if an object asks for a Tailscale
    Service. A reconcile raises *pending* to wait until that is known. *go* has the names of the Pods of a Go operator
    that still runs. The *statefulset* has this *age* in seconds. *config* is the slim config Secret, and *state* the
    slim Secret with the state of the device; *has_state* tells whether this Secret exists. *deployment* is that of an
    API server proxy, and *pods* are its Pods.
    """

    stored: OperatorIdentity
    needed: bool = False
    pending: Exception | None = None
    go: str = ""
    statefulset: Object | None = None
    age: float = 0.0
    config: Object | None = None
    state: Object | None = None
    has_state: bool = False
    deployment: Object | None = None
    pods: Sequence[Object] = ()


class Decided(NamedTuple):
    """A plan, and the problem that keeps the operator from getting a device; empty if there is none.

    *unsaid* are the messages of Events that can't be written, because their object doesn't exist.
    """

    plan: Plan
    problem: str = ""
    unsaid: Sequence[str] = ()


def registers(ask: Ask, observed: Observed) -> bool:
    """Tell whether the operator has to register a device now."""
    if _serves(ask, observed) or not _lacks_id(observed):
        return False
    return not (observed.pending or observed.go or ask.wrong or _stranger(ask, observed))


def login(ask: Ask, observed: Observed, settings: Settings) -> Login:
    """Return the facts that decide whether the device needs an auth key to log in."""
    config = ReplicaSecrets(observed.config)
    asks = reissue_of(ReplicaSecrets(observed.config, observed.state)) is Reissue.ASKED
    in_need = asks or needs_auth_key(config) or must_keep_auth_key(config, _config(ask, settings))
    return Login(ask.owner, "", [ask.replica], frozenset([0] if in_need else []), {})


def plan(ask: Ask, observed: Observed, settings: Settings, keys: Keys | Refusal = NO_KEYS) -> Decided:
    """Return the plan for the device. *keys* has the auth key with which it logs in."""
    if _serves(ask, observed):
        return Decided(_plan_end_of_proxy(ask, observed))
    if observed.pending or not _is_understood(observed):
        return Decided(Plan(error=observed.pending))
    if not registers(ask, observed):
        return _not_registering(ask, observed)
    if isinstance(keys, Refusal):
        return Decided(Plan(error=keys.error, requeue_after=keys.requeue_after), keys.message)
    if keys.pending:
        return Decided(Plan(error=keys.pending))
    proxy, secrets = _proxy(ask, settings), ReplicaSecrets(observed.config)
    steps: list[Step] = [
        *secret_steps(ask, proxy, secrets, keys.by_ordinal.get(0, ""), has_state=observed.has_state),
        Child(_statefulset(proxy, ask, settings, observed.statefulset)),
    ]
    return Decided(Plan(steps=steps, requeue_after=LOOK_AGAIN), _slowness(ask, observed))


def _serves(ask: Ask, observed: Observed) -> bool:
    """Tell whether an API server proxy of an earlier process still exists. While it exists, it runs the device."""
    return bool(observed.pods) or (observed.deployment is not None and not is_anothers(observed.deployment, ask.owner))


def _plan_end_of_proxy(ask: Ask, observed: Observed) -> Plan:
    """Return the plan that removes an API server proxy. Its device and the Secret with the state stay."""
    steps = _deletions(ask, observed.deployment, observed.config)
    return Plan(steps=steps, requeue_after=LOOK_AGAIN)


def _lacks_id(observed: Observed) -> bool:
    return observed.needed and _is_understood(observed) and not observed.stored.node_id


def _is_understood(observed: Observed) -> bool:
    """Tell whether the operator has read its ID, or learnt that it has none.

    The answer is yes if nothing needs the ID.
    """
    return not observed.needed or (observed.stored.is_known and not observed.stored.problem)


def _not_registering(ask: Ask, observed: Observed) -> Decided:
    """Return the plan for the time in which the operator registers no device.

    The plan removes the leftovers of a registration.
    """
    steps = _deletions(ask, observed.statefulset, observed.config)
    if not _lacks_id(observed):
        return Decided(Plan(steps=steps))
    if observed.go:
        problem = (
            f"another operator may still run ({observed.go}), whose device is to be taken over: a new device is "
            "registered once that operator has ended without one"
        )
        return Decided(Plan(steps=steps, requeue_after=LOOK_AGAIN), problem)
    stranger = _stranger(ask, observed)
    return Decided(Plan(steps=steps), ask.wrong or (in_the_way(stranger) if stranger else ""))


def _deletions(ask: Ask, *objects: Object | None) -> list[Deletion]:
    """Return the deletions of those *objects* that are ours."""
    mine = [each for each in objects if each and not is_anothers(each, ask.owner)]
    return [Deletion(resource_of(each), each) for each in mine if not is_deleting(each)]


def _stranger(ask: Ask, observed: Observed) -> Object | None:
    """Return an object of another owner that has the name of the StatefulSet or of its config Secret.

    Return None if there is no such object.
    """
    return stranger_among(ask, observed.statefulset, observed.config)


def _slowness(ask: Ask, observed: Observed) -> str:
    """Return a message if the registration takes long; empty if it doesn't."""
    if observed.statefulset is None or observed.age < SLOW:
        return ""
    since = observed.statefulset["metadata"]["creationTimestamp"]
    return (
        f"the operator's own device isn't in the tailnet yet, which Pod {ask.statefulset}-0 is to register since "
        f"{since}: look at the Events and the log of that Pod"
    )


def _config(ask: Ask, settings: Settings) -> ProxyConfig:
    return ProxyConfig(ask.hostname, settings.control_url)


def _proxy(ask: Ask, settings: Settings) -> Proxy:
    return Proxy(ask.owner, "", ask.statefulset, registered_device(ask.key.name), _config(ask, settings), ask.tags)


def _statefulset(proxy: Proxy, ask: Ask, settings: Settings, live: Object | None) -> Object:
    """Return the StatefulSet that registers the device; *live* is the existing one.

    Its Pod must not have the label `app`, because by this label the operator recognizes Pods of a Go operator.
    """
    spec = proxy_pod_spec(proxy.pod, configs([ask.replica]), PROXIES_SERVICE_ACCOUNT, settings, live)
    if settings.proxy_priority_class:
        spec["priorityClassName"] = settings.proxy_priority_class
    labels = ask.owner.labels
    return statefulset(proxy, labels, {"metadata": {"labels": labels}, "spec": spec}, serviceName=ask.statefulset.name)
