"""The chart as Helm renders it, compared with the Go operator's: the same values, names and variables."""

import difflib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from tsnameserver import __version__
from tsoperator.api.names import LABEL_APP, LABEL_OPERATOR, PARENT_OPERATOR
from tsoperator.api.objects import Key
from tsoperator.api.rules import apiserver_proxy_name
from tsoperator.runtime.holder import CONTAINER
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.predecessor import is_go

from tests.charts import golden
from tests.charts.rendered import CREDENTIALS, Object, Render, container, named, the, with_values_of
from tests.docs import pages
from tests.e2e.product import CHART
from tests.e2e.testbed.commands import run

MIGRATION = pages.DOCS / "migration.md"


def test_the_chart_passes_helms_lint(helm: Path) -> None:
    assert "0 chart(s) failed" in run([helm, "lint", "--strict", CHART])


def test_the_chart_has_all_crds_and_helm_keeps_them_when_the_release_is_uninstalled(render: Render) -> None:
    crds = [obj for obj in render(*CREDENTIALS, crds=True) if obj["kind"] == "CustomResourceDefinition"]
    files = [yaml.load(file.read_text(), yaml.CSafeLoader) for file in (CHART / "files" / "crds").iterdir()]
    assert {crd["metadata"]["name"]: crd["spec"] for crd in crds} == {
        crd["metadata"]["name"]: crd["spec"] for crd in files
    }
    assert all(crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep" for crd in crds)


DIGEST = f"sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("given", "image"),
    [
        ("{tag: v2}", "tsoperator:v2"),
        ("{tag: 0.0.9}", "tsoperator:0.0.9"),
        ("{tag: v1.102.5}", "tsoperator:0.1.0"),
        ("{tag: stable}", "tsoperator:0.1.0"),
        ("{tag: unstable-v1.103.20}", "tsoperator:0.1.0"),
        (f"{{digest: '{DIGEST}'}}", f"tsoperator@{DIGEST}"),
        ("{repo: registry.example.org/operator}", "registry.example.org/operator:0.1.0"),
        ("{repository: mine/op, tag: v1.102.5}", "mine/op:0.1.0"),
        ("{repository: mine/op, tag: unstable-v1.103.20}", "mine/op:0.1.0"),
        ("{repository: mine/op, tag: stable}", "mine/op:stable"),
        ("{repository: mine/op, tag: v1.2.3}", "mine/op:v1.2.3"),
        ("{repository: mine/op, repo: ghcr.io/tailscale/k8s-operator, tag: 0.0.9}", "mine/op:0.0.9"),
        ("{repository: tailscale/k8s-operator, repo: mine/op, tag: v1.102.5}", "mine/op:0.1.0"),
        ("{repo: tailscale/k8s-operator, tag: mine}", "tsoperator:0.1.0"),
    ],
)
def test_the_values_choose_the_operators_image_but_the_name_and_tags_of_the_go_operators_image_are_ignored(
    render: Render, tmp_path: Path, given: str, image: str
) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(f"operatorConfig: {{image: {given}}}")
    assert container(render(*CREDENTIALS, files=(file,)))["image"] == image


EVERY_VALUE = """
oauth: {clientId: client, clientSecret: secret}
loginServer: https://headscale.example.org
annotations: {contact: net}
operatorConfig:
  defaultTags: [tag:a, tag:b]
  image: {repository: ghcr.io/tailscale/k8s-operator, tag: v1.102.5, digest: "", pullPolicy: IfNotPresent}
  logging: debug
  hostname: gate
  nodeSelector: {disk: fast}
  resources: {requests: {cpu: 50m}, limits: {memory: 256Mi}}
  annotations: {}
  podAnnotations: {scraped: "true"}
  podLabels: {team: net}
  serviceAccountAnnotations: {role: operator}
  tolerations: [{key: dedicated, operator: Exists}]
  affinity: {podAffinity: {}}
  priorityClassName: high
  podSecurityContext: {fsGroup: 1000}
  securityContext: {runAsUser: 1000}
  extraEnv: [{name: EXTRA_VAR1, value: value1}]
  sharedACMEAccountKey: true
ingressClass: {name: tails, enabled: true}
proxyConfig:
  image: {repository: ghcr.io/tailscale/tailscale, tag: v1.102.5, digest: ""}
  defaultTags: "tag:a,tag:b"
  firewallMode: nftables
  defaultProxyClass: prod
apiServerProxyConfig: {allowImpersonation: "true", mode: "true"}
imagePullSecrets: [{name: pull}]
"""

