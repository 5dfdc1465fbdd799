"""Turns models into CRDs: ``python -m tsoperator.api.crds DIR`` writes one YAML file per kind into DIR.

A structural schema is pydantic's JSON schema with references inlined. It has no titles, no type ``null``, and none
of the defaults that only the code uses.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tsoperator.api.names import (
    CONDITION_CLUSTER_DNS_READY,
    CONDITION_CONNECTOR_READY,
    CONDITION_NAMESERVER_READY,
    CONDITION_PEERRELAY_READY,
    CONDITION_PROXYCLASS_READY,
    CONDITION_PROXYGROUP_READY,
    CONDITION_RECORDER_READY,
    CONDITION_TAILNET_READY,
)
from tsoperator.api.objects import (
    CONNECTOR,
    DNSCONFIG,
    PEERRELAY,
    PROXYCLASS,
    PROXYGROUP,
    PROXYGROUPPOLICY,
    RECORDER,
    TAILNET,
    Object,
    Resource,
)
from tsoperator.api.v1alpha1.connector import Connector
from tsoperator.api.v1alpha1.dnsconfig import DNSConfig
from tsoperator.api.v1alpha1.peerrelay import PeerRelay
from tsoperator.api.v1alpha1.proxyclass import ProxyClass
from tsoperator.api.v1alpha1.proxygroup import ProxyGroup
from tsoperator.api.v1alpha1.proxygrouppolicy import ProxyGroupPolicy
from tsoperator.api.v1alpha1.recorder import Recorder
from tsoperator.api.v1alpha1.tailnet import Tailnet
from tsoperator.api.v1alpha1.wire import SERVER_DEFAULT, CustomResource, WireModel


@dataclass(frozen=True, slots=True)
class Column:
    """A column in the output of ``kubectl get``."""

    name: str
    json_path: str
    type: str = "string"
    priority: int = 0
    """The column is shown only with ``-o wide`` if this is more than 0."""


@dataclass(frozen=True, slots=True)
class Definition:
    """The parts from which we make the CRD of one kind."""

    resource: Resource
    model: type[CustomResource]
    columns: tuple[Column, ...]
    short_names: tuple[str, ...] = ()
    required: tuple[str, ...] = ("spec",)


class _Dumper(yaml.SafeDumper):
    """A YAML dumper that writes an object in full at each place where it occurs, without YAML aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")


def _reason_of(condition: str) -> Column:
    return Column("Status", f'.status.conditions[?(@.type == "{condition}")].reason')


def _status_of(name: str, condition: str) -> Column:
    return Column(name, f'.status.conditions[?(@.type == "{condition}")].status')


DEFINITIONS: Final = (
    Definition(
        CONNECTOR,
        Connector,
        columns=(
            Column("SubnetRoutes", ".status.subnetRoutes"),
            Column("IsExitNode", ".status.isExitNode"),
            Column("IsAppConnector", ".status.isAppConnector"),
            _reason_of(CONDITION_CONNECTOR_READY),
            Column("Hostname", ".status.hostname"),
            Column("Addresses", ".status.tailnetIPs", priority=1),
            AGE,
        ),
        short_names=("cn",),
    ),
    Definition(
        DNSCONFIG,
        DNSConfig,
        columns=(
            Column("NameserverIP", ".status.nameserver.ip"),
            _status_of("Ready", CONDITION_NAMESERVER_READY),
            _status_of("Cluster-DNS", CONDITION_CLUSTER_DNS_READY),
            Column("Zones", ".status.clusterDNS.zones"),
            AGE,
        ),
        short_names=("dc",),
    ),
    Definition(
        PEERRELAY,
        PeerRelay,
        columns=(AGE, _reason_of(CONDITION_PEERRELAY_READY), Column("Endpoints", ".status.endpoints[*].address")),
        short_names=("pr",),
        required=("metadata", "spec"),
    ),
    Definition(
        PROXYCLASS,
        ProxyClass,
        columns=(_reason_of(CONDITION_PROXYCLASS_READY), AGE),
    ),
    Definition(
        PROXYGROUP,
        ProxyGroup,
        columns=(
            _reason_of(CONDITION_PROXYGROUP_READY),
            Column("URL", ".status.url"),
            Column("Type", ".spec.type"),
            Column("Ready", ".status.proxies"),
            Column("Hostname", ".status.devices[0].hostname", priority=1),
            Column("Addresses", ".status.devices[0].tailnetIPs", priority=1),
            AGE,
        ),
        short_names=("pg",),
    ),
    Definition(
        PROXYGROUPPOLICY,
        ProxyGroupPolicy,
        columns=(AGE,),
        short_names=("pgp",),
        required=("metadata", "spec"),
    ),
    Definition(
        RECORDER,
        Recorder,
        columns=(_reason_of(CONDITION_RECORDER_READY), Column("URL", '.status.devices[?(@.url != "")].url'), AGE),
        short_names=("rec",),
    ),
    Definition(
        TAILNET,
        Tailnet,
        columns=(AGE, _reason_of(CONDITION_TAILNET_READY)),
        short_names=("tn",),
        required=("metadata", "spec"),
    ),
)

