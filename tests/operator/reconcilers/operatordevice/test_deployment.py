"""The Deployment of the API server proxy."""

import json
from dataclasses import replace
from typing import Any

import pytest
from tsoperator.api.apiserver import ProxyMode
from tsoperator.api.objects import Key, Object, key_of
from tsoperator.reconcilers.operatordevice.apiserverproxy import plan
from tsoperator.reconcilers.operatordevice.ask import ask_of, own_name
from tsoperator.reconcilers.operatordevice.deployment import serve_config
from tsoperator.runtime.plan import Creation

from tests.operator.reconcilers.operatordevice.facts import (
    ACCOUNT,
    ASK,
    IMAGE,
    NEW,
    PLACED,
    RUNNING,
    SETTINGS,
    deployment,
    serving,
)
from tests.support.objects import settings, texts

TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"
SERVED = '{"TCP":{"443":{"TCPForward":"127.0.0.2:8443","TerminateTLS":"${TS_CERT_DOMAIN}","ProxyProtocol":2}'
HTTP_SERVED = ',"80":{"TCPForward":"127.0.0.2:8080","ProxyProtocol":2}'


def pod_spec(made: Object) -> Object:
    found: Object = made["spec"]["template"]["spec"]
    return found


def containers(made: Object) -> tuple[Object, Object]:
    """Return the containers `tailscale` and `apiproxy` of the Deployment *made*."""
    device, program = pod_spec(made)["containers"]
    assert (device["name"], program["name"]) == ("tailscale", "apiproxy")
    return device, program


def env(container: Object) -> dict[str, Any]:
    return {each["name"]: each.get("value") or each["valueFrom"]["fieldRef"]["fieldPath"] for each in container["env"]}


def sources(made: Object, container: Object) -> dict[str, list[str]]:
    """Return a map from the path of each projected volume in *container* to the kinds of the volume's sources."""
    volumes = {each["name"]: each for each in pod_spec(made)["volumes"]}
    mounted = {each["mountPath"]: volumes[each["name"]] for each in container["volumeMounts"]}
    return {
        path: [kind for source in each["projected"]["sources"] for kind in source]
        for path, each in mounted.items()
        if "projected" in each
    }


def test_the_deployment_of_the_api_server_proxy_has_one_pod_and_is_owned_by_its_service_account() -> None:
    made = deployment()
    assert key_of(made) == Key("tailscale", "operator-apiserver-proxy")
    assert made["metadata"]["labels"] == made["spec"]["template"]["metadata"]["labels"] == ASK.owner.labels
    assert made["spec"]["selector"]["matchLabels"] == ASK.owner.labels
    assert "app" not in ASK.owner.labels  # the operator recognizes the Pods of a Go operator by this label
    assert (made["spec"]["replicas"], made["spec"]["strategy"]) == (1, {"type": "Recreate"})
    (owner,) = made["metadata"]["ownerReferences"]
    assert owner == {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "name": key_of(made).name,
        "uid": ACCOUNT["metadata"]["uid"],
    }
    assert pod_spec(made)["serviceAccountName"] == key_of(ACCOUNT).name


def test_the_config_secret_has_a_config_for_each_version_of_the_image_and_the_serve_config() -> None:
    (_, config, _) = plan(ASK, NEW, SETTINGS).plan.steps
    assert isinstance(config, Creation)
    head = (
        '{"Version":"alpha0","Locked":false,"ServerURL":"https://controlplane.tailscale.com",'
        '"Hostname":"tailscale-operator","acceptDNS":false,"acceptRoutes":false,'
    )
    assert texts(config.obj) == {
        "cap-107.hujson": f'{head}"AppConnector":{{"Advertise":false}},"NoStatefulFiltering":true}}',
        "cap-95.hujson": f'{head}"NoStatefulFiltering":true}}',
        "serve-config": f"{SERVED}}}}}",
    }


@pytest.mark.parametrize(("http", "text"), [(False, f"{SERVED}}}}}"), (True, f"{SERVED}{HTTP_SERVED}}}}}")])
def test_the_operators_device_always_forwards_https_but_plain_http_only_if_the_settings_ask_for_it(
    http: bool, text: str
) -> None:
    assert json.dumps(serve_config(http=http), separators=(",", ":")) == text


def test_the_operators_device_keeps_its_state_in_the_operators_secret_and_its_config_in_another_secret() -> None:
    device, _ = containers(deployment(serving()))
    found = env(device)
    assert {name: found.get(name) for name in DEVICE_ENV} == DEVICE_ENV
    mounts = {each["mountPath"]: each["name"] for each in device["volumeMounts"]}
    assert mounts["/etc/tsconfig/operator"] == "tailscaledconfig-0"
    assert pod_spec(deployment())["volumes"][0]["secret"]["secretName"] == "operator-config"
    assert device["image"] == SETTINGS.proxy_image
    assert env(containers(deployment(serving(operator_port="1234")))[0])["PORT"] == "1234"


