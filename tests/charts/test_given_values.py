"""The chart refuses users' values with unknown names or wrong contents, with messages that say what is right."""

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.charts import nearest
from tests.charts.rendered import CREDENTIALS, Render, container, leaves, the
from tests.e2e.product import CHART
from tests.e2e.testbed.errors import BedError

SCHEMA = json.loads(nearest.SCHEMA.read_text())


UNKNOWN = {
    "oauth.clientID": "oauth.clientId",
    "operatorConfig.hostnam": "operatorConfig.hostname",
    "replicas": "operatorConfig.replicas",
    "image": "operatorConfig.image or proxyConfig.image",
    "operatorConfig.imagePullSecrets": "imagePullSecrets",
    "operatorConfig.firewallMode": "proxyConfig.firewallMode",
    "proxyConfig.takeOverNames": "operatorConfig.takeOverNames",
    "installCRD": "installCRDs",
    "networkPolicy.enable": "dns.enabled or metrics.serviceMonitor.enabled or ",
    "metrics.serviceMonitor.intervall": "metrics.serviceMonitor.interval",
    "proxyConfig.image.tags": (
        "operatorConfig.image.tag or operatorConfig.nameserverImage.tag or proxyConfig.image.tag or "
        "proxyConfig.k8sProxyImage.tag"
    ),
    "operatorConfig.podDisruptionBudget.minAvailible": "operatorConfig.podDisruptionBudget.minAvailable",
    "oauth.xyzzy": "",
}
"""Unknown names of values, each with the paths that the refusal suggests: none if no known name is similar."""


@pytest.mark.parametrize(("path", "known"), UNKNOWN.items(), ids=UNKNOWN)
def test_the_chart_refuses_a_value_with_an_unknown_name_and_suggests_similar_names(
    render: Render, path: str, known: str
) -> None:
    with pytest.raises(BedError, match="exit code") as refused:
        render(*CREDENTIALS, f"{path}=1")
    place = f"at '/{path.replace('.', '/')}': value must be 'given as "
    assert (f"{place}{known}" in str(refused.value)) is bool(known)
    assert place in str(refused.value) or "additional properties 'xyzzy' not allowed" in str(refused.value)


def test_the_schema_of_values_in_the_chart_equals_the_output_of_its_generator() -> None:
    assert nearest.SCHEMA.read_text() == nearest.as_text(nearest.written(SCHEMA))


def test_no_known_name_of_a_value_matches_a_pattern_for_misspellings() -> None:
    known = {path.rpartition(".")[2] for path, _ in nearest.places(SCHEMA)}
    patterns = SCHEMA["definitions"]["nearest"]["patternProperties"]
    assert not [(name, pattern) for name in known for pattern in patterns if re.search(pattern, name)]


def test_the_schema_knows_every_value_in_the_charts_values_file(helm: Path) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    known = {path for path, _ in nearest.places(SCHEMA)}
    top = {f"{name}.{below}" for name, given in values.items() if isinstance(given, dict) for below in given}
    assert {*values, *top} <= known


@pytest.mark.parametrize(
    "path", ["global.a", "oauthSecretVolume.a", "operatorConfig.affinity.a", "operatorConfig.resources.a"]
)
def test_the_schema_of_values_allows_any_keys_in_maps_that_kubernetes_or_helm_defines(
    render: Render, path: str
) -> None:
    assert render(*CREDENTIALS, f"{path}=b")


NUMBER = 1234567
"""A number that Go templates print as 1.234567e+06."""

NUMBERS = [
    f"{path.replace('[]', '[0]')}{'.key' if 'additionalProperties' in schema else ''}"
    for path, schema in nearest.places(SCHEMA)
    if "number" in [*schema.get("type", ()), *(schema.get("additionalProperties") or {}).get("type", ())]
]
"""The paths of all values that are rendered as text and can be given as numbers."""

