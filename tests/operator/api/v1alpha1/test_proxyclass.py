"""ProxyClass, read from the wire."""

from typing import NamedTuple

import pytest
from tsoperator.api.objects import Object
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.api.v1alpha1.proxyclass import ProxyClass, ProxyClassSpec

from tests.support.objects import live_proxy_class


def parsed(spec: Object) -> ProxyClassSpec:
    made = ProxyClass.parse(live_proxy_class(spec=spec))
    assert isinstance(made, ProxyClass), made
    return made.spec


def in_pod(**pod: object) -> Object:
    return {"statefulSet": {"pod": pod}}


def test_an_empty_class_asks_for_nothing() -> None:
    spec = parsed({})
    assert (spec.stateful_set, spec.metrics, spec.tailscale, spec.static_endpoints) == (None, None, None, None)
    assert not spec.use_lets_encrypt_staging_environment


def test_a_pod_that_is_there_differs_from_none() -> None:
    without, empty = parsed({"statefulSet": {}}).stateful_set, parsed(in_pod()).stateful_set
    assert without is not None
    assert without.pod is None
    assert empty is not None
    assert empty.pod is not None
    assert (empty.pod.priority_class_name, [*empty.pod.tolerations], empty.pod.tailscale_container) == (None, [], None)


def test_kubernetes_structures_stay_as_they_are_on_the_wire() -> None:
    resources = {"requests": {"cpu": 1, "memory": "1.5Gi"}, "limits": {"cpu": "100m"}, "claims": [{"name": "a"}]}
    rights = {"runAsUser": 0, "capabilities": {"add": ["NET_ADMIN"]}, "seLinuxOptions": {"level": "s0"}}
    spread = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]
    container = {"resources": resources, "securityContext": rights}
    given = parsed(in_pod(topologySpreadConstraints=spread, tailscaleContainer=container)).stateful_set
    assert given is not None
    assert given.pod is not None
    assert given.pod.tailscale_container is not None
    assert given.pod.tailscale_container.resources == resources
    assert given.pod.tailscale_container.security_context == rights
    assert given.pod.topology_spread_constraints == spread


class Case(NamedTuple):
    spec: Object
    message: str


@pytest.mark.parametrize(
    "case",
    [
        Case({"metrics": {}}, "spec.metrics.enable is required: add it"),
        Case({"metrics": {"enable": True, "serviceMonitor": {}}}, "spec.metrics.serviceMonitor.enable is required"),
        Case({"staticEndpoints": {}}, "spec.staticEndpoints.nodePort is required"),
        Case({"staticEndpoints": {"nodePort": {"ports": []}}}, "spec.staticEndpoints.nodePort.ports"),
        Case({"staticEndpoints": {"nodePort": {"ports": [{"endPort": 1}]}}}, "ports[0].port is required"),
        Case({"statefulSet": {"labels": {"team": "?!"}}}, "spec.statefulSet.labels.team must match ^"),
        Case({"statefulSet": {"labels": {"team": "x" * 64}}}, "spec.statefulSet.labels.team"),
        Case(in_pod(dnsPolicy="Any"), "spec.statefulSet.pod.dnsPolicy must be 'ClusterFirstWithHostNet'"),
        Case(in_pod(tailscaleContainer={"imagePullPolicy": "Sometimes"}), "imagePullPolicy must be 'Always'"),
        Case(in_pod(tailscaleContainer={"env": [{"name": "1A"}]}), "env[0].name must match"),
        Case(in_pod(tailscaleContainer={"env": [{"value": "1"}]}), "env[0].name is required"),
        Case(in_pod(tailscaleContainer={"resources": {"limits": {"cpu": "lots"}}}), "such as 100m, 0.5 or 64Mi"),
        Case(in_pod(tailscaleContainer={"securityContext": {"seccompProfile": {}}}), "seccompProfile.type is required"),
        Case(
            in_pod(topologySpreadConstraints=[{"maxSkew": 1}]), "topologySpreadConstraints[0].topologyKey is required"
        ),
    ],
)
def test_what_is_wrong_is_told_by_field(case: Case) -> None:
    made = ProxyClass.parse(live_proxy_class(spec=case.spec))
    assert isinstance(made, Invalid)
    assert case.message in made.message


def test_ports_have_no_bounds_that_the_crd_does_not_have() -> None:
    endpoints = parsed({"staticEndpoints": {"nodePort": {"ports": [{"port": 777777}]}}}).static_endpoints
    assert endpoints is not None
    assert endpoints.node_port.ports[0].port == 777777
