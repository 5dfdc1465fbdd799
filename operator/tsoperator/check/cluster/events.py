"""Reports the Warnings that the operator wrote as Events about faults that no condition shows.

Examples are a misspelt annotation or class, a name that another device has already, and a proxy that accepts no routes.
The API server keeps an Event for an hour, so it is possible that somebody has repaired the fault in the meantime.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from tsoperator.api.names import COMPONENT
from tsoperator.api.objects import Object, key_of
from tsoperator.check.findings import OBJECTS, Finding, failed
from tsoperator.status.conditions import ours

_OF_EVENTS_ALONE: Final = """
    ACMEAccountNotShared ACMEAccountsPendingDeletion APIServerProxyFailed AuthKeyDelayed AuthKeyReissued
    CertificateMissing CertificateNameTaken CertificateNotRenewed CertificatePending CertificateReady
    ClusterNameTaken ConfigMapFull CustomTSEnvVar DNSConfigKept DNSConfigNotRemoved DeletionBlocked
    DeviceApprovalNeeded EgressGateFailed ExposesTailnetDevice ExternalNameOverwritten FunnelIgnored
    FunnelNeedsPolicy HTTPSNotEnabled HostsNotApproved INVALIDSERVICE IgnoredAnnotation IgnoredField
    IgnoredIngressClass IgnoredLabel IgnoredLoadBalancerClass IgnoredTLSHosts IgnoredTLSSecret IgnoredVariable
    IngressReachable InvalidHostname InvalidIngressBackend InvalidIngressConfiguration InvalidName InvalidTags
    InvalidTailscaleService KindNotServed LabelTaken NameHeld NameNotTakenOver NameTakenOver NoClusterName
    NoCredentials NoGracefulShutdown NoOperatorDevice NoValidBackends PathUndefined PodNotWaitedFor
    PreflightFailed ProxyClassNotWritten ProxyGroupFull ProxyImageTooOld ProxyPortChanged RecordsNotWritten
    ResourceClaimsIgnored RoutesNotAccepted SharedTailscaleService StorageEndpointInvalid StorageIncomplete
    StubDomainOverwritten TagsChanged TagsRefused TailscaleServiceFailed TargetGone TargetNotFound
    UnsupportedPathPattern UnsupportedPathTypeExact
"""
OF_EVENTS_ALONE: Final = frozenset(_OF_EVENTS_ALONE.split())
"""The reasons that an Event can have although no condition shows them, as docs/conditions.md lists them.

We leave out a Warning with any other reason if its object has conditions, because they show whether the fault is still
there.
"""

WARNINGS: Final = f"type=Warning,reportingComponent={COMPONENT}"
"""The field selector of the operator's Warnings. It saves the check from reading all other Events of the cluster."""


def check_warnings(events: Iterable[Object], objects: Iterable[Object]) -> Iterator[Finding]:
    """Yield a finding for each Warning of the operator among *events* that is about one of the present *objects*.

    If an object has several Warnings with the same reason, only the latest one makes a finding. Warnings about a
    deleted object with the same name as a present one are left out.
    """
    there = {each["metadata"].get("uid", ""): each for each in objects}
    last: dict[tuple[str, str], Object] = {}
    for event in sorted(events, key=_time):
        uid = (event.get("involvedObject") or {}).get("uid", "")
        if uid in there and event.get("reportingComponent") == COMPONENT and not _is_in_condition(event, there[uid]):
            last[uid, event.get("reason", "")] = event
    for (uid, reason), event in last.items():
        obj = there[uid]
        words = f"{obj['kind']} {key_of(obj)}: {reason}: {event.get('message', '')}"
        yield failed(OBJECTS, f"{words} (Event of {_time(event)})", "")


def _is_in_condition(event: Object, obj: Object) -> bool:
    """Tell whether a condition of *obj* shows the fault in *event*, or would show it if the fault still existed."""
    conditions, reason = ours(obj), event.get("reason", "")
    return bool(conditions) and (reason not in OF_EVENTS_ALONE or reason in {each.get("reason") for each in conditions})


def _time(event: Object) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")
