"""Records, a zone and queries that the nameserver's tests share."""

from pathlib import Path

import dns.message
from tsnameserver.compiler import build_zone
from tsnameserver.records import Records, render
from tsnameserver.zone import Zone, ZoneSettings

SETTINGS = ZoneSettings(origins=("ts.net",), ttl=5)
MANY = [f"192.0.2.{number}" for number in range(1, 41)]
RECORDS = Records(
    ip4={
        "db.tail1234.ts.net": ["100.64.0.1"],
        "v4.tail1234.ts.net": ["100.64.0.4", "100.64.0.3"],
        "Mixed.TAIL1234.ts.net.": ["100.64.0.5"],
        "none.tail1234.ts.net": [],
        "many.tail1234.ts.net": MANY,
        "a.b.deep.ts.net": ["100.64.0.6"],
    },
    ip6={"db.tail1234.ts.net": ["2001:db8::1"], "v6.tail1234.ts.net": ["2001:db8::6"]},
    serial=7,
)
DOCUMENT = render(RECORDS)


def sample_zone() -> Zone:
    return build_zone(RECORDS, SETTINGS)


def make_query(name: str, qtype: str = "A", **options: object) -> dns.message.QueryMessage:
    """Return a query made by dnspython, always with the same message ID.

    *options* are those of dns.message.make_query.
    """
    return dns.message.make_query(name, qtype, id=0x1234, **options)  # type: ignore[arg-type]  # passed on as they come


def wire(name: str, qtype: str = "A", **options: object) -> bytes:
    return make_query(name, qtype, **options).to_wire()


def parsed(response: bytes | None) -> dns.message.Message:
    assert response is not None
    return dns.message.from_wire(response)


def texts(response: dns.message.Message) -> list[str]:
    """Return the data of the records in the answer section, in order."""
    return [record.to_text() for rrset in response.answer for record in rrset]


def mount(volume: Path, *documents: str) -> None:
    """Replace the files in *volume* as the kubelet does in a mounted ConfigMap.

    The new files are `records.json`, with the first of the documents, and further shards.
    """
    version = f"..{len([*volume.iterdir()])}"
    (volume / version).mkdir()
    for number, document in enumerate(documents):
        name = f"records-{number}.json" if number else "records.json"
        (volume / version / name).write_text(document)
        if not (volume / name).is_symlink():
            (volume / name).symlink_to(Path("..data") / name)
    (volume / "..data_tmp").symlink_to(version)
    (volume / "..data_tmp").replace(volume / "..data")