DEVICE_ENV = {
    "TS_USERSPACE": "true",
    "TS_KUBE_SECRET": "operator",
    "TS_EXPERIMENTAL_VERSIONED_CONFIG_DIR": "/etc/tsconfig/operator",
    "TS_SERVE_CONFIG": "/etc/tsconfig/operator/serve-config",
    "TS_SOCKET": "/var/run/tailscale/tailscaled.sock",
    "TS_INTERNAL_APP": "k8s-operator-proxy",
    "PORT": "41641",
}
MODES = {
    "auth": (serving(), {"APISERVER_PROXY": "true", "OPERATOR_LOGGING": "info", "OPERATOR_LOG_FORMAT": "text"}),
    "noauth": (serving(ProxyMode.NOAUTH), {"APISERVER_PROXY": "noauth"}),
    "http": (serving(apiserver_proxy_http=True), {"APISERVER_PROXY": "true", "APISERVER_PROXY_HTTP": "true"}),
    "log": (
        serving(log_level="WARNING", log_format="json"),
        {"OPERATOR_LOGGING": "warn", "OPERATOR_LOG_FORMAT": "json", "POD_IP": "status.podIP"},
    ),
}


@pytest.mark.parametrize(("given", "wanted"), MODES.values(), ids=MODES)
def test_the_proxy_program_gets_its_mode_and_the_socket_of_tailscaled(given: Any, wanted: dict[str, str]) -> None:
    _, program = containers(deployment(given))
    found = env(program)
    assert {name: found.get(name) for name in wanted} == wanted
    assert ("APISERVER_PROXY_HTTP" in found) is given.apiserver_proxy_http
    assert found["TS_SOCKET"] == DEVICE_ENV["TS_SOCKET"]
    assert (program["image"], program["command"]) == (IMAGE, ["python3", "-m", "tsoperator.apiproxy"])


@pytest.mark.parametrize(
    ("mode", "kinds"),
    {ProxyMode.AUTH: ["serviceAccountToken", "configMap", "downwardAPI"], ProxyMode.NOAUTH: ["configMap"]}.items(),
)
def test_the_container_of_the_proxy_program_has_a_token_only_in_auth_mode(mode: ProxyMode, kinds: list[str]) -> None:
    made = deployment(serving(mode))
    device, program = containers(made)
    assert sources(made, program) == {TOKEN: kinds}
    assert "serviceAccountToken" in sources(made, device)[TOKEN]
    assert pod_spec(made)["automountServiceAccountToken"] is False


def test_the_api_server_proxys_pod_meets_the_restricted_standard_and_each_container_has_its_own_user() -> None:
    made = deployment()
    assert pod_spec(made)["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    for each in containers(made):
        context = each["securityContext"]
        assert (context["allowPrivilegeEscalation"], context["capabilities"]) == (False, {"drop": ["ALL"]})
    assert [each["securityContext"]["runAsUser"] for each in containers(made)] == [65532, 65533]
    assert {"secret", "emptyDir", "projected"} == {kind for each in pod_spec(made)["volumes"] for kind in each} - {
        "name"
    }


LOST = [f"node.kubernetes.io/{taint}" for taint in ("not-ready", "unreachable")]


def test_the_api_server_proxys_pod_is_placed_like_the_operators_pod_and_leaves_a_lost_node_after_10_seconds() -> None:
    spec = pod_spec(deployment())
    assert PLACED.items() <= {**spec, "tolerations": PLACED["tolerations"]}.items()
    assert "nodeName" not in spec
    assert [each["key"] for each in spec["tolerations"]] == ["dedicated", *LOST]
    assert {each.get("tolerationSeconds") for each in spec["tolerations"][1:]} == {10}
    assert spec["terminationGracePeriodSeconds"] == 5
    assert containers(deployment())[1]["imagePullPolicy"] == "Always"


def test_the_api_server_proxys_pod_keeps_its_placement_if_the_operator_cannot_find_its_own_pod() -> None:
    assert deployment(observed=replace(RUNNING, like=None)) == deployment()
    unplaced = deployment(observed=replace(NEW, like=None))
    assert not PLACED.keys() & pod_spec(unplaced).keys() - {"tolerations"}
    assert containers(unplaced)[1]["imagePullPolicy"] == "IfNotPresent"


def test_a_node_that_has_an_image_other_than_the_operators_does_not_pull_the_image_again() -> None:
    assert containers(deployment(serving(operator_image="example.org/o:v2")))[1]["imagePullPolicy"] == "IfNotPresent"


NAMES = {
    "operator-7d9f8c4b5-x2x2x": "operator",
    "ts-operator-eu-7d9f8c4b5-x2x2x": "ts-operator-eu",
    "operator-0": "own",
    "": "own",
    f"{'tailscale-' * 4}{'o' * 8}-operator-x2x2x": "own",  # Kubernetes has cut this name, so that it lacks the hash
}


@pytest.mark.parametrize(("pod", "name"), NAMES.items())
def test_the_name_of_the_operators_deployment_follows_from_the_name_of_its_pod(pod: str, name: str) -> None:
    assert own_name(settings(pod_name=pod, operator_secret="own")) == name


def test_a_long_name_of_the_operators_secret_is_cut_in_the_names_of_the_proxys_objects() -> None:
    ask = ask_of(serving(operator_secret="o" * 63))
    assert (len(ask.deployment.name), ask.deployment.name[-17:]) == (63, "o-apiserver-proxy"[-17:])
