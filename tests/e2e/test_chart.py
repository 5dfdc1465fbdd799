"""The chart as Helm renders it, beside the Go operator's: the same values, the same names, the same environment."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.e2e.product import CHART
from tests.e2e.testbed.build import build_program
from tests.e2e.testbed.commands import run
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.parts import named
from tests.e2e.testbed.paths import Paths
from tests.e2e.testbed.progress import Progress

Object = dict[str, Any]
Render = Callable[..., list[Object]]

CREDENTIALS = ("oauth.clientId=client", "oauth.clientSecret=secret")
KINDS = {
    "connectors", "dnsconfigs", "peerrelays", "proxyclasses", "proxygrouppolicies", "proxygroups", "recorders",
    "tailnets",
}  # fmt: skip


@pytest.fixture(scope="module")
def helm() -> Path:
    """The program, built if it isn't yet."""
    return build_program("helm", Paths.from_environment(), Progress())


@pytest.fixture(scope="module")
def go_chart() -> Path:
    """The chart of the Go operator, in its module."""
    where = run(["go", "list", "-m", "-f", "{{.Dir}}", "tailscale.com"], cwd=named("tailscale").folder, timeout=120)
    return Path(where.strip()) / "cmd" / "k8s-operator" / "deploy" / "chart"


@pytest.fixture(scope="module")
def render(helm: Path) -> Render:
    """Return what a chart renders: of ours with `--set`, or another with the same."""

    def rendered(
        *sets: str, chart: Path = CHART, files: tuple[Path, ...] = (), release: str = "operator"
    ) -> list[Object]:
        words = [word for given in sets for word in ("--set", given)]
        words += [str(word) for file in files for word in ("--values", file)]
        text = run([helm, "template", release, chart, "--namespace", "tailscale", *words], timeout=60)
        return [obj for obj in yaml.safe_load_all(text) if obj]

    return rendered


def the(kind: str, objects: list[Object]) -> Object:
    """Return the one object of that kind."""
    (found,) = (obj for obj in objects if obj["kind"] == kind)
    return found


def container(objects: list[Object]) -> Object:
    """Return the operator's container."""
    only: Object
    (only,) = the("Deployment", objects)["spec"]["template"]["spec"]["containers"]
    return only


def names(objects: list[Object], *kinds: str) -> set[tuple[str, str]]:
    """Return the names of the objects of those kinds."""
    return {(obj["kind"], obj["metadata"]["name"]) for obj in objects if obj["kind"] in kinds}


def test_it_passes_helms_lint(helm: Path) -> None:
    assert "0 chart(s) failed" in run([helm, "lint", "--strict", CHART])


