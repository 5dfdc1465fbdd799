"""Makes the plan for a Recorder: decides which children, status and Events it should have."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from tsoperator.api.conditions import condition, status_with
from tsoperator.api.device import Device
from tsoperator.api.names import AUTH_INFIX, CONDITION_RECORDER_READY
from tsoperator.api.objects import RECORDER, Key, Object, generation_of, is_deleting, key_of, uid
from tsoperator.api.v1alpha1.recorder import Recorder
from tsoperator.proxy.account import account
from tsoperator.proxy.annotations import no_annotations, with_ignored
from tsoperator.proxy.devices import OWN_TAILNET, TailnetView
from tsoperator.proxy.findings import DeviceFinding, Effect, with_findings
from tsoperator.proxy.login import NO_KEYS, Keys
from tsoperator.proxy.proxy import Children, Proxy
from tsoperator.proxy.proxypod import recording
from tsoperator.proxy.readiness import is_rolled_out
from tsoperator.proxy.secret import device_id_of
from tsoperator.proxy.tailscaled import ProxyConfig
from tsoperator.proxy.workload import (
    Workload,
    awaits_keys,
    holds_nothing,
    plan_renewal,
    plan_reported_removal,
    plan_workload,
    proxy_devices,
    proxy_problem,
    unwanted,
)
from tsoperator.reconcilers.recorder.ask import DEFAULT_TAGS, Ask, account_of, host_in, missing_of_s3, s3_of
from tsoperator.reconcilers.recorder.statefulset import recorder_statefulset, selector
from tsoperator.runtime.ownership import in_the_way, is_anothers
from tsoperator.runtime.plan import Child, Plan, Refusal
from tsoperator.settings import Settings

CREATED: Final = "RecorderCreated"
CREATING: Final = "RecorderCreating"
FAILED: Final = "RecorderCreationFailed"
INVALID: Final = "RecorderInvalid"
NO_TAILNET: Final = "RecorderTailnetUnavailable"
TERMINATING: Final = "RecorderTerminating"
DEVICE_REASONS: Final = {Effect.PENDING: CREATING, Effect.FAILED: FAILED}
"""The reasons of a Recorder's condition, by the effect of a finding."""

VOCABULARY: Final = no_annotations("Recorder", "metadata.name", "spec.statefulSet")
"""The annotations and labels of Recorders that the operator reads: none."""

FREED: Final = 60.0
"""The seconds after which the operator looks again whether another object still has the name of a child."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The facts on which a Recorder's plan depends, besides the Recorder itself.

    The Secrets among its *children* are in the order of their ordinals. *accounts* are its ServiceAccounts. *named*
    are all objects that have the name of a child, whoever made them. *lacks_credentials* is true if the Secret with
    the credentials for the storage is named, but doesn't exist.
    """

    children: Children
    accounts: Sequence[Object] = ()
    named: Sequence[Object] = ()
    lacks_credentials: bool = False
    tailnet: TailnetView = OWN_TAILNET


def wanted(ask: Ask, observed: Observed, settings: Settings) -> Proxy | Plan:
    """Return the replicas that a Recorder should have, or a plan if there should be none.

    There is a plan if the Recorder is being deleted, or if its replicas can't be made. When they can't be made,
    running replicas stay as they are.
    """
    if is_deleting(ask.obj):
        return plan_deletion(ask, observed)
    if ask.wrong:
        return _refused(ask, Refusal(f"this Recorder is invalid: {ask.wrong}", INVALID))
    if observed.tailnet.pending:
        return Plan(error=observed.tailnet.pending)
    if observed.tailnet.refusal:
        return _refused(ask, Refusal(observed.tailnet.refusal.message, NO_TAILNET))
    if stranger := next((each for each in observed.named if is_anothers(each, ask.owner)), None):
        return _refused(ask, Refusal(in_the_way(stranger), requeue_after=FREED, is_taken=True))
    spec, name = ask.recorder.spec, ask.owner.key.name
    return Proxy(
        owner=ask.owner,
        parent_uid=uid(ask.obj),
        key=Key(settings.namespace, name),
        pod=recording(),
        config=ProxyConfig(name, observed.tailnet.login_url, only_key=True),
        tags=spec.tags or DEFAULT_TAGS,
        tailnet=observed.tailnet.name,
        replica_count=spec.replicas,
        hostname_prefix=name,
        config_infix=AUTH_INFIX,
        controller=RECORDER,
    )


