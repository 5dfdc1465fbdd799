"""Makes the plan for a DNSConfig: decides which children, status and Events it should have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tsnameserver.records import MAX_SHARDS

from tsoperator.api.conditions import condition, conditions_of, is_true, set_condition, status_with
from tsoperator.api.images import image_error
from tsoperator.api.names import (
    ANNOTATION_NAMESERVER,
    CONDITION_CLUSTER_DNS_CONFIGURED,
    CONDITION_CLUSTER_DNS_READY,
    CONDITION_NAMESERVER_READY,
    FINALIZER,
    LABEL_APP,
    LABEL_MANAGED,
    NAMESERVER,
)
from tsoperator.api.objects import SERVICE, Key, Object, annotations, generation_of, is_deleting, labels, uid
from tsoperator.api.rules import is_address
from tsoperator.api.v1alpha1.dnsconfig import DNSConfig
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.dns import children
from tsoperator.dns.cluster.address import NO_ADDRESSES, Addresses, address_of
from tsoperator.dns.cluster.results import DNSObjects
from tsoperator.dns.nameserver import (
    ANNOTATION_LEFT_OUT,
    NameserverImage,
    Program,
    default_image,
    elected,
    is_operators,
    nameserver_image,
    parse,
    reads_shards,
)
from tsoperator.dns.probe.answers import NOT_ASKED, ServerVerdict, cluster_dns_condition
from tsoperator.reconcilers.dnsconfig import clusterdns
from tsoperator.reconcilers.dnsconfig.clusterdns import ClusterDNSPlan
from tsoperator.runtime.plan import Child, Note, Plan, Refusal
from tsoperator.runtime.reverts import Reverts
from tsoperator.runtime.success import with_success
from tsoperator.settings import Settings
from tsoperator.tailnet.zones import NO_SUFFIXES, TS_NET, Suffixes, forwarded_zones, nameserver_zones

CONDITION_NAMESERVER_COMPLETE: Final = "NameserverComplete"
"""The type of the condition that says what a nameserver which isn't ours lacks. The condition is False or absent."""
_ZONES_SOON: Final = 1.0
"""The seconds after which the operator looks again for zones, while it knows none.

It must look by itself: no watch event tells that it has waited long enough for the first list of devices.
"""

CONDITION_RECORDS_COMPLETE: Final = "RecordsComplete"
"""The type of the condition of a DNSConfig whose nameserver doesn't know all names. The condition is False or absent.
"""

KEPT: Final = "DNSConfigKept"
"""The reason of the Event that tells a user: because of your DNSConfig, the operator makes none by itself."""

_PASSING: Final = {CONDITION_NAMESERVER_COMPLETE, CONDITION_RECORDS_COMPLETE, CONDITION_CLUSTER_DNS_CONFIGURED}
"""The types of the conditions that a DNSConfig has only while they have something to report."""

_NO_REPLICAS: Final = "NoReplicas"
_NO_NAMESERVER: Final = "the operator asks the cluster's DNS when the nameserver has an address"
_UNASKED: Final = "the operator hasn't asked the nameserver yet"
_SET_OURS: Final = "set spec.nameserver.image to this operator's nameserver"


@dataclass(frozen=True, slots=True)
class Observed:
    """The facts on which a DNSConfig's plan depends, besides the DNSConfig itself."""

    dnsconfigs: Sequence[Object]
    service: Object | None = None
    records: Object | None = None
    deployment: Object | None = None
    dns: DNSObjects | None = None
    """The objects that configure the cluster's DNS; None if the API server doesn't let the operator see them."""
    verdicts: Sequence[ServerVerdict] | None = None
    """The verdicts on the servers of the cluster's DNS; None if they haven't been asked yet."""
    nameserver: ServerVerdict | None = None
    """The verdict on the nameserver, from its own answers; None if it hasn't been asked yet."""
    pods: Sequence[Object] = ()
    """The Pods of our nameserver. Pods of the Go operator's nameserver have no label, so they can't be found."""
    suffixes: Suffixes = NO_SUFFIXES
    """The known suffixes of MagicDNS names."""
    sees_all: bool = True
    """True if the API server lets the operator see all DNSConfigs."""
    addresses: Addresses = NO_ADDRESSES
    services: Sequence[Object] = ()
    """The Services of the cluster, whose addresses a new Service can't get; empty if our Service exists."""


