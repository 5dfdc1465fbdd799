"""Parsing of custom resources: an error names the field that is wrong. Tests of plans show what each field does."""

from typing import NamedTuple

import pytest
from pydantic import ValidationError
from tsoperator.api.objects import Object
from tsoperator.api.v1alpha1.connector import Connector, ConnectorStatus
from tsoperator.api.v1alpha1.dnsconfig import DNSConfig
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.api.v1alpha1.proxyclass import ProxyClass

from tests.support.objects import live_connector, live_dnsconfig, live_proxy_class


def in_pod(**pod: object) -> Object:
    return {"statefulSet": {"pod": pod}}


class Bad(NamedTuple):
    spec: object
    message: str


@pytest.mark.parametrize(
    "bad",
    [
        Bad(None, "spec must be an object, not null"),
        Bad({"subnetRouter": {}}, "spec.subnetRouter.advertiseRoutes is required: add it"),
        Bad(
            {"subnetRouter": {"advertiseRoutes": []}},
            "spec.subnetRouter.advertiseRoutes must have at least 1 item, not []",
        ),
        Bad({"appConnector": {"routes": []}}, "spec.appConnector.routes must have at least 1 item, not []"),
        Bad({"exitNode": "true"}, 'spec.exitNode must be true or false, not "true"'),
        Bad(
            {"hostname": "a"},
            "spec.hostname must be 2 to 63 lower-case letters, digits and hyphens, and have no hyphen at its ends, not "
            '"a"',
        ),
        Bad(
            {"hostnamePrefix": "-a"},
            "spec.hostnamePrefix must be 1 to 62 lower-case letters, digits and hyphens, and not start with a hyphen, "
            'not "-a"',
        ),
        Bad({"replicas": -1}, "spec.replicas must be at least 0, not -1"),
        Bad(
            {"tags": ["tag:a", "b"]},
            "spec.tags[1] must be one such as tag:k8s, with a letter first after the colon, and then only letters, "
            'digits and hyphens, not "b"',
        ),
    ],
)
def test_an_error_in_a_connector_is_told_by_field(bad: Bad) -> None:
    assert Connector.parse({**live_connector(), "spec": bad.spec}) == Invalid(bad.message)


@pytest.mark.parametrize(
    "bad",
    [
        Bad(None, "spec.nameserver must be an object, not null"),
        Bad({"replicas": -1}, "spec.nameserver.replicas must be at least 0, not -1"),
        Bad({"replicas": "3"}, 'spec.nameserver.replicas must be a whole number, not "3"'),
        Bad({"image": {"tag": 1.5}}, "spec.nameserver.image.tag must be a string, not 1.5"),
        Bad({"service": {"clusterIP": ["a"]}}, 'spec.nameserver.service.clusterIP must be a string, not ["a"]'),
        Bad({"pod": {"tolerations": {}}}, "spec.nameserver.pod.tolerations must be a list, not {}"),
        Bad({"pod": {"nodeSelector": []}}, "spec.nameserver.pod.nodeSelector must be an object, not []"),
        Bad(
            {"pod": {"tolerations": [{}, {"key": 1}]}}, "spec.nameserver.pod.tolerations[1].key must be a string, not 1"
        ),
        Bad(
            {"pod": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}}},
            "spec.nameserver.pod.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
            ".nodeSelectorTerms is required: add it",
        ),
        Bad(
            {"replicas": -1, "image": []},
            "spec.nameserver.image must be an object, not []; spec.nameserver.replicas must be at least 0, not -1",
        ),
    ],
)
def test_an_error_in_a_dnsconfig_is_told_by_field(bad: Bad) -> None:
    assert DNSConfig.parse({**live_dnsconfig(), "spec": {"nameserver": bad.spec}}) == Invalid(bad.message)


@pytest.mark.parametrize(
    "bad",
    [
        Bad({"metrics": {}}, "spec.metrics.enable is required: add it"),
        Bad({"metrics": {"enable": True, "serviceMonitor": {}}}, "spec.metrics.serviceMonitor.enable is required"),
        Bad({"staticEndpoints": {}}, "spec.staticEndpoints.nodePort is required"),
        Bad({"staticEndpoints": {"nodePort": {"ports": []}}}, "spec.staticEndpoints.nodePort.ports"),
        Bad({"staticEndpoints": {"nodePort": {"ports": [{"endPort": 1}]}}}, "ports[0].port is required"),
        Bad(
            {"statefulSet": {"labels": {"team": "?!"}}},
            "spec.statefulSet.labels.team must be empty, or letters, digits, ",
        ),
        Bad({"statefulSet": {"labels": {"team": "x" * 64}}}, "labels.team must have at most 63 characters, not"),
        Bad(in_pod(dnsPolicy="Any"), "spec.statefulSet.pod.dnsPolicy must be 'ClusterFirstWithHostNet'"),
        Bad(in_pod(tailscaleContainer={"imagePullPolicy": "Sometimes"}), "imagePullPolicy must be 'Always'"),
        Bad(in_pod(tailscaleContainer={"env": [{"name": "1A"}]}), "env[0].name must be letters, digits, "),
        Bad(in_pod(tailscaleContainer={"env": [{"value": "1"}]}), "env[0].name is required"),
        Bad(in_pod(tailscaleContainer={"resources": {"limits": {"cpu": "lots"}}}), "such as 100m, 0.5 or 64Mi"),
        Bad(in_pod(tailscaleContainer={"securityContext": {"seccompProfile": {}}}), "seccompProfile.type is required"),
        Bad(in_pod(topologySpreadConstraints=[{"maxSkew": 1}]), "topologySpreadConstraints[0].topologyKey is required"),
    ],
)
def test_an_error_in_a_proxyclass_is_told_by_field(bad: Bad) -> None:
    made = ProxyClass.parse({**live_proxy_class(), "spec": bad.spec})
    assert isinstance(made, Invalid)
    assert bad.message in made.message


def test_a_missing_spec_is_told() -> None:
    assert DNSConfig.parse({"metadata": {"name": "ts-dns"}}) == Invalid("spec is required: add it")


def test_an_unknown_field_is_ignored() -> None:
    assert DNSConfig.parse(live_dnsconfig(nameserver={"future": {"a": 1}})) == DNSConfig.parse(live_dnsconfig())


def test_a_model_does_not_change() -> None:
    config = DNSConfig.parse(live_dnsconfig())
    assert isinstance(config, DNSConfig)
    with pytest.raises(ValidationError, match="frozen"):
        config.spec.nameserver.replicas = 2


def test_a_status_is_read_and_may_be_missing() -> None:
    device = {"hostname": "router.tail1234.ts.net", "tailnetIPs": ["100.64.0.1"]}
    status = {"devices": [device], "isExitNode": True, **device}
    read = [Connector.parse(live_connector() | more) for more in ({"status": status}, {})]
    whole, none = (each.status for each in read if isinstance(each, Connector))
    assert (whole.hostname, whole.tailnet_ips, whole.is_exit_node) == (*device.values(), True)
    assert ([each.hostname for each in whole.devices], none) == (["router.tail1234.ts.net"], ConnectorStatus())


def test_ports_have_no_bounds_that_the_crd_does_not_have() -> None:
    made = ProxyClass.parse(live_proxy_class(spec={"staticEndpoints": {"nodePort": {"ports": [{"port": 777777}]}}}))
    assert isinstance(made, ProxyClass)