CHANGED = {
    "Deployment operator: spec.replicas": "one leads, another stands by",
    "Deployment operator: spec.strategy.type": "a new Pod is ready before an old one goes",
    "Deployment operator: spec.template.spec.containers.operator.image": "it is ours",
    "Role operator: rules": "what ours needs: tests/e2e finds out",
    "Role proxies: rules": "likewise",
    "ClusterRole tailscale-operator: rules": "likewise",
}
"""The fields that differ from those of the Go operator's chart, with the reasons."""

CHANGED_BY_DEFAULT = CHANGED | {
    "Deployment operator: spec.template.spec.containers.operator.imagePullPolicy": "a node may have it"
}
"""The fields that differ if the values don't name a pull policy for the image."""

CHANGED_BY_PROXY = {
    f"ClusterRoleBinding tailscale-auth-proxy: subjects.operator.{field}": "the proxy has an account of its own"
    for field in ("kind", "name", "namespace")
}
"""The additional fields that differ if the API server proxy impersonates its callers, with the reason."""


BY_SECRET = "oauth: {clientId: client, clientSecret: secret}"


@pytest.mark.parametrize(
    ("values", "changed"),
    [
        (BY_SECRET, CHANGED_BY_DEFAULT),
        ("oauth: {clientId: client, audience: here}", CHANGED_BY_DEFAULT),
        (f"{BY_SECRET}\noauthSecretVolume: {{csi: {{driver: example.org}}}}", CHANGED_BY_DEFAULT),
        (f"{BY_SECRET}\ningressClass: {{enabled: false}}", CHANGED_BY_DEFAULT),
        (f"{BY_SECRET}\napiServerProxyConfig: {{mode: noauth}}", CHANGED_BY_DEFAULT),
        (EVERY_VALUE, CHANGED | CHANGED_BY_PROXY),
    ],
    ids=["by secret", "by token", "by volume", "no class", "noauth", "every value"],
)
def test_our_chart_renders_every_object_that_the_go_operators_chart_renders_from_the_same_values(
    render: Render, go_chart: Path, tmp_path: Path, values: str, changed: dict[str, str]
) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(values)
    ours, theirs = (by_name(render(files=(file,), chart=chart)) for chart in (CHART, go_chart))
    assert theirs.keys() <= ours.keys()
    lost = [f"{name}: {path}" for name, obj in theirs.items() for path in missing(obj, ours[name])]
    assert sorted(lost) == sorted(changed)
    selectors = [made["Deployment operator"]["spec"]["selector"] for made in (ours, theirs)]
    assert selectors[0] == selectors[1], "the Deployment can't be upgraded"


def by_name(objects: list[Object]) -> dict[str, Object]:
    return {f"{obj['kind']} {obj['metadata']['name']}": obj for obj in objects}


def with_pod_label(name: str, value: str) -> tuple[str, ...]:
    escaped = name.replace(".", "\\.")
    return (*CREDENTIALS, f"operatorConfig.podLabels.{escaped}={value}")


