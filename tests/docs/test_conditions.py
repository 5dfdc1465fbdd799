"""docs/conditions.md has every condition and every reason that the operator can give, and no others."""

import pytest

from tests.docs.pages import codes, rows, sections
from tests.docs.source import Source

PAGE = "conditions.md"


@pytest.fixture(scope="module")
def source() -> Source:
    return Source()


def test_every_reason_has_a_row_and_every_row_is_a_reason(source: Source) -> None:
    given = source.values("reason")
    told = {reason for body in sections(PAGE).values() for reason in rows(body)}
    assert {reason: place for reason, place in given.items() if reason not in told} == {}
    assert told - {*given} == set()


def test_every_condition_has_a_heading_and_every_such_heading_is_a_condition(source: Source) -> None:
    given = source.values("type_")
    told = {type_ for heading in sections(PAGE) for type_ in codes(heading)}
    assert {type_: place for type_, place in given.items() if type_ not in told} == {}
    assert told - {*given} == set()


def test_what_the_source_gives_is_found_however_it_gets_there(source: Source) -> None:
    found = {*source.values("reason")}
    by_constant, by_table, by_default, by_local = "ConnectorInvalid", "ConnectorCreating", "ProxyFailed", "ProxyPending"
    assert {by_constant, by_table, by_default, by_local, "UnsupportedByControlServer"} <= found
    assert "RecorderReady" in source.values("type_")