def cluster_dns(obj: Object, observed: Observed, settings: Settings) -> ClusterDNSPlan:
    """Return the plan for the cluster's DNS, as if no other writer undid its writes.

    *obj* is empty if the DNSConfig is gone. Our stub domain is removed even if the only DNSConfig vanished without
    waiting for our finalizer.
    """
    first = elected(observed.dnsconfigs)
    if not obj:
        is_needless = observed.sees_all and not observed.dnsconfigs
        return clusterdns.removal(observed.dns, settings) if observed.dns and is_needless else ClusterDNSPlan()
    dnsconfig = parse(obj)
    if is_deleting(obj):
        if first is not None and not isinstance(parse(first), Invalid):
            return ClusterDNSPlan()
        return clusterdns.removal(observed.dns, settings) if observed.dns else clusterdns.unseen_removal(obj)
    if isinstance(dnsconfig, Invalid) or (first is not None and uid(first) != uid(obj)):
        return ClusterDNSPlan()
    zones, address = _zones(obj, observed, settings), _address(observed)
    if not zones or not address:
        return ClusterDNSPlan()
    nameserver = clusterdns.NameserverHealth(address, _problem(observed, settings))
    return clusterdns.plan(dnsconfig.spec.cluster_dns, observed.dns, zones, nameserver, settings)


def plan(
    obj: Object, wanted: ClusterDNSPlan, observed: Observed, settings: Settings, reverts: Mapping[Key, Reverts]
) -> Plan:
    """Return the plan for the DNSConfig *obj*. If the DNSConfig is gone, *obj* is empty.

    *wanted* is the result of `cluster_dns`, and *reverts* say how another writer undoes the writes of that plan.
    """
    dns = clusterdns.without_reverted_writes(wanted, reverts)
    if not obj:
        return Plan(steps=dns.steps, requeue_after=dns.again)
    if is_deleting(obj):
        return _deletion_plan(obj, dns, observed)
    dnsconfig = parse(obj)
    if isinstance(dnsconfig, Invalid):
        asked = _answer_conditions(obj, observed, settings)
        return _refusal_plan(obj, "NameserverInvalid", f"this DNSConfig is invalid: {dnsconfig.message}", asked)
    first = elected(observed.dnsconfigs)
    if first is not None and uid(first) != dnsconfig.metadata.uid:
        name = first["metadata"]["name"]
        message = f"a cluster has one nameserver, and DNSConfig {name!r} is older: delete one of the two"
        return _refusal_plan(obj, "MultipleDNSConfigsPresent", message)
    image, service = nameserver_image(obj, dnsconfig, settings), observed.service
    if wrong := _image_error(image) or (_address_error(dnsconfig) if service is None else ""):
        asked = _answer_conditions(obj, observed, settings)
        return _refusal_plan(obj, "NameserverInvalid", f"this DNSConfig is invalid: {wrong}", asked)
    new_address = "" if service else _new_address(obj, observed, settings)
    steps = [
        # The Service comes first, so that it gets its address even if the API server refuses another child.
        Child(children.service(dnsconfig, settings, service, new_address, selects_ours=_selects_ours(observed))),
        Child(children.service_account(dnsconfig, settings)),
        Child(children.role(dnsconfig, settings)),
        Child(children.role_binding(dnsconfig, settings)),
        Child(children.deployment(dnsconfig, image, settings)),
    ]
    if not _zones(obj, observed, settings):
        # No new Service yet: its address can depend on the zones that the cluster's DNS already forwards.
        return Plan(hold=FINALIZER, steps=steps if service else steps[1:], requeue_after=_ZONES_SOON)
    address = _address(observed)
    if not address:
        return Plan(hold=FINALIZER, steps=steps)
    made = Plan(
        hold=FINALIZER,
        steps=[*steps, *dns.steps],
        notes=[*_notes(dns), *_kept(obj, settings)],
        status=_status(obj, _conditions(obj, image, observed, settings), dns) | {"nameserver": {"ip": address}},
        requeue_after=dns.again,
    )
    for type_ in (CONDITION_NAMESERVER_READY, CONDITION_CLUSTER_DNS_READY):
        made = with_success(made, conditions_of(obj), type_)
    return made


