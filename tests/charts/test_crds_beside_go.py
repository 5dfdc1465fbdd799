"""Our CRDs compared field by field with the Go operator's. Descriptions, and the words of refusals, are our own."""

from collections.abc import Iterator
from typing import Any

import pytest
from tsoperator.api.crds import DEFINITIONS, crd

from tests.support.schemas import children, nodes

Object = dict[str, Any]
Definitions = dict[str, Object]

DIFFERENT = {
    "DNSConfig spec.nameserver.pod.imagePullSecrets": "the Go operator has it from 1.103 on",
    "DNSConfig spec.clusterDNS": "ours alone",
    "DNSConfig status.clusterDNS": "ours alone",
    "ProxyGroup status.proxies": "ours alone: the column Ready shows it",
}
"""The fields that only one of the two operators has, as kind and path, with the reasons."""

SAME_MEANING = {
    "has(self.subnetRouter) || (has(self.exitNode) && self.exitNode == true) || has(self.appConnector)":
    "has(self.subnetRouter) || has(self.appConnector) || (has(self.exitNode) && self.exitNode)",
    "!((has(self.subnetRouter) || (has(self.exitNode)  && self.exitNode == true)) && has(self.appConnector))":
    "!has(self.appConnector) || !(has(self.subnetRouter) || (has(self.exitNode) && self.exitNode))",
    "!(has(self.hostname) && has(self.replicas) && self.replicas > 1)":
    "!has(self.hostname) || !has(self.replicas) || self.replicas <= 1",
    "!has(self.aws) || !has(self.aws.elasticIPs) || self.aws.elasticIPs.size() >= self.replicas":
    "!has(self.aws) || size(self.aws.elasticIPs) >= self.replicas",
    "!(has(self.serviceMonitor) && self.serviceMonitor.enable  && !self.enable)":
    "self.enable || !(has(self.serviceMonitor) && self.serviceMonitor.enable)",
}  # fmt: skip
"""A map from CEL rules of the Go operator to ours with the same meaning.

test_crds.py has objects that break each rule.
"""

WORDS = {"description"}
DEEPER = {"properties", "items", "additionalProperties", "x-kubernetes-validations"}
UNORDERED = {"required", "enum"}


@pytest.fixture(scope="module")
def ours() -> Definitions:
    return {definition.resource.kind: crd(definition) for definition in DEFINITIONS}


@pytest.fixture(scope="module")
def theirs(go_crds: list[Object]) -> Definitions:
    return {found["spec"]["names"]["kind"]: found for found in go_crds}


def schema(definition: Object) -> Object:
    (version,) = definition["spec"]["versions"]
    found: Object = version["schema"]["openAPIV3Schema"]
    return found


MORE_COLUMNS = {
    "Connector": ["Hostname", "Addresses"],
    "DNSConfig": ["Ready", "Cluster-DNS", "Zones"],
    "ProxyGroup": ["Ready", "Hostname", "Addresses"],
}
"""The columns that our CRDs have besides those of the Go operator's. The shared columns have the same order."""


def frame(definition: Object) -> Object:
    """Return the parts of a CRD besides its schema: names, scope, version, columns and subresources."""
    (version,) = definition["spec"]["versions"]
    columns = [
        {key: column[key] for key in column.keys() - WORDS} for column in version.get("additionalPrinterColumns", [])
    ]
    others = {key: version[key] for key in version.keys() - {"schema", "additionalPrinterColumns"}}
    return {
        **definition["spec"],
        "apiVersion": definition["apiVersion"],
        "name": definition["metadata"]["name"],
        "versions": [{**others, "columns": columns}],
    }


def differences(ours: Object, theirs: Object, path: str = "") -> Iterator[str]:
    """Yield the path of each difference between two schemas.

    The path ends with the keyword of JSON Schema that differs, if both schemas have the field.
    """
    for keyword in (ours.keys() | theirs.keys()) - WORDS - DEEPER:
        mine, other = (node.get(keyword) for node in (ours, theirs))
        if keyword in UNORDERED:
            mine, other = set(mine or ()), set(other or ())
        if mine != other:
            yield f"{path} {keyword}"
    below, below_theirs = children(ours), children(theirs)
    for mark in below.keys() | below_theirs.keys():
        if mark in below and mark in below_theirs:
            yield from differences(below[mark], below_theirs[mark], path + mark)
        else:
            yield path + mark


def rules(schema: Object) -> list[tuple[str, Object]]:
    return [(path, rule) for path, node in nodes(schema) for rule in node.get("x-kubernetes-validations", ())]


def test_our_crds_have_the_names_and_versions_of_the_go_operators_crds_and_all_their_columns(
    ours: Definitions, theirs: Definitions
) -> None:
    frames, wanted = ({kind: frame(each) for kind, each in those.items()} for those in (ours, theirs))
    more = {}
    for kind, made in frames.items():
        columns, their_columns = (each["versions"][0]["columns"] for each in (made, wanted[kind]))
        if added := [each["name"] for each in columns if each not in their_columns]:
            more[kind] = added
        columns[:] = [each for each in columns if each in their_columns]
    assert frames == wanted
    assert more == MORE_COLUMNS


def test_our_schemas_differ_from_the_go_operators_only_where_a_table_names_the_reason(
    ours: Definitions, theirs: Definitions
) -> None:
    found = {
        f"{kind} {place.removeprefix('.')}"
        for kind in ours
        for place in differences(schema(ours[kind]), schema(theirs[kind]))
    }
    assert found == DIFFERENT.keys()


def test_each_cel_rule_of_our_crds_is_a_rule_of_the_go_operators_or_has_the_same_meaning(
    ours: Definitions, theirs: Definitions
) -> None:
    used = set()
    for kind in ours:
        given, wanted = (rules(schema(each[kind])) for each in (ours, theirs))
        assert all(rule.keys() == {"rule", "message"} and rule["message"] for _, rule in given + wanted)
        expressions = [(path, rule["rule"]) for path, rule in wanted]
        used |= {expression for _, expression in expressions}
        assert {(path, rule["rule"]) for path, rule in given} == {
            (path, SAME_MEANING.get(expression, expression)) for path, expression in expressions
        }
    assert SAME_MEANING.keys() <= used