def plan(
    ask: Ask, wanted: Proxy | Plan, observed: Observed, settings: Settings, keys: Keys | Refusal = NO_KEYS
) -> Plan:
    """Return the plan for a Recorder.

    *wanted* is the result of the function `wanted`, and *keys* are the auth keys of the replicas.
    """
    return with_ignored(_planned(ask, wanted, observed, settings, keys), ask.obj, VOCABULARY)


def _planned(ask: Ask, wanted: Proxy | Plan, observed: Observed, settings: Settings, keys: Keys | Refusal) -> Plan:
    if isinstance(wanted, Plan):
        return wanted
    if isinstance(keys, Refusal):
        return failed(ask, observed, keys)
    if awaits_keys(keys, observed.children):
        return Plan(error=keys.pending)
    obj, live = ask.obj, observed.children.statefulset(wanted.key)
    if live is not None and live["spec"]["selector"].get("matchLabels") != selector(ask.recorder, wanted):
        return plan_renewal(live)
    devices = proxy_devices(wanted, observed.children, observed.tailnet, settings)
    made = plan_workload(wanted, _workload(ask.recorder, wanted, observed, settings), observed.children, keys, devices)
    problem = proxy_problem(wanted, observed.children, keys)
    status = _status(obj, False, CREATING, problem) if problem else _status(obj, True, CREATED, CREATED)
    status["devices"] = _devices(obj, wanted, observed)
    findings = [*devices.findings, *_storage_findings(ask, observed)]
    return with_findings(
        replace(made, status=status), findings, condition=CONDITION_RECORDER_READY, reasons=DEVICE_REASONS
    )


def plan_deletion(ask: Ask, observed: Observed) -> Plan:
    """Return the plan with the next steps of the removal of a Recorder's proxy.

    Kubernetes' garbage collector deletes the children that are left when the Recorder is gone.
    """
    if holds_nothing(ask.obj, observed.children):
        return Plan()
    report, reasons = partial(_refused, ask), (NO_TAILNET, TERMINATING)
    return plan_reported_removal(ask.owner, observed.children, observed.tailnet, report, reasons)


def failed(ask: Ask, observed: Observed, refusal: Refusal) -> Plan:
    """Return the plan that tells the user of a Recorder why a step failed. The operator tries again."""
    is_of_tailnet = is_deleting(ask.obj) and observed.tailnet.refusal is not None
    return _refused(ask, replace(refusal, reason=NO_TAILNET) if is_of_tailnet and not refusal.reason else refusal)


def _workload(recorder: Recorder, proxy: Proxy, observed: Observed, settings: Settings) -> Workload:
    """Return the children of a Recorder.

    Its ServiceAccount comes first: if that belongs to somebody else, nothing else is made.
    """
    given = account_of(recorder)
    made = account(proxy, _rules(proxy, observed.children), given.name or "", given.annotations)
    statefulset = recorder_statefulset(recorder, proxy, settings)
    live = observed.children.statefulset(proxy.key)
    return Workload(
        [Child(each) for each in made],
        statefulset,
        unwanted(observed.accounts, made) if live and _runs_under(made[0], live) else (),
    )


def _runs_under(account: Object, statefulset: Object) -> bool:
    """Tell whether all Pods of a live *statefulset* run under *account*. If so, no other ServiceAccount is needed."""
    name = statefulset["spec"]["template"]["spec"].get("serviceAccountName")
    replicas = statefulset["spec"].get("replicas", 1)
    return bool(name == key_of(account).name) and is_rolled_out(statefulset, replicas)