def _image_error(image: NameserverImage) -> str:
    error = image_error(image.reference)
    return f"spec.nameserver.image: {error}" if error else ""


def _address_error(dnsconfig: DNSConfig) -> str:
    """Return what is wrong with the address that a DNSConfig gives for a new Service; empty if nothing is."""
    address = dnsconfig.spec.nameserver.service.cluster_ip
    if not address or is_address(address):
        return ""
    where = "spec.nameserver.service.clusterIP"
    return f"{where} is {address}: give a free address in the cluster's Service range, or leave it out"


def refused_address(obj: Object, observed: Observed, refusal: Refusal, settings: Settings) -> str:
    """Return the address that the operator chose for a new Service, if the API server has refused this Service.

    Return an empty text if it has refused something else, or if the operator chose no address.
    """
    step = refusal.step
    if observed.service is not None or not isinstance(step, Child) or step.obj["kind"] != SERVICE.kind:
        return ""
    chosen = _new_address(obj, observed, settings)
    return chosen if chosen == address_of(step.obj) else ""


def _new_address(obj: Object, observed: Observed, settings: Settings) -> str:
    """Return the address for a new Service of the nameserver, if the DNSConfig doesn't name one.

    Return an empty text if the API server should choose the address.
    """
    return observed.addresses.choice(observed.dns, _zones(obj, observed, settings), observed.services)


def _zones(obj: Object, observed: Observed, settings: Settings) -> Sequence[str]:
    return forwarded_zones(obj, settings.zones, observed.suffixes)


def _deletion_plan(obj: Object, dns: ClusterDNSPlan, observed: Observed) -> Plan:
    """Return the plan for a DNSConfig that is being deleted; *dns* says how our stub domain is removed.

    The garbage collector deletes the children, which have owner references. The operator doesn't make them anew, even
    if the DNSConfig is invalid. If another writer keeps undoing the removal of our stub domain, the deletion waits only
    while the operator has to wait before its next write.
    """
    if (dns.result is None or dns.overwritten) and not dns.is_held:
        return Plan(steps=dns.steps, notes=_notes(dns), release=FINALIZER)
    if dns.result is None or observed.dns is None:  # the condition goes on reporting that something was written
        return Plan(steps=dns.steps, notes=_notes(dns), requeue_after=dns.again)
    notes = _notes(ClusterDNSPlan(result=dns.result))
    status = status_with(obj, clusterdns.condition_of(dns.result, generation_of(obj)))
    return Plan(steps=dns.steps, notes=notes, status=status, requeue_after=dns.again)


def failed(obj: Object, observed: Observed, refusal: Refusal, settings: Settings, *, is_denied: bool) -> Plan:
    """Return the plan that only reports *refusal*, by the API server, on the DNSConfig *obj*.

    A refusal of a write into the cluster's DNS changes only the condition about the cluster's DNS. The condition about
    the nameserver still says whether the nameserver works. If *is_denied*, the operator perhaps lacks a right.
    """
    if not obj:
        return Plan()
    if isinstance(refusal.step, Child | None):
        reason, asked = refusal.reason or "NameserverCreationFailed", _answer_conditions(obj, observed, settings)
        return _refusal_plan(obj, reason, refusal.message, asked)
    shown = clusterdns.write_refusal(refusal.message, is_denied=is_denied)
    status = cluster_dns(obj, observed, settings).status
    return replace(plan(obj, ClusterDNSPlan(result=shown, status=status), observed, settings, {}), steps=())


def _answer_conditions(obj: Object, observed: Observed, settings: Settings) -> Sequence[Object]:
    """Return the condition about the answers of the cluster's DNS, if *obj* is the DNSConfig in force; otherwise none.

    The condition stays up to date while *obj* is invalid, because its nameserver still runs.
    """
    first = elected(observed.dnsconfigs)
    if first is None or uid(first) != uid(obj):
        return []
    if not _address(observed):
        return [condition(CONDITION_CLUSTER_DNS_READY, "Unknown", NOT_ASKED, _NO_NAMESERVER, generation_of(obj))]
    return [cluster_dns_condition(obj, observed.verdicts, settings.cluster_dns)]


