"""Parsing of custom resources: an error names the field that is wrong. Tests of plans show what each field does."""

import pytest
from pydantic import ValidationError
from tsoperator.api.objects import Object
from tsoperator.api.v1alpha1.connector import Connector, ConnectorStatus
from tsoperator.api.v1alpha1.dnsconfig import DNSConfig
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.api.v1alpha1.proxyclass import ProxyClass

from tests.support.objects import live_connector, live_dnsconfig, live_proxy_class

NOT_EMPTY = "must have at least 1 item, not []"
CONNECTOR_HOSTNAME = (
    "2 to 63 lower-case letters, digits and hyphens, and have no hyphen at its ends: the first part of a name, without "
    "the tailnet's domain"
)
HOSTNAME_PREFIX = "1 to 62 lower-case letters, digits and hyphens, and not start with a hyphen"
TAG = "one such as tag:k8s, with a letter first after the colon, and then only letters, digits and hyphens"


def in_pod(**pod: object) -> Object:
    return {"statefulSet": {"pod": pod}}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (None, "spec must be an object, not null"),
        ({"subnetRouter": {}}, "spec.subnetRouter.advertiseRoutes is required: add it"),
        ({"subnetRouter": {"advertiseRoutes": []}}, f"spec.subnetRouter.advertiseRoutes {NOT_EMPTY}"),
        ({"appConnector": {"routes": []}}, f"spec.appConnector.routes {NOT_EMPTY}"),
        ({"exitNode": "true"}, 'spec.exitNode must be true or false, not "true"'),
        ({"hostname": "a"}, f'spec.hostname must be {CONNECTOR_HOSTNAME}, not "a"'),
        ({"hostnamePrefix": "-a"}, f'spec.hostnamePrefix must be {HOSTNAME_PREFIX}, not "-a"'),
        ({"replicas": -1}, "spec.replicas must be at least 0, not -1"),
        ({"tags": ["tag:a", "b"]}, f'spec.tags[1] must be {TAG}, not "b"'),
    ],
)
def test_an_error_in_a_connector_names_its_field(spec: object, message: str) -> None:
    assert Connector.parse({**live_connector(), "spec": spec}) == Invalid(message)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (None, "spec.nameserver must be an object, not null"),
        ({"replicas": -1}, "spec.nameserver.replicas must be at least 0, not -1"),
        ({"replicas": "3"}, 'spec.nameserver.replicas must be a whole number, not "3"'),
        ({"image": {"tag": 1.5}}, "spec.nameserver.image.tag must be a string, not 1.5"),
        ({"service": {"clusterIP": ["a"]}}, 'spec.nameserver.service.clusterIP must be a string, not ["a"]'),
        ({"pod": {"tolerations": {}}}, "spec.nameserver.pod.tolerations must be a list, not {}"),
        ({"pod": {"nodeSelector": []}}, "spec.nameserver.pod.nodeSelector must be an object, not []"),
        ({"pod": {"tolerations": [{}, {"key": 1}]}}, "spec.nameserver.pod.tolerations[1].key must be a string, not 1"),
        (
            {"pod": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}}},
            "spec.nameserver.pod.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
            ".nodeSelectorTerms is required: add it",
        ),
        (
            {"replicas": -1, "image": []},
            "spec.nameserver.image must be an object, not []; spec.nameserver.replicas must be at least 0, not -1",
        ),
    ],
)
def test_an_error_in_a_dnsconfig_names_its_field(spec: object, message: str) -> None:
    assert DNSConfig.parse({**live_dnsconfig(), "spec": {"nameserver": spec}}) == Invalid(message)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"metrics": {}}, "spec.metrics.enable is required: add it"),
        ({"metrics": {"enable": True, "serviceMonitor": {}}}, "spec.metrics.serviceMonitor.enable is required"),
        ({"staticEndpoints": {}}, "spec.staticEndpoints.nodePort is required"),
        ({"staticEndpoints": {"nodePort": {"ports": []}}}, "spec.staticEndpoints.nodePort.ports"),
        ({"staticEndpoints": {"nodePort": {"ports": [{"endPort": 1}]}}}, "ports[0].port is required"),
        (
            {"statefulSet": {"labels": {"team": "?!"}}},
            "spec.statefulSet.labels.team must be empty, or letters, digits, ",
        ),
        ({"statefulSet": {"labels": {"team": "x" * 64}}}, "labels.team must have at most 63 characters, not"),
        (in_pod(dnsPolicy="Any"), "spec.statefulSet.pod.dnsPolicy must be 'ClusterFirstWithHostNet'"),
        (in_pod(tailscaleContainer={"imagePullPolicy": "Sometimes"}), "imagePullPolicy must be 'Always'"),
        (in_pod(tailscaleContainer={"env": [{"name": "1A"}]}), "env[0].name must be letters, digits, "),
        (in_pod(tailscaleContainer={"env": [{"value": "1"}]}), "env[0].name is required"),
        (in_pod(tailscaleContainer={"resources": {"limits": {"cpu": "lots"}}}), "such as 100m, 0.5 or 64Mi"),
        (in_pod(tailscaleContainer={"securityContext": {"seccompProfile": {}}}), "seccompProfile.type is required"),
        (in_pod(topologySpreadConstraints=[{"maxSkew": 1}]), "topologySpreadConstraints[0].topologyKey is required"),
    ],
)
def test_an_error_in_a_proxyclass_names_its_field(spec: object, message: str) -> None:
    made = ProxyClass.parse({**live_proxy_class(), "spec": spec})
    assert isinstance(made, Invalid)
    assert message in made.message


def test_a_custom_resource_without_a_spec_is_an_error() -> None:
    assert DNSConfig.parse({"metadata": {"name": "ts-dns"}}) == Invalid("spec is required: add it")


def test_an_unknown_field_of_a_custom_resource_is_ignored() -> None:
    assert DNSConfig.parse(live_dnsconfig(nameserver={"future": {"a": 1}})) == DNSConfig.parse(live_dnsconfig())


def test_the_model_of_a_parsed_custom_resource_cannot_be_changed() -> None:
    config = DNSConfig.parse(live_dnsconfig())
    assert isinstance(config, DNSConfig)
    with pytest.raises(ValidationError, match="frozen"):
        config.spec.nameserver.replicas = 2


def test_the_status_of_a_custom_resource_is_parsed_and_can_be_missing() -> None:
    device = {"hostname": "router.tail1234.ts.net", "tailnetIPs": ["100.64.0.1"]}
    status = {"devices": [device], "isExitNode": True, **device}
    read = [Connector.parse(live_connector() | more) for more in ({"status": status}, {})]
    whole, none = (each.status for each in read if isinstance(each, Connector))
    assert (whole.hostname, whole.tailnet_ips, whole.is_exit_node) == (*device.values(), True)
    assert ([each.hostname for each in whole.devices], none) == (["router.tail1234.ts.net"], ConnectorStatus())


def test_a_model_accepts_port_numbers_that_the_crd_accepts() -> None:
    made = ProxyClass.parse(live_proxy_class(spec={"staticEndpoints": {"nodePort": {"ports": [{"port": 777777}]}}}))
    assert isinstance(made, ProxyClass)
