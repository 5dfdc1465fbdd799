"""DNSConfig, read from the wire."""

from typing import NamedTuple

import pytest
from pydantic import ValidationError
from tsoperator.api.objects import Object
from tsoperator.api.v1alpha1.dnsconfig import DNSConfig, DNSConfigStatus
from tsoperator.api.v1alpha1.invalid import Invalid


def dnsconfig(nameserver: object) -> Object:
    return {
        "apiVersion": "tailscale.com/v1alpha1",
        "kind": "DNSConfig",
        "metadata": {"name": "ts-dns", "uid": "uid-1", "generation": 2},
        "spec": {"nameserver": nameserver},
    }


def parsed(obj: Object) -> DNSConfig:
    config = DNSConfig.parse(obj)
    assert isinstance(config, DNSConfig), config
    return config


def test_an_empty_nameserver_is_enough() -> None:
    config = parsed(dnsconfig({}))
    nameserver = config.spec.nameserver
    assert (config.metadata.name, config.metadata.uid, config.metadata.generation) == ("ts-dns", "uid-1", 2)
    assert (nameserver.image.repo, nameserver.image.tag, nameserver.service.cluster_ip) == (None, None, None)
    assert nameserver.replicas == 1
    assert (nameserver.pod.affinity, list(nameserver.pod.tolerations), dict(nameserver.pod.node_selector)) == (
        None,
        [],
        {},
    )
    assert config.status == DNSConfigStatus()


def test_every_field_is_read() -> None:
    nameserver = parsed(
        dnsconfig(
            {"image": {"repo": "example.org/ns", "tag": "v1"}, "service": {"clusterIP": "192.0.2.1"}, "replicas": 0}
        )
    ).spec.nameserver
    assert (nameserver.image.repo, nameserver.image.tag) == ("example.org/ns", "v1")
    assert nameserver.service.cluster_ip == "192.0.2.1"
    assert nameserver.replicas == 0


def test_kubernetes_structures_stay_as_they_are_on_the_wire() -> None:
    pod: Object = {
        "tolerations": [{"key": "dedicated", "operator": "Exists", "tolerationSeconds": 30}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}},
        "imagePullSecrets": [{"name": "pull"}],
        "nodeSelector": {"disk": "ssd"},
    }
    read = parsed(dnsconfig({"pod": pod})).spec.nameserver.pod
    assert read.tolerations == pod["tolerations"]
    assert read.affinity == pod["affinity"]
    assert read.image_pull_secrets == pod["imagePullSecrets"]
    assert read.node_selector == pod["nodeSelector"]


def test_the_status_is_read() -> None:
    ready = {
        "type": "NameserverReady",
        "status": "True",
        "reason": "NameserverCreated",
        "message": "NameserverCreated",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    obj = dnsconfig({}) | {"status": {"nameserver": {"ip": "192.0.2.1"}, "conditions": [ready]}}
    status = parsed(obj).status
    assert status.nameserver.ip == "192.0.2.1"
    assert status.conditions == [ready]


def test_unknown_fields_are_ignored() -> None:
    assert parsed(dnsconfig({"future": {"a": 1}})) == parsed(dnsconfig({}))


def test_a_model_does_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        parsed(dnsconfig({})).spec.nameserver.replicas = 2


class Case(NamedTuple):
    nameserver: object
    message: str


@pytest.mark.parametrize(
    "case",
    [
        Case(None, "spec.nameserver must be an object, not null"),
        Case({"replicas": -1}, "spec.nameserver.replicas must be at least 0, not -1"),
        Case({"replicas": "3"}, 'spec.nameserver.replicas must be a whole number, not "3"'),
        Case({"image": {"tag": 1.5}}, "spec.nameserver.image.tag must be a string, not 1.5"),
        Case({"service": {"clusterIP": ["a"]}}, 'spec.nameserver.service.clusterIP must be a string, not ["a"]'),
        Case({"pod": {"tolerations": {}}}, "spec.nameserver.pod.tolerations must be a list, not {}"),
        Case({"pod": {"nodeSelector": []}}, "spec.nameserver.pod.nodeSelector must be an object, not []"),
        Case(
            {"pod": {"tolerations": [{}, {"key": 1}]}},
            "spec.nameserver.pod.tolerations[1].key must be a string, not 1",
        ),
        Case(
            {"pod": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}}},
            "spec.nameserver.pod.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
            ".nodeSelectorTerms is required: add it",
        ),
        Case(
            {"replicas": -1, "image": []},
            "spec.nameserver.image must be an object, not []; spec.nameserver.replicas must be at least 0, not -1",
        ),
    ],
)
def test_what_is_wrong_is_told_by_field(case: Case) -> None:
    assert DNSConfig.parse(dnsconfig(case.nameserver)) == Invalid(case.message)


def test_a_dnsconfig_without_a_spec_is_invalid() -> None:
    assert DNSConfig.parse({"metadata": {"name": "ts-dns"}}) == Invalid("spec is required: add it")
