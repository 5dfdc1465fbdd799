"""The operator restores what somebody removes from its objects, and deletes leftovers."""

import json
from collections.abc import Sequence

import pytest
from tsnameserver.records import CONFIGMAP_NAME
from tsoperator.api.names import LABEL_MANAGED, LABEL_PARENT_TYPE

from tests.e2e.cluster import Cluster, Object
from tests.e2e.product import NAMESPACE
from tests.e2e.waiting import eventually
from tests.e2e.workloads import PEER_NAME, egress_service

KINDS = ("deployment", "service", "serviceaccount", "role", "rolebinding")
NAMESERVER = [f"configmap/{CONFIGMAP_NAME}", *(f"{kind}/nameserver" for kind in KINDS)]
WITHOUT_OWNER = '{"metadata": {"ownerReferences": null}}'


def metadata_of(cluster: Cluster, names: Sequence[str], field: str) -> list[object]:
    """Return *field* of the metadata of each object in *names*, such as ``service/web``."""
    found = json.loads(cluster.bed.kubectl("-n", NAMESPACE, "get", *names, "-o", "json"))["items"]
    return [obj["metadata"].get(field) for obj in found]


@pytest.fixture(scope="module")
def children(cluster: Cluster, nameserver: str, shared_namespace: str) -> list[str]:
    """The children of the DNSConfig and of an egress Service, as ``kind/name``."""
    service = egress_service(shared_namespace, "db", tailnet_fqdn=PEER_NAME)
    cluster.apply(service)
    cluster.device_proxy(service)
    return [*NAMESERVER, *(f"{obj['kind'].lower()}/{obj['metadata']['name']}" for obj in cluster.children(service))]


@pytest.mark.parametrize("label", [LABEL_MANAGED, LABEL_PARENT_TYPE])
def test_the_operator_restores_a_label_that_somebody_removed_from_a_child(
    cluster: Cluster, children: list[str], label: str
) -> None:
    labels = metadata_of(cluster, children, "labels")
    cluster.bed.kubectl("-n", NAMESPACE, "label", *children, f"{label}-")
    eventually(lambda: metadata_of(cluster, children, "labels") == labels, f"{label} on all of them")


def test_the_operator_restores_the_owner_references_of_the_nameservers_objects(
    cluster: Cluster, nameserver: str
) -> None:
    owners = metadata_of(cluster, NAMESERVER, "ownerReferences")
    assert all(owners)
    for name in NAMESERVER:
        cluster.bed.kubectl("-n", NAMESPACE, "patch", name, f"--patch={WITHOUT_OWNER}")
    eventually(lambda: metadata_of(cluster, NAMESERVER, "ownerReferences") == owners, "an owner of each")


def test_the_operator_deletes_a_configmap_of_records_that_is_no_longer_needed(
    cluster: Cluster, nameserver: str
) -> None:
    records = cluster.get("configmap", CONFIGMAP_NAME, NAMESPACE)
    assert records
    metadata: Object = {"namespace": NAMESPACE, "name": f"{CONFIGMAP_NAME}-1", "labels": records["metadata"]["labels"]}
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    eventually(lambda: cluster.get("configmap", metadata["name"], NAMESPACE) is None, f"{metadata['name']} gone")
