"""The patterns for misspelt names of the chart's values, and the schema that contains these patterns."""

import re

import pytest

from tests.charts.nearest import misspelt, places, written

KNOWN = {"hostname", "clientId", "tag", "tags", "annotations", "podAnnotations", "replicas"}


LIKE = {
    "hostname": [
        *("hostnam", "hostna", "hostname1", "hostname12", "ostname", "myhostname"),
        *("hostxame", "xostname", "hosntame", "hotname"),
    ],
    "clientId": ["clientID", "client_id"],
    "tag": ["tga"],
    "tags": ["togs"],
    "podAnnotations": ["podAnotations"],
}
UNLIKE = {
    "hostname": ["hostn", "hostname123", "hzzzzzzme", "hostname", "replicas"],
    "tag": ["t", "tags"],
    "tags": ["tag"],
    "podAnnotations": ["annotations"],
}


@pytest.mark.parametrize("name", LIKE)
def test_the_pattern_for_misspellings_of_a_name_matches_misspellings_and_no_known_name(name: str) -> None:
    pattern = misspelt(name, KNOWN)
    assert [given for given in LIKE[name] if not re.fullmatch(pattern, given)] == []
    assert [given for given in UNLIKE.get(name, ()) if re.fullmatch(pattern, given)] == []


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


def test_the_paths_of_values_in_a_schema_include_those_within_definitions_and_lists() -> None:
    assert [path for path, _ in places(SCHEMA)] == [
        *("operatorConfig", "operatorConfig.image", "operatorConfig.image.tag"),
        *("proxyConfig", "proxyConfig.list", "proxyConfig.list[].name", "free"),
    ]


def test_a_schema_refuses_unknown_names_only_in_objects_whose_properties_it_lists() -> None:
    closed = written(SCHEMA)
    assert "additionalProperties" not in closed["properties"]["free"]
    paths = ("operatorConfig", "operatorConfig.image")
    objects = [closed, *(found for path, found in places(closed) if path in paths)]
    assert [found["additionalProperties"] for found in objects] == [False] * 3
    assert closed["patternProperties"]["^tag$"] == {"const": "given as operatorConfig.image.tag"}
    assert "^free$" not in closed["patternProperties"]
    assert closed["properties"]["operatorConfig"]["patternProperties"]["^free$"] == {"const": "given as free"}


def test_generating_the_schema_of_values_from_its_own_output_changes_nothing() -> None:
    assert written(written(SCHEMA)) == written(SCHEMA)
