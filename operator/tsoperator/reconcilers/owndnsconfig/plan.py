"""Decides whether the operator makes a DNSConfig by itself, or removes the one that it has made."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tsoperator.api.names import LABEL_MANAGED, MANAGED
from tsoperator.api.objects import DNSCONFIG, Object, is_deleting
from tsoperator.dns.nameserver import OWN_NAME, is_operators
from tsoperator.runtime.plan import Creation, Deletion, Note, Plan, Refusal, Report
from tsoperator.settings import Settings

NOT_REMOVED: Final = "DNSConfigNotRemoved"
"""The reason of the Event on a DNSConfig that the operator has made, but isn't permitted to delete."""

_UNSEEN_AGAIN: Final = 10.0
"""The seconds after which the operator looks again whether it can list DNSConfigs. No watch event tells when it can."""


@dataclass(frozen=True, slots=True)
class Observed:
    """All DNSConfigs of the cluster. The operator *sees_all* of them if their CRD is there and it can list them."""

    dnsconfigs: Sequence[Object]
    sees_all: bool


def plan(observed: Observed, settings: Settings) -> Plan:
    """Return the plan that makes our DNSConfig if the cluster has none, or removes it if the settings don't ask for it.

    If somebody else has made a DNSConfig, the operator makes none. It never changes the DNSConfig that it has made, so
    users can edit that.
    """
    if not observed.sees_all:
        return Plan(requeue_after=_UNSEEN_AGAIN)
    if not settings.makes_dnsconfig:
        made = [each for each in observed.dnsconfigs if is_operators(each) and not is_deleting(each)]
        reports = [Report(each) for each in observed.dnsconfigs]  # to end an earlier warning
        return Plan(steps=[Deletion(DNSCONFIG, each) for each in made], reports=reports)
    return Plan() if observed.dnsconfigs else Plan(steps=[Creation(own_dnsconfig())])


def failed(refusal: Refusal) -> Plan:
    """Return the plan that follows when the API server has refused a step.

    If it has refused to delete our DNSConfig, the plan writes an Event onto the DNSConfig. Otherwise, it is empty.
    """
    step = refusal.step
    if not isinstance(step, Deletion):
        return Plan()
    message = (
        "nobody asks for this DNSConfig of the operator any more (dns.enabled of the chart, OPERATOR_DNS_ENABLED), and "
        f"the API server doesn't let the operator delete it: delete it yourself. {refusal.message}"
    )
    return Plan(reports=[Report(step.obj, notes=[Note("Warning", NOT_REMOVED, message)])])


def own_dnsconfig() -> Object:
    """Return the DNSConfig that the operator makes. Its label says that the operator has made it."""
    return {
        "apiVersion": DNSCONFIG.api_version,
        "kind": DNSCONFIG.kind,
        "metadata": {"name": OWN_NAME, "labels": {LABEL_MANAGED: MANAGED}},
        "spec": {"nameserver": {"replicas": 2}, "clusterDNS": {"mode": "Managed"}},
    }
