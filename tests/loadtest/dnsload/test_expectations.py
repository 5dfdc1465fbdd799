"""Tests of the answers that are expected according to the records."""

from pathlib import Path

import pytest
from dnsload.errors import InputError
from dnsload.expectations import NOERROR, UNKNOWN, Expectation, read_records
from tsnameserver.records import Records, render

RECORDS = Records(
    ip4={"DB.tail1234.ts.net.": ["100.64.0.1", "100.64.0.2"], "none.tail1234.ts.net": []},
    ip6={"db.tail1234.ts.net": ["2001:DB8::0:1"]},
)


def records_file(path: Path, records: Records = RECORDS) -> Path:
    path.write_text(render(records))
    return path


def test_the_expected_answers_are_those_of_the_records(tmp_path: Path) -> None:
    known = read_records([records_file(tmp_path / "records.json")])
    name = "db.tail1234.ts.net"
    assert known.expectation(name, "A") == Expectation(NOERROR, frozenset({"100.64.0.1", "100.64.0.2"}))
    assert known.expectation(name, "AAAA") == Expectation(NOERROR, frozenset({"2001:db8::1"}))
    assert known.expectation(name, "MX") == Expectation(NOERROR, frozenset())
    assert known.expectation("none.tail1234.ts.net", "A") == Expectation(NOERROR, frozenset())
    assert known.expectation("tail1234.ts.net", "A") == UNKNOWN
    assert known.expectation(name, "ANY") == UNKNOWN


def test_shards_are_joined_whether_the_user_names_the_files_or_their_folder(tmp_path: Path) -> None:
    shards = [Records(ip4={f"n{number}.ts.net": ["100.64.0.1"]}, shard=number, shards=2) for number in (0, 1)]
    paths = [tmp_path / name for name in ("records.json", "records-1.json")]
    for path, shard in zip(paths, shards, strict=True):
        records_file(path, shard)
    (tmp_path / "other.json").write_text("{")
    for named in (paths, [tmp_path]):
        assert {*read_records(named).addresses} == {"n0.ts.net", "n1.ts.net"}
    with pytest.raises(InputError, match="shards"):
        read_records(paths[:1])


@pytest.mark.parametrize("text", [None, "{", '{"version":"v1alpha1","ip4":{"a.ts.net":["x"]}}'])
def test_bad_records_are_an_input_error(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "records.json"
    if text is not None:
        path.write_text(text)
    for named in (path, tmp_path):
        with pytest.raises(InputError, match="records"):
            read_records([named])
