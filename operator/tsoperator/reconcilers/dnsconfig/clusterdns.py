"""Decides how to change the configuration of the cluster's DNS, and what a DNSConfig's status says about it.

In mode Managed, the configuration has to contain our stub domain. In mode Manual, and when no DNSConfig is left, the
operator removes the stub domain that it has written in mode Managed. It writes nothing else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from tsoperator.api.conditions import condition, is_true
from tsoperator.api.names import CONDITION_CLUSTER_DNS_CONFIGURED
from tsoperator.api.objects import CONFIGMAP, Key, Object, Resource, key_of
from tsoperator.api.v1alpha1.dnsconfig import ClusterDNS
from tsoperator.dns.cluster.edits import plan_edit, plan_removal
from tsoperator.dns.cluster.platforms import CUSTOM_KEY, Platform, find_platform
from tsoperator.dns.cluster.results import Change, DNSObjects, Nothing, StubDomain
from tsoperator.dns.cluster.snippets import snippet
from tsoperator.runtime.plan import Creation, Deletion, Patch, Refusal, earliest
from tsoperator.runtime.reverts import NO_REVERTS, Reverts
from tsoperator.settings import Settings
from tsoperator.tailnet.zones import zones_status

OVERWRITTEN: Final = "StubDomainOverwritten"
"""The reason of the condition ClusterDNSConfigured if another writer keeps undoing the operator's writes."""

PENDING: Final = "NameserverPending"
"""The reason of the condition ClusterDNSConfigured until a Pod of the nameserver is ready and answers."""
REMOVED: Final = "removed"
"""The value of the field `goal` of a `ClusterDNSPlan` that removes our stub domain from the cluster's DNS."""

_WRITTEN: Final = "the stub domain is in the configuration of the cluster's DNS"
_VALUE: Final = "set operatorConfig.manageClusterDNS of the chart to true"
_UNSEEN: Final = Refusal(
    "the operator may not read the configuration of the cluster's DNS: upgrade the operator's chart, or without Helm "
    "apply its newest charts/manifests/operator.yaml",
    "NotPermitted",
)
_MAY_NOT_WRITE: Final = Refusal(
    f"the operator may not write into the configuration of the cluster's DNS: {_VALUE}. Or write "
    "status.clusterDNS.snippet there yourself, and set spec.clusterDNS.mode to Manual",
    "NotPermitted",
)
_MAY_NOT_REMOVE: Final = Refusal(
    f"the operator may not take its stub domain out of the configuration of the cluster's DNS: {_VALUE}, or take the "
    "stub domain out yourself",
    "NotPermitted",
)
_LOOK_AGAIN: Final = 10.0  # s

Write = Patch | Creation | Deletion


class NameserverHealth(NamedTuple):
    """The *address* of the nameserver, and its *problem*.

    The problem is empty if a Pod of the nameserver is ready and answers.
    """

    address: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ClusterDNSPlan:
    """The writes into the cluster's DNS, and the facts about them for a DNSConfig's status.

    *result* is the content of the condition ClusterDNSConfigured. If it is None, the DNSConfig doesn't have this
    condition. *status* is the field ``clusterDNS`` of the status.
    """

    steps: Sequence[Write] = ()
    result: Refusal | Nothing | None = None
    status: Object = field(default_factory=dict)
    again: float | None = None
    """The seconds until the next reconcile; None if the next change of an object is soon enough.

    No watch event tells when the API server lets the operator see an object of the cluster's DNS, or when a write that
    has to wait is due.
    """
    restart: str = ""
    """The manual step by which the cluster's DNS notices that the stub domain has been removed."""
    goal: str = ""
    """The text that names the intended result of the writes: the stub domain that they write, or `REMOVED`.

    With a new goal, the operator counts anew how often another writer undoes its writes.
    """
    overwritten: str = ""
    """The message about another writer that keeps undoing the writes; empty if there is no such writer."""
    is_held: bool = False
    """True if some of the writes have to wait, because another writer keeps undoing them."""


