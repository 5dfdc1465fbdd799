"""The CRDs that are made from the models.

`tests/charts/test_crds_beside_go.py` compares them with those of the Go operator.
"""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pydantic import ConfigDict, Field
from tsoperator.api.crds import DEFINITIONS, Definition, crd, file_name, structural_schema
from tsoperator.api.objects import Object
from tsoperator.api.quantities import PATTERN
from tsoperator.api.v1alpha1.kubernetes_types import LocalObjectReference
from tsoperator.api.v1alpha1.wire import WireModel

from tests.support.schemas import nodes

CHART_CRDS = Path(__file__).parents[3] / "charts/tailscale-operator/files/crds"
EVERY_KIND = pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.resource.kind)

FIELD_KEYWORDS = {
    "type", "format", "description", "properties", "items", "additionalProperties", "required", "enum", "default",
    "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys", "x-kubernetes-map-type", "x-kubernetes-validations",
}  # fmt: skip
"""The keywords of OpenAPI v3 that the API server accepts in a structural schema, as far as we use them."""
QUANTITY = {"anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": PATTERN, "x-kubernetes-int-or-string": True}


def root_schema(definition: Definition) -> Object:
    (version,) = crd(definition)["spec"]["versions"]
    schema: Object = version["schema"]["openAPIV3Schema"]
    return schema


def test_the_crds_in_the_chart_are_those_that_the_module_crds_writes_from_the_models(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "tsoperator.api.crds", tmp_path], check=True, timeout=30)
    written, charts = ({path.name: path.read_text() for path in folder.iterdir()} for folder in (tmp_path, CHART_CRDS))
    assert written == charts, "run: make crds"
    assert written.keys() == {file_name(each.resource) for each in DEFINITIONS}


@EVERY_KIND
def test_the_yaml_of_a_crd_parses_to_the_same_crd(definition: Definition) -> None:
    text = (CHART_CRDS / file_name(definition.resource)).read_text()
    assert yaml.load(text, yaml.CSafeLoader) == crd(definition)
    assert "&id" not in text


@EVERY_KIND
def test_every_node_of_a_schema_is_structural_and_has_a_description_of_one_paragraph(definition: Definition) -> None:
    for path, node in nodes(root_schema(definition)):
        if path != "metadata" and not path.endswith(("[]", "{}")):
            assert node["description"], path
            assert "\n" not in node["description"], path
        if node.get("x-kubernetes-int-or-string"):
            assert node == QUANTITY, path
            continue
        assert node.keys() <= FIELD_KEYWORDS, path
        assert node["type"] in {"object", "array", "string", "integer", "boolean"}, path
        assert ("items" in node) == (node["type"] == "array"), path
        assert set(node.get("required", ())) <= node.get("properties", {}).keys(), path


class Ruled(WireModel):
    """A model with validation rules, with a default that the schema must not have, and with a field called title."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-validations": [{"rule": "has(self.size)"}]})

    size: int = 3
    """A field whose default only the operator's code applies, so that the schema must not have the default."""
    title: str = Field(default="", json_schema_extra={"x-kubernetes-validations": [{"rule": "self == oldSelf"}]})
    """A field that has the name of a keyword of JSON Schema."""


def test_the_schema_of_a_model_has_its_rules_but_no_default_unless_the_api_server_is_to_apply_the_default() -> None:
    made = structural_schema(Ruled)
    assert made["x-kubernetes-validations"] == [{"rule": "has(self.size)"}]
    assert made["properties"]["title"] == {
        "description": "A field that has the name of a keyword of JSON Schema.",
        "type": "string",
        "x-kubernetes-validations": [{"rule": "self == oldSelf"}],
    }
    assert "default" not in made["properties"]["size"]
    assert structural_schema(LocalObjectReference)["properties"]["name"]["default"] == ""
