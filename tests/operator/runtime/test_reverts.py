"""The writer that reverts an object which the operator shares with others."""

import pytest
from tsoperator.api.objects import Object
from tsoperator.runtime.reverts import last_writer

from tests.support.objects import egress_service


def managed(manager: str, second: str, *fields: str) -> Object:
    time = f"2026-01-01T00:00:{second}Z"
    return {"manager": manager, "time": time, "fieldsV1": {"f:spec": {f"f:{field}": {} for field in fields}}}


@pytest.mark.parametrize(
    ("entries", "writer"),
    [
        ([], ""),
        ([managed("tsoperator", "03", "externalName")], ""),
        ([managed("kubectl-edit", "03", "ports"), {"manager": "kubelet"}], ""),
        (
            [
                managed("kubectl-client-side-apply", "01", "externalName", "type"),
                managed("argocd-controller", "02", "externalName"),
                managed("tsoperator", "03", "type"),
            ],
            "argocd-controller",
        ),
        ([managed("kustomize-controller", "01", "type")], "kustomize-controller"),
    ],
)
def test_the_other_program_that_last_wrote_the_given_fields_is_found(entries: list[Object], writer: str) -> None:
    service = egress_service(managedFields=entries or None)
    assert last_writer(service, "spec", "externalName", "type") == writer
    assert last_writer(service, "data", "externalName", "type") == ""
