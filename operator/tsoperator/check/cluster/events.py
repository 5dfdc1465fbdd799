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

_OF_CONDITIONS: Final = """
    AWSConfigInvalid AdmissionPoliciesUnsupported BlockDamaged CachedNegativeAnswer ClusterResourcesNotReady
    ConnectorCreating ConnectorCreationFailed ConnectorInvalid ConnectorTerminating ControlServerUnreachable
    CorefileMissing CorefileUnreadable EgressSvcInvalid EndpointsPending ForwardingLoop ImageTooOld
    IngressSvcInvalid IngressSvcNoBackendsConfigured InvalidAddress InvalidOAuth InvalidSecret InvalidZone
    KubeAPIServerProxyInvalid KubeAPIServerProxyNoBackends MultipleDNSConfigsPresent NameserverCreationFailed
    NameserverInvalid NameserverPending NoAddress NoAnswer NoAnswerOverTCP NoProxiesConfigured NoReplicas NoZone
    NodeCacheInFront NotAsked NotForwarded NotPermitted NotReadyToRouteTraffic NotWritten PeerRelayCreationFailed
    PeerRelayInvalid PeerRelayTerminating PlatformMissing PlatformUnknown PodsPending ProxyClassInvalid ProxyFailed
    ProxyGroupCreating ProxyGroupCreationFailed ProxyGroupInvalid ProxyGroupNotFound ProxyGroupNotReady
    ProxyGroupPolicyFailed ProxyGroupPolicyInvalid ProxyGroupTailnetUnavailable ProxyGroupTerminating ProxyInvalid
    ProxyPending ProxyTerminating QuestionRefused RecorderCreating RecorderCreationFailed RecorderInvalid
    RecorderTailnetUnavailable RecorderTerminating RecordsMissing ServerFailure StubDomainsUnreadable TailnetChanged
    TailnetInUse TailnetInvalid TailnetUnavailable TooManyNames UnknownImage UnsupportedByControlServer
    UpstreamImage WrongAddress ZoneTaken
"""
OF_CONDITIONS: Final = frozenset(_OF_CONDITIONS.split())
"""The reasons of conditions that are False or Unknown, as docs/conditions.md lists them.

We leave out a Warning with one of these reasons if its object has conditions, because they show whether the fault is
still there. The list doesn't have the reasons that an Event can have although no condition shows them.
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
    return bool(conditions) and (reason in OF_CONDITIONS or reason in {each.get("reason") for each in conditions})


def _time(event: Object) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")
