"""Which names look like a known one."""

import re
from typing import NamedTuple

import pytest

from tests.charts.nearest import misspelt, places, written

KNOWN = {"hostname", "clientId", "tag", "tags", "annotations", "podAnnotations", "replicas"}


class Case(NamedTuple):
    name: str
    given: str
    like: bool


@pytest.mark.parametrize(
    "case",
    [
        Case("hostname", "hostnam", True),
        Case("hostname", "hostna", True),
        Case("hostname", "hostn", False),
        Case("hostname", "hostname1", True),
        Case("hostname", "hostname12", True),
        Case("hostname", "hostname123", False),
        Case("hostname", "ostname", True),
        Case("hostname", "myhostname", True),
        Case("hostname", "hostxame", True),
        Case("hostname", "xostname", True),
        Case("hostname", "hosntame", True),
        Case("hostname", "hotname", True),
        Case("hostname", "hzzzzzzme", False),
        Case("hostname", "hostname", False),
        Case("hostname", "replicas", False),
        Case("clientId", "clientID", True),
        Case("clientId", "client_id", True),
        Case("tag", "tga", True),
        Case("tag", "t", False),
        Case("tag", "tags", False),
        Case("tags", "tag", False),
        Case("tags", "togs", True),
        Case("podAnnotations", "annotations", False),
        Case("podAnnotations", "podAnotations", True),
    ],
    ids=lambda case: f"{case.name} {case.given}",
)
def test_a_misspelling_looks_like_a_name_and_a_known_name_never_does(case: Case) -> None:
    assert bool(re.fullmatch(misspelt(case.name, KNOWN), case.given)) is case.like


SCHEMA = {
    "type": "object",
    "properties": {
        "operatorConfig": {"type": "object", "properties": {"image": {"$ref": "#/definitions/image"}}},
        "proxyConfig": {
            "type": "object",
            "properties": {"list": {"items": {"type": "object", "properties": {"name": {}}}}},
        },
        "free": {"type": "object"},
    },
    "definitions": {"image": {"type": "object", "properties": {"tag": {"type": "string"}}}},
}


def test_places_are_found_through_definitions_and_lists() -> None:
    assert [path for path, _ in places(SCHEMA)] == [
        *("operatorConfig", "operatorConfig.image", "operatorConfig.image.tag"),
        *("proxyConfig", "proxyConfig.list", "proxyConfig.list[].name", "free"),
    ]


def test_objects_that_list_their_properties_are_closed_and_others_stay_free() -> None:
    closed = written(SCHEMA)
    assert "additionalProperties" not in closed["properties"]["free"]
    paths = ("operatorConfig", "operatorConfig.image")
    objects = [closed, *(found for path, found in places(closed) if path in paths)]
    assert [found["additionalProperties"] for found in objects] == [False] * 3
    assert closed["patternProperties"]["^tag$"] == {"const": "given as operatorConfig.image.tag"}
    assert "^free$" not in closed["patternProperties"]
    assert closed["properties"]["operatorConfig"]["patternProperties"]["^free$"] == {"const": "given as free"}


def test_what_was_written_is_written_again_as_it_was() -> None:
    assert written(written(SCHEMA)) == written(SCHEMA)
