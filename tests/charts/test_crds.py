"""An API server judges objects by our CRDs, and by the Go operator's, which are installed in another API group.

`test_crds_beside_go.py` shows that the schemas are the same. Our validation rules have words of their own, so these
tests try each rule with an object.
"""

import json
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
import pytest_asyncio
from tsoperator.api.crds import DEFINITIONS, crd
from tsoperator.api.objects import RESOURCES, Resource, key_of
from tsoperator.kube.client import KubeClient
from tsoperator.kube.config import load_configuration
from tsoperator.kube.errors import Rejected

from tests.e2e.testbed.bed import Bed
from tests.e2e.waiting import eventually

Object = dict[str, Any]

IN_ONE_LOOP = pytest.mark.asyncio(loop_scope="module")  # that of the connection to the API server

GROUP = "tailscale.com"
GO_GROUP = "go.tailscale.com"


CIDR = {"subnetRouter": {"advertiseRoutes": ["192.0.2.0/24"]}}
EXIT: Object = {"exitNode": True}
APP: Object = {"appConnector": {}}
IPS = [{"allocationID": f"eipalloc-{number:x}", "subnetID": "subnet-0a"} for number in range(3)]


class Case(NamedTuple):
    """A spec, and the part of the refusal that names what is wrong; empty if it is accepted."""

    kind: str
    spec: Any
    refused: str = ""


CASES = [
    Case("Connector", EXIT),
    Case("Connector", {**CIDR, **EXIT, "replicas": 3, "hostnamePrefix": "gate", "nobody": "knows this"}),
    Case("Connector", {**APP, "exitNode": False, "replicas": None}),
    Case("Connector", {**EXIT, "replicas": 1, "hostname": "gate"}),
    Case("Connector", {**EXIT, "replicas": 0, "hostname": "gate"}),
    Case("Connector", {**EXIT, "hostname": "gate"}),
    Case("Connector", {}, "must be a subnet router, an exit node or an app connector"),
    Case("Connector", {"exitNode": False}, "must be a subnet router, an exit node or an app connector"),
    Case("Connector", {**APP, **EXIT}, "an app connector can't be"),
    Case("Connector", {**APP, **CIDR}, "an app connector can't be"),
    Case("Connector", {**EXIT, "replicas": 0, "hostname": "ab", "hostnamePrefix": "ab"}, "exclude each other"),
    Case("Connector", {**EXIT, "replicas": 2, "hostname": "gate"}, "use hostnamePrefix"),
    Case("Connector", {"subnetRouter": {"advertiseRoutes": ["x/8"]}}, "spec.subnetRouter.advertiseRoutes[0]"),
    Case("Connector", {**EXIT, "tags": ["tag:a", "k8s"]}, "spec.tags[1]"),
    Case("DNSConfig", {"nameserver": {"replicas": 0, "pod": {"tolerations": [{"key": "a", "operator": "Exists"}]}}}),
    Case("DNSConfig", {}, "spec.nameserver: Required"),
    Case("DNSConfig", {"nameserver": {"replicas": -1}}, "spec.nameserver.replicas"),
    Case("ProxyClass", {"metrics": {"enable": False, "serviceMonitor": {"enable": False}}}),
    Case("ProxyClass", {"metrics": {"enable": True, "serviceMonitor": {"enable": True, "labels": {"a": "b" * 63}}}}),
    Case("ProxyClass", {"metrics": {"enable": False, "serviceMonitor": {"enable": True}}}, "needs metrics"),
    Case("ProxyClass", {"statefulSet": {"labels": {"a": "b!"}}}, "spec.statefulSet.labels"),
    Case("ProxyGroup", {"type": "kube-apiserver", "kubeAPIServer": {}}),
    Case("ProxyGroup", {"type": "both"}, "spec.type"),
    Case("ProxyGroupPolicy", {"ingress": ["a"], "egress": []}),
    Case("ProxyGroupPolicy", {"ingress": "a"}, "spec.ingress"),
    Case("Recorder", {"replicas": None}),
    Case("Recorder", {"replicas": 1, "storage": {}}),
    Case("Recorder", {"replicas": 2, "storage": {"s3": {}}}),
    Case("Recorder", {"replicas": 2}, "can't share a local disk"),
    Case("Recorder", {"replicas": 2, "storage": {}}, "can't share a local disk"),
    Case("Tailnet", {"credentials": {"secretName": "other"}}),
    Case("Tailnet", {"credentials": {}}, "spec.credentials.secretName: Required"),
    Case("PeerRelay", {"replicas": 2, "aws": {"elasticIPs": IPS[:2]}}),
    Case("PeerRelay", {"replicas": 1, "aws": {"elasticIPs": IPS}}),
    Case("PeerRelay", {"aws": {"elasticIPs": IPS[:1]}}),
    Case("PeerRelay", {"replicas": 2}),
    Case("PeerRelay", {"replicas": 2, "aws": {"elasticIPs": IPS[:1]}}, "every replica needs an elastic IP"),
    *(Case(definition.resource.kind, None, "spec: Required") for definition in DEFINITIONS),
]
ONLY_OURS = Case("DNSConfig", {"nameserver": {"pod": {"imagePullSecrets": [{"name": "pull"}, {}]}}})
"""The rules that the Go operator's CRD lacks."""


class Change(NamedTuple):
    """A spec, the one that replaces it, and the part of the refusal as in `Case`."""

    kind: str
    before: Object
    after: Object
    refused: str = ""


