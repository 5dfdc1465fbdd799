from datetime import UTC, datetime
from typing import Any

import pytest
from clustersim.columns import age, at_path
from clustersim.objects import CONNECTOR, CRD, SERVICE

from tests.loadtest.clustersim.serving import SERVICES, Api, service

TABLE = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
NOW = datetime(2026, 1, 2, tzinfo=UTC)
STATUS = {"conditions": [{"type": "Other", "reason": "No"}, {"type": "ConnectorReady", "reason": "ConnectorCreated"}]}
COLUMNS = [
    {"name": "Status", "type": "string", "jsonPath": '.status.conditions[?(@.type == "ConnectorReady")].reason'},
    {"name": "Hosts", "type": "string", "jsonPath": ".status.devices[*].hostname", "priority": 1},
    {"name": "Devices", "type": "string", "jsonPath": ".status.devices", "priority": 1},
]
DEFINITION: Any = {
    "metadata": {"name": "connectors.tailscale.com"},
    "spec": {
        "group": "tailscale.com",
        "names": {"kind": "Connector", "plural": "connectors"},
        "scope": "Cluster",
        "versions": [{"name": "v1alpha1", "additionalPrinterColumns": COLUMNS}],
    },
}


async def test_kubectl_gets_a_table_with_the_columns_of_the_kind(api: Api) -> None:
    api.store.create(SERVICE, service(clusterIP="10.96.0.9"))
    _, table = await api.call("GET", SERVICES, Accept=TABLE)
    names = [each["name"] for each in table["columnDefinitions"]]
    assert names == ["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector"]
    (row,) = table["rows"]
    assert row["cells"][:5] == ["web", "ClusterIP", "10.96.0.9", "<none>", "80/TCP"]
    assert (row["object"]["kind"], row["object"]["metadata"]["name"]) == ("PartialObjectMetadata", "web")


async def test_the_columns_of_a_custom_kind_are_those_in_its_crd(api: Api) -> None:
    api.store.create(CRD, DEFINITION)
    api.store.create(CONNECTOR, {"metadata": {"name": "exit"}})
    devices = [{"hostname": "exit-0"}, {"hostname": "exit-1"}]
    api.store.merge(CONNECTOR, "", "exit", {"status": {**STATUS, "devices": devices}}, "status")
    _, table = await api.call("GET", "/apis/tailscale.com/v1alpha1/connectors/exit", Accept=TABLE)
    assert [row["cells"] for row in table["rows"]] == [
        ["exit", "ConnectorCreated", "exit-0", '[{"hostname":"exit-0"},{"hostname":"exit-1"}]']
    ]
    assert [each["priority"] for each in table["columnDefinitions"]] == [0, 0, 1, 1]


async def test_a_watch_of_tables_sends_the_definitions_of_the_columns_once(api: Api) -> None:
    api.store.create(SERVICE, service("a"))
    api.store.create(SERVICE, service("b"))
    async with api.watch(SERVICES, Accept=TABLE) as events:
        tables = [(await anext(events))["object"] for _ in range(2)]
    assert [bool(each["columnDefinitions"]) for each in tables] == [True, False]
    assert [each["rows"][0]["cells"][0] for each in tables] == ["a", "b"]


@pytest.mark.parametrize(
    ("since", "words"),
    [
        ("2026-01-01T23:59:58Z", "2s"),
        ("2026-01-01T23:56:55Z", "3m5s"),
        ("2026-01-01T23:30:30Z", "29m"),
        ("2026-01-01T00:00:00Z", "24h"),
        ("2025-12-30T23:00:00Z", "2d1h"),
        ("", "<unknown>"),
    ],
)
def test_an_age_in_a_table_for_kubectl_has_the_form_of_the_real_api_server(since: str, words: str) -> None:
    assert age(since, NOW) == words


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".status.conditions[1].type", ["ConnectorReady"]),
        (".status.conditions[*].reason", ["No", "ConnectorCreated"]),
        (".status.conditions[?(@.type=='Other')].reason", ["No"]),
        (".status.conditions[?(@.type != 'Other')].reason", ["ConnectorCreated"]),
        (".status.conditions[?(@.nothing != '')].reason", []),
        (".status['conditions'][0].reason", ["No"]),
        (".status.nothing[0].more", []),
    ],
)
def test_the_jsonpath_of_a_column_finds_the_values_in_an_object(path: str, found: list[str]) -> None:
    assert at_path(path, {"status": STATUS}) == found
