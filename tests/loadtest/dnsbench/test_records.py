"""Tests of the files with the benchmark's names, in the format that each server reads."""

from pathlib import Path

import dns.zone
import pytest
from dnsbench.queries import CHANGING, ZONE, addresses
from dnsbench.records import NAMES_IN_SHARD, Changes, documents, one_document, zone_file
from tsnameserver.records import merge, parse


@pytest.mark.parametrize(
    ("names", "files"),
    [
        (10, ["records.json"]),
        (2 * NAMES_IN_SHARD + 1, ["records.json", "records-1.json", "records-2.json"]),
    ],
)
def test_the_dns_benchmark_splits_many_names_into_the_shards_of_one_whole_set(names: int, files: list[str]) -> None:
    made = documents(addresses(names))
    whole = merge(map(parse, made.values()))
    assert whole is not None
    assert ([*made], {*whole.ip4}) == (files, {*addresses(names), CHANGING})


def test_a_shard_of_the_dns_benchmark_fits_into_a_configmap() -> None:
    names = dict.fromkeys(addresses(NAMES_IN_SHARD), "100.127.255.254")  # the longest address that the benchmark uses
    assert len(documents(names)["records.json"]) <= 256 << 10


def test_the_document_for_the_go_server_and_the_zone_file_have_every_name() -> None:
    names = addresses(3)
    assert parse(one_document(names)).ip4 == {name: [address] for name, address in names.items()}
    zone = dns.zone.from_text(zone_file(addresses(3)), origin=f"{ZONE}.", relativize=False)
    found = {name.to_text(omit_final_dot=True): data.to_text() for name, _, data in zone.iterate_rdatas("A")}
    assert found == addresses(3)


def test_a_change_of_the_records_in_the_dns_benchmark_rewrites_only_the_last_shard(tmp_path: Path) -> None:
    names = addresses(NAMES_IN_SHARD + 1)
    before = parse(documents(names)["records-1.json"]).ip4
    changes = Changes.of(tmp_path, names)
    changes.make_one()
    changes.make_one()
    records = parse((tmp_path / "records-1.json").read_bytes())
    assert (records.serial, records.shard, records.shards) == (3, 1, 2)
    assert records.ip4 == {**before, CHANGING: ["198.51.100.3"]}
    assert changes.owed.addresses == (bytes([198, 51, 100, 3]),)
    assert [path.name for path in tmp_path.iterdir()] == ["records-1.json"]
