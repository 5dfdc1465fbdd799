"""The changes that a ProxyClass makes to the StatefulSet of a proxy."""

import pytest
from tsoperator.api.names import ANNOTATION_GIVEN
from tsoperator.api.objects import Key, Object, annotations, labels
from tsoperator.api.v1alpha1.proxyclass import ProxyClassSpec
from tsoperator.proxy.overlay import overlaid
from tsoperator.proxy.proxy import Proxy
from tsoperator.proxy.proxypod import ProxyPod, egress_to_name, served_ingress
from tsoperator.proxy.statefulset import standalone_statefulset
from tsoperator.proxy.tailscaled import ProxyConfig
from tsoperator.runtime.ownership import Owner

from tests.support.objects import settings
from tests.support.proxies import container_of, pods_of

OWNER = Owner("svc", Key("default", "db"))
EGRESS = egress_to_name("db.tail1234.ts.net.")
INGRESS = served_ingress(forward_cluster_traffic=False)
FORWARD = served_ingress(forward_cluster_traffic=True)
DEBUG_ENV = [("TS_DEBUG_ADDR_PORT", "$(POD_IP):9001"), ("TS_TAILSCALED_EXTRA_ARGS", "--debug=$(TS_DEBUG_ADDR_PORT)")]
METRICS_ENV = [("TS_LOCAL_ADDR_PORT", "$(POD_IP):9002"), ("TS_ENABLE_METRICS", "true")]
STAGING = ("TS_DEBUG_ACME_DIRECTORY_URL", "https://acme-staging-v02.api.letsencrypt.org/directory")
DEBUG_PORT = {"name": "debug", "containerPort": 9001, "protocol": "TCP"}
METRICS_PORT = {"name": "metrics", "containerPort": 9002, "protocol": "TCP"}


def unclassed(kind: ProxyPod = EGRESS, **changes: str) -> Object:
    config = ProxyConfig("db", "https://controlplane.tailscale.com")
    proxy = Proxy(OWNER, "1234-UID", Key("tailscale", "ts-db-abcde"), kind, config, ("tag:k8s",))
    return standalone_statefulset(proxy, settings(**changes))


def over(spec: Object, kind: ProxyPod = EGRESS, **changes: str) -> Object:
    return overlaid(unclassed(kind, **changes), ProxyClassSpec.model_validate(spec), kind)


def over_pod(pod: Object, kind: ProxyPod = EGRESS, **changes: str) -> Object:
    return pods_of(over({"statefulSet": {"pod": pod}}, kind, **changes))


def over_container(container: Object) -> Object:
    return container_of(over({"statefulSet": {"pod": {"tailscaleContainer": container}}}))


def added(statefulset: Object, kind: ProxyPod) -> list[tuple[str, str]]:
    """Return the environment variables that a ProxyClass has added to *statefulset*, whose Pods are of *kind*.

    These variables are behind all others.
    """
    env = container_of(statefulset)["env"][len(container_of(unclassed(kind))["env"]) :]
    return [(variable["name"], variable["value"]) for variable in env]


@pytest.mark.parametrize("kind", [EGRESS, INGRESS, FORWARD])
@pytest.mark.parametrize("spec", [{}, {"statefulSet": {}}, {"statefulSet": {"pod": {}}}])
def test_an_empty_class_changes_nothing(spec: Object, kind: ProxyPod) -> None:
    assert over(spec, kind) == unclassed(kind)


METRICS: Object = {"metrics": {"enable": True}}
ACME: Object = {"useLetsEncryptStagingEnvironment": True}


def debug(on: bool, metrics: bool) -> Object:
    container = {"debug": {"enable": on}}
    return {"metrics": {"enable": metrics}, "statefulSet": {"pod": {"tailscaleContainer": container}}}


