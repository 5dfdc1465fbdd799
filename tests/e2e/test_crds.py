"""Objects of our kinds that the real API server accepts or refuses, by the CRDs (dns-crds-chart.md section 7)."""

from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from tsoperator.api.objects import RESOURCES, Resource
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import Invalid

Object = dict[str, Any]

API_VERSION = "tailscale.com/v1alpha1"
CONTAINER = "statefulSet.pod.tailscaleContainer"
POD = "statefulSet.pod"
LONG_LABEL = "a" * 64
CIDR = {"subnetRouter": {"advertiseRoutes": ["192.0.2.0/24"]}}
IPS = [{"allocationID": f"eipalloc-{number:x}", "subnetID": "subnet-0a"} for number in range(3)]


def nested(path: str, value: Any) -> Object:
    """Return *value* at a dotted path."""
    for name in reversed(path.split(".")):
        value = {name: value}
    made: Object = value
    return made


class Case(NamedTuple):
    """A spec, and the part of the refusal that names what is wrong; empty if it is accepted."""

    kind: str
    spec: Any
    refused: str = ""


CONNECTORS = [
    Case("Connector", {"exitNode": True}),
    Case("Connector", CIDR),
    Case("Connector", {**CIDR, "exitNode": True}),
    Case("Connector", {"appConnector": {}}),
    Case("Connector", {"appConnector": {"routes": ["192.0.2.0/24"]}}),
    Case("Connector", {"subnetRouter": {"advertiseRoutes": ["192.0.2.0/24", "2001:db8::/32"]}}),
    Case("Connector", {"exitNode": True, "replicas": 0}),
    Case("Connector", {"exitNode": True, "replicas": 3}),
    Case("Connector", {"exitNode": True, "replicas": 3, "hostnamePrefix": "gate"}),
    Case("Connector", {"exitNode": True, "replicas": 1, "hostname": "gate"}),
    Case("Connector", {"exitNode": True, "hostname": "ab"}),
    Case("Connector", {"exitNode": True, "hostname": "a" * 63}),
    Case("Connector", {"exitNode": True, "hostnamePrefix": "a"}),
    Case("Connector", {"exitNode": True, "hostnamePrefix": "a" * 62}),
    Case("Connector", {"exitNode": True, "hostnamePrefix": "a-"}),
    Case("Connector", {"exitNode": True, "tags": []}),
    Case("Connector", {"exitNode": True, "tags": ["tag:k8s", "tag:A-1"]}),
    Case("Connector", {"exitNode": True, "proxyClass": "prod", "tailnet": "other"}),
    Case("Connector", {}, "must be a subnet router, an exit node or an app connector"),
    Case("Connector", {"exitNode": False}, "must be a subnet router, an exit node or an app connector"),
    Case("Connector", {"appConnector": {}, "exitNode": True}, "an app connector can't be"),
    Case("Connector", {"appConnector": {}, **CIDR}, "an app connector can't be"),
    Case("Connector", {"subnetRouter": {}}, "spec.subnetRouter.advertiseRoutes: Required"),
    Case("Connector", {"subnetRouter": {"advertiseRoutes": []}}, "spec.subnetRouter.advertiseRoutes"),
    Case("Connector", {"subnetRouter": {"advertiseRoutes": ["192.0.2.0"]}}, "spec.subnetRouter.advertiseRoutes[0]"),
    Case("Connector", {"subnetRouter": {"advertiseRoutes": ["x/8"]}}, "spec.subnetRouter.advertiseRoutes[0]"),
    Case("Connector", {"appConnector": {"routes": []}}, "spec.appConnector.routes"),
    Case("Connector", {"appConnector": {"routes": ["example.org"]}}, "spec.appConnector.routes[0]"),
    Case("Connector", {"exitNode": True, "replicas": -1}, "spec.replicas"),
    Case("Connector", {"exitNode": True, "replicas": 2, "hostname": "gate"}, "use hostnamePrefix"),
    Case("Connector", {"exitNode": True, "hostname": "ab", "hostnamePrefix": "ab"}, "exclude each other"),
    Case("Connector", {"exitNode": True, "hostname": "a"}, "spec.hostname"),
    Case("Connector", {"exitNode": True, "hostname": "a" * 64}, "spec.hostname"),
    Case("Connector", {"exitNode": True, "hostname": "Gate"}, "spec.hostname"),
    Case("Connector", {"exitNode": True, "hostname": "gate-"}, "spec.hostname"),
    Case("Connector", {"exitNode": True, "hostnamePrefix": "-a"}, "spec.hostnamePrefix"),
    Case("Connector", {"exitNode": True, "hostnamePrefix": "a" * 63}, "spec.hostnamePrefix"),
    Case("Connector", {"exitNode": True, "tags": ["k8s"]}, "spec.tags[0]"),
    Case("Connector", {"exitNode": True, "tags": ["tag:1a"]}, "spec.tags[0]"),
    Case("Connector", {"exitNode": True, "tags": ["tag:"]}, "spec.tags[0]"),
    Case("Connector", {"exitNode": "yes"}, "spec.exitNode"),
    Case("Connector", None, "spec: Required"),
]
DNSCONFIGS = [
    Case("DNSConfig", {"nameserver": {}}),
    Case("DNSConfig", {"nameserver": {"image": {"repo": "tsnameserver", "tag": "v1"}}}),
    Case("DNSConfig", {"nameserver": {"service": {"clusterIP": "192.0.2.53"}}}),
    Case("DNSConfig", {"nameserver": {"replicas": 0}}),
    Case("DNSConfig", {"nameserver": {"pod": {"tolerations": [{"key": "a", "operator": "Exists"}]}}}),
    Case("DNSConfig", {"nameserver": {"pod": {"imagePullSecrets": [{"name": "pull"}, {}]}}}),
    Case("DNSConfig", {"nameserver": {"pod": {"nodeSelector": {"disk": "ssd"}}}}),
    Case("DNSConfig", {}, "spec.nameserver: Required"),
    Case("DNSConfig", None, "spec: Required"),
    Case("DNSConfig", {"nameserver": {"replicas": -1}}, "spec.nameserver.replicas"),
    Case("DNSConfig", {"nameserver": {"replicas": "two"}}, "spec.nameserver.replicas"),
    Case("DNSConfig", {"nameserver": {"pod": {"nodeSelector": {"disk": 1}}}}, "spec.nameserver.pod.nodeSelector"),
    Case("DNSConfig", {"nameserver": {"image": "tsnameserver"}}, "spec.nameserver.image"),
]
PROXYCLASSES = [
    Case("ProxyClass", {}),
    Case("ProxyClass", {"metrics": {"enable": False}}),
    Case("ProxyClass", {"metrics": {"enable": True, "serviceMonitor": {"enable": True, "labels": {"a": "b"}}}}),
    Case("ProxyClass", {"metrics": {"enable": False, "serviceMonitor": {"enable": False}}}),
    Case("ProxyClass", {"tailscale": {"acceptRoutes": True}, "useLetsEncryptStagingEnvironment": True}),
    Case("ProxyClass", {"statefulSet": {"labels": {"a": "", "b": "c.d_e-F"}, "annotations": {"a": "any thing"}}}),
    Case("ProxyClass", nested(f"{POD}.dnsPolicy", "None")),
    Case(
        "ProxyClass",
        nested(
            f"{POD}.topologySpreadConstraints",
            [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}],
        ),
    ),
    Case("ProxyClass", nested(f"{POD}.securityContext", {"runAsUser": 1000, "sysctls": [{"name": "a", "value": "b"}]})),
    Case("ProxyClass", nested(f"{POD}.dnsConfig", {"nameservers": ["192.0.2.53"], "options": [{"name": "ndots"}]})),
    Case("ProxyClass", nested(f"{POD}.affinity", {"nodeAffinity": {}})),
    Case("ProxyClass", nested(f"{CONTAINER}.env", [{"name": "A"}, {"name": "-b.C_1", "value": "$(A)"}])),
    Case("ProxyClass", nested(f"{CONTAINER}.env", [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}])),
    Case("ProxyClass", nested(f"{CONTAINER}.resources", {"limits": {"cpu": 1, "memory": "64Mi"}})),
    Case("ProxyClass", nested(f"{CONTAINER}.imagePullPolicy", "IfNotPresent")),
    Case("ProxyClass", nested(f"{CONTAINER}.debug", {"enable": True})),
    Case("ProxyClass", nested("staticEndpoints.nodePort.ports", [{"port": 30000}, {"port": 30001, "endPort": 30009}])),
    Case("ProxyClass", nested("staticEndpoints.nodePort.ports", [{"port": 0}])),
    Case("ProxyClass", None, "spec: Required"),
    Case("ProxyClass", {"metrics": {}}, "spec.metrics.enable: Required"),
    Case("ProxyClass", {"metrics": {"enable": False, "serviceMonitor": {"enable": True}}}, "needs metrics"),
    Case("ProxyClass", {"metrics": {"enable": True, "serviceMonitor": {}}}, "serviceMonitor.enable: Required"),
    Case(
        "ProxyClass",
        {"metrics": {"enable": True, "serviceMonitor": {"enable": True, "labels": {"a": "b c"}}}},
        "spec.metrics.serviceMonitor.labels",
    ),
    Case("ProxyClass", {"statefulSet": {"labels": {"a": "b!"}}}, "spec.statefulSet.labels"),
    Case("ProxyClass", {"statefulSet": {"labels": {"a": LONG_LABEL}}}, "spec.statefulSet.labels"),
    Case("ProxyClass", nested(f"{POD}.labels", {"a": "-b"}), "spec.statefulSet.pod.labels"),
    Case("ProxyClass", nested(f"{POD}.dnsPolicy", "Cluster"), "spec.statefulSet.pod.dnsPolicy"),
    Case("ProxyClass", nested(f"{POD}.topologySpreadConstraints", [{"maxSkew": 1}]), "topologyKey: Required"),
    Case("ProxyClass", nested(f"{POD}.securityContext", {"runAsUser": "root"}), "securityContext.runAsUser"),
    Case("ProxyClass", nested(f"{POD}.securityContext", {"sysctls": [{"name": "a"}]}), "sysctls[0].value: Required"),
    Case("ProxyClass", nested(f"{POD}.securityContext", {"seccompProfile": {}}), "seccompProfile.type: Required"),
    Case("ProxyClass", nested(f"{CONTAINER}.env", [{"value": "b"}]), "env[0].name: Required"),
    Case("ProxyClass", nested(f"{CONTAINER}.env", [{"name": "1a"}]), "env[0].name"),
    Case("ProxyClass", nested(f"{CONTAINER}.env", [{"name": "a b"}]), "env[0].name"),
    Case("ProxyClass", nested(f"{CONTAINER}.resources", {"limits": {"cpu": "much"}}), "resources.limits"),
    Case("ProxyClass", nested(f"{CONTAINER}.resources", {"claims": [{}]}), "claims[0].name: Required"),
    Case("ProxyClass", nested(f"{CONTAINER}.resources", {"claims": [{"name": "a"}, {"name": "a"}]}), "Duplicate"),
    Case("ProxyClass", nested(f"{CONTAINER}.imagePullPolicy", "Sometimes"), "imagePullPolicy"),
    Case("ProxyClass", nested("staticEndpoints.nodePort.ports", []), "staticEndpoints.nodePort.ports"),
    Case("ProxyClass", nested("staticEndpoints.nodePort.ports", [{"endPort": 1}]), "ports[0].port: Required"),
    Case("ProxyClass", {"staticEndpoints": {}}, "staticEndpoints.nodePort: Required"),
    Case("ProxyClass", {"tailscale": {"acceptRoutes": "yes"}}, "spec.tailscale.acceptRoutes"),
]
PROXYGROUPS = [
    Case("ProxyGroup", {"type": "egress"}),
    Case("ProxyGroup", {"type": "ingress", "replicas": 0, "tags": ["tag:k8s"], "hostnamePrefix": "in"}),
    Case("ProxyGroup", {"type": "kube-apiserver", "kubeAPIServer": {"mode": "noauth", "hostname": "k"}}),
    Case("ProxyGroup", {"type": "kube-apiserver", "kubeAPIServer": {}}),
    Case("ProxyGroup", {"type": "egress", "proxyClass": "prod", "tailnet": "other"}),
    Case("ProxyGroup", {}, "spec.type: Required"),
    Case("ProxyGroup", None, "spec: Required"),
    Case("ProxyGroup", {"type": "both"}, "spec.type"),
    Case("ProxyGroup", {"type": "egress", "replicas": -1}, "spec.replicas"),
    Case("ProxyGroup", {"type": "egress", "tags": ["k8s"]}, "spec.tags[0]"),
    Case("ProxyGroup", {"type": "egress", "hostnamePrefix": "In"}, "spec.hostnamePrefix"),
    Case("ProxyGroup", {"type": "kube-apiserver", "kubeAPIServer": {"mode": "some"}}, "spec.kubeAPIServer.mode"),
    Case("ProxyGroup", {"type": "kube-apiserver", "kubeAPIServer": {"hostname": "k."}}, "kubeAPIServer.hostname"),
]
POLICIES = [
    Case("ProxyGroupPolicy", {}),
    Case("ProxyGroupPolicy", {"ingress": ["a"], "egress": []}),
    Case("ProxyGroupPolicy", None, "spec: Required"),
    Case("ProxyGroupPolicy", {"ingress": "a"}, "spec.ingress"),
    Case("ProxyGroupPolicy", {"egress": [1]}, "spec.egress[0]"),
]
RECORDERS = [
    Case("Recorder", {}),
    Case("Recorder", {"enableUI": True, "tags": ["tag:rec"]}),
    Case("Recorder", {"replicas": 2, "storage": {"s3": {}}}),
    Case(
        "Recorder",
        {"storage": {"s3": {"bucket": "b", "endpoint": "s3.example.org", "credentials": {"secret": {"name": "keys"}}}}},
    ),
    Case("Recorder", {"statefulSet": {"labels": {"a": "any thing!"}}}),
    Case("Recorder", nested(f"{POD}.serviceAccount", {"name": "rec", "annotations": {"a": "b"}})),
    Case("Recorder", nested(f"{POD}.container", {"env": [{"name": "A"}], "imagePullPolicy": "Never"})),
    Case("Recorder", None, "spec: Required"),
    Case("Recorder", {"replicas": 2}, "can't share a local disk"),
    Case("Recorder", {"replicas": 2, "storage": {}}, "can't share a local disk"),
    Case("Recorder", {"replicas": -1}, "spec.replicas"),
    Case("Recorder", {"tags": ["rec"]}, "spec.tags[0]"),
    Case("Recorder", nested(f"{POD}.serviceAccount", {"name": "Rec"}), "serviceAccount.name"),
    Case("Recorder", nested(f"{POD}.container", {"env": [{"name": "1"}]}), "container.env[0].name"),
    Case("Recorder", nested(f"{POD}.container", {"imagePullPolicy": "No"}), "container.imagePullPolicy"),
]
TAILNETS = [
    Case("Tailnet", {"credentials": {"secretName": "other"}}),
    Case("Tailnet", {"credentials": {"secretName": "other"}, "loginUrl": "https://headscale.example.org"}),
    Case("Tailnet", {}, "spec.credentials: Required"),
    Case("Tailnet", {"credentials": {}}, "spec.credentials.secretName: Required"),
    Case("Tailnet", None, "spec: Required"),
    Case("Tailnet", {"credentials": {"secretName": 1}}, "spec.credentials.secretName"),
]
PEERRELAYS = [
    Case("PeerRelay", {}),
    Case("PeerRelay", {"replicas": 0, "tags": ["tag:relay"], "hostnamePrefix": "relay"}),
    Case("PeerRelay", {"replicas": 2, "aws": {"elasticIPs": IPS[:2]}}),
    Case("PeerRelay", {"replicas": 1, "aws": {"elasticIPs": IPS}}),
    Case("PeerRelay", {"service": {"annotations": {"a": "b"}}}),
    Case("PeerRelay", None, "spec: Required"),
    Case("PeerRelay", {"replicas": 2, "aws": {"elasticIPs": IPS[:1]}}, "every replica needs an elastic IP"),
    Case("PeerRelay", {"aws": {}}, "spec.aws.elasticIPs: Required"),
    Case("PeerRelay", {"aws": {"elasticIPs": []}}, "spec.aws.elasticIPs"),
    Case("PeerRelay", {"aws": {"elasticIPs": [{"allocationID": "x", "subnetID": "subnet-0"}]}}, "allocationID"),
    Case("PeerRelay", {"aws": {"elasticIPs": [{"allocationID": "eipalloc-0"}]}}, "subnetID: Required"),
    Case("PeerRelay", {"tags": ["relay"]}, "spec.tags[0]"),
    Case("PeerRelay", {"hostnamePrefix": "-"}, "spec.hostnamePrefix"),
    Case("PeerRelay", {"replicas": -1}, "spec.replicas"),
]
CASES = [*CONNECTORS, *DNSCONFIGS, *PROXYCLASSES, *PROXYGROUPS, *POLICIES, *RECORDERS, *TAILNETS, *PEERRELAYS]


def dry(resource: Resource) -> Resource:
    """Return what a POST to checks, and keeps nothing of."""
    return replace(resource, plural=f"{resource.plural}?dryRun=All")


def test_the_table_is_as_long_as_promised() -> None:
    assert len(CASES) >= 120
    assert sum(bool(case.refused) for case in CASES) >= 60


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: f"{CASES[number].kind}-{number}")
async def test_it_is_accepted_or_refused_as_written_down(api: KubeClient, number: int) -> None:
    case = CASES[number]
    resource = RESOURCES[API_VERSION, case.kind]
    metadata = {"name": f"case-{number}"} | ({"namespace": "default"} if resource.namespaced else {})
    spec = {} if case.spec is None else {"spec": case.spec}
    try:
        await api.create(dry(resource), {"apiVersion": API_VERSION, "kind": case.kind, "metadata": metadata, **spec})
        said = ""
    except Invalid as refusal:
        said = str(refusal)
    assert bool(said) == bool(case.refused), said
    assert case.refused in said
