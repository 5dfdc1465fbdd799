"""CRDs as they are made from the models."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pydantic import ConfigDict, Field
from tsoperator.api.crds import DEFINITIONS, Definition, crd, file_name, render, structural_schema, write
from tsoperator.api.objects import CONNECTOR, DNSCONFIG, PROXYCLASS, Object
from tsoperator.api.v1alpha1.kubernetes_types import Affinity, Condition, LocalObjectReference, Toleration
from tsoperator.api.v1alpha1.pod_types import PodSecurityContext, SecurityContext
from tsoperator.api.v1alpha1.proxyclass import Container, Pod
from tsoperator.api.v1alpha1.wire import WireModel

from tests.support.schemas import nodes

ROOT = Path(__file__).parents[3]
CHART_CRDS = ROOT / "charts/tailscale-operator/files/crds"
EVERY_KIND = pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.resource.kind)

FIELD_KEYWORDS = {
    "type", "format", "description", "properties", "items", "additionalProperties", "required", "enum", "default",
    "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys", "x-kubernetes-map-type", "x-kubernetes-validations",
}  # fmt: skip
"""Of OpenAPI v3, what the API server takes in a structural schema (of that, what we use)."""

TEXT = {"type": "string"}
THING = {"type": "object"}
DNSCONFIG_FACTS = {
    "": {"type": "object", "required": ["spec"]},
    "apiVersion": TEXT,
    "kind": TEXT,
    "metadata": THING,
    "spec": {"type": "object", "required": ["nameserver"]},
    "spec.nameserver": THING,
    "spec.nameserver.image": THING,
    "spec.nameserver.image.repo": TEXT,
    "spec.nameserver.image.tag": TEXT,
    "spec.nameserver.service": THING,
    "spec.nameserver.service.clusterIP": TEXT,
    "spec.nameserver.pod": THING,
    "spec.nameserver.pod.affinity": THING,
    "spec.nameserver.pod.imagePullSecrets": {"type": "array"},
    "spec.nameserver.pod.imagePullSecrets[]": {"type": "object", "x-kubernetes-map-type": "atomic"},
    "spec.nameserver.pod.imagePullSecrets[].name": {"type": "string", "default": ""},
    "spec.nameserver.pod.nodeSelector": THING,
    "spec.nameserver.pod.nodeSelector{}": TEXT,
    "spec.nameserver.pod.tolerations": {"type": "array"},
    "spec.nameserver.pod.tolerations[]": THING,
    "spec.nameserver.replicas": {"type": "integer", "format": "int32", "minimum": 0},
    "status": THING,
    "status.conditions": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    },
    "status.nameserver": THING,
    "status.nameserver.ip": TEXT,
}
ROUTES = {"type": "array", "minItems": 1}
ROUTE = {"type": "string", "format": "cidr"}
CONNECTOR_FACTS = {
    "": {"type": "object", "required": ["spec"]},
    "apiVersion": TEXT,
    "kind": TEXT,
    "metadata": THING,
    "spec": THING,
    "spec.appConnector": THING,
    "spec.appConnector.routes": ROUTES,
    "spec.appConnector.routes[]": ROUTE,
    "spec.exitNode": {"type": "boolean"},
    "spec.hostname": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,61}[a-z0-9]$"},
    "spec.hostnamePrefix": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,61}$"},
    "spec.proxyClass": TEXT,
    "spec.replicas": {"type": "integer", "format": "int32", "minimum": 0},
    "spec.subnetRouter": {"type": "object", "required": ["advertiseRoutes"]},
    "spec.subnetRouter.advertiseRoutes": ROUTES,
    "spec.subnetRouter.advertiseRoutes[]": ROUTE,
    "spec.tags": {"type": "array"},
    "spec.tags[]": {"type": "string", "pattern": "^tag:[a-zA-Z][a-zA-Z0-9-]*$"},
    "spec.tailnet": TEXT,
    "status": THING,
    "status.conditions": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    },
    "status.devices": {"type": "array"},
    "status.devices[]": THING,
    "status.devices[].hostname": TEXT,
    "status.devices[].tailnetIPs": {"type": "array"},
    "status.devices[].tailnetIPs[]": TEXT,
    "status.hostname": TEXT,
    "status.isAppConnector": {"type": "boolean"},
    "status.isExitNode": {"type": "boolean"},
    "status.subnetRoutes": TEXT,
    "status.tailnetIPs": {"type": "array"},
    "status.tailnetIPs[]": TEXT,
}
CONNECTOR_RULES = {
    "spec": [
        "has(self.subnetRouter) || has(self.appConnector) || (has(self.exitNode) && self.exitNode)",
        "!has(self.appConnector) || !(has(self.subnetRouter) || (has(self.exitNode) && self.exitNode))",
        "!has(self.hostname) || !has(self.replicas) || self.replicas <= 1",
        "!(has(self.hostname) && has(self.hostnamePrefix))",
    ],
    "spec.tailnet": ["self == oldSelf"],
}
CONDITION_FACTS = {
    "": {"type": "object", "required": ["lastTransitionTime", "message", "reason", "status", "type"]},
    "lastTransitionTime": {"type": "string", "format": "date-time"},
    "message": {"type": "string", "maxLength": 32768},
    "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
    "reason": {
        "type": "string",
        "minLength": 1,
        "maxLength": 1024,
        "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
    },
    "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
    "type": {
        "type": "string",
        "maxLength": 316,
        "pattern": (
            r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
            r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
        ),
    },
}
TOLERATION_FACTS = {
    "": THING,
    "effect": TEXT,
    "key": TEXT,
    "operator": TEXT,
    "tolerationSeconds": {"type": "integer", "format": "int64"},
    "value": TEXT,
}
LABEL = {
    "type": "string",
    "maxLength": 63,
    "pattern": "^(([a-zA-Z0-9][-._a-zA-Z0-9]*)?[a-zA-Z0-9])?$",
}
QUANTITY = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": (
        r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
        r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
    ),
    "x-kubernetes-int-or-string": True,
}
ATOMIC = {"type": "array", "x-kubernetes-list-type": "atomic"}
BOOLEAN = {"type": "boolean"}
POD = "spec.statefulSet.pod"
PROXYCLASS_FACTS = {
    "": {"type": "object", "required": ["spec"]},
    "apiVersion": TEXT,
    "kind": TEXT,
    "metadata": THING,
    "spec": THING,
    "spec.metrics": {
        "type": "object",
        "required": ["enable"],
        "x-kubernetes-validations": [
            {
                "rule": "self.enable || !(has(self.serviceMonitor) && self.serviceMonitor.enable)",
                "message": "a ServiceMonitor needs metrics: set metrics.enable to true",
            }
        ],
    },
    "spec.metrics.enable": BOOLEAN,
    "spec.metrics.serviceMonitor": {"type": "object", "required": ["enable"]},
    "spec.metrics.serviceMonitor.enable": BOOLEAN,
    "spec.metrics.serviceMonitor.labels": THING,
    "spec.metrics.serviceMonitor.labels{}": LABEL,
    "spec.staticEndpoints": {"type": "object", "required": ["nodePort"]},
    "spec.staticEndpoints.nodePort": {"type": "object", "required": ["ports"]},
    "spec.staticEndpoints.nodePort.ports": {"type": "array", "minItems": 1},
    "spec.staticEndpoints.nodePort.ports[]": {"type": "object", "required": ["port"]},
    "spec.staticEndpoints.nodePort.ports[].port": {"type": "integer"},
    "spec.staticEndpoints.nodePort.ports[].endPort": {"type": "integer"},
    "spec.staticEndpoints.nodePort.selector": THING,
    "spec.staticEndpoints.nodePort.selector{}": TEXT,
    "spec.tailscale": THING,
    "spec.tailscale.acceptRoutes": BOOLEAN,
    "spec.useLetsEncryptStagingEnvironment": BOOLEAN,
    "spec.statefulSet": THING,
    "spec.statefulSet.annotations": THING,
    "spec.statefulSet.annotations{}": TEXT,
    "spec.statefulSet.labels": THING,
    "spec.statefulSet.labels{}": LABEL,
    POD: THING,
    f"{POD}.annotations": THING,
    f"{POD}.annotations{{}}": TEXT,
    f"{POD}.labels": THING,
    f"{POD}.labels{{}}": LABEL,
    f"{POD}.dnsConfig": THING,
    f"{POD}.dnsConfig.nameservers": ATOMIC,
    f"{POD}.dnsConfig.nameservers[]": TEXT,
    f"{POD}.dnsConfig.options": ATOMIC,
    f"{POD}.dnsConfig.options[]": THING,
    f"{POD}.dnsConfig.options[].name": TEXT,
    f"{POD}.dnsConfig.options[].value": TEXT,
    f"{POD}.dnsConfig.searches": ATOMIC,
    f"{POD}.dnsConfig.searches[]": TEXT,
    f"{POD}.dnsPolicy": {"type": "string", "enum": ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]},
    f"{POD}.imagePullSecrets": {"type": "array"},
    f"{POD}.imagePullSecrets[]": {"type": "object", "x-kubernetes-map-type": "atomic"},
    f"{POD}.imagePullSecrets[].name": {"type": "string", "default": ""},
    f"{POD}.nodeName": TEXT,
    f"{POD}.nodeSelector": THING,
    f"{POD}.nodeSelector{{}}": TEXT,
    f"{POD}.priorityClassName": TEXT,
    f"{POD}.tolerations": {"type": "array"},
    f"{POD}.tolerations[]": THING,
    f"{POD}.topologySpreadConstraints": {"type": "array"},
    f"{POD}.topologySpreadConstraints[]": {
        "type": "object",
        "required": ["maxSkew", "topologyKey", "whenUnsatisfiable"],
    },
    "status": THING,
    "status.conditions": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    },
}
PROXYCLASS_EMBEDDED = (
    f"{POD}.affinity", f"{POD}.securityContext", f"{POD}.tolerations[].", f"{POD}.topologySpreadConstraints[].",
    f"{POD}.tailscaleContainer", f"{POD}.tailscaleInitContainer", "status.conditions[]",
)  # fmt: skip
CONTAINER_FACTS = {
    "": THING,
    "debug": THING,
    "debug.enable": BOOLEAN,
    "env": {"type": "array"},
    "env[]": {"type": "object", "required": ["name"]},
    "env[].name": {"type": "string", "pattern": "^[-._a-zA-Z][-._a-zA-Z0-9]*$"},
    "env[].value": TEXT,
    "image": TEXT,
    "imagePullPolicy": {"type": "string", "enum": ["Always", "Never", "IfNotPresent"]},
    "resources": THING,
    "resources.claims": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    },
    "resources.claims[]": {"type": "object", "required": ["name"]},
    "resources.claims[].name": TEXT,
    "resources.claims[].request": TEXT,
    "resources.limits": THING,
    "resources.limits{}": QUANTITY,
    "resources.requests": THING,
    "resources.requests{}": QUANTITY,
}
RIGHTS_OF_BOTH = {
    "appArmorProfile", "runAsGroup", "runAsNonRoot", "runAsUser", "seLinuxOptions", "seccompProfile", "windowsOptions"
}  # fmt: skip
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
AFFINITY_REQUIRED = {
    f"nodeAffinity.{PREFERRED}[]": {"preference", "weight"},
    f"nodeAffinity.{REQUIRED}": {"nodeSelectorTerms"},
    f"podAffinity.{PREFERRED}[]": {"podAffinityTerm", "weight"},
    f"podAffinity.{PREFERRED}[].podAffinityTerm": {"topologyKey"},
    f"podAffinity.{REQUIRED}[]": {"topologyKey"},
    f"podAntiAffinity.{PREFERRED}[]": {"podAffinityTerm", "weight"},
    f"podAntiAffinity.{PREFERRED}[].podAffinityTerm": {"topologyKey"},
    f"podAntiAffinity.{REQUIRED}[]": {"topologyKey"},
}


def facts(schema: Object) -> dict[str, Object]:
    """Return what each path says, without descriptions and what paths already tell."""
    told = {"description", "properties", "items", "additionalProperties"}
    return {path: {key: node[key] for key in node.keys() - told} for path, node in nodes(schema)}


def version(definition: Definition) -> Object:
    only: Object
    (only,) = crd(definition)["spec"]["versions"]
    return only


def root_schema(definition: Definition) -> Object:
    schema: Object = version(definition)["schema"]["openAPIV3Schema"]
    return schema


def dnsconfig() -> Definition:
    return next(definition for definition in DEFINITIONS if definition.resource is DNSCONFIG)


def connector() -> Definition:
    return next(definition for definition in DEFINITIONS if definition.resource is CONNECTOR)


@EVERY_KIND
def test_the_charts_crd_is_the_models(definition: Definition) -> None:
    on_disk = (CHART_CRDS / file_name(definition.resource)).read_text(encoding="utf-8")
    assert on_disk == render(definition), "run: make crds"


def test_the_chart_holds_no_other_crds() -> None:
    assert {path.name for path in CHART_CRDS.iterdir()} == {file_name(each.resource) for each in DEFINITIONS}


def test_the_command_writes_a_file_a_kind(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "tsoperator.api.crds", tmp_path], check=True, timeout=30)
    assert {path.name for path in tmp_path.iterdir()} == {file_name(each.resource) for each in DEFINITIONS}


def test_yaml_reads_back_as_the_crd(tmp_path: Path) -> None:
    write(tmp_path)
    text = (tmp_path / "tailscale.com_dnsconfigs.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(text) == crd(dnsconfig())
    assert "&id" not in text


@EVERY_KIND
def test_every_node_is_structural(definition: Definition) -> None:
    for path, node in nodes(root_schema(definition)):
        if node.get("x-kubernetes-int-or-string"):
            assert node == QUANTITY, path
            continue
        assert node.keys() <= FIELD_KEYWORDS, path
        assert node["type"] in {"object", "array", "string", "integer", "boolean"}, path
        assert ("items" in node) == (node["type"] == "array"), path
        assert set(node.get("required", ())) <= node.get("properties", {}).keys(), path


@EVERY_KIND
def test_every_field_is_explained_in_one_paragraph(definition: Definition) -> None:
    for path, node in nodes(root_schema(definition)):
        if path != "metadata" and not path.endswith(("[]", "{}")):
            assert node["description"], path
            assert "\n" not in node["description"], path


@EVERY_KIND
def test_no_field_has_pydantics_titles_or_nulls(definition: Definition) -> None:
    for path, node in nodes(root_schema(definition)):
        if node == QUANTITY:
            continue
        assert not {"title", "anyOf", "allOf", "$ref", "$defs", "nullable"} & node.keys(), path


@EVERY_KIND
def test_the_status_is_written_through_its_subresource_alone(definition: Definition) -> None:
    assert version(definition)["subresources"] == {"status": {}}


def test_a_dnsconfig_is_named_as_in_existing_clusters() -> None:
    made = crd(dnsconfig())
    assert made["apiVersion"] == "apiextensions.k8s.io/v1"
    assert made["metadata"] == {"name": "dnsconfigs.tailscale.com"}
    assert (made["spec"]["group"], made["spec"]["scope"]) == ("tailscale.com", "Cluster")
    assert made["spec"]["names"] == {
        "kind": "DNSConfig",
        "listKind": "DNSConfigList",
        "plural": "dnsconfigs",
        "singular": "dnsconfig",
        "shortNames": ["dc"],
    }


def test_a_dnsconfig_has_one_version_served_and_stored() -> None:
    only = version(dnsconfig())
    assert (only["name"], only["served"], only["storage"]) == ("v1alpha1", True, True)


def test_kubectl_get_shows_a_dnsconfigs_address() -> None:
    assert version(dnsconfig())["additionalPrinterColumns"] == [
        {"name": "NameserverIP", "type": "string", "jsonPath": ".status.nameserver.ip"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]


def test_a_dnsconfig_has_exactly_these_fields_and_constraints() -> None:
    embedded = ("spec.nameserver.pod.affinity.", "spec.nameserver.pod.tolerations[].", "status.conditions[]")
    made = facts(root_schema(dnsconfig()))
    assert {path: fact for path, fact in made.items() if not path.startswith(embedded)} == DNSCONFIG_FACTS


def test_a_connector_is_named_as_in_existing_clusters() -> None:
    made = crd(connector())
    assert (made["metadata"], made["spec"]["scope"]) == ({"name": "connectors.tailscale.com"}, "Cluster")
    assert (made["spec"]["names"]["kind"], made["spec"]["names"]["shortNames"]) == ("Connector", ["cn"])


def test_kubectl_get_shows_what_a_connector_connects() -> None:
    assert {each["name"]: each["jsonPath"] for each in version(connector())["additionalPrinterColumns"]} == {
        "SubnetRoutes": ".status.subnetRoutes",
        "IsExitNode": ".status.isExitNode",
        "IsAppConnector": ".status.isAppConnector",
        "Status": '.status.conditions[?(@.type == "ConnectorReady")].reason',
        "Age": ".metadata.creationTimestamp",
    }


def test_a_connector_has_exactly_these_fields_constraints_and_rules() -> None:
    made = facts(root_schema(connector()))
    rules = {path: fact.pop("x-kubernetes-validations", None) for path, fact in made.items()}
    assert {path: fact for path, fact in made.items() if not path.startswith("status.conditions[]")} == CONNECTOR_FACTS
    assert {path: [rule["rule"] for rule in given] for path, given in rules.items() if given} == CONNECTOR_RULES
    assert all(rule["message"] for given in rules.values() if given for rule in given)


def proxyclass() -> Definition:
    return next(definition for definition in DEFINITIONS if definition.resource is PROXYCLASS)


def test_a_proxyclass_is_named_as_in_existing_clusters() -> None:
    spec = crd(proxyclass())["spec"]
    assert (spec["names"]["plural"], spec["scope"]) == ("proxyclasses", "Cluster")
    assert "shortNames" not in spec["names"]


def test_kubectl_get_shows_whether_a_proxyclass_is_valid() -> None:
    path = '.status.conditions[?(@.type == "ProxyClassReady")].reason'
    assert version(proxyclass())["additionalPrinterColumns"] == [
        {"name": "Status", "type": "string", "jsonPath": path},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]


def test_a_proxyclass_has_exactly_these_fields_and_constraints() -> None:
    made = facts(root_schema(proxyclass()))
    assert {path: fact for path, fact in made.items() if not path.startswith(PROXYCLASS_EMBEDDED)} == PROXYCLASS_FACTS


def test_both_containers_of_a_proxyclass_have_the_same_fields() -> None:
    made = {path: fact for path, fact in facts(structural_schema(Container)).items() if "securityContext" not in path}
    pod = structural_schema(Pod)["properties"]
    assert made == CONTAINER_FACTS
    both = (pod["tailscaleContainer"], pod["tailscaleInitContainer"])
    assert [facts(container) for container in both] == [facts(structural_schema(Container))] * 2


def test_rights_of_pods_and_containers_are_kubernetess() -> None:
    pod, container = (
        structural_schema(PodSecurityContext)["properties"],
        structural_schema(SecurityContext)["properties"],
    )
    assert pod.keys() - RIGHTS_OF_BOTH == {
        "fsGroup", "fsGroupChangePolicy", "seLinuxChangePolicy", "supplementalGroups", "supplementalGroupsPolicy",
        "sysctls",
    }  # fmt: skip
    assert container.keys() - RIGHTS_OF_BOTH == {
        "allowPrivilegeEscalation", "capabilities", "privileged", "procMount", "readOnlyRootFilesystem"
    }  # fmt: skip
    assert pod.keys() & container.keys() == RIGHTS_OF_BOTH


def test_a_condition_is_the_standard_one() -> None:
    assert facts(structural_schema(Condition)) == CONDITION_FACTS


def test_a_toleration_is_kubernetess() -> None:
    assert facts(structural_schema(Toleration)) == TOLERATION_FACTS


def test_an_affinity_requires_what_kubernetes_requires() -> None:
    required = {
        path: set(fact["required"]) for path, fact in facts(structural_schema(Affinity)).items() if "required" in fact
    }
    tests = {path for path in required if path.endswith(("matchExpressions[]", "matchFields[]"))}
    assert len(tests) == 12
    assert all(required[path] == {"key", "operator"} for path in tests)
    assert {path: needs for path, needs in required.items() if path not in tests} == AFFINITY_REQUIRED


def test_lists_of_an_affinity_are_replaced_whole() -> None:
    lists = {path: fact for path, fact in facts(structural_schema(Affinity)).items() if fact["type"] == "array"}
    assert len(lists) == 42
    assert all(fact == {"type": "array", "x-kubernetes-list-type": "atomic"} for fact in lists.values())


def test_selectors_of_an_affinity_are_replaced_whole() -> None:
    atomic = {
        path.rpartition(".")[2]
        for path, fact in facts(structural_schema(Affinity)).items()
        if fact.get("x-kubernetes-map-type") == "atomic"
    }
    assert atomic == {
        "preference",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms[]",
        "labelSelector",
        "namespaceSelector",
    }


class Ruled(WireModel):
    """Has what later kinds need."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-validations": [{"rule": "has(self.size)"}]})

    size: int = 3
    """How many, by the code's default."""
    title: str = Field(default="", json_schema_extra={"x-kubernetes-validations": [{"rule": "self == oldSelf"}]})
    """A field that is named like a keyword."""


def test_cel_rules_of_models_and_fields_reach_the_schema() -> None:
    made = structural_schema(Ruled)
    assert made["x-kubernetes-validations"] == [{"rule": "has(self.size)"}]
    assert made["properties"]["title"] == {
        "description": "A field that is named like a keyword.",
        "type": "string",
        "x-kubernetes-validations": [{"rule": "self == oldSelf"}],
    }


def test_only_a_marked_default_is_the_api_servers() -> None:
    assert "default" not in structural_schema(Ruled)["properties"]["size"]
    assert structural_schema(LocalObjectReference)["properties"]["name"]["default"] == ""