def _refusal_plan(obj: Object, reason: str, message: str, asked: Sequence[Object] = ()) -> Plan:
    told = condition(CONDITION_NAMESERVER_READY, False, reason, message, generation_of(obj))
    return Plan(status=status_with(obj, told, *asked), notes=[Note("Warning", reason, message)])


def _address(observed: Observed) -> str:
    """Return the address of the nameserver's Service; empty while it has none."""
    return address_of(observed.service) if observed.service else ""


def _conditions(obj: Object, image: NameserverImage, observed: Observed, settings: Settings) -> list[Object]:
    """Return the conditions of a DNSConfig whose nameserver exists.

    The conditions about what the nameserver lacks exist only while it lacks something.
    """
    generation = generation_of(obj)
    conditions = [_nameserver_ready(obj, observed, settings)]
    conditions.append(cluster_dns_condition(obj, observed.verdicts, settings.cluster_dns))
    if image.program is not Program.OURS:
        reason = "UpstreamImage" if image.program is Program.UPSTREAM else "UnknownImage"
        message = _lacks_message(image, nameserver_zones(settings.zones, observed.suffixes), settings)
        conditions.append(condition(CONDITION_NAMESERVER_COMPLETE, False, reason, message, generation))
    if left_out := annotations(observed.records).get(ANNOTATION_LEFT_OUT) if observed.records else None:
        message = _left_out_message(left_out, image, observed.deployment)
        conditions.append(condition(CONDITION_RECORDS_COMPLETE, False, "TooManyNames", message, generation))
    return conditions


def _nameserver_ready(obj: Object, observed: Observed, settings: Settings) -> Object:
    """Return the condition that says whether a Pod of the nameserver is ready and answers.

    A new leader hasn't asked the nameserver yet. Until it has, the condition stays True if it was True.
    """
    problem = _problem(observed, settings)
    if problem and not _replicas(observed):
        words = "spec.nameserver.replicas is 0, so no name resolves: give it at least 1"
        return condition(CONDITION_NAMESERVER_READY, False, _NO_REPLICAS, words, generation_of(obj))
    was_ready = is_true(obj, CONDITION_NAMESERVER_READY)
    if not problem or (was_ready and observed.nameserver is None and _has_ready_pod(observed)):
        words = f"the nameserver answers at {_address(observed)}"
        return condition(CONDITION_NAMESERVER_READY, True, "NameserverCreated", words, generation_of(obj))
    return condition(CONDITION_NAMESERVER_READY, False, clusterdns.PENDING, problem, generation_of(obj))


def _problem(observed: Observed, settings: Settings) -> str:
    """Return the reason why the nameserver doesn't work; empty if a Pod of it is ready and answers."""
    if not _has_ready_pod(observed):
        return (
            "no Pod of the nameserver is ready: if that lasts, see why with "
            f"kubectl -n {settings.namespace} describe pods -l {LABEL_APP}={NAMESERVER}"
        )
    return _UNASKED if observed.nameserver is None else observed.nameserver.message


def _replicas(observed: Observed) -> int:
    return int(observed.deployment["spec"].get("replicas", 1)) if observed.deployment else 1


def _has_ready_pod(observed: Observed) -> bool:
    return bool(((observed.deployment or {}).get("status") or {}).get("readyReplicas"))


def _selects_ours(observed: Observed) -> bool:
    """Tell whether the nameserver's Service should select only Pods of our nameserver, and none of the Go operator's.

    It should while a Pod of ours is ready and a Pod of the Go operator's nameserver is about to stop. That
    nameserver exits at once when it is stopped, while nodes still send queries to it, so the Service has to leave
    it out before that. The Service does so only for a few seconds: if the cluster goes back to the Go operator, that
    operator doesn't correct the selector.
    """
    if observed.deployment is None:
        return False
    metadata, spec = observed.deployment["metadata"], observed.deployment["spec"]
    status = observed.deployment.get("status") or {}
    total, updated, ready = (int(status.get(name) or 0) for name in ("replicas", "updatedReplicas", "readyReplicas"))
    of_ours = LABEL_MANAGED in labels(spec["template"]) and status.get("observedGeneration") == metadata.get(
        "generation"
    )
    return of_ours and len(observed.pods) < total and total - updated < ready and ready > int(spec.get("replicas", 1))


