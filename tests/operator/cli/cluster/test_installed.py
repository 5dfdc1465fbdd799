"""What the operator's Deployment says of its settings, and of the Pods of proxies."""

from typing import Any, NamedTuple

import pytest
from tsoperator.api.objects import Key, Object
from tsoperator.cli.cluster.installed import (
    Installed,
    SecretKey,
    WorkloadIdentity,
    check_pod_security,
    find_installed,
    no_pods,
    not_installed,
)

from tests.operator.cli.cluster.samples import NAMESPACE, deployment, installed


def test_the_charts_deployment_is_the_operator() -> None:
    theirs: Object = {"metadata": {"name": "operator"}, "spec": {"template": {"spec": {}}}}
    ours = deployment()
    going = {**ours, "metadata": {**ours["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert find_installed(NAMESPACE, [theirs, going, ours]) == Installed(NAMESPACE, ours)
    assert find_installed(NAMESPACE, [theirs, going]) is None
    assert not_installed("elsewhere").words == "no Deployment in namespace elsewhere runs this operator"


def test_settings_are_those_of_the_chart() -> None:
    found = installed()
    assert (found.name, found.replicas, found.service_account) == ("operator", 2, "operator")
    assert (found.account, found.health_port) == ("system:serviceaccount:tailscale:operator", 9002)
    assert (found.watched, found.control_url) == ([], "https://controlplane.tailscale.com")
    assert (found.has_default_class, found.identity) == (False, None)
    assert found.secret_key("CLIENT_ID_FILE") == SecretKey(Key(NAMESPACE, "operator-oauth"), "client_id")


def test_settings_of_ones_own_are_read() -> None:
    found = installed(
        {
            "OPERATOR_WATCH_NAMESPACES": "team-a,tailscale",
            "OPERATOR_LOGIN_SERVER": " https://headscale.example.org/\n",
            "PROXY_DEFAULT_CLASS": "small",
            "OPERATOR_INGRESS_CLASS_NAME": "private",
            "CLIENT_ID_FILE": "/elsewhere/client_id",
        },
        serviceAccountName="other",
    )
    assert found.watched == ["tailscale", "team-a"]
    assert (found.control_url, found.has_default_class) == ("https://headscale.example.org", True)
    assert (found.service_account, found.secret_key("CLIENT_ID_FILE")) == ("other", None)
    assert (found.ingress_class, installed({"OPERATOR_INGRESS_CLASS_NAME": ""}).ingress_class) == (
        "private",
        "tailscale",
    )


@pytest.mark.parametrize(
    ("ports", "port"),
    [
        (None, 9002),
        ([{"containerPort": 9100}], 9002),
        ([{"name": "debug", "containerPort": 9101}, {"name": "health", "containerPort": 9100}], 9100),
    ],
)
def test_metrics_are_at_the_port_called_health(ports: list[Object] | None, port: int) -> None:
    container: Object = {"name": "operator", "ports": ports}
    deployed: Object = {"metadata": {"name": "o"}, "spec": {"template": {"spec": {"containers": [container]}}}}
    found = Installed(NAMESPACE, deployed)
    assert (found.health_port, found.replicas, found.service_account) == (port, 1, "default")


def test_workload_identity_is_a_client_and_an_audience() -> None:
    token = {"serviceAccountToken": {"audience": "api.tailscale.com/k", "path": "token"}}
    volume = {"name": "oidc-jwt", "projected": {"sources": [{"configMap": {"name": "ca"}}, token]}}
    assert installed({"CLIENT_ID": "k"}, volumes=[volume]).identity == WorkloadIdentity("k", "api.tailscale.com/k")
    assert installed({}, volumes=[volume]).identity is None
    assert installed({"CLIENT_ID": "k"}, volumes=[]).identity is None


class Missing(NamedTuple):
    replicas: int
    conditions: list[dict[str, str]]
    words: str
    cure: str


@pytest.mark.parametrize(
    "case",
    [
        Missing(0, [], "is scaled to 0", "kubectl -n tailscale scale deployment/operator --replicas=2"),
        Missing(2, [], "has no Pods", "describe deployments,replicasets --show-events`"),
        Missing(
            2,
            [{"type": "Available"}, {"type": "ReplicaFailure", "message": "exceeded quota"}],
            "has no Pods: exceeded quota",
            "describe deployments,replicasets --show-events`",
        ),
    ],
)
def test_an_operator_without_pods_says_why(case: Missing) -> None:
    finding = no_pods(
        Installed(NAMESPACE, {**deployment(replicas=case.replicas), "status": {"conditions": case.conditions}})
    )
    assert finding.verdict == "FAILED"
    assert finding.words.startswith(f"Deployment tailscale/operator {case.words}")
    assert case.cure in finding.cure


class Security(NamedTuple):
    level: str
    contexts: list[dict[str, Any]]
    default_class: bool
    words: str


NONE: dict[str, Any] = {"runAsNonRoot": True}


@pytest.mark.parametrize(
    "case",
    [
        Security("", [{"privileged": True}], False, "lets proxies be privileged"),
        Security("privileged", [{"privileged": True}], False, "lets proxies be privileged"),
        Security("baseline", [], False, "'baseline', which refuses Pods that are privileged"),
        Security("restricted", [], True, "'restricted', and no proxy is privileged"),
        Security("restricted", [NONE], True, "'restricted', and no proxy is privileged"),
        Security("restricted", [NONE], False, "refuses Pods that are privileged"),
        Security("restricted", [{"privileged": True}], True, "privileged, as p-0 is"),
        Security("restricted", [{"privileged": True}] * 2, False, "privileged, as p-0, p-1 are"),
        Security("restricted", [NONE, {"privileged": True}], True, "privileged, as p-1 is"),
        Security("restricted", [{"capabilities": {"add": ["NET_ADMIN"]}}], True, "privileged, as p-0 is"),
    ],
)
def test_pod_security_must_let_the_proxies_run(case: Security) -> None:
    labels = {"pod-security.kubernetes.io/enforce": case.level} if case.level else None
    namespace: Object = {"metadata": {"name": NAMESPACE, "labels": labels}}
    sets = [statefulset(f"p-{number}", context) for number, context in enumerate(case.contexts)]
    finding = check_pod_security(namespace, sets, case.default_class)
    assert finding.words.endswith(case.words)
    assert (finding.verdict == "FAILED") == ("refuses" in finding.words)


def statefulset(name: str, context: dict[str, Any]) -> Object:
    privileged, other = {"name": "a", "securityContext": context}, {"name": "b"}
    init, main = (privileged, other) if name == "p-0" else (other, privileged)
    spec = {"initContainers": [init], "containers": [main]}
    return {"metadata": {"namespace": NAMESPACE, "name": name}, "spec": {"template": {"spec": spec}}}
