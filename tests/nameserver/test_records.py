"""Tests of the records format."""

import pytest
from tsnameserver.errors import RecordsError
from tsnameserver.records import Records, merge, parse, render, share, whole_set

DOCUMENTS = {
    '{"version":"v1alpha1","ip4":{"B":["192.0.2.1"],"b":[]}}': Records(ip4={"b": [], "B": ["192.0.2.1"]}),
    '{"version":"v1alpha1","ip4":{"a.ts.net":["100.64.0.9"]},"ip6":{"a.ts.net":["2001:db8::9"]}}': Records(
        ip4={"a.ts.net": ["100.64.0.9"]}, ip6={"a.ts.net": ["2001:db8::9"]}
    ),
    '{"version":"v1alpha1","ip4":{},"zones":["ts.example.org"],"serial":3,"shard":0,"shards":2}': Records(
        zones=["ts.example.org"], serial=3, shard=0, shards=2
    ),
}


@pytest.mark.parametrize(("document", "records"), DOCUMENTS.items(), ids=["in byte order", "upstream's", "ours"])
def test_records_that_are_written_as_a_document_and_parsed_again_are_unchanged(document: str, records: Records) -> None:
    assert parse(document) == records
    assert render(records) == document


@pytest.mark.parametrize(
    "document",
    [
        '{"version":"v1alpha1"}',
        '{"version":"v1alpha1","ip4":null,"ip6":null,"zones":null,"serial":null}',
        b'{"version":"v1alpha1","ip4":{},"ip7":{"x":1}}',
    ],
)
def test_a_records_document_is_valid_if_keys_are_missing_null_or_unknown(document: str | bytes) -> None:
    assert parse(document) == Records()


def test_null_as_the_addresses_of_a_name_in_the_records_means_no_addresses() -> None:
    assert parse('{"version":"v1alpha1","ip4":{"a":null,"b":["192.0.2.1"]}}').ip4 == {"a": [], "b": ["192.0.2.1"]}


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ("", "Invalid JSON"),
        ('{"version":"v1alpha1"', "Invalid JSON"),
        (b"\xff\xfe", "Invalid JSON"),
        ("[]", "Input should be"),
        ('{"ip4":{}}', "version is missing"),
        ('{"version":"v1beta1"}', "version is 'v1beta1'"),
        ('{"version":"v1alpha1","ip4":{"a":"192.0.2.1"}}', "ip4.a"),
        ('{"version":"v1alpha1","serial":-1}', "serial"),
    ],
)
def test_the_error_about_a_bad_records_document_names_the_fault(document: str | bytes, says: str) -> None:
    with pytest.raises(RecordsError, match=says):
        parse(document)


def shard(number: int, of: int, serial: int = 1) -> Records:
    name = f"n{number}of{of}.ts.net"
    return Records(ip4={name: ["192.0.2.1"]}, zones=["ts.net", name], serial=serial, shard=number, shards=of)


WHOLE, FIRST, SECOND, LEFTOVER = Records(serial=4), shard(0, 2), shard(1, 2), shard(2, 3)
SETS: dict[str, tuple[list[Records], tuple[Records, ...] | None]] = {
    "a document without shards": ([WHOLE, SECOND], (WHOLE,)),
    "shards in any order": ([SECOND, FIRST], (FIRST, SECOND)),
    "a leftover of a larger set": ([FIRST, SECOND, LEFTOVER], (FIRST, SECOND)),
    "the newer of two": ([FIRST, SECOND, WHOLE], (WHOLE,)),
    "nothing": ([], None),
    "one missing": ([FIRST], None),
    "first missing": ([SECOND], None),
    "being split from two to three": ([shard(0, 3), SECOND, LEFTOVER], None),
    "a shard past the count": ([FIRST, shard(2, 2)], None),
    "one of more than can be counted": ([shard(0, 10**15)], None),
}


@pytest.mark.parametrize(("documents", "whole"), SETS.values(), ids=SETS)
def test_the_nameserver_uses_the_newest_set_of_records_whose_shards_are_all_there(
    documents: list[Records], whole: tuple[Records, ...] | None
) -> None:
    assert whole_set(documents) == whole
    assert (merge(documents) is None) == (whole is None)


def test_the_shards_of_a_whole_set_are_merged_into_one_set_of_records() -> None:
    merged = merge([shard(1, 2, serial=9), FIRST])
    assert merged == Records(
        ip4={"n0of2.ts.net": ["192.0.2.1"], "n1of2.ts.net": ["192.0.2.1"]},
        zones=["ts.net", "n0of2.ts.net", "n1of2.ts.net"],
        serial=9,
    )


def test_equal_lists_of_addresses_in_an_old_and_a_new_records_document_are_stored_once() -> None:
    old = Records(ip4={"a": ["192.0.2.1"], "b": ["192.0.2.2"]}, ip6={"a": ["2001:db8::1"]})
    new = Records(ip4={"a": ["192.0.2.1"], "b": ["192.0.2.3"]}, ip6={"a": ["2001:db8::1"]})
    before = new.model_copy(deep=True)
    share(new, old)
    assert new == before
    assert new.ip4["a"] is old.ip4["a"]
    assert new.ip6["a"] is old.ip6["a"]