def _status(obj: Object, conditions: Sequence[Object], dns: ClusterDNSPlan) -> Object:
    """Return the status of *obj* with these *conditions*, and with the field about the cluster's DNS."""
    if dns.result is not None:
        conditions = [*conditions, clusterdns.condition_of(dns.result, generation_of(obj))]
    resolved = _PASSING - {each["type"] for each in conditions}
    kept = [each for each in conditions_of(obj) if each["type"] not in resolved]
    merged = set_condition(kept, conditions, now="")
    return {**(obj.get("status") or {}), "conditions": merged, "clusterDNS": dns.status}


def _notes(dns: ClusterDNSPlan) -> list[Note]:
    """Return the Events that say what is wrong with the configuration of the cluster's DNS, and what to restart."""
    wrong = dns.result if isinstance(dns.result, Refusal) else None
    notes = [Note("Warning", wrong.reason, wrong.message)] if wrong and wrong.reason != clusterdns.PENDING else []
    if dns.overwritten and (wrong is None or wrong.message != dns.overwritten):
        notes.append(Note("Warning", clusterdns.OVERWRITTEN, dns.overwritten))
    if dns.restart:
        words = f"the stub domain is taken out of the configuration of the cluster's DNS. {dns.restart}"
        notes.append(Note("Normal", "RestartNeeded", words))
    return notes


def _kept(obj: Object, settings: Settings) -> list[Note]:
    """Return an Event if the *settings* ask for a DNSConfig, but somebody else has made the DNSConfig *obj*.

    The Event says that the operator leaves *obj* as it is.
    """
    if not settings.makes_dnsconfig or is_operators(obj):
        return []
    words = (
        "dns.enabled of the chart asks for a DNSConfig. This one was there already, so the operator leaves it as it is"
    )
    return [Note("Normal", KEPT, words, once=True)]


def _lacks_message(image: NameserverImage, zones: Sequence[str], settings: Settings) -> str:
    """Return the message about what a nameserver other than ours lacks, and what to do (docs/development/names.md).

    *zones* are the zones that our nameserver would answer for.
    """
    if image.program is Program.UNKNOWN:
        return (
            f"{image.reference} may be this operator's nameserver or Tailscale's, so it runs in a way that suits both: "
            "nothing probes it, a new version interrupts it, and all names must fit in one ConfigMap. Say which it is: "
            f"set annotation {ANNOTATION_NAMESERVER} of this DNSConfig to {Program.OURS} or {Program.UPSTREAM}"
        )
    lost = [
        "changes reach it up to two minutes late",
        "all names must fit in one ConfigMap",
        "it answers questions for A and AAAA in small letters only",
        "a new version interrupts it",
    ]
    if refused := [zone for zone in zones if not f".{zone}".endswith(f".{TS_NET}")]:
        lost.insert(0, f"it refuses names in {', '.join(refused)}")
    cure = f"{_SET_OURS} and annotation {ANNOTATION_NAMESERVER} to {Program.OURS}"
    default = default_image(settings)
    if default.program is Program.OURS and default.reference != image.reference:
        cure = f"take spec.nameserver.image away to get {default.reference}"
    return f"{image.reference} is Tailscale's nameserver: {'; '.join(lost)}. To mend that, {cure}"


def _left_out_message(left_out: str, image: NameserverImage, deployment: Object | None) -> str:
    if image.program is not Program.OURS:
        reads, cure = "reads", f"{_SET_OURS}, which reads several"
        if image.program is Program.UNKNOWN:
            reads = "may read only"
            cure = f"if it is this operator's nameserver, set annotation {ANNOTATION_NAMESERVER} to {Program.OURS}"
        return f"{left_out} names don't resolve: {image.reference} {reads} one ConfigMap, and it is full: {cure}"
    if not reads_shards(deployment, image):
        return (
            f"{left_out} names don't resolve: one ConfigMap is full, and there will be more when all Pods of "
            f"Deployment {NAMESERVER} run {image.reference}: see what its rollout waits for"
        )
    return f"{left_out} names don't resolve: {MAX_SHARDS} ConfigMaps are full, and there can't be more"