@pytest.mark.parametrize(
    ("spec", "kind", "env", "ports"),
    [
        (METRICS, INGRESS, DEBUG_ENV + METRICS_ENV, [DEBUG_PORT, METRICS_PORT]),
        ({"metrics": {"enable": False}}, INGRESS, [], None),
        (debug(on=False, metrics=True), INGRESS, METRICS_ENV, [METRICS_PORT]),
        (debug(on=True, metrics=False), INGRESS, DEBUG_ENV, [DEBUG_PORT]),
        (debug(on=True, metrics=True), INGRESS, DEBUG_ENV + METRICS_ENV, [DEBUG_PORT, METRICS_PORT]),
        (METRICS, EGRESS, [], None),
        (METRICS, FORWARD, [], None),
        (ACME, INGRESS, [STAGING], None),
        (ACME, FORWARD, [STAGING], None),
        (ACME, EGRESS, [], None),
        (METRICS | ACME, INGRESS, [*DEBUG_ENV, *METRICS_ENV, STAGING], [DEBUG_PORT, METRICS_PORT]),
    ],
)
def test_a_class_turns_on_debugging_metrics_and_staging_certificates_if_the_proxy_supports_them(
    spec: Object, kind: ProxyPod, env: list[tuple[str, str]], ports: list[Object] | None
) -> None:
    made = over(spec, kind)
    assert added(made, kind) == env
    assert container_of(made).get("ports") == ports


def test_the_statefulset_has_the_labels_and_annotations_of_the_class_but_its_pods_do_not() -> None:
    made = over({"statefulSet": {"labels": {"team": "web", **OWNER.labels, "app": "x"}, "annotations": {"note": "y"}}})
    assert labels(made) == {**OWNER.labels, "team": "web", "app": "x"}
    assert annotations(made) == {"note": "y", ANNOTATION_GIVEN: "annotations.note labels.app labels.team"}
    assert made["spec"] == unclassed()["spec"]


def test_labels_and_annotations_of_pods_do_not_replace_ours() -> None:
    last = "tailscale.com/operator-last-set-ts-tailnet-target-fqdn"
    before = unclassed()["spec"]["template"]["metadata"]
    pod = {"labels": {"pod": "l", "app": "other"}, "annotations": {"note": "x", last: "other"}}
    made = over({"statefulSet": {"pod": pod}})
    assert made["metadata"] == unclassed()["metadata"]
    metadata = made["spec"]["template"]["metadata"]
    assert metadata["labels"] == {**before["labels"], "pod": "l"}
    assert metadata["annotations"] == {**before["annotations"], "note": "x"}
    assert metadata["deletionGracePeriodSeconds"] == 10


@pytest.mark.parametrize(("given", "kept"), [({}, True), ({"note": "x"}, False)])
def test_the_pod_annotation_with_the_cluster_dns_name_is_dropped_if_the_class_has_pod_annotations(
    given: Object, kept: bool
) -> None:
    name = "tailscale.com/operator-last-set-cluster-dns-name"
    base = unclassed()
    base["spec"]["template"]["metadata"]["annotations"] = {name: "db.example.org"}
    spec = ProxyClassSpec.model_validate({"statefulSet": {"pod": {"annotations": given}}})
    assert (name in overlaid(base, spec, EGRESS)["spec"]["template"]["metadata"]["annotations"]) is kept


POD_FIELDS = {
    "affinity": {"nodeAffinity": {}},
    "dnsConfig": {"nameservers": ["192.0.2.53"]},
    "dnsPolicy": "None",
    "imagePullSecrets": [{"name": "pull"}],
    "nodeName": "node-1",
    "nodeSelector": {"disk": "fast"},
    "priorityClassName": "high",
    "securityContext": {"runAsUser": 0},
    "tolerations": [{"operator": "Exists"}],
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
}


@pytest.mark.parametrize("field", POD_FIELDS)
def test_a_field_for_pods_in_the_class_replaces_the_field_of_the_operator(field: str) -> None:
    assert over_pod({field: POD_FIELDS[field]}) == {**pods_of(unclassed()), field: POD_FIELDS[field]}


def test_a_class_with_a_section_for_pods_removes_the_operators_priority_class() -> None:
    found = [over_pod(pod, proxy_priority_class="default") for pod in ({}, {"priorityClassName": "high"})]
    assert [each.get("priorityClassName") for each in found] == [None, "high"]
    assert pods_of(over({"statefulSet": {}}, proxy_priority_class="default"))["priorityClassName"] == "default"