@pytest.mark.parametrize("label", ["app.kubernetes.io/name", LABEL_OPERATOR, LABEL_APP])
def test_the_operators_pod_is_recognized_as_ours_whatever_labels_the_values_give_it(render: Render, label: str) -> None:
    deployment = the("Deployment", render(*with_pod_label(label, "mine")))["spec"]
    pod = deployment["template"]
    assert not is_go(pod)
    assert deployment["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()


def test_a_pod_of_the_go_operator_with_our_name_as_its_label_is_not_taken_for_ours(
    render: Render, go_chart: Path
) -> None:
    objects = render(*with_pod_label("app.kubernetes.io/name", "tailscale-operator"), chart=go_chart)
    assert is_go(the("Deployment", objects)["spec"]["template"])


def test_the_container_in_the_operators_pod_has_the_name_by_which_the_leader_looks_for_it(render: Render) -> None:
    pod = the("Deployment", render(*CREDENTIALS))["spec"]["template"]["spec"]
    assert [container["name"] for container in pod["containers"]] == [CONTAINER]


def missing(theirs: Any, ours: Any, path: str = "") -> list[str]:
    """Return the paths at which *ours* lacks a value of *theirs*.

    A null, an empty and an absent value count as equal.
    """
    if isinstance(theirs, dict) and isinstance(ours, dict | None):
        return [each for name in theirs for each in missing(theirs[name], (ours or {}).get(name), f"{path}.{name}")]
    if isinstance(theirs, list) and theirs and all(isinstance(each, dict) and "name" in each for each in theirs):
        their_names, our_names = ({each["name"]: each for each in side or []} for side in (theirs, ours))
        return missing(their_names, our_names, path)
    return [] if (theirs or "") == (ours or "") else [path.removeprefix(".")]


def test_the_documented_upgrade_from_the_go_operators_chart_runs_our_images(
    render: Render, go_chart: Path, tmp_path: Path
) -> None:
    (command,) = (each for each in pages.commands(MIGRATION) if each[:2] == ["helm", "upgrade"])
    assert "--reuse-values" in command
    sets = [given for word, given in pairwise(command) if word == "--set"]
    chart = with_values_of(go_chart / "values.yaml", tmp_path)
    operator = container(render(*CREDENTIALS, *sets, chart=chart))
    assert operator["image"] == f"registry.example.org/tsoperator:{__version__}"
    (nameserver,) = (each for each in operator["env"] if each["name"] == "OPERATOR_NAMESERVER_IMAGE")
    assert nameserver["value"] == f"registry.example.org/tsnameserver:{__version__}"


ACCOUNT = {
    ("ServiceAccount", "operator-apiserver-proxy"),
    ("Role", "operator-apiserver-proxy"),
    ("RoleBinding", "operator-apiserver-proxy"),
    ("Service", "operator-apiserver-proxy-metrics"),
}
"""The objects that the API server proxy has in each of its modes.

Helm deletes these objects with the release, so the proxy's Pod must not remain after that.
"""
IMPERSONATION = ("ClusterRoleBinding", "tailscale-operator-apiserver-proxy")
"""The binding that the API server proxy needs in auth mode only."""
OF_GROUPS = {
    ("ServiceAccount", "kube-apiserver-auth-proxy"),
    ("ClusterRole", "tailscale-auth-proxy"),
    ("ClusterRoleBinding", "tailscale-auth-proxy"),
}
"""The objects that ProxyGroups of type kube-apiserver need.

The Pods of these groups stay when the release is uninstalled.
"""


@pytest.mark.parametrize(
    ("given", "going", "staying"),
    [
        ("mode=true", ACCOUNT | {IMPERSONATION}, OF_GROUPS),
        ("mode=noauth", ACCOUNT, set()),
        ("mode=false", set(), set()),
        ("mode=", set(), set()),
        ("allowImpersonation=true", set(), OF_GROUPS),
        ("http=true", set(), set()),
    ],
)
def test_values_of_the_api_server_proxy_add_its_objects_and_helm_keeps_only_the_objects_that_proxygroups_use(
    render: Render, given: str, going: set[tuple[str, str]], staying: set[tuple[str, str]]
) -> None:
    usual, found = render(*CREDENTIALS), render(*CREDENTIALS, f"apiServerProxyConfig.{given}")
    added = [obj for obj in found if obj not in usual and obj["kind"] != "Deployment"]
    kept = [obj for obj in added if "helm.sh/resource-policy" in (obj["metadata"].get("annotations") or {})]
    assert by_name(kept).keys() == {" ".join(each) for each in staying}
    assert by_name(added).keys() - by_name(kept).keys() == {" ".join(each) for each in going}


def test_variables_tell_the_operator_its_own_image_and_whether_the_api_server_proxy_serves_http(render: Render) -> None:
    objects = render(*CREDENTIALS, "apiServerProxyConfig.mode=noauth", "apiServerProxyConfig.http=true")
    variables = {each["name"]: each.get("value") for each in container(objects)["env"]}
    assert variables["OPERATOR_IMAGE"] == container(objects)["image"]
    assert variables["APISERVER_PROXY_HTTP"] == "true"


def test_the_service_for_metrics_of_the_api_server_proxy_selects_the_pod_of_the_operators_device(
    render: Render,
) -> None:
    made = by_name(render(*CREDENTIALS, "fullnameOverride=mine", "apiServerProxyConfig.mode=true"))
    service = made["Service mine-apiserver-proxy-metrics"]
    assert service["spec"]["selector"] == Owner(PARENT_OPERATOR, Key("tailscale", "mine")).labels
    assert service["metadata"]["labels"] == made["Service mine-metrics"]["metadata"]["labels"]


def test_the_poddisruptionbudget_has_a_single_limit_and_values_can_leave_out_the_whole_budget(
    render: Render,
) -> None:
    given = render(*CREDENTIALS, "operatorConfig.podDisruptionBudget.maxUnavailable=2")
    assert the("PodDisruptionBudget", given)["spec"].keys() == {"maxUnavailable", "selector"}
    assert not named(render(*CREDENTIALS, "operatorConfig.podDisruptionBudget=null"), "PodDisruptionBudget")


def test_the_servicemonitor_selects_the_metrics_of_the_operator_and_of_the_nameserver(render: Render) -> None:
    objects = render(*CREDENTIALS, "metrics.serviceMonitor.enabled=true", "metrics.service=false")
    monitor = the("ServiceMonitor", objects)["spec"]
    services = [obj for obj in objects if obj["kind"] == "Service"]
    chosen = monitor["selector"]["matchLabels"].items()
    assert [chosen <= service["metadata"]["labels"].items() for service in services] == [True, True]
    (port,) = {endpoint["port"] for endpoint in monitor["endpoints"]}
    assert {service["spec"]["selector"]["app"]: service["spec"]["ports"] for service in services} == {
        "operator": [{"name": port, "port": 9002, "targetPort": "health"}],
        "nameserver": [{"name": port, "port": 9153, "targetPort": "metrics"}],
    }
    assert {"name": "health", "containerPort": 9002} in container(objects)["ports"]


def test_the_alerts_are_in_a_prometheusrule_that_prometheus_finds_by_its_labels(render: Render) -> None:
    given = ("enabled=true", "labels.release=prometheus")
    rule = the("PrometheusRule", render(*CREDENTIALS, *(f"metrics.prometheusRule.{each}" for each in given)))
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    assert rule["spec"] == yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())


