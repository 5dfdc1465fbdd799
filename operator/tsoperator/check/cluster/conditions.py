"""Reports the objects with which something is wrong, according to the conditions that the operator wrote."""

from collections.abc import Iterable, Iterator
from typing import Final

from tsoperator.api import names
from tsoperator.api.objects import Object, key_of
from tsoperator.check.findings import Finding, failed, ok

OURS: Final = frozenset(
    {
        names.CONDITION_PROXY_READY,
        names.CONDITION_NAMESERVER_READY,
        names.CONDITION_CLUSTER_DNS_CONFIGURED,
        names.CONDITION_CLUSTER_DNS_READY,
        names.CONDITION_CONNECTOR_READY,
        names.CONDITION_PROXYCLASS_READY,
        names.CONDITION_PROXYGROUP_READY,
        names.CONDITION_KUBE_APISERVER_VALID,
        names.CONDITION_KUBE_APISERVER_CONFIGURED,
        names.CONDITION_EGRESS_VALID,
        names.CONDITION_EGRESS_CONFIGURED,
        names.CONDITION_EGRESS_READY,
        names.CONDITION_INGRESS_VALID,
        names.CONDITION_INGRESS_CONFIGURED,
        names.CONDITION_PROXYGROUPPOLICY_READY,
        names.CONDITION_RECORDER_READY,
        names.CONDITION_TAILNET_READY,
        names.CONDITION_PEERRELAY_READY,
    }
)
"""The types of the operator's conditions that say whether an object is served."""


def check_conditions(objects: Iterable[Object]) -> Iterator[Finding]:
    """Yield a finding for each of *objects* that isn't served, according to a condition of the operator."""
    told = wrong = 0
    for obj in objects:
        ours = [each for each in (obj.get("status") or {}).get("conditions") or () if each["type"] in OURS]
        told += bool(ours)
        said = next(filter(_is_wrong, ours), None)
        if said is not None:
            wrong += 1
            yield failed(
                "conditions",
                f"{obj['kind']} {key_of(obj)}: {said['type']} is {said['status']}: "
                f"{said.get('message') or said['reason']}",
                f"docs/conditions.md says more about the reason {said['reason']}",
            )
    if not wrong:
        yield ok("conditions", f"objects with a condition of the operator that are served: {told} of {told}")


def check_ingresses(ingresses: Iterable[Object], ingress_class: str) -> Iterator[Finding]:
    """Yield a finding for each Ingress of the operator's class that has no name in its status.

    Ingresses have no conditions.
    """
    ours = [each for each in ingresses if (each.get("spec") or {}).get("ingressClassName") == ingress_class]
    wrong = [key_of(each) for each in ours if not _has_name(each)]
    for key in wrong:
        yield failed(
            "ingresses",
            f"Ingress {key} has no name in its status, so nobody reaches it",
            f"`kubectl -n {key.namespace} describe ingress {key.name}` shows Events that say why; a new Ingress needs "
            "a minute",
        )
    if ours and not wrong:
        yield ok("ingresses", f"Ingresses of class {ingress_class} that have a name: {len(ours)} of {len(ours)}")


def _is_wrong(condition: Object) -> bool:
    """Tell whether a *condition* says that an object isn't served.

    The status is Unknown for an egress Service whose ProxyGroup doesn't exist: it is neither valid nor invalid.
    """
    status = condition["status"]
    return bool(status == "False" or (status == "Unknown" and condition["type"] == names.CONDITION_EGRESS_VALID))


def _has_name(ingress: Object) -> bool:
    entries = ((ingress.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    return any(each.get("hostname") for each in entries)
