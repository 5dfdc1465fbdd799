"""Reading the operator's settings from its Deployment, and findings about the operator's Pods and those of proxies."""

from typing import Any

import pytest
from tsoperator.api.objects import Key, Object
from tsoperator.check.cluster.installed import (
    Installed,
    SecretKey,
    WorkloadIdentity,
    check_pod_security,
    find_installed,
    findings_during_update,
    no_pods,
    not_installed,
)
from tsoperator.check.findings import failed, ok

from tests.operator.check.cluster.samples import NAMESPACE, deployment, installed
from tests.support.objects import deleting


def test_a_check_recognizes_the_deployment_of_the_chart() -> None:
    theirs: Object = {"metadata": {"name": "operator"}, "spec": {"template": {"spec": {}}}}
    ours = deployment()
    assert find_installed(NAMESPACE, [theirs, deleting(ours), ours]) == Installed(NAMESPACE, ours)
    assert find_installed(NAMESPACE, [theirs, deleting(ours)]) is None
    assert not_installed("elsewhere").words == "no Deployment in namespace elsewhere runs this operator"


def test_a_check_reads_the_settings_of_the_chart() -> None:
    found = installed()
    assert (found.name, found.replicas, found.service_account) == ("operator", 2, "operator")
    assert (found.account, found.health_port) == ("system:serviceaccount:tailscale:operator", 9002)
    assert (found.watched, found.control_url) == ([], "https://controlplane.tailscale.com")
    assert (found.has_default_class, found.identity) == (False, None)
    assert found.secret_key("CLIENT_ID_FILE") == SecretKey(Key(NAMESPACE, "operator-oauth"), "client_id")


def test_a_check_reads_settings_that_differ_from_those_of_the_chart() -> None:
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
    assert found.ingress_class == "private"
    assert installed({"OPERATOR_INGRESS_CLASS_NAME": ""}).ingress_class == "tailscale"


@pytest.mark.parametrize(
    ("ports", "port"),
    [
        (None, 9002),
        ([{"containerPort": 9100}], 9002),
        ([{"name": "debug", "containerPort": 9101}, {"name": "health", "containerPort": 9100}], 9100),
    ],
)
def test_a_check_finds_the_metrics_at_the_port_called_health(ports: list[Object] | None, port: int) -> None:
    container: Object = {"name": "operator", "ports": ports}
    deployed: Object = {"metadata": {"name": "o"}, "spec": {"template": {"spec": {"containers": [container]}}}}
    found = Installed(NAMESPACE, deployed)
    assert (found.health_port, found.replicas, found.service_account) == (port, 1, "default")


def test_the_credentials_of_workload_identity_are_a_client_id_and_an_audience() -> None:
    token = {"serviceAccountToken": {"audience": "api.tailscale.com/k", "path": "token"}}
    volume = {"name": "oidc-jwt", "projected": {"sources": [{"configMap": {"name": "ca"}}, token]}}
    assert installed({"CLIENT_ID": "k"}, volumes=[volume]).identity == WorkloadIdentity("k", "api.tailscale.com/k")
    assert installed({}, volumes=[volume]).identity is None
    assert installed({"CLIENT_ID": "k"}, volumes=[]).identity is None


DESCRIBE = "describe deployments,replicasets --show-events`"


@pytest.mark.parametrize(
    ("replicas", "failure", "words", "cure"),
    [
        (0, [], "is scaled to 0", "kubectl -n tailscale scale deployment/operator --replicas=2"),
        (2, [], "has no Pods", DESCRIBE),
        (2, [{"type": "ReplicaFailure", "message": "exceeded quota"}], "has no Pods: exceeded quota", DESCRIBE),
    ],
)
def test_the_finding_for_an_operator_without_pods_says_why_there_are_none(
    replicas: int, failure: list[Object], words: str, cure: str
) -> None:
    status = {"conditions": [{"type": "Available"}, *failure]}
    finding = no_pods(Installed(NAMESPACE, {**deployment(replicas=replicas), "status": status}))
    assert finding.verdict == "FAILED"
    assert finding.words.startswith(f"Deployment tailscale/operator {words}")
    assert cure in finding.cure


DONE = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}
BEGUN = {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"}
STUCK = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
UPDATES: list[tuple[int, list[Object], bool]] = [
    (2, [DONE], False),
    (1, [DONE], True),
    (2, [BEGUN], True),
    (2, [STUCK], False),
    (2, [], False),
]


@pytest.mark.parametrize(("seen", "conditions", "is_updated"), UPDATES)
def test_a_check_during_an_update_of_the_operator_advises_the_user_to_check_again(
    seen: int, conditions: list[Object], is_updated: bool
) -> None:
    live = deployment()
    live = {**live, "metadata": {**live["metadata"], "generation": 2}}
    status = {"observedGeneration": seen, "conditions": conditions}
    good, bad = ok("operator", "is ready"), failed("leader", "no Pod leads", "see the log")
    found = findings_during_update(Installed(NAMESPACE, {**live, "status": status}), [good, bad])
    assert (good in found, bad in found) == (True, not is_updated)
    assert ("Deployment tailscale/operator is being updated" in [each.words for each in found]) == is_updated
    assert found[-1].cure.startswith("wait until `kubectl -n tailscale rollout status deploy" if is_updated else "see")
    assert found[-1].cure.endswith("see the log")


NONE: dict[str, Any] = {"runAsNonRoot": True}
PRIVILEGED: dict[str, Any] = {"privileged": True}


@pytest.mark.parametrize(
    ("level", "contexts", "default_class", "words"),
    [
        ("", [PRIVILEGED], False, "lets proxies be privileged"),
        ("privileged", [PRIVILEGED], False, "lets proxies be privileged"),
        ("baseline", [], False, "'baseline', which refuses Pods that are privileged"),
        ("restricted", [], True, "'restricted', and no proxy is privileged"),
        ("restricted", [NONE], True, "'restricted', and no proxy is privileged"),
        ("restricted", [NONE], False, "refuses Pods that are privileged"),
        ("restricted", [PRIVILEGED], True, "privileged, as p-0 is"),
        ("restricted", [PRIVILEGED] * 2, False, "privileged, as p-0, p-1 are"),
        ("restricted", [NONE, PRIVILEGED], True, "privileged, as p-1 is"),
        ("restricted", [{"capabilities": {"add": ["NET_ADMIN"]}}], True, "privileged, as p-0 is"),
    ],
)
def test_a_check_reports_a_pod_security_level_that_refuses_the_pods_of_proxies(
    level: str, contexts: list[Object], default_class: bool, words: str
) -> None:
    labels = {"pod-security.kubernetes.io/enforce": level} if level else None
    namespace: Object = {"metadata": {"name": NAMESPACE, "labels": labels}}
    sets = [statefulset(f"p-{number}", context) for number, context in enumerate(contexts)]
    finding = check_pod_security(namespace, sets, default_class)
    assert finding.words.endswith(words)
    assert (finding.verdict == "FAILED") == ("refuses" in finding.words)


def statefulset(name: str, context: dict[str, Any]) -> Object:
    privileged, other = {"name": "a", "securityContext": context}, {"name": "b"}
    init, main = (privileged, other) if name == "p-0" else (other, privileged)
    spec = {"initContainers": [init], "containers": [main]}
    return {"metadata": {"namespace": NAMESPACE, "name": name}, "spec": {"template": {"spec": spec}}}