CHANGES = [
    *(
        change
        for kind, spec in (("Connector", EXIT), ("PeerRelay", {}), ("ProxyGroup", {"type": "egress"}), ("Recorder", {}))
        for change in (
            Change(kind, {**spec, "tailnet": "one"}, {**spec, "tailnet": "two"}, "spec.tailnet: Invalid value"),
            Change(kind, {**spec, "tailnet": "one"}, {**spec, "tailnet": "one", "tags": ["tag:other"]}),
            Change(kind, spec, {**spec, "tailnet": "one"}),
            Change(kind, {**spec, "tailnet": "one"}, spec),
        )
    ),
    Change("ProxyGroup", {"type": "egress"}, {"type": "ingress"}, "spec.type: Invalid value"),
    Change("ProxyGroup", {"type": "egress"}, {"type": "egress", "replicas": 3}),
]


def told(case: Case | Change) -> str:
    return f"{case.kind} {case.refused or 'accepted'}"


class Answer(NamedTuple):
    """What the API server made of an object, or why it refused it."""

    obj: Object
    refusal: str = ""


@pytest.fixture(scope="module")
def defined(api_bed: Bed, go_crds: list[Object]) -> Bed:
    """An API server with the definitions of both."""
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
    """That API server, as admin."""
    async with KubeClient(await load_configuration(str(defined.kubeconfig))) as client:
        yield client


def moved(definition: Object) -> Object:
    """Return a definition of the Go operator in the group that is kept for them here."""
    spec = definition["spec"]
    metadata = {"name": f"{spec['names']['plural']}.{GO_GROUP}"}
    return {**definition, "metadata": metadata, "spec": {**spec, "group": GO_GROUP}}


def both(kind: str) -> tuple[Resource, Resource]:
    """Return a kind of ours, and the Go operator's."""
    ours = RESOURCES[f"{GROUP}/v1alpha1", kind]
    return ours, replace(ours, group=GO_GROUP)


def dry(resource: Resource) -> Resource:
    """Return what a POST to checks, and keeps nothing of."""
    return replace(resource, plural=f"{resource.plural}?dryRun=All")


def thing(resource: Resource, spec: Any) -> Object:
    """Return an object with that spec; with None, without."""
    metadata = {"generateName": "case-"} | ({"namespace": "default"} if resource.namespaced else {})
    given = {} if spec is None else {"spec": spec}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **given}


@asynccontextmanager
async def created(api: KubeClient, resource: Resource, spec: Object) -> AsyncIterator[Object]:
    """An object while it is there."""
    obj = await api.create(resource, thing(resource, spec))
    try:
        yield obj
    finally:
        await api.delete(resource, key_of(obj))


async def answer(request: Awaitable[Object]) -> Answer:
    """Return what became of a request."""
    try:
        return Answer(await request)
    except Rejected as refusal:
        return Answer({}, str(refusal))


def check(refused: str, ours: Answer, theirs: Answer) -> None:
    """Check that our definition refuses as written down or not at all, and the Go operator's with it."""
    assert bool(ours.refusal) == bool(refused), ours.refusal
    assert refused in ours.refusal
    assert bool(theirs.refusal) == bool(refused), theirs.refusal


@IN_ONE_LOOP
@pytest.mark.parametrize("case", CASES, ids=told)
async def test_an_object_is_accepted_or_refused_and_completed_as_by_the_go_operators(
    api: KubeClient, case: Case
) -> None:
    ours, theirs = [await answer(api.create(dry(each), thing(each, case.spec))) for each in both(case.kind)]
    check(case.refused, ours, theirs)
    assert ours.obj.get("spec") == theirs.obj.get("spec")


@IN_ONE_LOOP
async def test_a_field_that_only_ours_has_is_kept_by_ours_and_dropped_by_the_go_operators(api: KubeClient) -> None:
    ours, theirs = [await api.create(dry(each), thing(each, ONLY_OURS.spec)) for each in both(ONLY_OURS.kind)]
    assert ours["spec"]["nameserver"]["pod"] == {"imagePullSecrets": [{"name": "pull"}, {"name": ""}]}
    assert theirs["spec"]["nameserver"]["pod"] == {}


@IN_ONE_LOOP
@pytest.mark.parametrize("change", CHANGES, ids=told)
async def test_a_change_is_accepted_or_refused_as_by_the_go_operators(api: KubeClient, change: Change) -> None:
    answers = []
    for resource in both(change.kind):
        async with created(api, resource, change.before) as obj:
            answers.append(await answer(api.replace(resource, {**obj, "spec": change.after})))
    check(change.refused, *answers)


@IN_ONE_LOOP
async def test_a_status_with_a_condition_twice_is_refused_as_by_the_go_operators(api: KubeClient) -> None:
    condition = {"type": "A", "status": "True", "reason": "B", "message": ""}
    condition["lastTransitionTime"] = "2026-01-02T03:04:05Z"
    for resource in both("Connector"):
        async with created(api, resource, EXIT) as obj:
            status = {"conditions": [condition]}
            assert (await api.replace_status(resource, {**obj, "status": status}))["status"] == status
            again = await api.get(resource, key_of(obj)) | {"status": {"conditions": [condition] * 2}}
            assert "status.conditions[1]: Duplicate" in (await answer(api.replace_status(resource, again))).refusal
