"""The Secret with the ACME accounts that ProxyGroups share: one account for each tailnet.

A certificate authority limits how many accounts are made from one address. So no group owns the Secret, and it stays.
"""

from collections.abc import Sequence
from typing import Final

from tsoperator.api.names import ACCOUNTS, ACCOUNTS_CAPABILITY_VERSION, ACCOUNTS_FINALIZER, LABEL_MANAGED, MANAGED
from tsoperator.api.objects import SECRET, Key, Object, has_finalizer, is_deleting, key_of, labels
from tsoperator.proxy.secret import capability_version_of
from tsoperator.runtime.plan import Creation, Note, Patch, Report, Step

_LABELS: Final = {LABEL_MANAGED: MANAGED}
_PENDING: Final = Note(
    "Warning",
    "ACMEAccountsPendingDeletion",
    "it is being deleted, and ProxyGroups still use the ACME accounts in it. To keep the accounts, save its data, "
    f"remove finalizer {ACCOUNTS_FINALIZER}, and make the Secret anew with that data. To get new accounts, only remove "
    "the finalizer",
)


def account_steps(live: Object | None, namespace: str) -> list[Step]:
    """Return the step that makes the Secret with shared ACME accounts, or puts its metadata right.

    The Secret is in the operator's *namespace*.
    """
    if live is None:
        metadata = {"namespace": namespace, "name": ACCOUNTS, "labels": _LABELS, "finalizers": [ACCOUNTS_FINALIZER]}
        secret = {"apiVersion": SECRET.api_version, "kind": SECRET.kind, "metadata": metadata, "type": "Opaque"}
        return [Creation(secret)]
    if is_deleting(live):
        return []
    patch: Object = {} if _LABELS.items() <= labels(live).items() else {"labels": _LABELS}
    if not has_finalizer(live, ACCOUNTS_FINALIZER):
        others = live["metadata"].get("finalizers") or ()
        version = live["metadata"]["resourceVersion"]
        patch |= {"finalizers": [*others, ACCOUNTS_FINALIZER], "resourceVersion": version}
    return [Patch(SECRET, key_of(live), {"metadata": patch})] if patch else []


def account_reports(live: Object | None) -> list[Report]:
    """Return the report on the Secret with shared ACME accounts, if somebody is deleting it."""
    return [Report(live, notes=[_PENDING])] if live is not None and is_deleting(live) else []


def image_notes(states: Sequence[Object]) -> list[Note]:
    """Return an Event if the image of a group's proxy is too old to share an ACME account.

    *states* are the slim state Secrets of the group.
    """
    versions = {key_of(each).name: capability_version_of(each) for each in states}
    old = [name for name, version in versions.items() if version and version < ACCOUNTS_CAPABILITY_VERSION]
    message = (
        f"the image of {' and '.join(old)} is older than 1.103 and can't share an ACME account, so the group has an "
        "account of its own: use a newer image, or turn sharing off"
    )
    return [Note("Warning", "ACMEAccountNotShared", message)] if old else []


def account_key(namespace: str) -> Key:
    """Return the key of the Secret with shared ACME accounts, which is in the operator's *namespace*."""
    return Key(namespace, ACCOUNTS)
