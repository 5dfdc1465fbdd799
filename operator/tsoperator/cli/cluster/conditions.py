"""Repeats what the operator says in conditions of objects that something is wrong with."""

from collections.abc import Iterable, Iterator
from typing import Final

from tsoperator.api import names
from tsoperator.api.objects import Object, key_of
from tsoperator.cli.findings import Finding, failed, ok

OURS: Final = frozenset(
    {
        names.CONDITION_PROXY_READY,
        names.CONDITION_NAMESERVER_READY,
        names.CONDITION_CLUSTER_DNS_CONFIGURED,
        names.CONDITION_CLUSTER_DNS_READY,
        names.CONDITION_CONNECTOR_READY,
        names.CONDITION_PROXYCLASS_READY,
        names.CONDITION_PROXYGROUP_READY,
        names.CONDITION_EGRESS_VALID,
        names.CONDITION_EGRESS_CONFIGURED,
        names.CONDITION_EGRESS_READY,
        names.CONDITION_PROXYGROUPPOLICY_READY,
        names.CONDITION_RECORDER_READY,
        names.CONDITION_TAILNET_READY,
        names.CONDITION_PEERRELAY_READY,
    }
)
"""The types of the operator's conditions that say whether an object is served."""


def check_conditions(objects: Iterable[Object]) -> Iterator[Finding]:
    """Yield a finding for each of *objects* that has a condition of the operator's which is False."""
    told = wrong = 0
    for obj in objects:
        ours = [each for each in (obj.get("status") or {}).get("conditions") or () if each["type"] in OURS]
        told += bool(ours)
        said = next((each for each in ours if each["status"] == "False"), None)
        if said is not None:
            wrong += 1
            yield failed(
                "conditions",
                f"{obj['kind']} {key_of(obj)}: {said['type']} is False: {said.get('message') or said['reason']}",
                f"docs/conditions.md says more about the reason {said['reason']}",
            )
    if not wrong:
        yield ok("conditions", f"all {told} objects with a condition of the operator are served")
