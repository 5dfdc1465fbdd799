"""The format of the records, which the operator writes to ConfigMaps and the nameserver reads.

A document is the text under the key `records.json` of the ConfigMap `dnsrecords`, or of a mounted file. If the records
don't fit in one ConfigMap, they are spread over `dnsrecords`, `dnsrecords-1`, …: each of these documents states its
number `shard`, counted from 0, and the number of `shards`. A document without these fields is a whole set by itself.
"""

import json
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from tsnameserver.errors import RecordsError

VERSION = "v1alpha1"
CONFIGMAP_NAME = "dnsrecords"
RECORDS_KEY = "records.json"
LABEL_SELECTOR = "tailscale.com/managed=true,tailscale.com/parent-resource-type=nameserver"
MAX_SHARDS = 32


def _names(value: Any) -> Any:
    """Return the table of names *value* with empty values for nulls.

    The table itself can be null, and so can the addresses of a name.
    """
    if value is None:
        return {}
    if isinstance(value, dict) and None in value.values():
        return {name: addresses or [] for name, addresses in value.items()}
    return value


def _list(value: Any) -> Any:
    return [] if value is None else value


_Addresses = Annotated[dict[str, list[str]], BeforeValidator(_names)]


class Records(BaseModel):
    """Names and their addresses, as they are written in the document. They aren't checked or normalised here."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    version: str = VERSION
    ip4: _Addresses = {}
    ip6: _Addresses = {}
    zones: Annotated[list[str], BeforeValidator(_list)] = []
    """Zones that the nameserver serves besides those in its settings."""
    serial: int | None = Field(default=None, ge=0)
    """The serial of every SOA. It grows with each change."""
    shard: int | None = Field(default=None, ge=0)
    shards: int | None = Field(default=None, ge=1)


def parse(document: str | bytes) -> Records:
    """Return the records of one document; raises RecordsError."""
    try:
        records = Records.model_validate_json(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RecordsError(f"{where}: {first['msg']}" if where else first["msg"]) from error
    if records.version != VERSION:
        raise RecordsError(f"version is {records.version!r}; this nameserver reads {VERSION!r}")
    if "version" not in records.model_fields_set:
        raise RecordsError(f"version is missing; this nameserver reads {VERSION!r}")
    return records


def render(records: Records) -> str:
    """Return *records* as a compact document: version first, names in byte order, no empty fields except ip4."""
    fields = {
        "version": records.version,
        "ip4": dict(sorted(records.ip4.items())),
        "ip6": dict(sorted(records.ip6.items())) or None,
        "zones": records.zones or None,
        "serial": records.serial,
        "shard": records.shard,
        "shards": records.shards,
    }
    present = {name: value for name, value in fields.items() if value is not None}
    return json.dumps(present, separators=(",", ":"), ensure_ascii=False)


def share(new: Records, old: Records) -> None:
    """Replace parts of *new* by equal parts of *old*, so that hardly anything is in memory twice."""
    for after, before in ((new.ip4, old.ip4), (new.ip6, old.ip6)):
        for name, addresses in after.items():
            known = before.get(name)
            if known == addresses:
                after[name] = known


def whole_set(documents: Iterable[Records]) -> tuple[Records, ...] | None:
    """Return the shards of the newest whole set among *documents*, or None if there is no whole set.

    A set is whole if all its shards are there with the same number of `shards`. So a new set is not used before its
    last shard is written. If ConfigMaps of an earlier set are left over, there can be several whole sets. Then the set
    with the highest serial is used.
    """
    sets: dict[int, dict[int, Records]] = {}
    whole: list[tuple[Records, ...]] = []
    for records in documents:
        if records.shards is None:
            whole.append((records,))
        else:
            sets.setdefault(records.shards, {})[records.shard or 0] = records
    whole += [
        tuple(shards[number] for number in range(count))
        for count, shards in sets.items()
        if len(shards) == count > max(shards)
    ]
    return max(whole, key=lambda parts: max(part.serial or 0 for part in parts), default=None)


def merge(documents: Iterable[Records]) -> Records | None:
    """Return the newest whole set among *documents* as one document, or None if there is no whole set."""
    parts = whole_set(documents)
    if parts is None:
        return None
    return Records(
        ip4={name: addresses for part in parts for name, addresses in part.ip4.items()},
        ip6={name: addresses for part in parts for name, addresses in part.ip6.items()},
        zones=list(dict.fromkeys(zone for part in parts for zone in part.zones)),
        serial=max((part.serial for part in parts if part.serial is not None), default=None),
    )
