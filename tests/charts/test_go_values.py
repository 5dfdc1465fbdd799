"""Our chart accepts values that were written for the Go operator's chart, of this version or of an older one."""

from pathlib import Path

import pytest

from tests.charts.rendered import CREDENTIALS, Render, container, the, with_values_of
from tests.e2e import go_operator
from tests.e2e.testbed.parts import TAILSCALE

VERSIONS = ("1.76.0", "1.80.0", "1.84.0", "1.98.0", TAILSCALE)


THEIR_PULL_POLICY = "operatorConfig.image.pullPolicy=Always"
"""The `--set` flag for the one value in which the values.yaml of the Go operator's chart differs from ours."""


@pytest.fixture(scope="session", params=VERSIONS)
def go_values(request: pytest.FixtureRequest) -> Path:
    """The values.yaml of the Go operator's chart, in each of several versions."""
    return go_operator.deployed_from(request.param) / "chart" / "values.yaml"


def test_our_chart_renders_the_same_from_the_values_file_of_the_go_operators_chart_as_from_its_own(
    render: Render, go_values: Path
) -> None:
    assert render(*CREDENTIALS, files=(go_values,)) == render(*CREDENTIALS, THEIR_PULL_POLICY)


@pytest.mark.parametrize(
    "sets",
    [
        (),
        ("metrics.service=false",),
        ("metrics.serviceMonitor.enabled=true",),
        ("metrics.dashboard.enabled=true", "metrics.prometheusRule.enabled=true"),
        ("operatorConfig.replicas=3", "networkPolicy.enabled=true"),
        ("operatorConfig.podLabels.team=1", "ingressClass.name=tails"),
        ("ingressClass.enabled=false",),
    ],
)
def test_an_upgrade_that_reuses_the_values_of_the_go_operators_chart_needs_none_of_our_values(
    render: Render, go_values: Path, tmp_path: Path, sets: tuple[str, ...]
) -> None:
    chart = with_values_of(go_values, tmp_path)
    ours = render(*CREDENTIALS, THEIR_PULL_POLICY, *sets, tests=True)
    assert render(*CREDENTIALS, *sets, chart=chart, tests=True) == ours


TAKEN = {
    "OPERATOR_LOGGING": {
        **{f"operatorConfig.logging={level}": level for level in ("info", "debug", "dev", "warn", "error", "")},
        "operatorConfig.logging=null": "",
    },
    "OPERATOR_INITIAL_TAGS": {
        "operatorConfig.defaultTags=tag:a\\,tag:b": "tag:a,tag:b",
        "operatorConfig.defaultTags={tag:a,tag:b}": "tag:a,tag:b",
        "operatorConfig.defaultTags=": "",
        "operatorConfig.defaultTags={}": "",
        "operatorConfig.defaultTags=null": "",
    },
    "PROXY_TAGS": {
        "proxyConfig.defaultTags=": "",
        "proxyConfig.defaultTags=null": "",
        "proxyConfig.defaultTags=tag:a\\, tag:b\\,": "tag:a, tag:b,",
        "proxyConfig.defaultTags={tag:a,tag:b}": "tag:a,tag:b",
    },
    "PROXY_FIREWALL_MODE": {"proxyConfig.firewallMode=": ""},
    "APISERVER_PROXY": {
        **{f"apiServerProxyConfig.mode={mode}": mode for mode in ("true", "false", "noauth", "")},
        "apiServerProxyConfig.mode=null": "",
    },
    "OPERATOR_LOGIN_SERVER": {"loginServer=null": ""},
    "OPERATOR_HOSTNAME": {"operatorConfig.hostname=null": ""},
}
"""For each variable of the operator's container, a map from `--set` flags to the value that the variable gets."""


@pytest.mark.parametrize(("variable", "given"), [(name, each) for name, sets in TAKEN.items() for each in sets])
def test_each_form_of_a_value_that_the_go_chart_accepts_sets_the_variable_of_the_operators_container(
    render: Render, variable: str, given: str
) -> None:
    variables = {each["name"]: each.get("value") for each in container(render(*CREDENTIALS, given))["env"]}
    assert variables[variable] == TAKEN[variable][given]


def test_null_as_a_value_of_the_chart_empties_a_map_or_a_list(render: Render) -> None:
    names = ("annotations", "podAnnotations", "podLabels", "tolerations", "affinity", "podSecurityContext", "extraEnv")
    sets = (f"operatorConfig.{name}=null" for name in (*names, "resources", "securityContext"))
    usual, given = (container(render(*CREDENTIALS, *chosen)) for chosen in ((), tuple(sets)))
    assert given == usual
    without = the("Deployment", render(*CREDENTIALS, "operatorConfig.nodeSelector=null"))
    assert "nodeSelector" not in without["spec"]["template"]["spec"]
    assert "IngressClass" not in {obj["kind"] for obj in render(*CREDENTIALS, "ingressClass.enabled=null")}


def test_the_values_can_have_a_volume_with_the_oauth_credentials_together_with_a_client_id(render: Render) -> None:
    objects = render("oauth.clientId=client", "oauthSecretVolume.secret.secretName=mine")
    (volume,) = the("Deployment", objects)["spec"]["template"]["spec"]["volumes"]
    assert volume == {"name": "oauth", "secret": {"secretName": "mine"}}
    assert the("Secret", objects)["stringData"] == {"client_id": "client", "client_secret": ""}


def test_a_volume_with_the_oauth_credentials_takes_the_place_of_workload_identity(render: Render) -> None:
    objects = render("oauth.clientId=client", "oauth.audience=here", "oauthSecretVolume.secret.secretName=mine")
    (volume,) = the("Deployment", objects)["spec"]["template"]["spec"]["volumes"]
    (mount,) = container(objects)["volumeMounts"]
    assert (volume["name"], mount) == ("oauth", {"name": "oauth", "mountPath": "/oauth", "readOnly": True})
    variables = {each["name"] for each in container(objects)["env"] if each["name"].startswith("CLIENT_")}
    assert variables == {"CLIENT_ID_FILE", "CLIENT_SECRET_FILE"}