CONTAINER_FIELDS = {
    "image": "example.org/tailscale:v1",
    "imagePullPolicy": "IfNotPresent",
    "securityContext": {"privileged": False},
}


@pytest.mark.parametrize("field", CONTAINER_FIELDS)
def test_a_field_for_a_container_in_the_class_replaces_the_field_of_the_operator(field: str) -> None:
    given = {field: CONTAINER_FIELDS[field]}
    assert over_container(given) == {**container_of(unclassed()), **given}
    init = over_pod({"tailscaleInitContainer": given})["initContainers"][0]
    assert init == {**pods_of(unclassed())["initContainers"][0], **given}


def test_empty_fields_of_the_class_do_not_change_the_container() -> None:
    assert over_container({"image": "", "resources": {"limits": {}}, "env": []}) == container_of(unclassed())


@pytest.mark.parametrize(
    ("given", "resources"),
    [
        ({"requests": {"cpu": 1}}, {"requests": {"cpu": "1"}}),
        ({"limits": {"memory": "64Mi"}}, {"requests": {"cpu": "1m", "memory": "1Mi"}, "limits": {"memory": "64Mi"}}),
        ({"claims": [{"name": "gpu"}]}, {"requests": {"cpu": "1m", "memory": "1Mi"}}),
    ],
)
def test_the_class_replaces_all_requests_and_all_limits_of_the_container(given: Object, resources: Object) -> None:
    assert over_container({"resources": given})["resources"] == resources


def test_the_settings_of_a_class_for_the_init_container_do_not_change_a_userspace_proxy() -> None:
    assert over_pod({"tailscaleInitContainer": {"image": "example.org/a:1"}}, INGRESS) == pods_of(unclassed(INGRESS))


PORT = [("PORT", "9005"), ("TS_LOCAL_ADDR_PORT", "$(POD_IP):$(PORT)")]
ANYWHERE = ("TS_DEBUG_ADDR_PORT", "[::]:9001")
VERBOSE = ("TS_TAILSCALED_EXTRA_ARGS", "$(TS_TAILSCALED_EXTRA_ARGS) --verbose=1")
OFF = ("TS_ENABLE_METRICS", "false")
VARIABLES: dict[str, tuple[list[tuple[str, str]], list[tuple[str, str]]]] = {
    "new": ([("A", "1"), ("B", "")], [*DEBUG_ENV, *METRICS_ENV, ("A", "1"), ("B", "")]),
    "twice": ([("A", "1"), ("A", "2")], [*DEBUG_ENV, *METRICS_ENV, ("A", "2")]),
    "ours": ([OFF], [*DEBUG_ENV, METRICS_ENV[0], OFF]),
    "what others refer to": ([ANYWHERE], [ANYWHERE, DEBUG_ENV[1], *METRICS_ENV]),
    "what refers to others": (PORT, [*DEBUG_ENV, METRICS_ENV[1], *PORT]),
    "what extends itself": ([VERBOSE], [*DEBUG_ENV, *METRICS_ENV, VERBOSE]),
}


@pytest.mark.parametrize(("given", "last"), VARIABLES.values(), ids=VARIABLES)
def test_each_environment_variable_has_its_final_value_and_is_behind_the_variables_to_which_it_refers(
    given: list[tuple[str, str]], last: list[tuple[str, str]]
) -> None:
    env = [{"name": name, **({"value": value} if value else {})} for name, value in given]
    spec = {**METRICS, "statefulSet": {"pod": {"tailscaleContainer": {"env": env}}}}
    assert added(over(spec, INGRESS), INGRESS) == last


def test_a_variable_of_the_class_replaces_a_variable_that_has_its_value_from_a_field() -> None:
    made = over_container({"env": [{"name": "POD_IP", "value": "192.0.2.1"}]})["env"]
    assert [variable for variable in made if variable["name"] == "POD_IP"] == [{"name": "POD_IP", "value": "192.0.2.1"}]
