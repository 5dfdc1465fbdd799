"""The right answers, according to the records files that the server serves."""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tsnameserver.errors import RecordsError
from tsnameserver.records import RECORDS_KEY, merge, parse

from dnsload.errors import InputError

NOERROR = 0
NXDOMAIN = 3
_RECORDS = Path(RECORDS_KEY)


@dataclass(frozen=True, slots=True)
class Expectation:
    """The right answer to a query. None stands for a part that isn't known."""

    rcode: int | None = None
    addresses: frozenset[str] | None = None


UNKNOWN = Expectation()
ABSENT = Expectation(NXDOMAIN, frozenset())


@dataclass(frozen=True, slots=True)
class KnownNames:
    """The addresses of each name, by type. Names are in lower case and without the final dot."""

    addresses: Mapping[str, Mapping[str, frozenset[str]]]

    def expectation(self, name: str, qtype: str) -> Expectation:
        """Return the right answer to a query for *name* and *qtype*."""
        found = self.addresses.get(name)
        if found is None or qtype == "ANY":
            return UNKNOWN
        return Expectation(NOERROR, found.get(qtype, frozenset()))


def fold(name: str) -> str:
    """Return *name* in lower case and without its final dot."""
    return name.strip().lower().removesuffix(".")


def read_records(paths: Iterable[Path]) -> KnownNames:
    """Read the records documents of one set, and return the known names. Raises InputError.

    *paths* are one file, several shards, or a folder that contains these.
    """
    documents = []
    for path in _files(paths):
        try:
            documents.append(parse(path.read_bytes()))
        except OSError as error:
            raise InputError(f"{path} can't be read: {error.strerror}") from error
        except RecordsError as error:
            raise InputError(f"{path} has no records: {error}") from error
    records = merge(documents)
    if records is None:
        raise InputError("the records are a part of a set: name the files of all its shards")
    addresses: dict[str, dict[str, frozenset[str]]] = {}
    for qtype, names in (("A", records.ip4), ("AAAA", records.ip6)):
        for name, texts in names.items():
            addresses.setdefault(fold(name), {})[qtype] = _normal(name, texts)
    return KnownNames(addresses)


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files among *paths*, and for a folder its files `records.json`, `records-1.json`, …."""
    for path in paths:
        if not path.is_dir():
            yield path
        elif found := sorted(path.glob(f"{_RECORDS.stem}*{_RECORDS.suffix}")):
            yield from found
        else:
            raise InputError(f"{path} has no records: it is a folder without {RECORDS_KEY}")


def _normal(name: str, texts: Iterable[str]) -> frozenset[str]:
    try:
        return frozenset(str(ipaddress.ip_address(text)) for text in texts)
    except ValueError as error:
        raise InputError(f"the records of {name} hold an address that is none: {error}") from error