def plan(
    wanted: ClusterDNS,
    objects: DNSObjects | None,
    zones: Sequence[str],
    nameserver: NameserverHealth,
    settings: Settings,
) -> ClusterDNSPlan:
    """Return the plan for the configuration of the cluster's DNS.

    In mode Managed, the cluster's DNS has to ask the *nameserver* for names in *zones*. *wanted* names the mode.
    *objects* are those that configure the cluster's DNS; None if the API server doesn't let the operator see them. The
    operator writes a stub domain only while the nameserver works. An existing stub domain stays even if the nameserver
    doesn't work.
    """
    is_managed = wanted.mode == "Managed"
    status = zones_status(settings.zones, zones)
    if objects is None:
        return ClusterDNSPlan(result=_UNSEEN if is_managed else None, status=status, again=_LOOK_AGAIN)
    addresses, own = [nameserver.address], settings.cluster_domain
    platform = find_platform(objects, wanted.platform, zones, addresses, own)
    stub = StubDomain.of(zones, addresses, own)
    if isinstance(platform, Platform):
        status |= {"platform": str(platform.kind)}
        if isinstance(stub, StubDomain):
            status |= {"snippet": snippet(platform, stub)}
    if not is_managed:
        return replace(removal(objects, settings), status=status)
    managed = _installation(platform, stub, objects, settings)
    if managed.steps and nameserver.problem:
        message = f"the operator writes the stub domain as soon as the nameserver works: {nameserver.problem}"
        managed = ClusterDNSPlan(result=Refusal(message, PENDING))
    return replace(managed, status=status)


def removal(objects: DNSObjects, settings: Settings, keep: Platform | None = None) -> ClusterDNSPlan:
    """Return the plan that removes our stub domain from the cluster's DNS.

    *keep* is the platform whose object keeps its stub domain; None if no object does.
    """
    found = plan_removal(objects, settings.namespace, keep)
    for each in found:
        if isinstance(each, Refusal):
            return ClusterDNSPlan(result=each)
    if found and not settings.manage_cluster_dns:
        return ClusterDNSPlan(result=_MAY_NOT_REMOVE)
    changes = [each for each in found if isinstance(each, Change)]
    restart = next((each.restart for each in changes if each.restart), "")
    return ClusterDNSPlan([_versioned_step(each, objects) for each in changes], restart=restart, goal=REMOVED)


def _installation(
    platform: Platform | Refusal, stub: StubDomain | Refusal, objects: DNSObjects, settings: Settings
) -> ClusterDNSPlan:
    """Return the plan that writes the stub domain *stub* into the object of *platform*.

    The plan also removes our stub domain from the objects of other platforms. If *platform* or *stub* is a Refusal, the
    plan writes nothing, and its result is this Refusal.
    """
    if isinstance(platform, Refusal):
        return ClusterDNSPlan(result=platform)
    if isinstance(stub, Refusal):
        return ClusterDNSPlan(result=stub)
    found = plan_edit(platform, objects, stub, settings.namespace)
    if isinstance(found, Refusal):
        return ClusterDNSPlan(result=found)
    if isinstance(found, Change) and not settings.manage_cluster_dns:
        return ClusterDNSPlan(result=_MAY_NOT_WRITE)
    elsewhere = removal(objects, settings, platform)
    steps = [] if isinstance(found, Nothing) else [_versioned_step(found, objects)]
    cache = Refusal(platform.node_cache, "NodeCacheInFront") if platform.node_cache else None
    result = elsewhere.result or cache or Nothing(found.restart)
    return ClusterDNSPlan([*steps, *elsewhere.steps], result, goal=str(stub))


def without_reverted_writes(wanted: ClusterDNSPlan, reverts: Mapping[Key, Reverts]) -> ClusterDNSPlan:
    """Return *wanted* without the writes that have to wait, because another writer keeps undoing them.

    For each object of the cluster's DNS, *reverts* say how another writer undoes our writes.
    """
    loud = [each for each in reverts.values() if each.fields]
    again = earliest(*(each.wait or each.settles or None for each in reverts.values()), wanted.again)
    steps = [step for step in wanted.steps if not reverts.get(written_by(step).key, NO_REVERTS).wait]
    wanted = replace(wanted, steps=steps, again=again, is_held=len(steps) < len(wanted.steps))
    if not loud:
        return wanted
    message = _overwritten(loud, wanted.goal == REMOVED)
    is_lost = any(each.settles for each in loud)
    return replace(wanted, overwritten=message, result=Refusal(message, OVERWRITTEN) if is_lost else wanted.result)


