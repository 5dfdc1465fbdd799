"""The names in the format of each server: records files for our server and the Go server, or a zone file."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dnsload.client import Query
from tsnameserver.records import Records, render

from dnsbench.queries import CHANGING, ZONE, hit

NAMES_IN_SHARD = 5000
"""The number of names in a shard, which keeps the shard under 256 KiB."""


def documents(names: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of the records files, by the name of the file; the name `CHANGING` is in the last file."""
    known = list(names.items())
    shards = max(1, math.ceil(len(known) / NAMES_IN_SHARD))
    files = {}
    for shard in range(shards):
        ip4 = {name: [address] for name, address in known[shard * NAMES_IN_SHARD : (shard + 1) * NAMES_IN_SHARD]}
        if shard == shards - 1:
            ip4[CHANGING] = [changed_address(0)]
        records = Records(ip4=ip4, serial=1)
        if shards > 1:
            records = records.model_copy(update={"shard": shard, "shards": shards})
        files[f"records-{shard}.json" if shard else "records.json"] = render(records)
    return files


def one_document(names: Mapping[str, str]) -> str:
    """Return all names in one records file, as the Go server needs them."""
    return render(Records(ip4={name: [address] for name, address in names.items()}))


def zone_file(names: Mapping[str, str]) -> str:
    """Return all names in one master file (RFC 1035, section 5)."""
    soa = "ns.example.org. hostmaster.example.org. 1 3600 600 86400 5"
    apex = f"$ORIGIN {ZONE}.\n$TTL 5\n@ SOA {soa}\n@ NS ns.example.org.\n"
    return apex + "".join(f"{name}. A {address}\n" for name, address in names.items())


def changed_address(change: int) -> str:
    """Return the address that the name `CHANGING` has after the *change* with this number."""
    return f"198.51.100.{change % 250 + 1}"


@dataclass(slots=True)
class Changes:
    """A writer that changes the address of the name `CHANGING` by replacing the file of the last shard."""

    path: Path
    text: str
    """The text of the file before any change."""
    made: int = 0

    @classmethod
    def of(cls, folder: Path, names: Mapping[str, str]) -> "Changes":
        """Return a Changes that replaces the last records file in *folder*. The records files there have *names*."""
        name, text = list(documents(names).items())[-1]
        return cls(folder / name, text)

    def make_one(self) -> None:
        """Write the next change. The file is replaced atomically."""
        self.made += 1
        old, new = f'["{changed_address(0)}"]', f'["{changed_address(self.made)}"]'
        whole = self.path.with_name(f"{self.path.name}.next")
        whole.write_text(self.text.replace(old, new).replace('"serial":1', f'"serial":{1 + self.made}', 1))
        whole.replace(self.path)

    @property
    def owed(self) -> Query:
        """The query for `CHANGING`. Its right answer is the address after the last change."""
        return hit(CHANGING, changed_address(self.made))
