"""What an API server accepts and refuses by our CRDs, and by the Go operator's beside them, in another group."""

import json
from collections.abc import AsyncIterator, Awaitable, Iterable
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

from tests.charts.crd_cases import CASES, CHANGES, LEAST, ONLY_OURS, STATUSES, Case, Change, Status
from tests.e2e.testbed.bed import Bed
from tests.e2e.waiting import eventually

Object = dict[str, Any]

IN_ONE_LOOP = pytest.mark.asyncio(loop_scope="module")  # that of the connection to the API server

GROUP = "tailscale.com"
GO_GROUP = "go.tailscale.com"


def numbered(cases: Iterable[Case | Change | Status]) -> list[Any]:
    """Return parameters that are named by kind and place in the table."""
    return [pytest.param(case, id=f"{case.kind}-{number}") for number, case in enumerate(cases)]


class Answer(NamedTuple):
    """What the API server made of an object, or why it refused it."""

    obj: Object
    refusal: str = ""


@pytest.fixture(scope="module")
def defined(api_bed: Bed, go_crds: list[Object]) -> Bed:
    """An API server with the definitions of both."""
    definitions = [crd(definition) for definition in DEFINITIONS] + [moved(definition) for definition in go_crds]
    api_bed.kubectl(
        "apply",
        "--server-side",
        "-f",
        "-",
        stdin=json.dumps({"kind": "List", "apiVersion": "v1", "items": definitions}),
    )
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


def test_the_table_is_as_long_as_promised() -> None:
    assert len(CASES) >= 120
    assert sum(bool(case.refused) for case in CASES) >= 60


@IN_ONE_LOOP
@pytest.mark.parametrize("case", numbered(CASES))
async def test_an_object_is_accepted_or_refused_and_completed_as_by_the_go_operators(
    api: KubeClient, case: Case
) -> None:
    ours, theirs = [await answer(api.create(dry(each), thing(each, case.spec))) for each in both(case.kind)]
    check(case.refused, ours, theirs)
    assert ours.obj.get("spec") == theirs.obj.get("spec")


@IN_ONE_LOOP
async def test_what_only_ours_has_is_kept_by_ours_and_dropped_by_the_go_operators(api: KubeClient) -> None:
    ours, theirs = [await api.create(dry(each), thing(each, ONLY_OURS.spec)) for each in both(ONLY_OURS.kind)]
    assert ours["spec"]["nameserver"]["pod"] == {"imagePullSecrets": [{"name": "pull"}, {"name": ""}]}
    assert theirs["spec"]["nameserver"]["pod"] == {}


@IN_ONE_LOOP
@pytest.mark.parametrize("change", numbered(CHANGES))
async def test_a_change_is_accepted_or_refused_as_by_the_go_operators(api: KubeClient, change: Change) -> None:
    answers = []
    for resource in both(change.kind):
        async with created(api, resource, change.before) as obj:
            answers.append(await answer(api.replace(resource, {**obj, "spec": change.after})))
    check(change.refused, *answers)


@IN_ONE_LOOP
@pytest.mark.parametrize("status", numbered(STATUSES))
async def test_a_status_is_accepted_or_refused_as_by_the_go_operators(api: KubeClient, status: Status) -> None:
    answers = []
    for resource in both(status.kind):
        async with created(api, resource, LEAST[status.kind]) as obj:
            answers.append(await answer(api.replace_status(resource, {**obj, "status": status.status})))
    check(status.refused, *answers)
    assert answers[0].obj.get("status") == answers[1].obj.get("status")