def test_the_links_in_the_alerts_begin_with_the_address_of_the_docs_from_the_values(render: Render) -> None:
    given = ("enabled=true", "docsURL=https://docs.example.org/tailnet/")
    rule = the("PrometheusRule", render(*CREDENTIALS, *(f"metrics.prometheusRule.{each}" for each in given)))
    links = [each["annotations"]["runbook_url"] for group in rule["spec"]["groups"] for each in group["rules"]]
    assert all(each.startswith("https://docs.example.org/tailnet/alerts.md#tailscale") for each in links)


def test_the_dashboard_is_in_a_configmap_that_grafanas_sidecar_finds(render: Render) -> None:
    configmap = the("ConfigMap", render(*CREDENTIALS, "metrics.dashboard.enabled=true"))
    assert configmap["metadata"]["namespace"] == "tailscale"
    assert configmap["metadata"]["labels"]["grafana_dashboard"] == "1"
    (text,) = configmap["data"].values()
    assert text == (CHART / "files" / "dashboard.json").read_text()
    given = ("enabled=true", "namespace=monitoring", "annotations.grafana_folder=Net", "labels.grafana_dashboard=null")
    moved = the(
        "ConfigMap", render(*CREDENTIALS, *(f"metrics.dashboard.{each}" for each in (*given, "labels.team=net")))
    )
    assert (moved["metadata"]["namespace"], moved["metadata"]["annotations"]) == (
        "monitoring",
        {"grafana_folder": "Net"},
    )
    assert moved["metadata"]["labels"]["team"] == "net"
    assert "grafana_dashboard" not in moved["metadata"]["labels"]


def is_test(obj: Object) -> bool:
    return (obj["metadata"].get("annotations") or {}).get("helm.sh/hook") == "test"


