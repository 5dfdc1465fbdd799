"""What the nameserver's objects and its records have in common."""

from collections.abc import Sequence

from tsoperator.api.names import (
    LABEL_APP_COMPONENT,
    LABEL_APP_NAME,
    NAMESERVER,
    PARENT_NAMESERVER,
)
from tsoperator.api.objects import Key, Object, Resource, is_deleting
from tsoperator.desired.children import Owner


def elected(dnsconfigs: Sequence[Object]) -> Object | None:
    """Return the one DNSConfig that counts: the oldest that stays, so that a second one takes nothing away."""
    staying = [obj for obj in dnsconfigs if not is_deleting(obj)]
    ranked = sorted(staying, key=lambda obj: (obj["metadata"].get("creationTimestamp", ""), obj["metadata"]["name"]))
    return ranked[0] if ranked else None


def nameserver_labels(dnsconfig: str, namespace: str) -> dict[str, str]:
    """Return the labels of the children of a DNSConfig, which has no *namespace*: they carry their own."""
    owner = Owner(PARENT_NAMESERVER, Key(namespace, dnsconfig))
    return {**owner.labels, LABEL_APP_NAME: "tailscale", LABEL_APP_COMPONENT: NAMESERVER}


def owner_reference(resource: Resource, name: str, uid: str) -> Object:
    """Return the controller reference to the cluster-scoped owner *name*."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