_TYPE_META: Final[Object] = {
    "apiVersion": {"type": "string", "description": "The version of the API that this object is written in."},
    "kind": {"type": "string", "description": "The kind of this object. It can't be changed."},
    "metadata": {"type": "object"},
}
_LEFT_OUT: Final = {"title", "default", "$defs"}


def crd(definition: Definition) -> Object:
    """Return the CustomResourceDefinition of the kind that *definition* describes."""
    resource = definition.resource
    names: Object = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.kind.lower(),
    }
    if definition.short_names:
        names["shortNames"] = list(definition.short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": str(resource)},
        "spec": {
            "group": resource.group,
            "names": names,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [_version(definition)],
        },
    }


def structural_schema(model: type[WireModel]) -> Object:
    """Return the structural OpenAPI v3 schema of *model*."""
    schema = model.model_json_schema()
    return _structural(schema, schema.get("$defs", {}))


def file_name(resource: Resource) -> str:
    """Return the name of the file that has the CRD of *resource*."""
    return f"{resource.group}_{resource.plural}.yaml"


def render(definition: Definition) -> str:
    """Return the CRD that `crd` returns for *definition*, as YAML."""
    return yaml.dump(crd(definition), Dumper=_Dumper, width=120, allow_unicode=True)


def write(directory: Path) -> None:
    """Write the CRD of every kind into *directory*."""
    for definition in DEFINITIONS:
        (directory / file_name(definition.resource)).write_text(render(definition), encoding="utf-8")


def _version(definition: Definition) -> Object:
    columns = [_column(each) for each in definition.columns]
    return {
        "name": definition.resource.version,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": columns,
        "schema": {"openAPIV3Schema": _root_schema(definition)},
        "subresources": {"status": {}},
    }


def _column(column: Column) -> Object:
    shown: Object = {"name": column.name, "type": column.type, "jsonPath": column.json_path}
    return {**shown, "priority": column.priority} if column.priority else shown


def _root_schema(definition: Definition) -> Object:
    schema = structural_schema(definition.model)
    properties = {**_TYPE_META, **{name: schema["properties"][name] for name in ("spec", "status")}}
    return {**schema, "properties": properties, "required": list(definition.required)}


def _structural(node: Object, definitions: Mapping[str, Object]) -> Object:
    resolved = _resolved(node, definitions)
    out = {keyword: value for keyword, value in resolved.items() if keyword not in _LEFT_OUT}
    if "description" in out:
        out["description"] = " ".join(out["description"].split())
    if "properties" in out:
        out["properties"] = {name: _structural(child, definitions) for name, child in out["properties"].items()}
    for keyword in ("items", "additionalProperties"):
        if keyword in out:
            out[keyword] = _structural(out[keyword], definitions)
    if SERVER_DEFAULT in out:
        out["default"] = out.pop(SERVER_DEFAULT)
    return out


def _resolved(node: Object, definitions: Mapping[str, Object]) -> Object:
    """Return the schema *node* with a definition in place of its reference, and a type in place of an optional type.

    *definitions* has the definitions by name. An optional type is an ``anyOf`` of one type and ``null``. Keywords of
    *node* itself take precedence over those of the definition or the type.
    """
    choices = [choice for choice in node.get("anyOf", ()) if choice != {"type": "null"}]
    if "$ref" in node:
        inner = definitions[node["$ref"].rpartition("/")[2]]
    elif len(choices) == 1:
        inner = choices[0]
    else:
        return node
    own = {keyword: value for keyword, value in node.items() if keyword not in {"$ref", "anyOf"}}
    return _resolved({**inner, **own}, definitions)


def main() -> None:
    """Write the CRDs into the directory that the command line names."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tsoperator.api.crds DIR")
    write(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