SEEN = (
    *CREDENTIALS,
    *(f"metrics.{each}.enabled=true" for each in ("dashboard", "serviceMonitor", "prometheusRule")),
    *("operatorConfig.extraEnv[0].name=A", "operatorConfig.extraVolumes[0].name=a", "imagePullSecrets[0].name=a"),
)
"""The `--set` flags that make the chart render every value in NUMBERS."""


@pytest.mark.parametrize("path", NUMBERS)
def test_a_number_as_a_value_is_rendered_as_text(render: Render, path: str) -> None:
    found = [*leaves(render(*SEEN, f"{path}={NUMBER}"))]
    assert NUMBER not in found
    assert any(str(NUMBER) in each for each in found if isinstance(each, str))


@pytest.mark.parametrize(
    ("given", "text"),
    [(f"image: {{tag: {NUMBER}}}", f":{NUMBER}"), ("image: {tag: 1.5}", ":1.5"), ("image: {tag: 0}", ":0")],
)
def test_a_number_in_a_file_of_values_is_rendered_as_text(
    render: Render, tmp_path: Path, given: str, text: str
) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(f"nameOverride: {NUMBER}\noperatorConfig: {{{given}}}")
    objects = render(*CREDENTIALS, files=(file,))
    assert container(objects)["image"] == f"tsoperator{text}"
    assert the("Deployment", objects)["metadata"]["name"] == f"operator-{NUMBER}"


@pytest.mark.parametrize(
    ("given", "images"),
    [
        ((), ["tailscale/k8s-proxy:v1.102.5"]),
        (("proxyConfig.image.tag=v1.98.1",), ["tailscale/k8s-proxy:v1.98.1"]),
        (("proxyConfig.image.repository=mine/proxy",), ["tailscale/k8s-proxy:v1.102.5"]),
        (("proxyConfig.k8sProxyImage.repository=mine/api", "proxyConfig.k8sProxyImage.tag=2"), ["mine/api:2"]),
        (("operatorConfig.extraEnv[0].name=K8S_PROXY_IMAGE", "operatorConfig.extraEnv[0].value=a:1"), ["a:1"]),
    ],
)
def test_the_image_of_api_server_proxies_has_the_version_of_the_other_proxies(
    render: Render, given: tuple[str, ...], images: list[str]
) -> None:
    found = container(render(*CREDENTIALS, *given))["env"]
    assert [each["value"] for each in found if each["name"] == "K8S_PROXY_IMAGE"] == images


@pytest.mark.parametrize("name", ["podLabels", "podAnnotations", "annotations", "nodeSelector"])
def test_the_value_true_is_rendered_as_text_where_kubernetes_requires_text(render: Render, name: str) -> None:
    objects = render(*CREDENTIALS, f"operatorConfig.{name}.key=true")
    assert "true" in leaves(the("Deployment", objects))


def test_the_name_of_the_clusters_dns_configmap_is_in_the_operators_rights_and_in_its_variable(render: Render) -> None:
    objects = render(*CREDENTIALS, "operatorConfig.manageClusterDNS=true", "operatorConfig.clusterDNSConfigMap=7")
    assert {"name": "OPERATOR_CLUSTER_DNS_CONFIGMAP", "value": "7"} in container(objects)["env"]
    rules = [rule for obj in objects for rule in obj.get("rules", ()) if "7" in rule.get("resourceNames", ())]
    assert [rule["verbs"] for rule in rules] == [["list", "watch"], ["get", "patch"]]


def test_a_watched_namespace_and_the_value_of_a_variable_can_look_like_numbers(render: Render) -> None:
    objects = render(*CREDENTIALS, "operatorConfig.watchNamespaces={2024}", "operatorConfig.extraEnv[0].name=A")
    assert {"name": "OPERATOR_WATCH_NAMESPACES", "value": "2024"} in container(objects)["env"]
    assert ("Role", "2024") in {(obj["kind"], obj["metadata"].get("namespace")) for obj in objects}


IMAGES = ("operatorConfig.image", "operatorConfig.nameserverImage", "proxyConfig.image", "proxyConfig.k8sProxyImage")