@pytest.mark.parametrize("given", [(), ("metrics.service=false",), (f"fullnameOverride={'a' * 62}",)])
def test_helm_test_queries_all_pods_of_the_operator(render: Render, given: tuple[str, ...]) -> None:
    objects = render(*CREDENTIALS, *given, tests=True)
    asked = next(each for each in the("Pod", objects)["spec"]["containers"][0]["args"] if "--operator=" in each)
    name, _, port = asked.removeprefix("--operator=").partition(":")
    (service,) = (obj for obj in objects if obj["kind"] == "Service" and obj["metadata"]["name"] == name)
    spec = service["spec"]
    assert spec["selector"] == the("Deployment", objects)["spec"]["selector"]["matchLabels"]
    assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", True)
    assert [(each["port"], each["targetPort"]) for each in spec["ports"]] == [(int(port), "health")]
    assert is_test(service) is ("metrics.service=false" in given)


@pytest.mark.parametrize(
    ("sets", "release", "name", "cluster_name"),
    [
        ((), "tails", "operator", "tailscale-operator"),
        (("nameOverride=tail",), "tails", "tails", "tails"),
        (("nameOverride=net",), "tails", "tails-net", "tails-net"),
        ((f"fullnameOverride={'a' * 62}-b",), "tails", "a" * 62, "a" * 62),
        ((f"fullnameOverride={'a' * 46}-b",), "tails", f"{'a' * 46}-b", f"{'a' * 46}-b"),
    ],
)
def test_the_values_of_the_chart_decide_the_names_of_its_objects(
    render: Render, sets: tuple[str, ...], release: str, name: str, cluster_name: str
) -> None:
    objects = render(*CREDENTIALS, "apiServerProxyConfig.mode=noauth", *sets, release=release)
    assert the("Deployment", objects)["metadata"]["name"] == name
    assert the("Secret", objects)["metadata"]["name"] == f"{name}-oauth"
    assert the("ClusterRole", objects)["metadata"]["name"] == cluster_name
    assert ("ServiceAccount", apiserver_proxy_name(name)) in named(objects, "ServiceAccount")
    assert all(len(name) < 64 for _, name in named(objects, "Service", "ServiceAccount"))


USERS_KINDS = {"services", "endpointslices", "ingresses", "proxygrouppolicies"}
Rule = tuple[str, str, str, tuple[str, ...]]
"""The API group, the resource, the verb, and the names of the objects that the rule is limited to."""


