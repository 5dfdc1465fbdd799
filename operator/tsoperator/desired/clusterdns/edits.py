"""Decides what to write so that the cluster's DNS knows the nameserver, or forgets it."""

from collections.abc import Sequence

from tsoperator.api.objects import CONFIGMAP, Object, key_of
from tsoperator.desired.clusterdns.platforms import COREFILE, COREFILES, Platform, configmap
from tsoperator.desired.clusterdns.results import Change, DNSObjects, Nothing, Refusal, StubDomain
from tsoperator.desired.clusterdns.serverblock import with_block, without_block
from tsoperator.desired.plan import Patch


def plan_edit(platform: Platform, objects: DNSObjects, stub: StubDomain) -> Change | Nothing | Refusal:
    """Return the write that makes the cluster's DNS ask for the zones of *stub* at its addresses.

    A stub domain of ours for other zones or addresses is replaced. Those that are on other platforms are for
    `plan_removal`.
    """
    found = configmap(objects, platform.key.name)
    if found is None or COREFILE not in (found.get("data") or {}):
        return Refusal("NoCorefile", f"{platform.where} isn't there: put the Corefile back")
    return _written(found, COREFILE, with_block(found["data"][COREFILE], stub, platform.where), platform.restart)


def plan_removal(objects: DNSObjects, keep: Platform | None = None) -> Sequence[Change | Refusal]:
    """Return the writes that take our stub domain out of all *objects* but the one that *keep* writes."""
    changes: list[Change | Refusal] = []
    for name in COREFILES:
        found = configmap(objects, name)
        if found is None or (keep is not None and keep.key == key_of(found)):
            continue
        text = (found.get("data") or {}).get(COREFILE, "")
        planned = _written(found, COREFILE, without_block(text, f"key {COREFILE} of ConfigMap {key_of(found)}"), "")
        if not isinstance(planned, Nothing):
            changes.append(planned)
    return changes


def _written(found: Object, key: str, text: str | Refusal, restart: str) -> Change | Nothing | Refusal:
    if isinstance(text, Refusal):
        return text
    if text == found["data"].get(key):
        return Nothing(restart)
    return Change(Patch(CONFIGMAP, key_of(found), {"data": {key: text}}, "the stub domain"), restart)