def _overwritten(reverts: Sequence[Reverts], is_removal: bool) -> str:
    who = " and ".join(dict.fromkeys(each.who for each in reverts))
    fields = " and ".join(field for each in reverts for field in each.fields)
    cure = (
        "take the lines of the operator out of what it applies"
        if is_removal
        else "let it leave that alone, or write status.clusterDNS.snippet into what it applies and set "
        "spec.clusterDNS.mode to Manual"
    )
    return (
        f"{who} keeps undoing the operator's changes of {fields}: {cure}. The cluster's DNS loads each change, so the "
        "operator waits for up to a minute before it tries again"
    )


@dataclass(frozen=True, slots=True)
class Written:
    """A field that the operator writes into an object of others, such as a key in the data of a ConfigMap.

    The object is of *resource*, and has this *key*. *field* has the name of the parent field, such as ``data``, and the
    name of the field itself.
    """

    resource: Resource
    key: Key
    field: tuple[str, str]

    @property
    def words(self) -> str:
        """The words that name this field and its object in messages."""
        part, name = self.field
        return f"{f'key {name}' if part == 'data' else f'{part}.{name}'} of {self.resource.kind} {self.key}"


def written_by(step: Write) -> Written:
    """Return the field of a shared object that *step* writes."""
    match step:
        case Patch(resource, key, body):
            part = "data" if "data" in body else "spec"
            return Written(resource, key, (part, next(iter(body[part]))))
        case Creation(obj) | Deletion(obj=obj):
            return Written(CONFIGMAP, key_of(obj), ("data", CUSTOM_KEY))


def _versioned_step(change: Change, objects: DNSObjects) -> Write:
    """Return the step that writes *change*. The step fails with a Conflict if somebody else has edited the object."""
    step = change.step
    if not isinstance(step, Patch):
        return step
    (version,) = (
        each["metadata"]["resourceVersion"]
        for each in objects.all
        if (each["kind"], key_of(each)) == (step.resource.kind, step.key)
    )
    metadata = {**step.body.get("metadata", {}), "resourceVersion": version}
    return replace(step, body={**step.body, "metadata": metadata})


def unseen_removal(obj: Object) -> ClusterDNSPlan:
    """Return the plan for the DNSConfig *obj*, which is being deleted while the operator can't see the cluster's DNS.

    The deletion waits if a condition of *obj* says that the operator has written into the cluster's DNS.
    """
    written = is_true(obj, CONDITION_CLUSTER_DNS_CONFIGURED)
    return ClusterDNSPlan(result=_UNSEEN, again=_LOOK_AGAIN) if written else ClusterDNSPlan()


def condition_of(result: Refusal | Nothing, generation: int) -> Object:
    """Return the condition about the configuration of the cluster's DNS that shows *result*."""
    match result:
        case Refusal(message, reason):
            is_written = False
        case Nothing(""):
            is_written, reason, message = True, "StubDomainWritten", _WRITTEN
        case Nothing(restart):
            is_written, reason, message = True, "RestartNeeded", f"{_WRITTEN}. {restart}"
    return condition(CONDITION_CLUSTER_DNS_CONFIGURED, is_written, reason, message, generation)


def write_refusal(message: str, *, is_denied: bool) -> Refusal:
    """Return the refusal to report when the API server has refused a write into the cluster's DNS.

    *message* has the API server's words. If *is_denied*, the operator perhaps lacks a right, and the refusal says how
    to give it this right.
    """
    if is_denied:
        return Refusal(f"{message}. If the operator lacks a right, {_VALUE}", "NotPermitted")
    return Refusal(message, "NotWritten")