def test_every_kind_is_defined_and_kept_when_the_release_goes(render: Render) -> None:
    crds = [obj for obj in render(*CREDENTIALS) if obj["kind"] == "CustomResourceDefinition"]
    assert {crd["metadata"]["name"] for crd in crds} == {f"{kind}.tailscale.com" for kind in KINDS}
    assert all(crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep" for crd in crds)


def test_kinds_can_be_left_to_others(render: Render) -> None:
    assert not names(render(*CREDENTIALS, "installCRDs=false"), "CustomResourceDefinition")


@pytest.mark.parametrize(
    "sets",
    [
        CREDENTIALS,
        (*CREDENTIALS, "ingressClass.name=tails"),
        (*CREDENTIALS, "ingressClass.enabled=false"),
    ],
)
def test_everything_that_the_go_operators_chart_makes_is_made_by_the_same_name(
    render: Render, go_chart: Path, sets: tuple[str, ...]
) -> None:
    ours, theirs = render(*sets), render(*sets, chart=go_chart)
    assert {(obj["kind"], obj["metadata"]["name"]) for obj in theirs} <= {
        (obj["kind"], obj["metadata"]["name"]) for obj in ours
    }
    selectors = [the("Deployment", objects)["spec"]["selector"] for objects in (ours, theirs)]
    assert selectors[0] == selectors[1]  # else the Deployment can't be upgraded


@pytest.mark.parametrize(
    "sets",
    [
        CREDENTIALS,
        ("oauth.clientId=client", "oauth.audience=here"),
        (*CREDENTIALS, "oauthSecretVolume.csi.driver=example.org"),
        (*CREDENTIALS, "proxyConfig.defaultProxyClass=prod", "loginServer=https://headscale.example.org"),
        (*CREDENTIALS, "operatorConfig.extraEnv[0].name=A", "operatorConfig.extraEnv[0].value=b"),
        (*CREDENTIALS, "operatorConfig.defaultTags={tag:a,tag:b}", "operatorConfig.podLabels.team=net"),
        (*CREDENTIALS, "imagePullSecrets[0].name=pull", "operatorConfig.priorityClassName=high"),
    ],
)
def test_the_deployment_has_every_variable_volume_and_label_of_the_go_operators(
    render: Render, go_chart: Path, sets: tuple[str, ...]
) -> None:
    ours, theirs = (the("Deployment", render(*sets, chart=chart)) for chart in (CHART, go_chart))
    our_pod, their_pod = (obj["spec"]["template"] for obj in (ours, theirs))
    assert their_pod["metadata"]["labels"].items() <= our_pod["metadata"]["labels"].items()
    for field in ("volumes", "serviceAccountName", "imagePullSecrets", "priorityClassName", "nodeSelector"):
        assert our_pod["spec"].get(field) == their_pod["spec"].get(field), field
    (our_container,), (their_container,) = (pod["spec"]["containers"] for pod in (our_pod, their_pod))
    assert our_container["volumeMounts"] == their_container["volumeMounts"]
    assert "args" not in their_container
    given, wanted = ({each["name"]: each for each in made["env"]} for made in (our_container, their_container))
    # Empty where theirs says nothing, which means the same.
    assert {name: {**each, "value": each.get("value") or ""} for name, each in given.items() if name in wanted} == {
        name: {**each, "value": each.get("value") or ""} for name, each in wanted.items() if name != "PROXY_IMAGE"
    } | {"PROXY_IMAGE": {"name": "PROXY_IMAGE", "value": "tailscale/tailscale:stable"}}


def test_the_values_of_the_go_operators_chart_render_and_run_our_image(render: Render, go_chart: Path) -> None:
    objects = render(*CREDENTIALS, files=(go_chart / "values.yaml",))
    assert container(objects)["image"].startswith("tsoperator:")


def test_values_that_are_reused_from_the_go_operators_chart_need_none_of_ours(
    render: Render, go_chart: Path, tmp_path: Path
) -> None:
    """What `helm upgrade --reuse-values` renders: the old chart's values are all there are."""
    old = tmp_path / "chart"
    shutil.copytree(CHART, old)
    shutil.copy(go_chart / "values.yaml", old / "values.yaml")
    reused, fresh = (the("Deployment", render(*CREDENTIALS, chart=chart))["spec"] for chart in (old, CHART))
    assert reused == fresh


class Credentials(NamedTuple):
    sets: tuple[str, ...]
    variables: set[str]
    secret: str = ""
    made: bool = False


@pytest.mark.parametrize(
    "case",
    [
        Credentials((), {"CLIENT_ID_FILE", "CLIENT_SECRET_FILE"}, "operator-oauth"),
        Credentials(CREDENTIALS, {"CLIENT_ID_FILE", "CLIENT_SECRET_FILE"}, "operator-oauth", made=True),
        Credentials(("oauth.existingSecret=mine",), {"CLIENT_ID_FILE", "CLIENT_SECRET_FILE"}, "mine"),
        Credentials(("oauth.clientId=client", "oauth.audience=here"), {"CLIENT_ID"}),
    ],
)
def test_credentials_come_as_the_values_say(render: Render, case: Credentials) -> None:
    objects = render(*case.sets)
    volumes = the("Deployment", objects)["spec"]["template"]["spec"]["volumes"]
    assert {each["name"] for each in container(objects)["env"] if each["name"].startswith("CLIENT_")} == case.variables
    assert [each["secret"]["secretName"] for each in volumes if "secret" in each] == ([case.secret] * bool(case.secret))
    assert bool(names(objects, "Secret")) is case.made


class Wrong(NamedTuple):
    sets: tuple[str, ...]
    said: str


@pytest.mark.parametrize(
    "case",
    [
        Wrong(("operatorConfig.logging=loud",), "'info', 'debug', 'dev'"),
        Wrong(("proxyConfig.defaultTags=k8s",), "/proxyConfig/defaultTags"),
        Wrong(("proxyConfig.firewallMode=ebtables",), "/proxyConfig/firewallMode"),
        Wrong(("loginServer=headscale.example.org",), "/loginServer"),
        Wrong(("oauth.clientId=client",), "oauth.clientSecret is empty"),
        Wrong(("oauth.audience=here",), "needs oauth.clientId"),
        Wrong((*CREDENTIALS, "apiServerProxyConfig.mode=true"), "has no API server proxy yet"),
        Wrong(
            (
                *CREDENTIALS,
                "operatorConfig.extraEnv[0].name=TS_EXPERIMENTAL_KUBE_API_EVENTS",
                "operatorConfig.extraEnv[0].value=true",
            ),
            "TS_EXPERIMENTAL_KUBE_API_EVENTS is no longer used",
        ),
    ],
    ids=lambda case: case.sets[-1],
)
def test_values_that_are_wrong_are_refused_with_what_to_do(render: Render, case: Wrong) -> None:
    with pytest.raises(BedError, match="exit code") as refused:
        render(*case.sets)
    assert case.said in str(refused.value)


def test_what_is_ours_can_be_had_or_not(render: Render) -> None:
    more = ("metrics.serviceMonitor.enabled=true", "networkPolicy.enabled=true")
    assert {kind for kind, _ in names(render(*CREDENTIALS, *more), "ServiceMonitor", "NetworkPolicy")} == {
        "ServiceMonitor",
        "NetworkPolicy",
    }
    less = ("operatorConfig.replicas=1", "metrics.service=false")
    assert not names(render(*CREDENTIALS, *less), "PodDisruptionBudget", "Service", "ServiceMonitor", "NetworkPolicy")


@pytest.mark.parametrize(
    ("sets", "release", "name", "cluster_name"),
    [
        ((), "tails", "operator", "tailscale-operator"),
        (("nameOverride=tail",), "tails", "tails", "tails"),
        (("nameOverride=net",), "tails", "tails-net", "tails-net"),
        ((f"fullnameOverride={'a' * 62}-b",), "tails", "a" * 62, "a" * 62),
    ],
)
def test_names_follow_the_values(
    render: Render, sets: tuple[str, ...], release: str, name: str, cluster_name: str
) -> None:
    objects = render(*CREDENTIALS, *sets, release=release)
    assert the("Deployment", objects)["metadata"]["name"] == name
    assert the("Secret", objects)["metadata"]["name"] == f"{name}-oauth"
    assert the("ClusterRole", objects)["metadata"]["name"] == cluster_name


def test_the_static_manifests_are_what_the_chart_renders(helm: Path) -> None:
    rendered = run([helm, "template", "operator", CHART, "--namespace", "tailscale"])
    assert (CHART.parent / "manifests" / "operator.yaml").read_text() == rendered, "run: make manifests"


def test_an_image_is_named_by_digest_or_tag_or_its_old_key(render: Render) -> None:
    digest = f"sha256:{'0' * 64}"
    for given, image in (
        ("operatorConfig.image.tag=v2", "tsoperator:v2"),
        (f"operatorConfig.image.digest={digest}", f"tsoperator@{digest}"),
        ("operatorConfig.image.repo=registry.example.org/operator", "registry.example.org/operator:0.1.0"),
    ):
        assert container(render(*CREDENTIALS, given))["image"] == image
