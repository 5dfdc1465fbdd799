"""The egress ConfigMap of a ProxyGroup, which tells the proxies what to forward (docs/development/groups.md).

The operator always computes its whole content from the ClusterIP Services of the group's egress Services. Nobody else
writes it.
"""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tsoperator.api.names import ANNOTATION_EGRESS_LEFT_OUT, EGRESS_PINGS, EGRESS_SERVICES
from tsoperator.api.objects import CONFIGMAP, Object, annotations, by_age, is_deleting, key_of
from tsoperator.group.egress import entry_name, entry_of, served_service
from tsoperator.proxy.entries import Entry, entries_of, is_broken, render_entries
from tsoperator.runtime.diff import metadata_patch
from tsoperator.runtime.plan import Creation, Patch, Step

SIZE_MAX: Final = 900 * 1024
"""The largest size of the entries in an egress ConfigMap: the number of characters in their stored form (base64).

The API server accepts a ConfigMap of up to 1 MiB.
"""

_PINGS: Final = 3  # the requests, for each replica, by which a proxy sees before its end that it gets no connections
_NOTHING: Final = len("{}")


@dataclass(frozen=True, slots=True)
class Entries:
    """The wanted entries of an egress ConfigMap by name, and the number of entries for which it has no room.

    *document* is the stored form of the entries; it is empty if the ConfigMap has exactly these entries already.
    """

    chosen: Mapping[str, Entry]
    document: str = ""
    left_out: int = 0


def entries(services: Iterable[Object], live: Object | None, cluster_domain: str) -> Entries:
    """Return the entries for the ClusterIP *services* of a group. *live* is its present ConfigMap, if it has one.

    If a Service doesn't say to which device it leads, its present entry stays as it is. If the ConfigMap has no room
    for all entries, the existing entries stay, and the newest Services get no entries.
    """
    there = entries_of(live)
    oldest: dict[str, Object] = {}
    for each in sorted(services, key=by_age):
        if not is_deleting(each):
            oldest.setdefault(entry_name(served_service(each)), each)
    found: dict[str, Entry] = {}
    for name, service in oldest.items():
        entry = entry_of(service, cluster_domain) or there.get(name)
        if entry is not None:
            found[name] = entry
    if found == there and not is_broken(live):
        return Entries(found)
    document = render_entries(found)
    return Entries(found, document) if len(document) <= SIZE_MAX else _fitting(found, there)


def egress_configmap_steps(
    wanted: Object, live: Object | None, services: Iterable[Object], replicas: int | None, cluster_domain: str
) -> list[Step]:
    """Return the step that makes the egress ConfigMap right; no step if it is right already.

    *wanted* has the metadata that the ConfigMap should have, and *services* are the ClusterIP Services that get
    entries. *replicas* is the number of proxies that the group should have. The number of health checks that a proxy
    makes before it ends depends on *replicas*. If *replicas* is None, the ConfigMap keeps the present number of health
    checks.
    """
    if live is not None and is_deleting(live):
        return []  # when the ConfigMap is gone, the group is reconciled again
    found = entries(services, live, cluster_domain)
    pings = {} if replicas is None else {EGRESS_PINGS: _encoded(str(_PINGS * replicas))}
    if live is None:
        data = pings | ({EGRESS_SERVICES: found.document} if found.document else {})
        return [Creation({**wanted, "binaryData": data})]
    stored = live.get("binaryData") or {}
    data = {name: value for name, value in pings.items() if stored.get(name) != value}
    if found.document:
        data[EGRESS_SERVICES] = found.document
    metadata = metadata_patch(live, wanted)
    noted = annotations(live).get(ANNOTATION_EGRESS_LEFT_OUT)
    left_out = str(found.left_out) if found.left_out else None
    if noted != left_out:
        metadata["annotations"] = {ANNOTATION_EGRESS_LEFT_OUT: left_out}
    body = ({"metadata": metadata} if metadata else {}) | ({"binaryData": data} if data else {})
    return [Patch(CONFIGMAP, key_of(live), body)] if body else []


def _fitting(found: Mapping[str, Entry], there: Mapping[str, Entry]) -> Entries:
    """Return those of the entries *found* for which the ConfigMap has room.

    *found* is sorted by age, the oldest first. *there* are the entries that the ConfigMap has already. The ConfigMap
    keeps these entries, and new entries get only the room that is left.
    """
    chosen = {name: there[name] for name in found if name in there}
    size = _NOTHING + sum(_size(name, entry) for name, entry in chosen.items())
    left_out = 0
    for name, entry in found.items():
        more = _size(name, entry) - (_size(name, chosen[name]) if name in chosen else 0)
        if more > 0 and _encoded_size(size + more) > SIZE_MAX:
            left_out += 1
        else:
            chosen[name] = entry
            size += more
    return Entries(chosen, "" if chosen == there else render_entries(chosen), left_out)


def _size(name: str, entry: Entry) -> int:
    """Return the number of bytes that *entry* adds to the document, and one for a comma that it possibly needs."""
    return len(base64.b64decode(render_entries({name: entry}))) - _NOTHING + 1


def _encoded_size(size: int) -> int:
    return (size + 2) // 3 * 4


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
