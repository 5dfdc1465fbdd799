"""With our CRDs, an API server accepts, refuses and completes the same objects as with the Go operator's CRDs.

The CRDs of the Go operator are installed in another API group. `test_crds_beside_go.py` shows that the schemas are the
same, and lists the validation rules that our CRDs have in other words. These tests try each such rule with objects.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio
from tsoperator.api.crds import DEFINITIONS, crd
from tsoperator.api.objects import RESOURCES, Resource
from tsoperator.kube.client import KubeClient
from tsoperator.kube.config import load_configuration
from tsoperator.kube.errors import Rejected

from tests.e2e.testbed.bed import Bed
from tests.e2e.waiting import eventually

Object = dict[str, Any]

IN_ONE_LOOP = pytest.mark.asyncio(loop_scope="module")  # the event loop of the connection to the API server

GROUP = "tailscale.com"
GO_GROUP = "go.tailscale.com"

CIDR = {"subnetRouter": {"advertiseRoutes": ["192.0.2.0/24"]}}
EXIT: Object = {"exitNode": True}
APP: Object = {"appConnector": {}}
IPS = [{"allocationID": f"eipalloc-{number:x}", "subnetID": "subnet-0a"} for number in range(3)]

CASES: list[tuple[str, Object, str]] = [
    ("Connector", EXIT, ""),
    ("Connector", {**CIDR, **EXIT, "replicas": 3, "hostnamePrefix": "gate", "nobody": "knows this"}, ""),
    ("Connector", {**APP, "exitNode": False, "replicas": None}, ""),
    ("Connector", {**EXIT, "replicas": 1, "hostname": "gate"}, ""),
    ("Connector", {**EXIT, "replicas": 0, "hostname": "gate"}, ""),
    ("Connector", {**EXIT, "hostname": "gate"}, ""),
    ("Connector", {}, "must be a subnet router, an exit node or an app connector"),
    ("Connector", {"exitNode": False}, "must be a subnet router, an exit node or an app connector"),
    ("Connector", {**APP, **EXIT}, "an app connector can't be"),
    ("Connector", {**APP, **CIDR}, "an app connector can't be"),
    ("Connector", {**EXIT, "replicas": 0, "hostname": "ab", "hostnamePrefix": "ab"}, "exclude each other"),
    ("Connector", {**EXIT, "replicas": 2, "hostname": "gate"}, "use hostnamePrefix"),
    ("Connector", {"subnetRouter": {"advertiseRoutes": ["x/8"]}}, "spec.subnetRouter.advertiseRoutes[0]"),
    ("DNSConfig", {}, "spec.nameserver: Required"),
    ("ProxyClass", {"metrics": {"enable": False, "serviceMonitor": {"enable": False}}}, ""),
    ("ProxyClass", {"metrics": {"enable": True, "serviceMonitor": {"enable": True, "labels": {"a": "b" * 63}}}}, ""),
    ("ProxyClass", {"metrics": {"enable": False, "serviceMonitor": {"enable": True}}}, "needs metrics"),
    ("Recorder", {"replicas": 2, "storage": {"s3": {}}}, ""),
    ("Recorder", {"replicas": 2}, "can't share a local disk"),
    ("PeerRelay", {"replicas": 2, "aws": {"elasticIPs": IPS[:2]}}, ""),
    ("PeerRelay", {"replicas": 1, "aws": {"elasticIPs": IPS}}, ""),
    ("PeerRelay", {"aws": {"elasticIPs": IPS[:1]}}, ""),
    ("PeerRelay", {"replicas": 2}, ""),
    ("PeerRelay", {"replicas": 2, "aws": {"elasticIPs": IPS[:1]}}, "every replica needs an elastic IP"),
]
"""A kind, a spec, and the part of the refusal that names the fault; the part is empty if the spec is accepted."""


@pytest.fixture(scope="module")
def defined(api_bed: Bed, go_crds: list[Object]) -> Bed:
    """An API server with the CRDs of both operators."""
    definitions = [crd(definition) for definition in DEFINITIONS] + [moved(definition) for definition in go_crds]
    listed = json.dumps({"kind": "List", "apiVersion": "v1", "items": definitions})
    api_bed.kubectl("apply", "--server-side", "-f", "-", stdin=listed)
    resources = ",".join(definition["metadata"]["name"] for definition in definitions)
    eventually(
        lambda: api_bed.kubectl("get", resources, "--all-namespaces", "--output=name") or True, "all kinds served"
    )
    return api_bed


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def api(defined: Bed) -> AsyncIterator[KubeClient]:
    async with KubeClient(await load_configuration(str(defined.kubeconfig))) as client:
        yield client


def moved(definition: Object) -> Object:
    """Return a CRD of the Go operator, moved to the API group that these tests use for it."""
    spec = definition["spec"]
    metadata = {"name": f"{spec['names']['plural']}.{GO_GROUP}"}
    return {**definition, "metadata": metadata, "spec": {**spec, "group": GO_GROUP}}


async def judged(api: KubeClient, resource: Resource, spec: Object) -> tuple[Object, str]:
    """Try to create an object with *spec*. Return its spec with the API server's defaults, and an empty text.

    If the API server refuses the object, return an empty spec and the reason. Nothing is stored.
    """
    metadata = {"generateName": "case-"} | ({"namespace": "default"} if resource.namespaced else {})
    made = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}
    try:
        obj = await api.create(replace(resource, plural=f"{resource.plural}?dryRun=All"), made)
    except Rejected as refusal:
        return {}, str(refusal)
    return obj["spec"], ""


@IN_ONE_LOOP
@pytest.mark.parametrize(("kind", "spec", "refused"), CASES)
async def test_our_crds_accept_refuse_and_complete_an_object_as_the_crds_of_the_go_operator_do(
    api: KubeClient, kind: str, spec: Object, refused: str
) -> None:
    resource = RESOURCES[f"{GROUP}/v1alpha1", kind]
    ours, why = await judged(api, resource, spec)
    theirs, why_theirs = await judged(api, replace(resource, group=GO_GROUP), spec)
    assert ours == theirs
    assert (bool(why), bool(why_theirs)) == (bool(refused), bool(refused)), why + why_theirs
    assert refused in why