WRONG = {
    "'info', 'debug', 'dev', 'warn', 'error'": ["operatorConfig.logging=loud"],
    "'text', 'json'": ["operatorConfig.logFormat=xml"],
    "at '/proxyConfig/defaultTags': value must be 'tags such as tag:k8s, separated by commas'": [
        "proxyConfig.defaultTags=k8s"
    ],
    "defaultTags/0': value must be 'a tag such as tag:k8s'": ["operatorConfig.defaultTags={k8s}"],
    "/fullnameOverride': got number": ["fullnameOverride=1"],
    "/fullnameOverride': value must be 'empty, or lower-case letters, digits and": ["fullnameOverride=1st"],
    "image/digest': value must be 'empty, or sha256: and 64 digits": ["operatorConfig.image.digest=abc"],
    "zones/0': value must be 'a domain such as tail1234.ts.net'": ["operatorConfig.zones={a_b}"],
    "zones/0': value must be 'the domain of a tailnet; this would take": ["operatorConfig.zones={svc.cluster.local}"],
    "must be one of true, false, 'true', 'false'": ["apiServerProxyConfig.allowImpersonation=yes"],
    '"tailscale/tailscale:v1 2" is not the name of an image: remove': [*CREDENTIALS, "proxyConfig.image.tag=v1 2"],
    "/operatorConfig/tolerations/0': got string, want object": ["operatorConfig.tolerations={x}"],
    "/operatorConfig/replicas": ["operatorConfig.replicas=two"],
    "/proxyConfig/firewallMode": ["proxyConfig.firewallMode=ebtables"],
    "/loginServer': value must be 'empty, or a URL such as https://": ["loginServer=headscale.example.org"],
    "Namespaces/1': value must be 'the name of a namespace,": ["operatorConfig.watchNamespaces={team-a,Team}"],
    "/operatorConfig/watchNamespaces': got string": ["operatorConfig.watchNamespaces=team-a"],
    "oauth.clientSecret is empty": ["oauth.clientId=client"],
    "needs oauth.clientId": ["oauth.audience=here"],
    "/apiServerProxyConfig/mode': value must be one of true, false, 'true', 'false', 'noauth'": [
        "apiServerProxyConfig.mode=auth"
    ],
    "/apiServerProxyConfig/http': value must be one of true, false, 'true', 'false'": ["apiServerProxyConfig.http=yes"],
    "TS_EXPERIMENTAL_KUBE_API_EVENTS is no longer used": [
        *CREDENTIALS,
        "operatorConfig.extraEnv[0].name=TS_EXPERIMENTAL_KUBE_API_EVENTS",
        "operatorConfig.extraEnv[0].value=true",
    ],
}


@pytest.mark.parametrize(("said", "sets"), WRONG.items(), ids=WRONG)
def test_the_chart_refuses_wrong_values_with_words_that_say_what_to_do(
    render: Render, said: str, sets: list[str]
) -> None:
    with pytest.raises(BedError, match="exit code") as refused:
        render(*sets)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "given",
    [
        ("operatorConfig=null", "proxyConfig=null", "apiServerProxyConfig=null", "metrics=null"),
        ("operatorConfig.image=null", "operatorConfig.nameserverImage=null", "proxyConfig.image=null"),
        *(
            tuple(f"{image}.{part}={value}" for image in IMAGES for part in ("repository", "tag"))
            for value in ("null", "", " ")
        ),
    ],
    ids=["parts", "images", "null", "empty", "blank"],
)
def test_a_missing_value_has_the_default_of_our_values_file(render: Render, given: tuple[str, ...]) -> None:
    ours, found = (container(render(*CREDENTIALS, *sets)) for sets in ((), given))
    environment = [{each["name"]: each.get("value") for each in made["env"]} for made in (ours, found)]
    names = ("OPERATOR_NAMESERVER_IMAGE", "PROXY_IMAGE", "APISERVER_PROXY", "OPERATOR_LOG_FORMAT")
    assert [found["image"], *(environment[1][name] or "false" for name in names)] == [
        ours["image"],
        *(environment[0][name] for name in names),
    ]
