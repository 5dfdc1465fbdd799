import pytest
from tsoperator.api.crds import DEFINITIONS
from tsoperator.api.objects import PROXYGROUPPOLICY, Resource
from tsoperator.reconcilers.unsupported import desired


@pytest.mark.parametrize(
    "resource", [each for each in desired.CONDITIONS if each != PROXYGROUPPOLICY], ids=lambda each: each.kind
)
def test_kubectl_get_shows_the_reason(resource: Resource) -> None:
    definition = next(each for each in DEFINITIONS if each.resource == resource)
    columns = {column.name: column.json_path for column in definition.columns}
    assert f'@.type == "{desired.CONDITIONS[resource]}"' in columns["Status"]