def allowed(role: Object) -> list[Rule]:
    """Return the rules of a role, split into one rule for each verb of each kind."""
    return [
        (group, resource, verb, tuple(rule.get("resourceNames", ())))
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


def by_place(objects: list[Object], kind: str) -> dict[tuple[str, str], Object]:
    return {(obj["metadata"]["namespace"], obj["metadata"]["name"]): obj for obj in objects if obj["kind"] == kind}


def watching(*namespaces: str) -> str:
    return f"operatorConfig.watchNamespaces={{{','.join(namespaces)}}}"


@pytest.mark.parametrize(
    ("namespaces", "with_users", "with_events"),
    [
        (["team-a", "team-b"], ["team-a", "team-b", "tailscale"], ["default"]),
        (["team-a", "tailscale", "team-a"], ["team-a", "tailscale"], ["default"]),
        (["default"], ["default", "tailscale"], []),
    ],
)
def test_the_operator_has_roles_in_the_watched_namespaces_in_place_of_rules_in_the_clusterrole(
    render: Render, namespaces: list[str], with_users: list[str], with_events: list[str]
) -> None:
    objects, everywhere = render(*CREDENTIALS, watching(*namespaces)), render(*CREDENTIALS)
    roles = by_place(objects, "Role")
    users, events = (
        {space: sorted(allowed(role)) for (space, name), role in roles.items() if name == f"tailscale-operator-{kind}"}
        for kind in ("users", "events")
    )
    whole, rest = (sorted(allowed(the("ClusterRole", found))) for found in (everywhere, objects))
    taken = sorted({*whole} - {*rest})
    assert sorted([*rest, *taken]) == whole
    assert {resource.partition("/")[0] for _, resource, _, _ in taken} == {*USERS_KINDS, "events"}
    assert users == dict.fromkeys(with_users, taken)
    assert events == {space: [rule for rule in taken if rule[1] == "events"] for space in with_events}
    assert ("tailscale", "operator") in roles
    [variable] = [each for each in container(objects)["env"] if each["name"] == "OPERATOR_WATCH_NAMESPACES"]
    assert variable["value"] == ",".join(namespaces)


@pytest.mark.parametrize("named", [(), ("fullnameOverride=mine",)], ids=["by default", "overridden"])
def test_each_role_is_bound_to_the_operator_and_all_role_names_differ(render: Render, named: tuple[str, ...]) -> None:
    objects = render(*CREDENTIALS, watching("team-a", "team-b"), *named)
    made = [(obj["kind"], obj["metadata"].get("namespace"), obj["metadata"]["name"]) for obj in objects]
    assert len(made) == len({*made})
    roles, bindings = by_place(objects, "Role"), by_place(objects, "RoleBinding")
    assert roles.keys() == bindings.keys()
    account = {"kind": "ServiceAccount", "name": "mine" if named else "operator", "namespace": "tailscale"}
    for (space, name), binding in bindings.items():
        assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        assert binding["subjects"] == ([{**account, "name": "proxies"}] if name == "proxies" else [account]), space


GRANTED = {
    *(("", "secrets", verb) for verb in ("get", "list", "watch", "patch", "update")),
    *(("", "events", verb) for verb in ("create", "patch", "get")),
    *(("", "configmaps", verb) for verb in ("get", "list", "watch")),
}
"""The rules in the Roles of ProxyGroups and of the nameserver. The operator can grant only rights that it has."""


@pytest.mark.parametrize("sets", [(), (watching("team-a"),)], ids=["everywhere", "in some namespaces"])
def test_the_operator_has_every_right_that_it_grants_in_its_own_namespace(
    render: Render, sets: tuple[str, ...]
) -> None:
    objects = render(*CREDENTIALS, *sets)
    ours = {name for _, name in named(objects, "Role", "ClusterRole")} - {"proxies"}
    roles = [obj for obj in objects if "rules" in obj and obj["metadata"]["name"] in ours]
    held = [
        rule
        for role in roles
        if role["metadata"].get("namespace", "tailscale") == "tailscale"
        for rule in allowed(role)
    ]
    assert {(group, resource, verb) for group, resource, verb, names in held if not names} >= GRANTED


@pytest.mark.parametrize("name", ["operator", "mine"])
def test_the_operator_is_allowed_to_request_tokens_only_of_its_own_serviceaccount(render: Render, name: str) -> None:
    objects = render(*CREDENTIALS, f"fullnameOverride={name}")
    rules = [rule for obj in objects if "rules" in obj for rule in allowed(obj) if rule[1] == "serviceaccounts/token"]
    assert rules == [("", "serviceaccounts/token", "create", (name,))]
    assert the("Deployment", objects)["spec"]["template"]["spec"]["serviceAccountName"] == name


def test_the_static_manifests_equal_the_output_of_the_chart(helm: Path) -> None:
    rendered = run([helm, "template", "operator", CHART, "--namespace", "tailscale", "--skip-tests"])
    assert golden.MANIFESTS.read_text() == rendered, "run: make manifests"


@pytest.mark.parametrize(
    ("name", "value"),
    [("cluster-dns", "dns.enabled=true"), ("apiserver-proxy", "apiServerProxyConfig.mode=true")],
)
def test_the_static_manifest_of_additional_rights_equals_the_output_of_the_chart(
    helm: Path, name: str, value: str
) -> None:
    asked = ["--set", value, "--show-only", f"templates/rbac-{name}.yaml"]
    rendered = run([helm, "template", "operator", CHART, "--namespace", "tailscale", *asked], timeout=60)
    assert golden.MANIFESTS.with_name(f"{name}.yaml").read_text() == rendered, "run: make manifests"


@pytest.mark.parametrize("values", golden.VALUES, ids=lambda values: values.stem)
def test_the_main_combinations_of_values_render_the_golden_files(helm: Path, values: Path) -> None:
    before, after = golden.written(values).read_text().splitlines(), golden.rendered(helm, values).splitlines()
    changes = list(difflib.unified_diff(before, after, "written down", "rendered", lineterm=""))
    if changes:
        pytest.fail("\n".join(["look through it, then run: make manifests", *changes]), pytrace=False)