def _rules(proxy: Proxy, children: Children) -> list[Object]:
    """Return the rules of the Role for the Secrets of all replicas, and of those that are about to end.

    Without Secrets there is no rule for them, because a rule without names would allow access to all Secrets.
    """
    ending = {ordinal for each in children.secrets if (ordinal := proxy.ordinal_of(each)) is not None}
    name = proxy.key.name
    ordinals = sorted(ending | {*range(proxy.replica_count)})
    secrets = [f"{name}{infix}-{ordinal}" for ordinal in ordinals for infix in ("", AUTH_INFIX)]
    own = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "patch", "update"], "resourceNames": secrets}
    events = {"apiGroups": [""], "resources": ["events"], "verbs": ["get", "create", "patch"]}
    return [*([own] if secrets else ()), events]


def _devices(obj: Object, proxy: Proxy, observed: Observed) -> list[Object]:
    """Return the entries of a Recorder's status for its devices, by ordinal.

    The control server knows the names and addresses of the devices. Until its list of devices has been read, as
    after a restart of the operator, the entries stay as they are.
    """
    before = {each["hostname"]: each for each in (obj.get("status") or {}).get("devices") or ()}
    found: dict[str, Object] = {}
    for replica in proxy.replicas:
        id_ = device_id_of(observed.children.secrets_of(replica))
        device = observed.tailnet.devices.get(id_)
        if device is not None:
            shown = _entry(device)
            found.setdefault(shown["hostname"], shown)  # the status can have only one entry for a hostname
        elif id_ and not observed.tailnet.is_listed and replica.hostname in before:
            found.setdefault(replica.hostname, before[replica.hostname])
    return [*found.values()]


def _entry(device: Device) -> Object:
    """Return the entry of the status for *device*.

    Some control servers don't tell the hostname that the device asked for. Then the entry has the device's short name
    instead.
    """
    addresses = {"tailnetIPs": [*device.addresses]} if device.addresses else {}
    hostname = device.hostname or device.short_name
    return {"hostname": hostname, **addresses, "url": f"https://{device.name.removesuffix('.')}"}


def _storage_findings(ask: Ask, observed: Observed) -> list[DeviceFinding]:
    """Return the findings about the storage of a Recorder, such as missing credentials."""
    found = []
    if observed.lacks_credentials:
        words = (
            f"Secret {ask.credentials} isn't there, from which the Pods get the credentials for their storage: "
            "create it in the operator's namespace, or change spec.storage.s3.credentials"
        )
        found.append(DeviceFinding(Effect.PENDING, "NoCredentials", words))
    if missing := missing_of_s3(ask.recorder):
        words = (
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set: set "
            f"{'it' if len(missing) == 1 else 'them'}, unless the Pods get {'it' if len(missing) == 1 else 'them'} "
            "otherwise, or no recording can be kept"
        )
        found.append(DeviceFinding(Effect.NOTICE, "StorageIncomplete", words))
    s3 = s3_of(ask.recorder)
    if s3 and s3.endpoint and (host := host_in(s3.endpoint)):
        words = (
            f"spec.storage.s3.endpoint is {json.dumps(s3.endpoint)}, and must be only a host: write {host}, or no "
            "recording can be kept"
        )
        found.append(DeviceFinding(Effect.NOTICE, "StorageEndpointInvalid", words))
    return found


def _refused(ask: Ask, refusal: Refusal) -> Plan:
    """Return the plan that reports *refusal* on a Recorder, and does nothing else."""
    if refusal.is_taken:
        names_account = ask.account != ask.owner.key.name
        more = "; or name another ServiceAccount in spec.statefulSet.pod.serviceAccount.name" if names_account else ""
        refusal = replace(refusal, reason=INVALID, message=f"{refusal.message}{more}")
    note = refusal.note(FAILED)
    status = _status(ask.obj, False, note.reason, note.message)
    return Plan(status=status, notes=[note], error=refusal.error, requeue_after=refusal.requeue_after)


def _status(obj: Object, ready: bool, reason: str, message: str) -> Object:
    return status_with(obj, condition(CONDITION_RECORDER_READY, ready, reason, message, generation_of(obj)))
